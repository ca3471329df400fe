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
	Paused   State = "paused"   // refuses new requests; those that wait go on waiting
	Draining State = "draining" // refuses new requests; those that wait are done
)

// ErrNoService says that this node offers no such service.
var ErrNoService = errors.New("no such service is offered here")

// state returns the recorded state of a service.
func (w *Work) state(d string) State { return w.fold.state(d) }

// open reports whether a service takes requests now: it is neither paused nor draining, and the node is not closing.
func (w *Work) open(d string) bool { return !w.Draining() && w.state(d) == Open }

// Pause makes a service refuse new requests until it is resumed. Requests that run are finished. Those that wait go on
// waiting, or are done if drain is set. The error is ErrNoService if the service is not offered.
func (w *Work) Pause(ctx context.Context, d string, drain bool) error {
	s := Paused
	if drain {
		s = Draining
	}
	return w.turnTo(ctx, d, s, fact.ServicePaused{Service: d, Drain: drain})
}

// Resume makes a service take requests again. The error is ErrNoService if it is not offered.
func (w *Work) Resume(ctx context.Context, d string) error {
	return w.turnTo(ctx, d, Open, fact.ServiceResumed{Service: d})
}

// turnTo records a state unless the service has it already.
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
