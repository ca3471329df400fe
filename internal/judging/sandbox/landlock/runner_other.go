//go:build !linux

package landlock

import (
	"context"

	"guild/internal/judging/sandbox"
)

// Runner is the sandbox.Runner that uses Landlock, which is for Linux only.
type Runner struct{}

// Tier is the runner's name in verdicts.
const Tier = "landlock"

// Probe implements sandbox.Runner.
func (Runner) Probe(context.Context) sandbox.Caps {
	return sandbox.Caps{Tier: Tier, Reason: "Landlock needs Linux", Remedy: "run guild on Linux, or in a Linux virtual machine"}
}

// Run implements sandbox.Runner.
func (r Runner) Run(ctx context.Context, _ sandbox.Spec, streams sandbox.IO) (sandbox.Result, error) {
	return sandbox.Refuse(r.Probe(ctx), streams)
}
