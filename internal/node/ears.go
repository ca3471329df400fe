package node

import (
	"context"
	"slices"
	"sync"
	"time"

	"guild/internal/relay"
)

// jump is how far the wall clock may move beyond the time that has passed before we take it that this machine
// slept: what others said meanwhile is still on its way to us.
const jump = 30 * time.Second

// ears knows since when what others say reaches us: since one of our relays is connected, and this machine awake.
type ears struct {
	pool *relay.Pool
	urls []string
	now  func() time.Time
	wake func() // called when something changed

	mu    sync.Mutex
	since time.Time // zero while no relay is connected
	last  time.Time // of the last look
}

func (n *Node) openEars() {
	n.ears = &ears{pool: n.pool, urls: normalized(n.urls), now: n.c.Now, wake: func() { n.runner.Wake() }}
}

// normalized spells URLs as the pool does, and leaves out what is none.
func normalized(urls []string) []string {
	var clean []string
	for _, raw := range urls {
		if url, err := relay.Normalize(raw); err == nil {
			clean = append(clean, url)
		}
	}
	return clean
}

// deaf reports whether none of our relays is connected.
func (e *ears) deaf() bool {
	return !slices.ContainsFunc(e.pool.Status(), func(r relay.Status) bool { return r.Connected && slices.Contains(e.urls, r.URL) })
}

// hears returns since when what others say reaches us, zero while it does not. It is asked at the very moment at
// which this machine wakes up, too.
func (e *ears) hears() time.Time {
	now := e.now().Round(0)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.slept(now) && !e.since.IsZero() {
		e.since = now
	}
	return e.since
}

// slept reports whether the wall clock has jumped since the last look. The caller holds e.mu.
func (e *ears) slept(now time.Time) bool { return !e.last.IsZero() && now.Sub(e.last) > jump }

// run looks every second until ctx ends.
func (e *ears) run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		e.look(e.now().Round(0), e.deaf()) // the wall clock's: the other one stands still while a machine sleeps
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (e *ears) look(now time.Time, deaf bool) {
	e.mu.Lock()
	before := e.since
	switch {
	case deaf:
		e.since = time.Time{}
	case e.since.IsZero() || e.slept(now) || now.Before(e.since):
		e.since = now
	}
	e.last = now
	changed := e.since != before
	e.mu.Unlock()
	if changed {
		e.wake()
	}
}
