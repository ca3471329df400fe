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
	firstWait = 500 * time.Millisecond // longest wait before the second try to connect
	longest   = time.Minute            // longest wait between two tries
	stable    = time.Minute            // a connection that lasted this long resets the backoff
	useful    = 10 * time.Second       // one that lasted this long, and as long as the wait, reduces the backoff by one step
	idle      = time.Minute            // time after which a visited relay is disconnected
	soon      = time.Second            // callers wait for a relay that will be tried within this time
)

// backoff returns the wait after n failures: exponential, with full jitter.
func backoff(n int) time.Duration { return rand.N(mostWait(n)) }

// mostWait returns the longest wait after n failures.
func mostWait(n int) time.Duration {
	if n < 8 {
		return min(longest, firstWait<<n)
	}
	return longest
}

// link is one relay: its connections, one after the other, and the counts over all of them.
type link struct {
	pool *Pool
	url  string

	holds  int       // number of users that want it connected; under pool.mu
	visits int       // number of calls that use it now; under pool.mu
	left   time.Time // end of the last visit; under pool.mu
	gone   chan struct{}

	mu      sync.Mutex
	session *session // nil while not connected
	since   time.Time
	lastErr error
	failed  int           // tries to connect that failed
	next    time.Time     // of the next try
	changed chan struct{} // closed and replaced at each change of the above

	events, rejected atomic.Uint64
}

func newLink(p *Pool, url string) *link {
	now := p.cfg.Now()
	return &link{pool: p, url: url, left: now, since: now, gone: make(chan struct{}), changed: make(chan struct{})}
}

// hangUp ends the link. The caller holds pool.mu.
func (l *link) hangUp() { close(l.gone) }

// run connects, again and again, until ctx ends or the relay is not needed any more.
//
// The wait between two tries doubles with each failure, up to a minute. A connection that ends at once counts as a failure
// too, or a relay that accepts and drops us would be tried without end. But a relay may drop all connections after some
// time, say every 20 s. If each of these counted as a failure we would be away from it for longer and longer. So a
// connection that lasted for 10 s, and as long as the longest wait at this step, takes the backoff a step back: we are not
// away for much longer than we were served.
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

// connect makes one connection, serves it until it ends, and returns how long it lasted.
func (l *link) connect(ctx context.Context) (lasted time.Duration) {
	asked := l.pool.cfg.Now()
	ws, err := l.pool.dial(ctx, l.url)
	if err != nil {
		if ctx.Err() == nil {
			l.pool.qualities.measure(l.url, (*Quality).lost)
		}
		l.set(func() { l.lastErr, l.failed = err, l.failed+1 })
		l.pool.cfg.Log.Debug("relay not reached", "url", l.url, "err", err)
		return 0
	}
	s, began := newSession(l, ws), l.pool.cfg.Now()
	l.pool.qualities.measure(l.url, func(q *Quality) { q.connected(began.Sub(asked)) })
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

// unused reports whether the relay is not held, and was not visited for a while.
func (l *link) unused() bool {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	return l.holds <= 0 && l.visits == 0 && l.pool.cfg.Now().Sub(l.left) >= idle
}

// connected waits for the connection. It fails at once if the relay is down.
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
			return nil, errors.New("disconnected to make room for another relay")
		case <-l.pool.stopped:
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// down returns an error if waiting is no use: a try has failed since the caller began to wait, or the next one is not soon.
func (l *link) down(failed int) error {
	if l.lastErr == nil || l.failed == failed && l.next.Sub(l.pool.cfg.Now()) <= soon {
		return nil
	}
	return fmt.Errorf("not connected: %w", l.lastErr)
}

// poke makes the connection, if there is one, reconcile its feeds with the subscriptions.
func (l *link) poke() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != nil {
		l.session.wake()
	}
}

func (l *link) note(err error) { l.set(func() { l.lastErr = err }) }

// mended removes an error from the status, unless a later one has replaced it.
func (l *link) mended(err error) {
	l.set(func() {
		if l.lastErr == err {
			l.lastErr = nil
		}
	})
}

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

// reject counts and reports a dropped message.
func (l *link) reject(ctx context.Context, reason Reason, raw []byte) {
	l.rejected.Add(1)
	l.pool.cfg.Reject(ctx, l.url, reason, bytes.Clone(raw[:min(len(raw), maxRaw)]))
}
