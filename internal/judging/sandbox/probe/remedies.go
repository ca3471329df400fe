package probe

import (
	"io/fs"
	"slices"

	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/confine"
)

// inContainer is the remedy for a guild inside docker. Docker's filter forbids namespaces. It also hides parts of
// /proc, and then the kernel does not allow another /proc to be mounted.
const inContainer = "inside a container: docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined …"

// remedies returns improvements that a person can make on a machine for a runner with these capabilities, one line
// each.
func remedies(m confine.Machine, c sandbox.Caps) []string {
	var all []string
	if !c.Usable && c.Remedy != "" {
		all = append(all, c.Remedy)
	}
	for _, o := range m.Obstacles() {
		if !slices.Contains(all, o.Remedy) {
			all = append(all, o.Remedy)
		}
	}
	if isContainer(m.Files) && m.Filtered() {
		all = append(all, inContainer)
	}
	if !c.Usable { // no run, so no limits to poll
		return all
	}
	return append(all, groupRemedies()...)
}

// isContainer reports whether the machine is a docker or podman container.
func isContainer(m fs.FS) bool {
	for _, name := range []string{".dockerenv", "run/.containerenv"} {
		if _, err := fs.Stat(m, name); err == nil {
			return true
		}
	}
	return false
}
