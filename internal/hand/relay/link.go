package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	firstWait = 500 * time.Millisecond // before the second try to connect
	longest   = time.Minute            // wait between two tries
	stable    = time.Minute            // a connection that lasted as long makes the waits short again
	useful    = 10 * time.Second       // one that lasted as long, and as long as the wait, makes it shorter
	idle      = time.Minute            // after which a visited relay is left
	soon      = time.Second            // a relay that will be tried within it is worth waiting for
)

// backoff returns the wait before try n+1, n counting the failures: exponential, with full jitter.
func backoff(n int) time.Duration { return rand.N(mostWait(n)) }

func mostWait(n int) time.Duration {
	if n < 8 {
		return min(longest, firstWait<<n)
	}
	return longest
}

// link is one relay: its connections one after the other, and what is counted over all of them.
type link struct {
	pool *Pool
	url  string

	holds  int       // who wants it connected; under pool.mu
	visits int       // who is using it; under pool.mu
	left   time.Time // end of the last visit; under pool.mu
	gone   chan struct{}

	mu      sync.Mutex
	session *session // nil while not connected
	since   time.Time
	lastErr error
	failed  int           // connections that could not be made
	next    time.Time     // of the next try
	changed chan struct{} // closed and replaced at each change of the above

	events, rejected atomic.Uint64
}

func newLink(p *Pool, url string) *link {
	now := p.cfg.Now()
	return &link{pool: p, url: url, left: now, since: now, gone: make(chan struct{}), changed: make(chan struct{})}
}

// hangUp ends the link for good. The caller holds pool.mu.
func (l *link) hangUp() { close(l.gone) }

// run connects, and connects again, until ctx ends or nobody needs the relay. A relay that cannot be reached, or
// throws us out at once, is left alone for longer and longer; one that serves us for a while each time is not left for
// much longer than it served.
func (l *link) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.pool.tasks.Go(func() {
		select {
		case <-l.gone:
			cancel()
		case <-ctx.Done():
		}
	})
	for tries := 0; ; {
		lasted := l.connect(ctx)
		if ctx.Err() != nil || l.pool.drop(l) {
			return
		}
		if lasted >= stable {
			tries = 0
		}
		if !l.rest(ctx, backoff(tries)) {
			return
		}
		if lasted >= max(useful, mostWait(tries)) {
			tries = max(0, tries-1)
		} else {
			tries++
		}
	}
}

// connect makes one connection, stays until it ends, and says how long it was there.
func (l *link) connect(ctx context.Context) (lasted time.Duration) {
	ws, err := l.pool.dial(ctx, l.url)
	if err != nil {
		l.set(func() { l.lastErr, l.failed = err, l.failed+1 })
		l.pool.cfg.Log.Debug("relay not reached", "url", l.url, "err", err)
		return 0
	}
	s, began := newSession(l, ws), l.pool.cfg.Now()
	l.set(func() { l.session, l.since = s, began })
	l.pool.cfg.Log.Debug("relay connected", "url", l.url)
	err = s.run(ctx)
	ended := l.pool.cfg.Now()
	l.set(func() { l.session, l.since, l.lastErr = nil, ended, err })
	l.pool.cfg.Log.Debug("relay connection ended", "url", l.url, "err", err)
	return ended.Sub(began)
}

func (l *link) rest(ctx context.Context, d time.Duration) bool {
	l.set(func() { l.next = l.pool.cfg.Now().Add(d) })
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func (l *link) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.changed)
	l.changed = make(chan struct{})
}

// unused reports whether the relay is connected for nothing.
func (l *link) unused() bool {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	return l.holds <= 0 && l.visits == 0 && l.pool.cfg.Now().Sub(l.left) >= idle
}

// connected waits for the connection, but not when the relay cannot be reached.
func (l *link) connected(ctx context.Context) (*session, error) {
	l.mu.Lock()
	failed := l.failed
	l.mu.Unlock()
	for {
		l.mu.Lock()
		s, err, changed := l.session, l.down(failed), l.changed
		l.mu.Unlock()
		if s != nil {
			return s, nil
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-changed:
		case <-l.gone:
			return nil, errors.New("given up for another relay")
		case <-l.pool.stopped:
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// down returns why there is no use in waiting: a try failed since the caller began to wait, or the next one is
// not soon.
func (l *link) down(failed int) error {
	if l.lastErr == nil || l.failed == failed && l.next.Sub(l.pool.cfg.Now()) <= soon {
		return nil
	}
	return fmt.Errorf("not connected: %w", l.lastErr)
}

// poke makes the connection, if there is one, look at the subscriptions again.
func (l *link) poke() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != nil {
		l.session.wake()
	}
}

func (l *link) note(err error) { l.set(func() { l.lastErr = err }) }

func (l *link) status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Status{URL: l.url, Connected: l.session != nil, Since: l.since,
		Events: l.events.Load(), Rejected: l.rejected.Load()}
	if l.lastErr != nil {
		s.LastError = l.lastErr.Error()
	}
	return s
}

// reject counts and reports what is dropped.
func (l *link) reject(ctx context.Context, reason Reason, raw []byte) {
	l.rejected.Add(1)
	l.pool.cfg.Reject(ctx, l.url, reason, bytes.Clone(raw[:min(len(raw), maxRaw)]))
}
