package work

import (
	"context"
	"fmt"
	"time"

	"guild/internal/journal/fact"
)

// Draining reports whether new requests are turned away.
func (w *Work) Draining() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.draining
}

// farewell is how long handing back may take, until the relays have the last answer.
const farewell = 5 * time.Second

// Drain takes nothing new, waits for what is running until ctx ends, and then hands back what is left: each
// customer hears an honest error instead of silence. It returns when the relays have every answer.
func (w *Work) Drain(ctx context.Context) error {
	w.mu.Lock()
	w.draining = true
	w.mu.Unlock()
	until(ctx, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.running)+w.discarding == 0
	})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if err := w.handBack(ctx); err != nil {
		return err
	}
	if !until(ctx, func() bool { return len(w.fold.pending()) == 0 }) {
		return fmt.Errorf("%d answers are not with a relay yet", len(w.fold.pending()))
	}
	return nil
}

// until waits for something to be so, and reports whether it is when ctx ends.
func until(ctx context.Context, so func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return so()
		}
	}
	return true
}

func (w *Work) handBack(ctx context.Context) error {
	for _, r := range w.fold.pending() {
		if r.Finished != nil {
			continue
		}
		decide, err := w.fail(ctx, r, "the provider is closing", "the provider is closing: busy, try again later")
		if err == nil {
			err = w.c.Journal.Do(ctx, fact.RequestSubject(r.ID), "closing", decide)
		}
		if err != nil {
			return fmt.Errorf("hand back %.8s: %w", r.ID.Hex(), err)
		}
	}
	return nil
}
