package relayd

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"github.com/coder/websocket"

	"guild"
	"guild/internal/hand/key"
)

// clock is the Now of a relay under test.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

func testConfig(t testing.TB) Config {
	return Config{Dir: t.TempDir(), Addr: "127.0.0.1:0", Now: time.Now, Log: slog.New(slog.DiscardHandler)}
}

// start runs a relay until the test ends or stop is called.
func start(t testing.TB, c Config) (r *Relay, stop func()) {
	t.Helper()
	r, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(stop)
	return r, stop
}

// peer is a client of the relay.
type peer struct {
	t    testing.TB
	conn *websocket.Conn
}

func connect(t testing.TB, r *Relay) *peer {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), r.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetReadLimit(-1)
	t.Cleanup(func() { conn.CloseNow() })
	return &peer{t, conn}
}

func (p *peer) send(message string) {
	p.t.Helper()
	if err := p.conn.Write(context.Background(), websocket.MessageText, []byte(message)); err != nil {
		p.t.Fatal(err)
	}
}

// read returns the elements of the next message: strings unquoted, others as JSON.
func (p *peer) read() []string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, b, err := p.conn.Read(ctx)
	if err != nil {
		p.t.Fatalf("read: %v", err)
	}
	return elements(p.t, b)
}

func elements(t testing.TB, b []byte) []string {
	t.Helper()
	var raw []json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		t.Fatalf("the relay sent %q: %v", b, err)
	}
	out := make([]string, len(raw))
	for i, r := range raw {
		if json.Unmarshal(r, &out[i]) != nil {
			out[i] = string(r)
		}
	}
	return out
}

// expect reads one message and compares its first elements.
func (p *peer) expect(want ...string) []string {
	p.t.Helper()
	got := p.read()
	for i, w := range want {
		if i >= len(got) || !strings.HasPrefix(got[i], w) {
			p.t.Fatalf("got %.300q, want %q", got, want)
		}
	}
	return got
}

// publish sends an event and returns the relay's answer.
func (p *peer) publish(e nostr.Event) (ok bool, reason string) {
	p.t.Helper()
	p.send(`["EVENT",` + encode(p.t, e) + `]`)
	answer := p.expect("OK", e.ID.Hex())
	return answer[2] == "true", answer[3]
}

func (p *peer) mustPublish(events ...nostr.Event) {
	p.t.Helper()
	for _, e := range events {
		if ok, reason := p.publish(e); !ok {
			p.t.Fatalf("kind %d refused: %s", e.Kind, reason)
		}
	}
}

// stored asks for stored events, and returns their contents in the order of the answer.
func (p *peer) stored(filter string) []string {
	p.t.Helper()
	p.send(`["REQ","q",` + filter + `]`)
	contents := []string{}
	for {
		m := p.read()
		switch m[0] {
		case "EVENT":
			contents = append(contents, decodeEvent(p.t, m[2]).Content)
		case "EOSE":
			p.send(`["CLOSE","q"]`)
			return contents
		default:
			p.t.Fatalf("got %q", m)
		}
	}
}

func encode(t testing.TB, e nostr.Event) string {
	t.Helper()
	b, err := e.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func decodeEvent(t testing.TB, s string) nostr.Event {
	t.Helper()
	var e nostr.Event
	if err := e.UnmarshalJSON([]byte(s)); err != nil {
		t.Fatal(err)
	}
	return e
}

// sign makes an event. A zero time means now.
func sign(t testing.TB, secret nostr.SecretKey, e nostr.Event) nostr.Event {
	t.Helper()
	if e.CreatedAt == 0 {
		e.CreatedAt = nostr.Now()
	}
	v, err := guild.Sign(context.Background(), key.NewSigner(key.NewSecret(secret)), e)
	if err != nil {
		t.Fatal(err)
	}
	return v.Event()
}

func TestListenOnLoopbackOnly(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.com:0", "127.0.0.1"} {
		c := testConfig(t)
		c.Addr = addr
		if r, err := Open(c); err == nil {
			t.Errorf("%s: listens on %s", addr, r.URL())
		}
		c.AllowRemote = true // without TLS
		if r, err := Open(c); err == nil {
			t.Errorf("%s without TLS: listens on %s", addr, r.URL())
		}
	}
}

func TestDirectoryIsExclusive(t *testing.T) {
	c := testConfig(t)
	start(t, c)
	if _, err := Open(c); err == nil {
		t.Error("the second one opened")
	}
}

