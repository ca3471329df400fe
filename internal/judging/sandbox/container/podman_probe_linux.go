package container

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox"
)

// try makes a trial run. An ordinary user's podman leaves a process and directories for the next run. A probe must not,
// so it uses a temporary directory and kills that process.
func (p Podman) try(ctx context.Context) error {
	if os.Geteuid() == 0 {
		return sandbox.Try(ctx, p)
	}
	var err error
	if p.home, err = sandbox.TempDir("guild-podman-"); err != nil {
		return err
	}
	defer sandbox.RemoveTree(p.home)
	defer stopPauses(p.home)
	return sandbox.Try(ctx, p)
}

// stopPauses kills the processes that hold the namespaces of an ordinary user's podman. Files named pause.pid contain
// their process ids.
func stopPauses(home string) {
	filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "pause.pid" {
			return nil
		}
		b, _ := os.ReadFile(path)
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil || pid <= 1 {
			return nil
		}
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if name := strings.TrimSpace(string(comm)); name == "podman" || name == "podman pause" || name == "catatonit" {
			unix.Kill(pid, unix.SIGKILL)
		}
		return nil
	})
}

// noRange returns the reason why this user has no range of ids for containers, which podman needs; empty if there may
// be one.
func noRange() string {
	if os.Geteuid() == 0 {
		return ""
	}
	for _, helper := range []string{"newuidmap", "newgidmap"} {
		if _, err := exec.LookPath(helper); err != nil {
			return err.Error()
		}
	}
	if b, _ := os.ReadFile("/etc/nsswitch.conf"); strings.Contains(string(b), "subid:") {
		return "" // ranges come from another service
	}
	id := strconv.Itoa(os.Geteuid())
	names := []string{id}
	if u, err := user.LookupId(id); err == nil {
		names = append(names, u.Username)
	}
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		if b, _ := os.ReadFile(file); !givesRange(string(b), names) {
			return "this user has no range of ids in " + file
		}
	}
	return ""
}

// givesRange reports whether a file of subuid(5), with lines such as "name:100000:65536", has one of the names.
func givesRange(file string, names []string) bool {
	for line := range strings.Lines(file) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		for _, n := range names {
			if name == n {
				return true
			}
		}
	}
	return false
}
