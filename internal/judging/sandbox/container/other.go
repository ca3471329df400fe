//go:build !linux

package container

import (
	"context"

	"guild/internal/judging/sandbox"
)

// GVisor is the sandbox.Runner that calls gVisor's runsc, which is for Linux only.
type GVisor struct {
	Path string // the runsc executable
}

// Probe implements Runner.
func (GVisor) Probe(context.Context) sandbox.Caps { return elsewhere(TierGVisor) }

// Run implements Runner.
func (g GVisor) Run(ctx context.Context, _ sandbox.Spec, streams sandbox.IO) (sandbox.Result, error) {
	return sandbox.Refuse(g.Probe(ctx), streams)
}

// Podman is the sandbox.Runner that calls podman(1) beside an engine on the same kernel, which is for Linux only.
type Podman struct {
	Path string // the podman executable
}

// Probe implements Runner.
func (Podman) Probe(context.Context) sandbox.Caps { return elsewhere(TierPodman) }

// Run implements Runner.
func (p Podman) Run(ctx context.Context, _ sandbox.Spec, streams sandbox.IO) (sandbox.Result, error) {
	return sandbox.Refuse(p.Probe(ctx), streams)
}

func elsewhere(tier string) sandbox.Caps {
	return sandbox.Caps{
		Tier:   tier,
		Reason: "a run passes its results to guild by descriptors, so both must be on one Linux kernel",
		Remedy: "run guild itself on Linux, or in a Linux virtual machine such as podman machine",
	}
}
