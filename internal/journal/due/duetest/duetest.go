// Package duetest runs a due.Runner in tests, inside synctest bubbles or outside.
package duetest

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"guild/internal/journal/due"
)

// Run runs r until t ends or stop is called, which may be called again. The node is "test" if r has none, and nothing is logged.
func Run(t *testing.T, r *due.Runner) (stop func()) {
	t.Helper()
	r.Node, r.Now, r.Log = cmp.Or(r.Node, "test"), time.Now, slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the runner ended with: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}
