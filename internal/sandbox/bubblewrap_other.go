//go:build !linux

package sandbox

import "context"

// Bubblewrap is the Runner that calls bwrap(1), which is for Linux only.
type Bubblewrap struct {
	Path string // the bwrap executable
}

// Probe implements Runner.
func (b Bubblewrap) Probe(context.Context) Caps {
	return Caps{
		Tier:   "bubblewrap",
		Reason: "bubblewrap needs Linux",
		Remedy: "run guild on Linux, or in a Linux virtual machine",
	}
}

// Run implements Runner.
func (b Bubblewrap) Run(ctx context.Context, _ Spec, _ IO) (Result, error) {
	c := b.Probe(ctx)
	return Result{}, &UnusableError{c.Reason, c.Remedy}
}
