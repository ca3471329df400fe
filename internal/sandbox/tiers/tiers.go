// Package tiers knows every sandbox.Runner there is and which of them to prefer. It owns the order and nothing
// else.
package tiers

import (
	"context"

	"guild/internal/sandbox"
	"guild/internal/sandbox/bubblewrap"
)

// Best returns the strongest runner that works on this machine and what it can do, or an *UnusableError.
func Best(ctx context.Context) (sandbox.Runner, sandbox.Caps, error) {
	var last sandbox.Caps
	for _, r := range All() {
		last = r.Probe(ctx)
		if last.Usable {
			return r, last, nil
		}
	}
	return nil, last, &sandbox.UnusableError{Reason: last.Reason, Remedy: last.Remedy}
}

// All are the runners there are, the strongest first.
func All() []sandbox.Runner { return []sandbox.Runner{bubblewrap.Runner{}} }
