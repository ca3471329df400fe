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
	overlap  = nostr.Timestamp(120) // seconds that are read again, for clocks that differ and relays that are late
	maxPages = 1_000                // of stored events in one start of a feed
)

// standing is a subscription that outlasts connections.
type standing struct {
	name       string
	filters    []nostr.Filter
	everywhere bool     // at all relays that are held, else at urls
	urls       []string // normalized
	receive    Receiver

	ready chan struct{} // closed when the subscription is current at one relay
	once  sync.Once
}

// overlap returns the time before its watermark from which a subscription is read again. Gift wraps are dated up to two days
// back on purpose (NIP-59), so a new one may have a date before the watermark.
func (s *standing) overlap() nostr.Timestamp {
	for _, f := range s.filters {
		if !slices.Contains(f.Kinds, nostr.KindGiftWrap) {
			return overlap
		}
	}
	return overlap + backdated
}

// backdated is the largest time by which gift wraps are dated back, in seconds.
const backdated = 2 * 24 * 60 * 60

// Subscribe asks relays for events, now and after every reconnect, and gives them to Config.Receive. With URLs it asks those
// relays and keeps them connected until cancel; without, all that are held, also those added later. The name is the key of
// the watermark at each relay. New filters under a name in use replace the old ones. The first reading begins at the
// filters' Since. A Limit means that only so many of the newest stored events are wanted. After cancel, events that were
// read before may still be received.
func (p *Pool) Subscribe(name string, filters []nostr.Filter, urls ...string) (cancel func()) {
	sub, err := p.standing(name, filters, p.receive, urls)
	if err != nil {
		p.cfg.Log.Warn("relay left out of a subscription", "subscription", name, "err", err)
	}
	return p.put(sub)
}

// Listen is Subscribe with a receiver of its own. It returns when the subscription is current at one of the relays. If ctx
// ends before that, the subscription is cancelled and the error matches ErrNoRelay.
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

// standing makes a subscription. The error is about invalid URLs, which are left out.
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

// put adds a subscription, in place of another one of its name.
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

// plain replaces limit:0, which not all relays understand, by a Since of now.
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

// Forget drops the watermark of a subscription at a relay. The next start there reads from the beginning.
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

// standingAt returns the subscriptions at a relay, by name.
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

// feed is a standing subscription on one connection. It has three phases:
//
//  1. It reads the stored events since the watermark. A relay returns the newest and stops at some number, so there may be
//     many pages, each older than the one before.
//  2. It reads the events since the first phase began once more. A relay may have stored an event after it answered the
//     query and before it began to send us new ones; without this second look such an event would be lost.
//  3. The feed is current: it gets new events as they come.
//
// Only in the third phase the watermark moves. Before, the newest events have come while older ones are missing; if the
// connection ended then, a watermark at the newest event would skip the older ones for ever.
//
// A feed starts from the watermark again if the relay closes the subscription (after authenticating, if the relay asks for
// that), and if events were dropped because the queue was full. All methods are called by the goroutine that delivers the
// events of the session, so a feed has no lock.
type feed struct {
	session *session
	sub     *standing
	lost    atomic.Bool // the reader dropped an event because the queue was full

	live    *stream // reads the first page, and stays open for new events
	back    *stream // reads another page, or is the second look
	began   nostr.Timestamp
	newest  nostr.Timestamp // created_at since began, no later than now
	pages   int
	looked  bool  // the second look has begun
	current bool  // all stored events were read
	refusal int   // number of CLOSED in a row
	failure error // that the relay's status names since the latest CLOSED
}

// start asks for all events since the watermark.
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

// open sends a REQ. If that fails, the connection has ended, or again tries later.
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

// read notes an event that was delivered.
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

// eose begins the next page, the second look, or the third phase.
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
	f.session.link.mended(f.failure)
	f.mark()
	f.sub.once.Do(func() { close(f.sub.ready) })
}

// closed handles a CLOSED of the relay.
func (f *feed) closed(ctx context.Context, st *stream, why string) {
	if st == f.live || st == f.back {
		f.again(ctx, why)
	}
}

// again starts the feed later, after a backoff. If the relay asks for authentication, it authenticates first, and the first
// time without a wait.
func (f *feed) again(ctx context.Context, why string) {
	s := f.session
	f.stop(ctx)
	f.refusal++
	f.failure = fmt.Errorf("subscription %s: %s", f.sub.name, why)
	s.link.note(f.failure)
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

// pause waits for d, and reports whether ctx is still going on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
