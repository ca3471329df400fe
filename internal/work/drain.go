package work

import (
	"context"
	"fmt"
	"time"

	"guild/internal/fact"
	"guild/nip90"
)

// Draining reports whether new requests are turned away.
func (w *Work) Draining() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.draining
}

// Drain takes nothing new, waits for what is running until ctx ends, and then hands back what is left: each
// customer hears an honest error instead of silence.
func (w *Work) Drain(ctx context.Context) error {
	w.mu.Lock()
	w.draining = true
	w.mu.Unlock()
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		w.mu.Lock()
		running := len(w.running) + w.discarding
		w.mu.Unlock()
		if running == 0 {
			tick.Stop()
			break
		}
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
			tick.Stop()
		}
		break
	}
	return w.handBack()
}

func (w *Work) handBack() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, r := range w.fold.pending() {
		if r.Finished != nil {
			continue
		}
		finished := fact.RequestFinished{Request: r.ID, Ending: failed, Reason: "the provider is closing"}
		finished, err := w.answerFeedback(ctx, *r.Received, finished,
			nip90.Feedback{Status: nip90.Error, Text: "the provider is closing: busy, try again later"})
		if err != nil {
			return fmt.Errorf("hand back: %w", err)
		}
		if err := w.record(ctx, r, finished); err != nil {
			return fmt.Errorf("hand back %.8s: %w", r.ID.Hex(), err)
		}
	}
	return nil
}

func (w *Work) record(ctx context.Context, r request, finished fact.RequestFinished) error {
	return w.c.Journal.Do(ctx, fact.RequestSubject(r.ID), "closing", w.settled(r.ID, finished))
}
