package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fiatjaf.com/nostr"
)

const (
	overlap  = nostr.Timestamp(120) // seconds that are read again, for clocks and relays that are late
	maxPages = 1_000                // of stored events read back in one go
)

// standing is a subscription that outlives connections.
type standing struct {
	name       string
	filters    []nostr.Filter
	everywhere bool     // at all relays that are held, else at urls
	urls       []string // normalized
	receive    Receiver

	ready chan struct{} // closed when one relay is listened to without a gap
	once  sync.Once
}

// overlap is how much before its watermark a subscription begins again. Gift wraps are dated up to two days back on
// purpose (NIP-59), so that one which is dated before all that was read may still be new.
func (s *standing) overlap() nostr.Timestamp {
	for _, f := range s.filters {
		if !slices.Contains(f.Kinds, nostr.KindGiftWrap) {
			return overlap
		}
	}
	return overlap + backdated
}

// backdated is how far back gift wraps are dated at most, in seconds.
const backdated = 2 * 24 * 60 * 60

// Subscribe asks the relays for events, now and after every reconnect, and gives them to Config.Receive. URLs
// restrict it to those relays, which are then kept connected until cancel; without any it is all relays of the
// pool, also those added later. The name is the key of its watermark at each relay: filters given under a name
// in use replace those before. The filters' Since is where the first reading begins; a Limit says that older
// events than those are not wanted. What was already read may still be received after cancel.
func (p *Pool) Subscribe(name string, filters []nostr.Filter, urls ...string) (cancel func()) {
	sub, err := p.standing(name, filters, p.receive, urls)
	if err != nil {
		p.cfg.Log.Warn("relay left out of a subscription", "subscription", name, "err", err)
	}
	return p.put(sub)
}

// Listen is Subscribe with a receiver of its own. It returns once one of the relays is listened to without a
// gap; if that has not come about when ctx ends, nothing is subscribed to and the error matches ErrNoRelay.
func (p *Pool) Listen(ctx context.Context, name string, filters []nostr.Filter, receive Receiver, urls ...string) (cancel func(), err error) {
	sub, err := p.standing(name, filters, receive, urls)
	if err != nil {
		return nil, err
	}
	cancel = p.put(sub)
	select {
	case <-sub.ready:
		return cancel, nil
	case <-ctx.Done():
		cancel()
		return nil, fmt.Errorf("listen at %v: %w: %w", urls, ErrNoRelay, context.Cause(ctx))
	case <-p.stopped:
		cancel()
		return nil, fmt.Errorf("listen at %v: %w", urls, ErrClosed)
	}
}

// standing makes a subscription of what Subscribe got. The error is about URLs, which are left out.
func (p *Pool) standing(name string, filters []nostr.Filter, receive Receiver, urls []string) (*standing, error) {
	sub := &standing{
		name: name, filters: p.plain(filters), everywhere: len(urls) == 0,
		receive: receive, ready: make(chan struct{}),
	}
	var errs []error
	for _, raw := range urls {
		url, err := Normalize(raw)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		sub.urls = append(sub.urls, url)
	}
	return sub, errors.Join(errs...)
}

// put makes a subscription the one under its name.
func (p *Pool) put(sub *standing) (cancel func()) {
	p.Add(sub.urls...)
	p.mu.Lock()
	before := p.subs[sub.name]
	p.subs[sub.name] = sub
	p.mu.Unlock()
	if before != nil {
		p.unhold(before.urls)
	}
	p.pokeAll()
	return sync.OnceFunc(func() { p.unsubscribe(sub) })
}

// plain replaces limit:0, which not every relay understands, by its meaning: from now on.
func (p *Pool) plain(filters []nostr.Filter) []nostr.Filter {
	own := make([]nostr.Filter, len(filters))
	for i, f := range filters {
		own[i] = f.Clone()
		if f.LimitZero {
			own[i].LimitZero = false
			own[i].Since = max(f.Since, p.now())
		}
	}
	return own
}

func (p *Pool) unsubscribe(sub *standing) {
	p.mu.Lock()
	current := p.subs[sub.name] == sub
	if current {
		delete(p.subs, sub.name)
	}
	p.mu.Unlock()
	if current {
		p.unhold(sub.urls)
		p.pokeAll()
	}
}

// Forget has a subscription of that name read a relay from the beginning the next time that it starts there.
func (p *Pool) Forget(name, url string) {
	if clean, err := Normalize(url); err == nil {
		p.marks.Forget(clean, name)
	}
}

func (p *Pool) pokeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.links {
		l.poke()
	}
}

