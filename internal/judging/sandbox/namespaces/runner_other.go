//go:build !linux

package namespaces

import (
	"context"

	"guild/internal/judging/sandbox"
)

// Tier is the runner's name in verdicts.
const Tier = "namespaces"

// Runner is guild's own sandbox.Runner, which is for Linux only.
type Runner struct {
	Rootfs string // a directory with the programs and libraries that runs see
}

// Probe implements sandbox.Runner.
func (r *Runner) Probe(context.Context) sandbox.Caps {
	return sandbox.Caps{
		Tier:   Tier,
		Reason: "guild's own sandbox needs Linux",
		Remedy: "run guild on Linux, or in a Linux virtual machine",
	}
}

// Run implements sandbox.Runner.
func (r *Runner) Run(ctx context.Context, _ sandbox.Spec, streams sandbox.IO) (sandbox.Result, error) {
	return sandbox.Refuse(r.Probe(ctx), streams)
}

// Close does nothing.
func (r *Runner) Close() error { return nil }
