package work

import (
	"context"
	"errors"
	"fmt"

	"guild/internal/journal"
	"guild/internal/journal/fact"
)

// State says whether a service takes requests.
type State string

// The states of a service.
const (
	Open     State = "open"
	Paused   State = "paused"   // nothing new, and what waits, waits on
	Draining State = "draining" // nothing new; what waits is done
)

// ErrNoService says that this node offers no such service.
var ErrNoService = errors.New("no such service is offered here")

// state is what a service was told last, through any restart.
func (w *Work) state(d string) State { return w.fold.state(d) }

// open reports whether a service takes requests now: it is neither paused nor drained, and the node is not
// closing. What is not open should not be announced as open.
func (w *Work) open(d string) bool { return !w.Draining() && w.state(d) == Open }

// Pause has a service turn new requests away until it is resumed. What runs is finished; what waits waits on, or
// is done if it drains. ErrNoService if it is not offered.
func (w *Work) Pause(ctx context.Context, d string, drain bool) error {
	s := Paused
	if drain {
		s = Draining
	}
	return w.turnTo(ctx, d, s, fact.ServicePaused{Service: d, Drain: drain})
}

// Resume has a service take requests again. ErrNoService if it is not offered.
func (w *Work) Resume(ctx context.Context, d string) error {
	return w.turnTo(ctx, d, Open, fact.ServiceResumed{Service: d})
}

// turnTo records a state, unless it is that already.
func (w *Work) turnTo(ctx context.Context, d string, s State, f fact.Fact) error {
	if _, offered := w.services[d]; !offered {
		return fmt.Errorf("%.80q: %w", d, ErrNoService)
	}
	err := w.c.Journal.Do(ctx, fact.ServiceSubject(d), "", func(tx *journal.Tx) error {
		if w.state(d) != s {
			tx.Append(f)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the service %.80q: %w", d, err)
	}
	select {
	case w.turned <- struct{}{}:
	default: // Announce has not seen an earlier change yet, and looks at all services when it does
	}
	return nil
}
