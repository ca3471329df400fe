// Package container holds the sandbox.Runners that hand a run to somebody else's container runtime: gVisor's
// runsc, and the docker and podman command lines. It owns how a run is told to them and nothing of the walls.
package container
