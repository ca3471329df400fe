package work

import (
	"context"
	"fmt"
	"time"

	"guild/internal/journal/fact"
)

// Draining reports whether the node is closing and refuses new requests.
func (w *Work) Draining() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.draining
}

// handingBack bounds the time that Drain takes after ctx ended, until relays have the last answer.
const handingBack = 5 * time.Second

// Drain refuses new requests, waits until ctx ends for the workers that run, and then ends every request that is left with
// an error, so that no customer waits for nothing. It returns when relays have every answer.
func (w *Work) Drain(ctx context.Context) error {
	w.mu.Lock()
	w.draining = true
	w.mu.Unlock()
	until(ctx, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.running)+w.discarding == 0
	})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handingBack)
	defer cancel()
	if err := w.handBack(ctx); err != nil {
		return err
	}
	if !until(ctx, func() bool { return len(w.fold.pending()) == 0 }) {
		return fmt.Errorf("%d answers are not with a relay yet", len(w.fold.pending()))
	}
	return nil
}

// until waits for a condition, and reports whether it holds. It gives up when ctx ends.
func until(ctx context.Context, holds func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return holds()
		}
	}
	return true
}

// handBack ends every request that is left.
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
