package scout_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"
	"github.com/coder/websocket"

	"guild"
	"guild/internal/hand/key"
	"guild/internal/hand/relay"
	"guild/internal/hand/relayd"
	"guild/internal/market/scout"
	"guild/nip89"
)

// sea simulates many relays in one process, by host. They are connected by pipes, so that hours pass at once in a
// synctest bubble.
type sea struct {
	t     *testing.T
	conns chan net.Conn
	done  chan struct{}

	mu     sync.Mutex
	events map[string][]nostr.Event // host → stored events
	away   map[string]bool          // hosts that cannot be reached
	asked  map[string][]asking
	open   map[string]map[*session]bool // current connections
	serial int
	once   sync.Once
}

// session is one connection with its subscriptions.
type session struct {
	ws   *websocket.Conn
	ctx  context.Context
	subs map[string][]nostr.Filter
}

// asking records one REQ.
type asking struct {
	at      time.Time
	filters []nostr.Filter
}

func newSea(t *testing.T) *sea {
	s := &sea{t: t, conns: make(chan net.Conn), done: make(chan struct{}), events: map[string][]nostr.Event{},
		away: map[string]bool{}, asked: map[string][]asking{}, open: map[string]map[*session]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	srv := &http.Server{Handler: s, BaseContext: func(net.Listener) context.Context { return ctx }}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = srv.Serve(s) }()
	t.Cleanup(func() { cancel(); srv.Close(); <-ended })
	return s
}

func (s *sea) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

func (s *sea) Close() error   { s.once.Do(func() { close(s.done) }); return nil }
func (s *sea) Addr() net.Addr { return &net.TCPAddr{} }

func (s *sea) dial(ctx context.Context, _, address string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(address)
	s.mu.Lock()
	away := s.away[host]
	s.mu.Unlock()
	if away {
		return nil, errors.New("refused")
	}
	ours, theirs := net.Pipe()
	select {
	case s.conns <- theirs:
		return ours, nil
	case <-s.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ServeHTTP serves one connection of a relay.
func (s *sea) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer ws.CloseNow()
	one := &session{ws, r.Context(), map[string][]nostr.Filter{}}
	s.enter(r.Host, one)
	defer s.exit(r.Host, one)
	for {
		_, raw, err := ws.Read(r.Context())
		if err != nil {
			return
		}
		for _, m := range s.answer(r.Host, one, raw) {
			if ws.Write(r.Context(), websocket.MessageText, []byte(m)) != nil {
				return
			}
		}
	}
}

func (s *sea) enter(host string, one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[host] == nil {
		s.open[host] = map[*session]bool{}
	}
	s.open[host][one] = true
}

func (s *sea) exit(host string, one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open[host], one)
}

// answer returns the messages that a relay sends in reply.
func (s *sea) answer(host string, one *session, raw []byte) (messages []string) {
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if string(parts[0]) == `"CLOSE"` {
		delete(one.subs, string(parts[1]))
	}
	if string(parts[0]) != `"REQ"` {
		return nil
	}
	filters := make([]nostr.Filter, len(parts)-2)
	for i := range filters {
		if err := json.Unmarshal(parts[i+2], &filters[i]); err != nil {
			s.t.Error(err)
		}
	}
	one.subs[string(parts[1])] = filters
	s.asked[host] = append(s.asked[host], asking{time.Now(), filters})
	for _, e := range s.events[host] {
		if wants(filters, e) {
			messages = append(messages, fmt.Sprintf(`["EVENT",%s,%s]`, parts[1], e.String()))
		}
	}
	return append(messages, fmt.Sprintf(`["EOSE",%s]`, parts[1]))
}

func wants(filters []nostr.Filter, e nostr.Event) bool {
	return slices.ContainsFunc(filters, func(f nostr.Filter) bool { return f.Matches(e) })
}

// announce publishes a new announcement at several relays, one after the other.
func (s *sea) announce(hosts ...string) {
	s.serial++
	e := card(s.t, fmt.Sprint("service ", s.serial), nostr.Timestamp(time.Now().Unix()))
	for i, host := range hosts {
		if i > 0 {
			synctest.Wait() // so that the first relay's event arrives first
		}
		s.send(host, e)
	}
}

func (s *sea) send(host string, e nostr.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events[host] = append(s.events[host], e)
	for one := range s.open[host] {
		for id, filters := range one.subs {
			if wants(filters, e) {
				_ = one.ws.Write(one.ctx, websocket.MessageText, fmt.Appendf(nil, `["EVENT",%s,%s]`, id, e.String()))
			}
		}
	}
}

