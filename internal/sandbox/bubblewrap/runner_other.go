//go:build !linux

package bubblewrap

import (
	"context"

	"guild/internal/sandbox"
)

// Tier is the runner's name in verdicts.
const Tier = "bubblewrap"

// Runner is the sandbox.Runner that calls bwrap(1), which is for Linux only.
type Runner struct {
	Path string // the bwrap executable
}

// Probe implements Runner.
func (b Runner) Probe(context.Context) sandbox.Caps {
	return sandbox.Caps{
		Tier:   Tier,
		Reason: "bubblewrap needs Linux",
		Remedy: "run guild on Linux, or in a Linux virtual machine",
	}
}

// Run implements Runner.
func (b Runner) Run(ctx context.Context, _ sandbox.Spec, streams sandbox.IO) (sandbox.Result, error) {
	return sandbox.Refuse(b.Probe(ctx), streams)
}