func TestRunEndsConnections(t *testing.T) {
	c := testConfig(t)
	r, stop := start(t, c)
	p := connect(t, r)
	p.send(`["REQ","live",{"kinds":[1]}]`)
	p.expect("EOSE", "live")
	closed := make(chan error, 1)
	go func() {
		_, _, err := p.conn.Read(context.Background())
		closed <- err
	}()
	stop()
	if status := websocket.CloseStatus(<-closed); status != websocket.StatusGoingAway {
		t.Errorf("closed with %v, want going away", status)
	}
	start(t, c) // the directory is free again
}

func TestRunEndsWithSilentClient(t *testing.T) {
	r, stop := start(t, testConfig(t))
	connect(t, r) // never reads, so it never answers the close
	began := time.Now()
	stop()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestEventsSurviveRestart(t *testing.T) {
	c := testConfig(t)
	key := nostr.Generate()
	r, stop := start(t, c)
	connect(t, r).mustPublish(
		sign(t, key, nostr.Event{Kind: 1, Content: "kept"}),
		sign(t, key, nostr.Event{Kind: 0, Content: "profile"}),
	)
	stop()
	r, _ = start(t, c)
	p := connect(t, r)
	if got := p.stored(`{"kinds":[1]}`); len(got) != 1 || got[0] != "kept" {
		t.Errorf("after the restart: %q", got)
	}
	older := sign(t, key, nostr.Event{Kind: 0, Content: "older", CreatedAt: nostr.Now() - 100})
	p.mustPublish(older)
	if got := p.stored(`{"kinds":[0]}`); len(got) != 1 || got[0] != "profile" {
		t.Errorf("the newer profile is gone: %q", got)
	}
}

func TestSlowSubscriberIsDisconnected(t *testing.T) {
	r, _ := start(t, testConfig(t))
	slow, quick := connect(t, r), connect(t, r)
	slow.send(`["REQ","s",{"kinds":[1]}]`)
	slow.expect("EOSE")
	key := nostr.Generate()
	content := strings.Repeat("x", 480<<10)
	const events = 50 // far more than the outbox and the socket buffers hold
	for i := range events {
		quick.mustPublish(sign(t, key, nostr.Event{Kind: 1, Content: content, CreatedAt: nostr.Timestamp(i + 1)}))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for received := 0; ; received++ {
		if _, _, err := slow.conn.Read(ctx); ctx.Err() != nil || received == events {
			t.Fatalf("the slow one was not cut: %d events, %v", received, err)
		} else if err != nil {
			return
		}
	}
}

func BenchmarkPublishToOK(b *testing.B) {
	for name, always := range map[string]bool{"flush once a second": false, "flush before OK": true} {
		b.Run(name, func(b *testing.B) {
			c := testConfig(b)
			c.SyncAlways = always
			r, _ := start(b, c)
			p, key := connect(b, r), nostr.Generate()
			for b.Loop() {
				b.StopTimer()
				m := `["EVENT",` + encode(b, benchmarkEvent(b, key)) + `]`
				b.StartTimer()
				p.send(m)
				p.expect("OK")
			}
		})
	}
}

func BenchmarkPublishToSubscriber(b *testing.B) {
	r, _ := start(b, testConfig(b))
	publisher, subscriber, key := connect(b, r), connect(b, r), nostr.Generate()
	subscriber.send(`["REQ","s",{"kinds":[5050]}]`)
	subscriber.expect("EOSE")
	for b.Loop() {
		b.StopTimer()
		m := `["EVENT",` + encode(b, benchmarkEvent(b, key)) + `]`
		b.StartTimer()
		publisher.send(m)
		if _, _, err := subscriber.conn.Read(context.Background()); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		publisher.expect("OK")
		b.StartTimer()
	}
}

func BenchmarkVerify(b *testing.B) {
	e := benchmarkEvent(b, nostr.Generate())
	for b.Loop() {
		if _, err := guild.Verify(e); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkEvent(b *testing.B, key nostr.SecretKey) nostr.Event {
	b.Helper()
	id := nostr.Generate()
	return sign(b, key, nostr.Event{Kind: 5050, Content: strings.Repeat("work ", 100), Tags: nostr.Tags{
		{"p", nostr.GetPublicKey(key).Hex()}, {"d", id.Hex()}, {"param", "job_type", "code.v1"},
	}})
}
