package bubblewrap

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"guild/internal/sandbox"
)

// arguments collects bwrap's command line. Files are passed by descriptor, so the collection can fail.
type arguments struct {
	list []string
	fds  *descriptors
	err  error
}

func (a *arguments) add(s ...string) { a.list = append(a.list, s...) }

// file makes a read-only file inside with the given content.
func (a *arguments) file(inside, content string) {
	fd, err := a.fds.memory(inside, []byte(content))
	if err != nil && a.err == nil {
		a.err = err
	}
	a.add("--ro-bind-data", fd, inside)
}

// world lays out what every run sees, and then the mounts of this one.
func (a *arguments) world(s sandbox.Spec) {
	uid := strconv.Itoa(sandbox.User) // means nothing outside: it is mapped to the user that runs guild
	a.add("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
		"--uid", uid, "--gid", uid, "--hostname", "box", "--cap-drop", "ALL",
		"--die-with-parent", "--new-session", "--clearenv")
	if !s.Network {
		a.add("--unshare-net")
	}
	a.system()
	a.etc(s.Network)
	a.add("--proc", "/proc", "--dev", "/dev", "--remount-ro", "/proc")
	a.scratch(s)
	a.readOnly(s.Copies)
	for _, m := range s.Mounts {
		kind := "--ro-bind"
		if m.Writable {
			kind = "--bind"
		}
		a.add(kind, m.Host, m.Inside)
	}
	a.add("--remount-ro", "/dev", "--remount-ro", "/")
}

// system shows the host's programs and libraries.
func (a *arguments) system() {
	a.add("--ro-bind", "/usr", "/usr")
	if _, err := os.Stat("/usr/local/etc"); err == nil {
		a.add("--tmpfs", "/usr/local/etc", "--remount-ro", "/usr/local/etc")
	}
	dirs, _ := filepath.Glob("/lib*")
	for _, dir := range append(dirs, "/bin", "/sbin") {
		if to, err := os.Readlink(dir); err == nil {
			a.add("--symlink", to, dir)
		} else {
			a.add("--ro-bind-try", dir, dir)
		}
	}
}

func (a *arguments) etc(network bool) {
	a.add("--dir", "/etc")
	for _, name := range sandbox.HostEtc(network) {
		a.add("--ro-bind-try", "/etc/"+name, "/etc/"+name)
	}
	for name, content := range sandbox.Etc(sandbox.User) {
		a.file("/etc/"+name, content)
	}
}

// scratch makes the bounded temporary file systems, which together hold Limits.Disk, and the names by which
// they are known. Shared memory, and what is copied beside the workspace, have their own because bwrap cannot
// bind one part of the new world to another.
func (a *arguments) scratch(s sandbox.Spec) {
	tmpfs := func(mode, dir string, size int64) {
		a.add("--size", strconv.FormatInt(size, 10), "--perms", mode, "--tmpfs", dir)
	}
	left, part := s.Limits.Disk, min(s.Limits.Disk/8, 64<<20)
	tmpfs("1777", "/dev/shm", part)
	left -= part
	if s.WritesJudge() {
		tmpfs("0755", sandbox.Judge, left/2)
		left -= left / 2
	}
	tmpfs("0755", sandbox.Box, left)
	a.add("--dir", sandbox.Workspace, "--dir", sandbox.Home)
	// Relative links, because mounts below /tmp are made while the new root is not yet the root.
	a.add("--perms", "1777", "--dir", sandbox.Box+"/tmp", "--symlink", "."+sandbox.Box+"/tmp", sandbox.Temp)
	a.add("--perms", "1777", "--dir", sandbox.Box+"/var", "--dir", "/var", "--symlink", ".."+sandbox.Box+"/var", "/var/tmp")
}

// command says what to run. Where there is something to lay out first, or the workspace is to be held from
// outside, a shell of the host takes a first step, when nothing of a stranger's has run yet: it says that the
// world stands, unpacks what it is given, and says so.
func (a *arguments) command(s sandbox.Spec, first *firstStep) {
	for _, v := range s.Env {
		name, value, _ := strings.Cut(v, "=")
		a.add("--setenv", name, value)
	}
	dir := path.Clean(cmp.Or(s.Dir, sandbox.Workspace))
	if first == nil {
		a.add("--chdir", dir, "--")
	} else {
		step := fmt.Sprintf(`dir=$1; shift; echo >&%[2]s && /bin/tar -x -o -C / -f - <&%[1]s && cd "$dir" && `+
			`echo >&%[2]s && exec %[1]s<&- %[2]s>&- && exec "$@"`, first.copiesFD, first.doneFD)
		a.add("--chdir", sandbox.Box, "--", "/bin/sh", "-c", step, "sandbox", dir)
	}
	a.add(s.Command()...)
}
