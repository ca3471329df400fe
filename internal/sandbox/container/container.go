// Package container holds the sandbox.Runners that hand a run to somebody else's container runtime: gVisor's
// runsc, and podman's command line. It owns how a run is told to them and nothing of the walls.
//
// Such a runtime knows three streams. The rest flows through pipes whose descriptors it hands on to the run's
// first process, a shell script of ours: the copies in, as a tar stream, and what is collected out, as another
// that is sifted like anything a stranger wrote. The host never opens a path that a run has chosen.
package container

// Names of the tiers in verdicts.
const (
	TierGVisor = "gvisor"
	TierPodman = "podman"
	TierDocker = "docker"
)
