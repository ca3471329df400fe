package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Names of the groups that we create. groupPrefix is followed by our process id, so that sweep can tell which process a
// group belongs to.
const (
	groupPrefix     = "guild-run-"
	supervisorGroup = "guild-supervisor" // for this process, if its own group must be the parent of the runs
	runsGroup       = "guild-runs"       // its sibling, the parent of the runs
)

// hierarchies holds the mount points of the controllers, and this process's groups.
type hierarchies struct {
	mounts map[string]string // controller, "" for version 2 → its mount point
	own    map[string]string // controller, "" for version 2 → this process's group
}

// parseHierarchies parses /proc/self/cgroup and /proc/self/mounts.
func parseHierarchies(groups, mounts string) hierarchies {
	h := hierarchies{mounts: map[string]string{}, own: map[string]string{}}
	for line := range strings.Lines(groups) { // 4:cpu,cpuacct:/user.slice
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			for controller := range strings.SplitSeq(f[1], ",") {
				h.own[controller] = f[2]
			}
		}
	}
	for line := range strings.Lines(mounts) { // cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0
		f := strings.Fields(line)
		switch {
		case len(f) < 4:
		case f[2] == "cgroup2":
			h.mounts[""] = f[1]
		case f[2] == "cgroup":
			for option := range strings.SplitSeq(f[3], ",") {
				h.mounts[option] = f[1]
			}
		}
	}
	return h
}

// group creates the directories of a new group, in the version that has the memory and pids controllers.
func (h hierarchies) group() (*Cgroup, error) {
	if h.mounts["memory"] == "" || h.mounts["pids"] == "" {
		return h.groupV2()
	}
	g := &Cgroup{}
	for _, c := range []struct {
		dir        *string
		controller string
		needed     bool
	}{{&g.memory, "memory", true}, {&g.pids, "pids", true}, {&g.cpuacct, "cpuacct", false}, {&g.cpu, "cpu", false}} {
		mount := h.mounts[c.controller]
		if mount == "" {
			continue
		}
		if c.controller == "cpu" && mount == h.mounts["cpuacct"] {
			g.cpu = g.cpuacct
			continue
		}
		dir, err := makeGroup(visible(mount, h.own[c.controller]))
		if err != nil && c.needed {
			return nil, errors.Join(err, g.Remove())
		}
		*c.dir = dir
	}
	return g, nil
}

// visible returns the directory of a group. In a container the group's path may be that on the host; then the directory
// is the mount point.
func visible(mount, at string) string {
	base := filepath.Join(mount, at)
	if _, err := os.Stat(base); err != nil {
		return mount
	}
	return base
}

// groupV2 creates a group of version 2.
func (h hierarchies) groupV2() (*Cgroup, error) {
	mount := h.mounts[""]
	if mount == "" {
		return nil, errors.New("no cgroup file system is mounted")
	}
	base, err := baseV2(mount, visible(mount, h.own[""]))
	if err != nil {
		return nil, err
	}
	dir, err := makeGroup(base)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, errors.Join(err, unix.Rmdir(dir))
	}
	return &Cgroup{v2: true, memory: dir, pids: dir, cpuacct: dir, cpu: dir, dir: file}, nil
}

// baseV2 returns the group in which runs can have groups with memory and pids controllers. In version 2, a group that
// passes controllers on to its children may contain no processes. So if our group was delegated to us, its processes
// move to a child group. Otherwise the result is the nearest parent that passes them on and that we may write to.
func baseV2(mount, own string) (string, error) {
	if filepath.Base(own) == supervisorGroup { // moved before, by us or by our parent process
		own = filepath.Dir(own)
		return filepath.Join(own, runsGroup), makeRuns(own)
	}
	if handsOn(own) || offers(own) && handOn(own) == nil { // the root group may have processes
		return own, nil
	}
	if isDelegated(own) {
		return filepath.Join(own, runsGroup), leave(own)
	}
	for at := own; at != mount && strings.HasPrefix(at, mount); {
		at = filepath.Dir(at)
		if handsOn(at) && isWritable(at) && isWritable(filepath.Join(at, "cgroup.procs")) {
			return at, nil
		}
	}
	if offers(own) && own == mount { // in a container
		return filepath.Join(own, runsGroup), leave(own)
	}
	return "", errors.New("no cgroup that we may write to passes memory and pids on to its children")
}

// handsOn reports whether the group passes memory and pids on to its children.
func handsOn(group string) bool { return has(group, "cgroup.subtree_control") }

// offers reports whether the group could pass them on.
func offers(group string) bool { return has(group, "cgroup.controllers") }

func has(group, file string) bool {
	b, _ := os.ReadFile(filepath.Join(group, file))
	controllers := strings.Fields(string(b))
	return slices.Contains(controllers, "memory") && slices.Contains(controllers, "pids")
}

// isDelegated reports whether systemd or a person delegated this group to us.
func isDelegated(group string) bool {
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		var b [8]byte
		if n, err := unix.Getxattr(group, name, b[:]); err == nil && string(b[:n]) == "1" {
			return offers(group)
		}
	}
	info, err := os.Stat(group) // a person may have changed the owner manually
	if err != nil || os.Geteuid() == 0 {
		return false
	}
	above, err := os.Stat(filepath.Dir(group))
	return err == nil && owner(info) == os.Geteuid() && owner(above) != os.Geteuid() && offers(group)
}

func isWritable(path string) bool { return unix.Access(path, unix.W_OK) == nil }

func owner(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// leave moves all processes of a group, including this one, into a child group, so that the group can pass controllers
// on. It may be called repeatedly.
func leave(group string) error {
	inner := filepath.Join(group, supervisorGroup)
	if err := os.Mkdir(inner, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for range 10 { // processes may be started meanwhile
		b, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
		if err != nil {
			return err
		}
		pids := strings.Fields(string(b))
		if len(pids) == 0 {
			break
		}
		for _, pid := range pids {
			if err := write(inner, "cgroup.procs", pid); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("leave the control group: %w", err)
			}
		}
	}
	return makeRuns(group)
}

// makeRuns creates the parent group of the runs, as a sibling of the supervisor's group.
func makeRuns(group string) error {
	runs := filepath.Join(group, runsGroup)
	if handsOn(runs) {
		return nil
	}
	if err := handOn(group); err != nil {
		return err
	}
	if err := os.Mkdir(runs, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return handOn(runs)
}

// handOn makes a group pass controllers on to its children. cpu comes last: in a group with processes only cpu can be
// passed on, and then no process could enter the children.
func handOn(group string) error {
	err := write(group, "cgroup.subtree_control", "+memory +pids")
	if err == nil {
		optional(group, "cgroup.subtree_control", "+cpu")
	}
	return err
}

// makeGroup creates the directory of one run below base. It first removes the groups of processes that were killed,
// whose runs have ended with them.
func makeGroup(base string) (string, error) {
	left, _ := filepath.Glob(filepath.Join(base, groupPrefix+"*"))
	for _, dir := range left {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), groupPrefix), "-")
		if _, err := strconv.Atoi(pid); err != nil {
			continue
		}
		if _, err := os.Stat("/proc/" + pid); errors.Is(err, os.ErrNotExist) {
			unix.Rmdir(dir) // fails while a process is in it
		}
	}
	return os.MkdirTemp(base, fmt.Sprintf("%s%d-", groupPrefix, os.Getpid()))
}
