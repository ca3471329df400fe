// Package container has the sandbox.Runners that use an installed container runtime: gVisor's runsc and podman. It
// translates a run into their configuration; the runtime isolates the run.
//
// A runtime connects only the three standard streams. Everything else goes through pipes that it passes on to the run's
// first process, a shell script of ours: copies go in as a tar stream, and collected files come out as another, which
// is sifted like any hostile input. The host never opens a path that a run has chosen.
package container

// Names of the runners in verdicts.
const (
	TierGVisor = "gvisor"
	TierPodman = "podman"
	TierDocker = "docker"
)
