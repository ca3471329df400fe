package confine

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"guild/internal/sandbox"
)

// Cgroup is the control group of one run, of version 1 (a directory for each controller) or 2 (one directory).
type Cgroup struct {
	v2                bool
	memory, pids, cpu string // directories; cpu may be empty in version 1
}

// NewCgroup makes a control group below the calling process's own, or says why it cannot.
func NewCgroup(l sandbox.Limits) (*Cgroup, error) {
	h, err := findHierarchies()
	if err != nil {
		return nil, err
	}
	g, err := h.group()
	if err != nil {
		return nil, err
	}
	if err := g.limit(l); err != nil {
		return nil, errors.Join(err, g.Remove())
	}
	return g, nil
}

// hierarchies says where the controllers are mounted and where in them this process is.
type hierarchies struct {
	mounts map[string]string // controller, "" for version 2 → the directory it is mounted at
	own    map[string]string // controller, "" for version 2 → this process's group
}

func findHierarchies() (hierarchies, error) {
	h := hierarchies{mounts: map[string]string{}, own: map[string]string{}}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return h, err
	}
	for line := range strings.Lines(string(groups)) { // 4:cpu,cpuacct:/user.slice
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			for controller := range strings.SplitSeq(f[1], ",") {
				h.own[controller] = f[2]
			}
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return h, err
	}
	for line := range strings.Lines(string(mounts)) { // cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0
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
	return h, nil
}

// group makes the directories of a new group, of whichever version has the memory and pids controllers.
func (h hierarchies) group() (*Cgroup, error) {
	if h.mounts["memory"] == "" || h.mounts["pids"] == "" {
		return h.groupV2()
	}
	g := &Cgroup{}
	for _, c := range []struct {
		dir        *string
		controller string
	}{{&g.memory, "memory"}, {&g.pids, "pids"}, {&g.cpu, "cpuacct"}} {
		if h.mounts[c.controller] == "" {
			continue
		}
		dir, err := makeGroup(h.mounts[c.controller], h.own[c.controller])
		if err != nil {
			return nil, errors.Join(err, g.Remove())
		}
		*c.dir = dir
	}
	return g, nil
}

// groupV2 makes the group in the nearest group above this process that hands memory and pids on to its
// children: version 2 allows no processes where it does.
func (h hierarchies) groupV2() (*Cgroup, error) {
	mount := h.mounts[""]
	if mount == "" {
		return nil, errors.New("no cgroup file system is mounted")
	}
	for at := h.own[""]; ; at = filepath.Dir(at) {
		handed, _ := os.ReadFile(filepath.Join(mount, at, "cgroup.subtree_control"))
		controllers := strings.Fields(string(handed))
		if slices.Contains(controllers, "memory") && slices.Contains(controllers, "pids") {
			dir, err := makeGroup(mount, at)
			if err != nil {
				return nil, err
			}
			return &Cgroup{v2: true, memory: dir, pids: dir, cpu: dir}, nil
		}
		if at == "/" || at == "." {
			return nil, errors.New("no cgroup hands memory and pids on to its children")
		}
	}
}

// makeGroup makes a directory below the group at, or below the mount if at is not visible there.
func makeGroup(mount, at string) (string, error) {
	base := filepath.Join(mount, at)
	if _, err := os.Stat(base); err != nil {
		base = mount
	}
	sweep(base)
	return os.MkdirTemp(base, fmt.Sprintf("%s%d-", groupPrefix, os.Getpid()))
}

// groupPrefix begins the names of our groups; the process id follows, so that each process knows its own.
const groupPrefix = "guild-run-"

// sweep removes the groups that a process left because it was killed. Their runs ended with it.
func sweep(base string) {
	left, _ := filepath.Glob(filepath.Join(base, groupPrefix+"*"))
	for _, dir := range left {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), groupPrefix), "-")
		if _, err := os.Stat("/proc/" + pid); errors.Is(err, os.ErrNotExist) {
			unix.Rmdir(dir) // fails while something runs there
		}
	}
}

func (g *Cgroup) limit(l sandbox.Limits) error {
	memory, pids := strconv.FormatInt(l.Memory, 10), strconv.Itoa(l.Pids)
	if g.v2 {
		optional(g.memory, "memory.swap.max", "0")
		optional(g.memory, "memory.oom.group", "1")
		return errors.Join(write(g.memory, "memory.max", memory), write(g.pids, "pids.max", pids))
	}
	err := errors.Join(write(g.memory, "memory.limit_in_bytes", memory), write(g.pids, "pids.max", pids))
	optional(g.memory, "memory.memsw.limit_in_bytes", memory)
	return err
}

// dirs are the group's directories, each once.
func (g *Cgroup) dirs() []string {
	all := []string{g.memory, g.pids, g.cpu}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(d string) bool { return d == "" })
}

// Add moves a process in. What it starts later is in, too.
func (g *Cgroup) Add(pid int) error {
	for _, dir := range g.dirs() {
		if err := write(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return nil
}

// CPUTime is the processor time used so far; false if this group does not count it.
func (g *Cgroup) CPUTime() (time.Duration, bool) {
	switch {
	case g.v2:
		return time.Duration(g.field(g.cpu, "cpu.stat", "usage_usec")) * time.Microsecond, true
	case g.cpu != "":
		return time.Duration(number(g.cpu, "cpuacct.usage")), true
	default:
		return 0, false
	}
}

// MemoryPeak is the most memory ever used, in bytes; 0 on kernels that do not keep it.
func (g *Cgroup) MemoryPeak() int64 {
	if g.v2 {
		return number(g.memory, "memory.peak")
	}
	return number(g.memory, "memory.max_usage_in_bytes")
}

// Exceeded names the limit that the group has run into.
func (g *Cgroup) Exceeded() string {
	ooms := "memory.oom_control"
	if g.v2 {
		ooms = "memory.events"
	}
	switch {
	case g.field(g.memory, ooms, "oom_kill") > 0:
		return sandbox.KilledMemory
	case g.field(g.pids, "pids.events", "max") > 0:
		return sandbox.KilledPids
	default:
		return ""
	}
}

// Remove takes the directories away. The kernel may still be busy with the last process for a moment.
func (g *Cgroup) Remove() error {
	var errs []error
	for _, dir := range g.dirs() {
		err := unix.Rmdir(dir)
		for deadline := time.After(2 * time.Second); err == unix.EBUSY; err = unix.Rmdir(dir) {
			select {
			case <-deadline:
				errs = append(errs, fmt.Errorf("remove %s: %w", dir, err))
			case <-time.After(time.Millisecond):
				continue
			}
			break
		}
	}
	return errors.Join(errs...)
}

// field reads one "name value" line of a group's file.
func (g *Cgroup) field(dir, file, name string) int64 {
	b, _ := os.ReadFile(filepath.Join(dir, file))
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if value, found := strings.CutPrefix(s.Text(), name+" "); found {
			n, _ := strconv.ParseInt(value, 10, 64)
			return n
		}
	}
	return 0
}

func number(dir, file string) int64 {
	b, _ := os.ReadFile(filepath.Join(dir, file))
	n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n
}

func write(dir, file, value string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(value), 0)
}

// optional writes where some kernels have no such file.
func optional(dir, file, value string) { _ = write(dir, file, value) }
