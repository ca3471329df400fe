package registry

import (
	"context"
	"iter"
	"time"

	"guild"
)

// What is the kind of a change.
type What string

// The values of What.
const (
	Announced What = "announced"
	Updated   What = "updated"
	Retracted What = "retracted"
)

// Change describes one change of the announced services.
type Change struct {
	What    What
	Service guild.Service
	Name    string
	At      time.Time // the date of the event
	Missed  int       // changes before this one that were dropped because the watcher was too slow
}

// watcher receives changes. A slow watcher loses changes; it never blocks the registry.
type watcher struct {
	changes chan Change
	missed  int
}

// Watch yields the changes from now on, until ctx ends. A slow reader loses changes; Change.Missed counts them.
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
	// A sequence that is never iterated must not stay registered.
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

// tell sends a change to all watchers. The lock must be held.
//
// It must not block, since it runs with the registry locked.
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
