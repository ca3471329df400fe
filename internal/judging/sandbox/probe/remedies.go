package probe

import (
	"io/fs"
	"slices"

	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/confine"
)

// inContainer helps a guild inside docker. Docker's filter forbids namespaces, and its /proc is partly hidden, so the
// kernel lets nobody mount another one.
const inContainer = "inside a container: docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined …"

// remedies returns what a person can do on a machine for a runner of these capabilities, one line each.
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

func isContainer(m fs.FS) bool {
	for _, name := range []string{".dockerenv", "run/.containerenv"} {
		if _, err := fs.Stat(m, name); err == nil {
			return true
		}
	}
	return false
}
