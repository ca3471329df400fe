package namespaces

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/namespaces/plan"
)

// world returns a plan with the files that every run sees of a root directory, "/" for the host's: programs and
// libraries, a part of /etc, and some devices of the host. The caller adds the command, its mounts and the scratch file
// system.
func world(root string, network bool) *plan.Plan {
	p := &plan.Plan{Hostname: "box", Loopback: !network, Terminal: true, User: sandbox.User}
	p.Dirs = []string{"/proc", "/usr"}
	p.Binds = append(p.Binds, plan.Bind{From: path.Join(root, "usr"), Inside: "/usr"})
	if _, err := os.Stat(path.Join(root, "usr/local/etc")); err == nil {
		p.Hidden = append(p.Hidden, "/usr/local/etc")
	}
	dirs, _ := filepath.Glob(path.Join(root, "lib*"))
	for _, dir := range append(dirs, path.Join(root, "bin"), path.Join(root, "sbin")) {
		inside := "/" + path.Base(dir)
		if to, err := os.Readlink(dir); err == nil {
			p.Links = append(p.Links, plan.Link{To: to, Inside: inside})
		} else {
			p.Binds = append(p.Binds, plan.Bind{From: dir, Inside: inside, Optional: true})
		}
	}
	for _, name := range sandbox.HostEtc(network) {
		p.Binds = append(p.Binds, plan.Bind{From: path.Join(root, "etc", name), Inside: "/etc/" + name, Optional: true})
	}
	written := sandbox.Etc(sandbox.User)
	for _, name := range slices.Sorted(maps.Keys(written)) {
		p.Files = append(p.Files, plan.File{Inside: "/etc/" + name, Content: written[name]})
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		p.Binds = append(p.Binds, plan.Bind{From: "/dev/" + name, Inside: "/dev/" + name, Device: true, Optional: name == "tty"})
	}
	p.Links = append(p.Links,
		plan.Link{To: "/proc/self/fd", Inside: "/dev/fd"}, plan.Link{To: "/proc/self/fd/0", Inside: "/dev/stdin"},
		plan.Link{To: "/proc/self/fd/1", Inside: "/dev/stdout"}, plan.Link{To: "/proc/self/fd/2", Inside: "/dev/stderr"},
		plan.Link{To: "pts/ptmx", Inside: "/dev/ptmx"})
	return p
}

// parts returns the directories of the bounded temporary file system.
func parts() []plan.Part {
	return []plan.Part{
		{Inside: sandbox.Box, Mode: 0o755, Mine: true, Dirs: []string{"work", "home"}},
		{Inside: sandbox.Temp, Mode: 0o1777},
		{Inside: "/var/tmp", Mode: 0o1777},
		{Inside: "/dev/shm", Mode: 0o1777},
		{Inside: sandbox.Judge, Mode: 0o755, Mine: true},
	}
}
