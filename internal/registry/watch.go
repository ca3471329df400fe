package registry

import (
	"context"
	"iter"
	"time"

	"guild"
)

// What became of an announcement.
type What string

// What may become of one.
const (
	Announced What = "announced"
	Updated   What = "updated"
	Retracted What = "retracted"
)

// Change is one change of what is offered.
type Change struct {
	What    What
	Service guild.Service
	Name    string
	At      time.Time // the date of the event
	Missed  int       // changes before this one that the watcher was too slow for
}

// watcher is somebody who follows the changes. It has little patience: nobody else waits for it.
type watcher struct {
	changes chan Change
	missed  int
}

// Watch yields what changes from now on, until ctx ends. A watcher that is slower than the changes misses some, and
// is told how many.
func (r *Registry) Watch(ctx context.Context) iter.Seq[Change] {
	w := &watcher{changes: make(chan Change, 256)}
	r.mu.Lock()
	r.watchers[w] = true
	r.mu.Unlock()
	leave := func() {
		r.mu.Lock()
		delete(r.watchers, w)
		r.mu.Unlock()
	}
	stop := context.AfterFunc(ctx, leave)
	return func(yield func(Change) bool) {
		defer leave()
		defer stop()
		for {
			select {
			case <-ctx.Done():
				return
			case c := <-w.changes:
				if !yield(c) {
					return
				}
			}
		}
	}
}

// tell tells the watchers. The lock must be held.
func (r *Registry) tell(c Change) {
	for w := range r.watchers {
		c.Missed = w.missed
		select {
		case w.changes <- c:
			w.missed = 0
		default:
			w.missed++
		}
	}
}
