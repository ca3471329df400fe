package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"fiatjaf.com/nostr"
	"github.com/coder/websocket"

	"guild"
)

const (
	maxVisited   = 32               // relays that are connected on demand, at a time
	dialTimeout  = 15 * time.Second // until the websocket is open
	reply        = 10 * time.Second // for an answer of a relay
	maxDiscarded = 16 << 20         // bytes of a message that is too large but read to its end; a longer one ends the connection
)

// Pool is a set of relays. Make one with New and keep Run running. Its methods may be called at any time from any goroutine,
// also from Receive.
//
// Some relays are held: configured, added, or named by a subscription. They stay connected. Others are visited: connected for
// one publication or query, and disconnected after a minute without use.
type Pool struct {
	cfg     Config
	client  *http.Client
	seen    *seen
	marks   *Marks
	invalid error      // of Config.URLs, returned by Run
	ahead   chan *item // events in queues, to be verified before their turn by an idle processor

	qualities qualities

	mu      sync.Mutex
	links   map[string]*link
	subs    map[string]*standing
	start   func(*link) // while running
	stopped chan struct{}
	tasks   sync.WaitGroup
}

// New returns a pool. It connects to nothing until Run.
func New(c Config) *Pool {
	if c.MaxEvent == 0 {
		c.MaxEvent = 512 << 10
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	if c.Reject == nil {
		c.Reject = func(context.Context, string, Reason, []byte) {}
	}
	if c.Watermarks == nil {
		c.Watermarks = &Marks{}
	}
	p := &Pool{
		cfg:     c,
		client:  httpClient(c.Dial),
		seen:    newSeen(),
		marks:   c.Watermarks,
		ahead:   make(chan *item, maxQueued/lightest),
		links:   make(map[string]*link),
		subs:    make(map[string]*standing),
		stopped: make(chan struct{}),

		qualities: qualities{now: c.Now, of: make(map[string]Quality)},
	}
	p.invalid = p.hold(c.URLs)
	return p
}

// httpClient returns a client that opens websockets: HTTP/1.1, without redirects (a relay could send us to any host) and
// without reuse of connections.
func httpClient(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            dial,
			DisableKeepAlives:      true,
			DisableCompression:     true,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (p *Pool) dial(ctx context.Context, url string) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: p.client})
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(maxDiscarded)
	return ws, nil
}

// Run connects to the relays and serves them until ctx ends. It returns when all its goroutines have ended. The error is
// about a URL in Config, or a second call of Run.
func (p *Pool) Run(ctx context.Context) error {
	if p.invalid != nil {
		return p.invalid
	}
	if err := p.begin(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	p.mu.Lock()
	p.start = nil
	close(p.stopped)
	p.mu.Unlock()
	p.tasks.Wait()
	return nil
}

func (p *Pool) begin(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.start != nil || p.ended() {
		return errors.New("relay pool: Run was called before")
	}
	p.start = func(l *link) { p.tasks.Go(func() { l.run(ctx) }) }
	for _, l := range p.links {
		p.start(l)
	}
	for range runtime.GOMAXPROCS(0) {
		p.tasks.Go(func() { p.verifyAhead(ctx) })
	}
	return nil
}

func (p *Pool) ended() bool {
	select {
	case <-p.stopped:
		return true
	default:
		return false
	}
}

func (p *Pool) verifyAhead(ctx context.Context) {
	for {
		select {
		case it := <-p.ahead:
			it.verify(p.seen)
		case <-ctx.Done():
			return
		}
	}
}

// offer lets an idle processor verify the event.
func (p *Pool) offer(it *item) {
	select {
	case p.ahead <- it:
	default:
	}
}

// Add holds more relays. An invalid URL is logged and left out.
func (p *Pool) Add(urls ...string) {
	if err := p.hold(urls); err != nil {
		p.cfg.Log.Warn("relay not added", "err", err)
	}
}

// hold counts one more user of each relay. The error is about invalid URLs, which are left out.
func (p *Pool) hold(urls []string) error {
	var errs []error
	for _, raw := range urls {
		url, err := Normalize(raw)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		p.mu.Lock()
		p.link(url).holds++
		p.mu.Unlock()
	}
	return errors.Join(errs...)
}

// unhold undoes hold for normalized URLs.
func (p *Pool) unhold(urls []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, url := range urls {
		if l := p.links[url]; l != nil {
			l.holds--
		}
	}
}

// link returns the link to a relay, and makes it if it is missing. The caller holds p.mu.
func (p *Pool) link(url string) *link {
	l := p.links[url]
	if l == nil {
		l = newLink(p, url)
		p.links[url] = l
		if p.start != nil {
			p.start(l)
		}
	}
	return l
}

// visit returns links to use once. The caller must leave each. Without URLs it returns all relays that are held. The second
// result is about those that cannot be visited: if there are too many, those that rank last.
func (p *Pool) visit(raw []string) (links []*link, failed []Ack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, url := range p.Rank(p.targets(raw)) {
		clean, err := Normalize(url)
		switch {
		case err != nil:
			failed = append(failed, unreachable(url, err))
		case p.links[clean] == nil && !p.room():
			failed = append(failed, unreachable(clean, fmt.Errorf("%d other relays are in use", maxVisited)))
		default:
			if l := p.link(clean); !slices.Contains(links, l) {
				l.visits++
				links = append(links, l)
			}
		}
	}
	return links, failed
}

func (p *Pool) targets(raw []string) []string {
	if len(raw) > 0 {
		return raw
	}
	for url, l := range p.links {
		if l.holds > 0 {
			raw = append(raw, url)
		}
	}
	return raw
}

// room reports whether one more relay can be visited. If there are too many, it disconnects an idle one, the slowest.
func (p *Pool) room() bool {
	n := 0
	var idle *link
	var slowest time.Duration
	for _, l := range p.links {
		if l.holds > 0 {
			continue
		}
		n++
		if wait := p.qualities.get(l.url).Expected(); l.visits == 0 && wait >= slowest {
			idle, slowest = l, wait
		}
	}
	if n >= maxVisited && idle != nil {
		idle.hangUp()
		delete(p.links, idle.url)
		n--
	}
	return n < maxVisited
}

// leave ends a visit.
func (p *Pool) leave(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.visits--
	l.left = p.cfg.Now()
}

// drop removes a link if it is neither held nor visited, and reports whether it did.
func (p *Pool) drop(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.holds > 0 || l.visits > 0 {
		return false
	}
	if p.links[l.url] == l {
		delete(p.links, l.url)
	}
	return true
}

// Status returns the state of each relay, by URL.
func (p *Pool) Status() []Status {
	p.mu.Lock()
	links := make([]*link, 0, len(p.links))
	for _, l := range p.links {
		links = append(links, l)
	}
	p.mu.Unlock()
	all := make([]Status, len(links))
	for i, l := range links {
		all[i] = l.status()
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.URL, b.URL) })
	return all
}

func (p *Pool) now() nostr.Timestamp { return nostr.Timestamp(p.cfg.Now().Unix()) }

func (p *Pool) receive(ctx context.Context, from string, e guild.Verified) {
	if p.cfg.Receive != nil {
		p.cfg.Receive(ctx, from, e)
	}
}
