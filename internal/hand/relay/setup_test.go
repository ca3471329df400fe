package relay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"github.com/coder/websocket"

	"guild"
	"guild/internal/hand/key"
	"guild/internal/hand/relay"
	"guild/internal/hand/relayd"
)

var (
	alice = key.NewSigner(key.NewSecret(nostr.SecretKey{1}))
	bob   = key.NewSigner(key.NewSecret(nostr.SecretKey{2}))
)

// sign makes an event of alice.
func sign(t testing.TB, kind nostr.Kind, at nostr.Timestamp, content string, tags ...nostr.Tag) guild.Verified {
	t.Helper()
	v, err := guild.Sign(t.Context(), alice,
		nostr.Event{Kind: kind, CreatedAt: at, Content: content, Tags: append(nostr.Tags{}, tags...)})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// signed makes n events, one second apart, the last one now.
func signed(t testing.TB, n int) []guild.Verified {
	all := make([]guild.Verified, n)
	for i := range all {
		all[i] = sign(t, 1, nostr.Now()-nostr.Timestamp(n-i), fmt.Sprint("note ", i))
	}
	return all
}

// honest starts a real relay and returns its URL, ws://127.0.0.1:port.
func honest(t testing.TB) string {
	t.Helper()
	url, _ := honestAt(t, relayd.Config{Dir: t.TempDir(), Addr: "127.0.0.1:0"})
	return url
}

// honestAt starts a real relay with a configuration, and stops it at the end of the test, or when stop is called.
func honestAt(t testing.TB, c relayd.Config) (url string, stop func()) {
	t.Helper()
	c.Now, c.Log = time.Now, slog.New(slog.DiscardHandler)
	r, err := relayd.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the relay: %v", err)
		}
	})
	t.Cleanup(stop)
	return r.URL(), stop
}

// peer is the relay's end of one connection, in a test that plays the relay.
type peer struct {
	ctx context.Context
	ws  *websocket.Conn
}

// say sends one message unchanged.
func (p peer) say(message string) bool {
	return p.ws.Write(p.ctx, websocket.MessageText, []byte(message)) == nil
}

// event sends an event under a subscription.
func (p peer) event(sub string, e nostr.Event) bool {
	return p.say(`["EVENT","` + sub + `",` + e.String() + `]`)
}

// next reads the client's next message; nil if the connection has ended.
func (p peer) next() []json.RawMessage {
	_, raw, err := p.ws.Read(p.ctx)
	if err != nil {
		return nil
	}
	var m []json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

// await reads up to the next message with a label and returns its second element.
func (p peer) await(label string) string {
	for m := p.next(); m != nil; m = p.next() {
		if text(m[0]) == label {
			return text(m[1])
		}
	}
	return ""
}

// drain reads until the connection ends.
func (p peer) drain() {
	for p.next() != nil {
	}
}

func text(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}

func playing(play func(p peer)) http.Handler { return playingWith(nil, play) }

func playingWith(opts *websocket.AcceptOptions, play func(p peer)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, opts)
		if err != nil {
			return
		}
		defer ws.CloseNow()
		ws.SetReadLimit(1 << 20)
		play(peer{r.Context(), ws})
	})
}

// hostile starts a relay that runs play on each connection.
func hostile(t testing.TB, play func(p peer)) string {
	t.Helper()
	srv := httptest.NewServer(playing(play))
	t.Cleanup(srv.Close)
	t.Cleanup(srv.CloseClientConnections)
	return "ws" + strings.TrimPrefix(srv.URL, "http")
}

// piped is a listener whose connections are net.Pipes, for tests in a synctest bubble.
type piped struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPiped() *piped { return &piped{conns: make(chan net.Conn), done: make(chan struct{})} }

func (l *piped) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *piped) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *piped) Addr() net.Addr { return &net.TCPAddr{} }

func (l *piped) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serve plays the relay on a listener until the end of the test.
func serve(t *testing.T, l net.Listener, h http.Handler) {
	ctx, cancel := context.WithCancel(context.Background())
	srv := &http.Server{Handler: h, BaseContext: func(net.Listener) context.Context { return ctx }}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = srv.Serve(l) }()
	t.Cleanup(func() { cancel(); srv.Close(); <-ended })
}

// eventID returns the id of the event in a message.
func eventID(raw json.RawMessage) string {
	var e nostr.Event
	_ = json.Unmarshal(raw, &e)
	return e.ID.Hex()
}

// inbox keeps what Receive and Reject get.
type inbox struct {
	events  chan guild.Verified
	rejects chan relay.Reason
}

func newInbox() *inbox {
	return &inbox{make(chan guild.Verified, 20_000), make(chan relay.Reason, 20_000)}
}

func (b *inbox) receive(_ context.Context, _ string, e guild.Verified) { b.events <- e }

func (b *inbox) reject(_ context.Context, _ string, reason relay.Reason, _ []byte) {
	b.rejects <- reason
}

// take waits for n events.
func (b *inbox) take(t testing.TB, n int) []guild.Verified {
	t.Helper()
	got := make([]guild.Verified, n)
	for i := range got {
		got[i] = await(t, b.events)
	}
	return got
}

// await waits for a value up to a time limit.
func await[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing came in two minutes")
		panic("unreachable")
	}
}

// config returns the configuration of most tests.
func config(b *inbox, urls ...string) relay.Config {
	return relay.Config{URLs: urls, Now: time.Now, Receive: b.receive, Reject: b.reject,
		Log: slog.New(slog.DiscardHandler)}
}

// run starts a pool and stops it at the end of the test, or when stop is called.
func run(t testing.TB, c relay.Config) (p *relay.Pool, stop func()) {
	t.Helper()
	p = relay.New(c)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return p, stop
}

func notes() []nostr.Filter { return []nostr.Filter{{Kinds: []nostr.Kind{1}}} }

func contents(events []guild.Verified) []string {
	all := make([]string, len(events))
	for i, e := range events {
		all[i] = e.Event().Content
	}
	return all
}