// standingAt returns the subscriptions that concern a relay, by name.
func (p *Pool) standingAt(url string) map[string]*standing {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.links[url]
	held := l != nil && l.holds > 0
	wanted := make(map[string]*standing)
	for name, sub := range p.subs {
		if sub.everywhere && held || slices.Contains(sub.urls, url) {
			wanted[name] = sub
		}
	}
	return wanted
}

// feed is a standing subscription on one connection. It goes through three phases: what is stored since the
// watermark, page by page if it is much; a second look at what came since the beginning, because a relay may
// store an event after it has answered the query and before it listens for us; and then the live events. Only
// after the second look may the watermark move: stored events come newest first. A feed belongs to the
// goroutine that hands on the events of its session.
type feed struct {
	session *session
	sub     *standing
	lost    atomic.Bool // the reader had to drop an event of it

	live    *stream // stays open
	back    *stream // reads a page, or looks again
	began   nostr.Timestamp
	newest  nostr.Timestamp // created_at seen since began, no later than now
	pages   int
	looked  bool // the second look has begun
	current bool // all that was stored has been read
	refusal int  // CLOSED in a row
}

// start asks anew for everything since the watermark.
func (f *feed) start(ctx context.Context) {
	f.stop(ctx)
	p, url := f.session.pool, f.session.link.url
	f.began, f.newest, f.pages, f.looked, f.current = p.now(), 0, 0, false, false
	filters := f.sub.filters
	if mark := p.marks.Get(url, f.sub.name); mark != 0 {
		filters = since(filters, mark-f.sub.overlap())
	}
	f.live = f.open(ctx, filters)
}

// open sends a REQ. If it cannot be sent the connection has ended, or is overloaded and looked after by again.
func (f *feed) open(ctx context.Context, filters []nostr.Filter) *stream {
	return f.send(ctx, &stream{filters: filters, feed: f})
}

func (f *feed) send(ctx context.Context, st *stream) *stream {
	if err := f.session.open(ctx, st); err != nil {
		f.again(ctx, "error: "+err.Error())
	}
	return st
}

func (f *feed) stop(ctx context.Context) {
	for _, st := range []*stream{f.live, f.back} {
		if st != nil {
			f.session.close(ctx, st)
		}
	}
	f.live, f.back = nil, nil
}

// read notes an event that has been handed on.
func (f *feed) read(st *stream, e nostr.Event) {
	if st != f.live && st != f.back {
		return // of an earlier start
	}
	if !f.current {
		st.count(e)
	}
	f.newest = max(f.newest, min(e.CreatedAt, f.session.pool.now()))
	f.mark()
}

func (f *feed) mark() {
	if f.current && f.newest != 0 && !f.lost.Load() {
		f.session.pool.marks.Set(f.session.link.url, f.sub.name, f.newest)
	}
}

// eose goes on to the next page, the second look, or the live phase.
func (f *feed) eose(ctx context.Context, st *stream) {
	if st != f.live && st != f.back || f.current || f.lost.Load() {
		return
	}
	if st == f.back {
		f.session.close(ctx, st)
		f.back = nil
	}
	next, unread := st.older()
	if next != nil && f.pages == maxPages {
		next, unread = nil, append(unread, next.filters...)
	}
	for _, filter := range unread {
		f.session.link.reject(ctx, Unread, []byte(filter.String()))
	}
	if next != nil {
		f.pages++
		f.back = f.send(ctx, next)
		return
	}
	if !f.looked {
		f.looked = true
		f.back = f.open(ctx, since(f.sub.filters, f.began-f.sub.overlap()))
		return
	}
	f.current, f.refusal = true, 0
	f.mark()
	f.sub.once.Do(func() { close(f.sub.ready) })
}

// closed deals with a CLOSED of the relay.
func (f *feed) closed(ctx context.Context, st *stream, why string) {
	if st == f.live || st == f.back {
		f.again(ctx, why)
	}
}

// again starts the feed later: after authenticating if the relay wants that, and not at once if it has
// refused before.
func (f *feed) again(ctx context.Context, why string) {
	s := f.session
	f.stop(ctx)
	f.refusal++
	s.link.note(fmt.Errorf("subscription %s: %s", f.sub.name, why))
	wait := backoff(f.refusal)
	if isAuth(why) && f.refusal == 1 {
		wait = 0
	}
	s.tasks.Go(func() {
		if !pause(ctx, wait) {
			return
		}
		if isAuth(why) {
			if err := s.authenticate(ctx); err != nil {
				s.link.note(fmt.Errorf("subscription %s: %w", f.sub.name, err))
			}
		}
		select {
		case s.redo <- f:
		case <-s.done:
		}
	})
}

// pause reports whether ctx lasted as long.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
