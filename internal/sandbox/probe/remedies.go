package probe

import (
	"io/fs"
	"os"
	"strings"

	"guild/internal/sandbox"
)

// machine is the file system of the machine that we run on.
func machine() fs.FS { return os.DirFS("/") }

// remedy is what helps against something that a file of the machine says.
type remedy struct {
	file  string // relative to the root
	line  string // the beginning of a line of the file
	value string // what the rest of the line is, without space
	do    string
}

var known = []remedy{
	{
		"proc/sys/kernel/apparmor_restrict_unprivileged_userns", "", "1",
		"AppArmor keeps ordinary users from namespaces (as on Ubuntu since 23.10): sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
	},
	{
		"proc/sys/kernel/unprivileged_userns_clone", "", "0",
		"ordinary users may not make namespaces: sudo sysctl -w kernel.unprivileged_userns_clone=1",
	},
	{
		"proc/sys/user/max_user_namespaces", "", "0",
		"no user namespace may be made: sudo sysctl -w user.max_user_namespaces=15000",
	},
}

// inContainer helps a guild that runs inside docker, whose own filter forbids namespaces and whose /proc is
// partly hidden, so that no other can be mounted.
const inContainer = "inside a container: docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined …"

// remedies are what a person could do on this machine.
func remedies(m fs.FS, c sandbox.Caps) []string {
	var all []string
	if !c.Usable && c.Remedy != "" {
		all = append(all, c.Remedy)
	}
	for _, r := range known {
		if r.applies(m) {
			all = append(all, r.do)
		}
	}
	filtered := remedy{file: "proc/self/status", line: "Seccomp:", value: "2"}
	if isContainer(m) && filtered.applies(m) {
		all = append(all, inContainer)
	}
	if !c.Usable { // for another reason, and runs here have no limits to poll
		return all
	}
	return append(all, groupRemedies()...)
}

func (r remedy) applies(m fs.FS) bool {
	b, err := fs.ReadFile(m, r.file)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if rest, found := strings.CutPrefix(line, r.line); found && strings.TrimSpace(rest) == r.value {
			return true
		}
	}
	return false
}

func isContainer(m fs.FS) bool {
	for _, name := range []string{".dockerenv", "run/.containerenv"} {
		if _, err := fs.Stat(m, name); err == nil {
			return true
		}
	}
	return false
}
