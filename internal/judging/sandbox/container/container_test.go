package container_test

import (
	"testing"

	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/container"
	"guild/internal/judging/sandbox/sandboxtest"
)

func TestGVisor(t *testing.T) {
	conform(t, container.GVisor{})
}

func TestPodman(t *testing.T) {
	conform(t, container.Podman{})
}

// conform runs the suite if the runner is usable.
func conform(t *testing.T, r sandbox.Runner) {
	if c := r.Probe(t.Context()); !c.Usable {
		t.Skipf("not usable here: %s; %s", c.Reason, c.Remedy)
	}
	sandboxtest.Test(t, func(*testing.T) sandbox.Runner { return r })
}