func (s *sea) leave(host string, away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away[host] = away
}

// looks returns the times at which a relay was queried for recent announcements.
func (s *sea) looks(host string) (times []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.asked[host] {
		recent := a.filters[0].Kinds[0] == nip89.Kind && a.filters[0].Limit == 0
		if recent && (len(times) == 0 || a.at.Sub(times[len(times)-1]) > time.Second) { // a second query within a second belongs to the same look
			times = append(times, a.at)
		}
	}
	return times
}

// all returns all queries that a relay received.
func (s *sea) all(host string) []asking {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked[host])
}

func (s *sea) connected(host string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open[host])
}

func card(t *testing.T, d string, at nostr.Timestamp) nostr.Event {
	t.Helper()
	e := nip89.Handler{D: d, Name: d, Kinds: []int{5000}, Tasks: []string{"echo"}}.Event()
	e.CreatedAt = at
	v, err := guild.Sign(context.Background(), key.NewSigner(key.NewSecret(nostr.SecretKey{1})), e)
	if err != nil {
		t.Fatal(err)
	}
	return v.Event()
}

// world is a scout on a pool.
type world struct {
	*scout.Scout
	mu   sync.Mutex
	got  map[string]int // d → times received
	stop func()
}

// start runs a scout until the end of the test, or until stop is called.
func start(t *testing.T, c scout.Config, p relay.Config) *world {
	t.Helper()
	w := &world{got: map[string]int{}}
	c.Now, c.Log = time.Now, slog.New(slog.DiscardHandler)
	c.Receive = func(_ context.Context, _ string, v guild.Verified) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.got[v.Event().Tags.GetD()]++
	}
	p.Now, p.Log, p.Receive, p.URLs = time.Now, c.Log, c.Receive, c.Ours
	c.Pool = relay.New(p)
	s, err := scout.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	w.Scout = s
	ctx, cancel := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	for _, run := range []func(context.Context) error{c.Pool.Run, s.Run} {
		tasks.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	w.stop = sync.OnceFunc(func() { cancel(); tasks.Wait() })
	t.Cleanup(w.stop)
	return w
}

func (w *world) tier(url string) scout.Tier {
	for _, s := range w.Status() {
		if s.URL == url {
			return s.Tier
		}
	}
	return 0
}

func (w *world) received() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.got)
}

// times counts how often an announcement was received.
func (w *world) times(d string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.got[d]
}

func named(urls ...string) func() []string { return func() []string { return urls } }

func TestOwnAndNewRelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSea(t)
		w := start(t, scout.Config{Ours: []string{"ws://127.0.0.1"}, Known: named("ws://127.0.0.2", "ws://127.0.0.3")}, relay.Config{Dial: s.dial})
		time.Sleep(48 * time.Hour)
		if n := s.connected("127.0.0.1"); n != 1 || len(s.looks("127.0.0.1")) != 1 || w.tier("ws://127.0.0.1") != scout.Persistent {
			t.Errorf("ours: %d connections, %d looks, tier %d", n, len(s.looks("127.0.0.1")), w.tier("ws://127.0.0.1"))
		}
		for _, host := range []string{"127.0.0.2", "127.0.0.3"} {
			looks := s.looks(host)
			if len(looks) < 38 || len(looks) > 60 || w.tier("ws://"+host) != scout.Sampled {
				t.Errorf("%s: %d looks in 48 hours, tier %d", host, len(looks), w.tier("ws://"+host))
			}
		}
		if slices.EqualFunc(s.looks("127.0.0.2"), s.looks("127.0.0.3"), time.Time.Equal) {
			t.Error("both were looked at together each time")
		}
	})
}

func TestRelayTierPromotion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSea(t)
		const host, url = "127.0.0.2", "ws://127.0.0.2"
		w := start(t, scout.Config{Ours: []string{"ws://127.0.0.1"}, Known: named(url)}, relay.Config{Dial: s.dial})
		hours := func(n int, until scout.Tier) bool {
			for range n * 4 {
				if w.tier(url) == until {
					return true
				}
				s.announce(host)
				time.Sleep(15 * time.Minute)
			}
			return false
		}
		if !hours(8, scout.Polled) {
			t.Fatal("not polled")
		}
		before := len(s.looks(host))
		time.Sleep(30 * time.Minute)
		polled := s.looks(host)[before:]
		if len(polled) < 5 || len(polled) > 7 {
			t.Errorf("%d looks in half an hour of polling", len(polled))
		}
		for i := 1; i < len(polled); i++ {
			if d := polled[i].Sub(polled[i-1]); d < 5*time.Minute || d > 5*time.Minute+30*time.Second {
				t.Errorf("polled after %s", d)
			}
		}
		if !hours(8, scout.Persistent) {
			t.Fatal("not persistent")
		}
		before = len(s.looks(host))
		time.Sleep(3 * time.Hour)
		if n := s.connected(host); n != 1 || len(s.looks(host)) > before+1 {
			t.Errorf("%d connections, %d looks", n, len(s.looks(host))-before)
		}
		time.Sleep(7 * 24 * time.Hour) // nothing is announced
		if got := w.tier(url); got != scout.Sampled {
			t.Errorf("after a week without anything new it is in tier %d", got)
		}
	})
}

func TestEchoIsNotPromoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSea(t)
		w := start(t, scout.Config{Ours: []string{"ws://127.0.0.1"}, Known: named("ws://127.0.0.2")}, relay.Config{Dial: s.dial})
		for range 24 {
			s.announce("127.0.0.1", "127.0.0.2")
			time.Sleep(time.Hour)
		}
		if got := w.tier("ws://127.0.0.2"); got != scout.Sampled {
			t.Errorf("an echo is in tier %d", got)
		}
	})
}

func TestColdAndLaterStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSea(t)
		began := time.Now()
		marks := &relay.Marks{}
		c := scout.Config{Ours: []string{"ws://127.0.0.1"}}
		s.events["127.0.0.1"] = []nostr.Event{
			card(t, "of last year", nostr.Timestamp(began.Add(-300*24*time.Hour).Unix())), card(t, "of today", nostr.Timestamp(began.Add(-time.Hour).Unix())),
		}
		w := start(t, c, relay.Config{Dial: s.dial, Watermarks: marks})
		time.Sleep(time.Minute)
		if w.times("of last year") != 1 || w.times("of today") != 1 {
			t.Errorf("received %d and %d times", w.times("of last year"), w.times("of today"))
		}
		asked := s.all("127.0.0.1")
		if f := asked[0].filters[0]; f.Since.Time().Unix() != began.Add(-24*time.Hour).Unix() || f.Limit != 0 {
			t.Errorf("first asked with %v", f)
		}
		if !slices.ContainsFunc(asked, func(a asking) bool { return a.filters[0].Limit == 1000 && a.filters[0].Since == 0 }) {
			t.Error("stored announcements were not asked for with limit 1000")
		}
		w.stop()
		n := len(s.all("127.0.0.1"))
		start(t, c, relay.Config{Dial: s.dial, Watermarks: marks})
		time.Sleep(time.Minute)
		asked = s.all("127.0.0.1")[n:]
		if f := asked[0].filters[0]; f.Since.Time().Unix() != began.Add(-time.Hour).Unix()-120 {
			t.Errorf("then asked since %s, want two minutes before the newest", f.Since.Time())
		}
		if !slices.ContainsFunc(asked, func(a asking) bool { return a.filters[0].Limit == 1000 && a.filters[0].Since == 0 }) {
			t.Error("stored announcements were not asked for after the second start")
		}
	})
}

func TestTiersSurviveRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSea(t)
		c := scout.Config{Ours: []string{"ws://127.0.0.1"}, Known: named("ws://127.0.0.2", "ws://127.0.0.3"), File: filepath.Join(t.TempDir(), "relays.json")}
		w := start(t, c, relay.Config{Dial: s.dial})
		for w.tier("ws://127.0.0.2") != scout.Persistent {
			s.announce("127.0.0.2")
			time.Sleep(15 * time.Minute)
		}
		before := w.Status()
		w.stop()
		c.Known = nil
		looks := len(s.looks("127.0.0.3"))
		w = start(t, c, relay.Config{Dial: s.dial})
		if w.tier("ws://127.0.0.2") != scout.Persistent || w.tier("ws://127.0.0.3") != scout.Sampled {
			t.Errorf("before: %+v\nafter: %+v", before, w.Status())
		}
		time.Sleep(time.Minute)
		if s.connected("127.0.0.2") != 1 {
			t.Error("no subscription")
		}
		if len(s.looks("127.0.0.3")) > looks+1 {
			t.Error("a restart looks again at once")
		}
		time.Sleep(2 * time.Hour)
		if len(s.looks("127.0.0.3")) == looks {
			t.Error("sampled relays are not looked at any more")
		}
	})
}

func TestUnreachableRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSea(t)
		s.leave("127.0.0.2", true)
		w := start(t, scout.Config{Ours: []string{"ws://127.0.0.1"}, Known: named("ws://127.0.0.2")}, relay.Config{Dial: s.dial})
		time.Sleep(12 * time.Hour)
		for _, r := range w.Status() {
			if r.URL == "ws://127.0.0.2" && (r.Stable != 0 || r.Tier != scout.Sampled) {
				t.Errorf("%+v", r)
			}
		}
		s.leave("127.0.0.2", false)
		s.announce("127.0.0.2")
		time.Sleep(2 * time.Hour)
		if w.received() != 1 {
			t.Errorf("%d announcements after it came back", w.received())
		}
	})
}

func TestKnownProvidersByKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSea(t)
		start(t, scout.Config{
			Ours: []string{"ws://127.0.0.1"}, Known: named("ws://127.0.0.2"),
			People: func() ([]nostr.PubKey, []nostr.PubKey) { return nil, []nostr.PubKey{{2}, {3}} },
		}, relay.Config{Dial: s.dial})
		time.Sleep(2 * time.Hour)
		for _, host := range []string{"127.0.0.1", "127.0.0.2"} {
			byAuthor := func(a asking) bool {
				return slices.ContainsFunc(a.filters, func(f nostr.Filter) bool {
					return f.Kinds[0] == nip89.Kind && slices.Equal(f.Authors, []nostr.PubKey{{2}, {3}}) && f.Since == 0
				})
			}
			if !slices.ContainsFunc(s.all(host), byAuthor) {
				t.Errorf("%s was not asked for what they announce", host)
			}
		}
	})
}

func TestListsOfPeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSea(t)
		var mu sync.Mutex
		followed, providers := []nostr.PubKey{{1}}, []nostr.PubKey(nil)
		w := start(t, scout.Config{
			Ours: []string{"ws://127.0.0.1"}, Known: named("ws://127.0.0.2"),
			People: func() ([]nostr.PubKey, []nostr.PubKey) {
				mu.Lock()
				defer mu.Unlock()
				return followed, providers
			},
		}, relay.Config{Dial: s.dial})
		lists := func(host string) (all []asking) {
			for _, a := range s.all(host) {
				if a.filters[0].Kinds[0] == 10002 {
					all = append(all, a)
				}
			}
			return all
		}
		time.Sleep(30 * time.Minute)
		first := lists("127.0.0.1")
		if len(first) == 0 || len(first[0].filters) != 2 || first[0].filters[1].Kinds[0] != 31989 || first[0].filters[0].Since != 0 {
			t.Fatalf("asked %v", first)
		}
		if n := len(lists("127.0.0.2")); n != 0 {
			t.Errorf("a relay of the third tier was asked %d times for people", n)
		}
		mu.Lock()
		providers = []nostr.PubKey{{2}, {3}}
		mu.Unlock()
		time.Sleep(10 * time.Minute)
		later := lists("127.0.0.1")[len(first):]
		if len(later) == 0 || len(later[0].filters[0].Authors) != 3 || later[0].filters[0].Since != 0 {
			t.Errorf("then asked %v", later)
		}
		time.Sleep(time.Hour)
		if n := len(lists("127.0.0.1")); n != len(first)+len(later) {
			t.Errorf("asked %d times more for the same people", n-len(first)-len(later))
		}
		w.stop()
	})
}

// TestRealRelay reads more events than a relay sends at once, and events older than a day.
func TestRealRelay(t *testing.T) {
	r, err := relayd.Open(relayd.Config{Dir: t.TempDir(), Addr: "127.0.0.1:0", Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	writer := relay.New(relay.Config{URLs: []string{r.URL()}, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	go func() { _ = writer.Run(ctx) }()
	const recent, old = 700, 30
	now := nostr.Now() // each event has another second, however long publishing takes
	for i := range recent + old {
		at := now - nostr.Timestamp(i)
		if i >= recent {
			at -= 30 * 24 * 3600
		}
		v, err := guild.Verify(card(t, fmt.Sprint(i), at))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Publish(t.Context(), v); err != nil {
			t.Fatal(err)
		}
	}
	w := start(t, scout.Config{Ours: []string{r.URL()}}, relay.Config{})
	late := time.After(5 * time.Minute)
	for tick := time.Tick(10 * time.Millisecond); w.received() < recent+old; {
		select {
		case <-tick:
		case <-late:
			t.Fatalf("%d announcements of %d", w.received(), recent+old)
		}
	}
	w.stop()
	for d, n := range w.got {
		if n != 1 {
			t.Errorf("%s was received %d times", d, n)
		}
	}
}
