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
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"guild/internal/sandbox"
)

// cpuPeriod is the time in which a run may use as much processor time as it has processors, in microseconds.
const cpuPeriod = 100_000

// Cgroup is the control group of one run, of version 1 (a directory for each controller) or 2 (one directory).
type Cgroup struct {
	v2                         bool
	memory, pids, cpuacct, cpu string   // directories; the last two may be empty in version 1
	dir                        *os.File // of version 2

	before atomic.Pointer[string] // what was exceeded before Kill, which makes that unreadable
}

// NewCgroup makes a control group below the calling process's own, or says why it cannot. Where version 2 demands
// it, and the group was delegated, it moves this process into a group within its own first.
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

// Version is 1 or 2.
func (g *Cgroup) Version() int {
	if g.v2 {
		return 2
	}
	return 1
}

// FD is the directory for syscall.SysProcAttr.CgroupFD, which starts a process inside. It is nil in version 1; the
// group closes it.
func (g *Cgroup) FD() *os.File { return g.dir }

// Tasks opens the files through which a thread can move itself in: it writes "0" to each, and what it starts
// later is in, too. That takes half a millisecond, where Add waits 10 for the kernel to have no process between
// two states. Only in version 1; in version 2, which has FD, there are none. The caller closes them.
func (g *Cgroup) Tasks() ([]*os.File, error) {
	if g.v2 {
		return nil, nil
	}
	var files []*os.File
	for _, dir := range g.dirs() {
		f, err := os.OpenFile(filepath.Join(dir, "tasks"), os.O_WRONLY, 0)
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

func (g *Cgroup) limit(l sandbox.Limits) error {
	memory, pids := strconv.FormatInt(l.Memory, 10), strconv.Itoa(l.Pids)
	if g.v2 {
		optional(g.memory, "memory.swap.max", "0")
		optional(g.memory, "memory.oom.group", "1")
		if l.CPUs > 0 {
			optional(g.cpu, "cpu.max", fmt.Sprintf("%d %d", l.CPUs*cpuPeriod, cpuPeriod))
		}
		return errors.Join(write(g.memory, "memory.max", memory), write(g.pids, "pids.max", pids))
	}
	err := errors.Join(write(g.memory, "memory.limit_in_bytes", memory), write(g.pids, "pids.max", pids))
	optional(g.memory, "memory.memsw.limit_in_bytes", memory) // of memory and swap together
	if g.cpu != "" && l.CPUs > 0 {
		optional(g.cpu, "cpu.cfs_period_us", strconv.Itoa(cpuPeriod))
		optional(g.cpu, "cpu.cfs_quota_us", strconv.Itoa(l.CPUs*cpuPeriod))
	}
	return err
}

// dirs are the group's directories, each once.
func (g *Cgroup) dirs() []string {
	all := []string{g.memory, g.pids, g.cpuacct, g.cpu}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(d string) bool { return d == "" })
}

// Add moves a process in. What it starts later is in, too. The kernel makes each write wait; those of one moment
// wait together where several runs start at once.
func (g *Cgroup) Add(pid int) error {
	dirs := g.dirs()
	errs := make([]error, len(dirs))
	var all sync.WaitGroup
	for i, dir := range dirs {
		all.Go(func() {
			err := write(dir, "cgroup.procs", strconv.Itoa(pid))
			if dir != g.cpu || dir == g.cpuacct || g.v2 { // a real-time process may not enter a group of shares
				errs[i] = err
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// CPUTime is the processor time used so far; false if this group does not count it.
func (g *Cgroup) CPUTime() (time.Duration, bool) {
	switch {
	case g.v2:
		return time.Duration(g.field(g.cpu, "cpu.stat", "usage_usec")) * time.Microsecond, true
	case g.cpuacct != "":
		return time.Duration(number(g.cpuacct, "cpuacct.usage")), true
	default:
		return 0, false
	}
}

// MemoryPeak is the most memory ever used, in bytes; 0 on kernels that do not keep it.
func (g *Cgroup) MemoryPeak() int64 {
	if g.v2 {
		return number(g.memory, "memory.peak") // since Linux 5.19
	}
	return number(g.memory, "memory.max_usage_in_bytes")
}

// Memory is what is used now, in bytes.
func (g *Cgroup) Memory() int64 {
	if g.v2 {
		return number(g.memory, "memory.current")
	}
	return number(g.memory, "memory.usage_in_bytes")
}

// Pids is how many processes and threads there were at most, where the kernel keeps that (version 2 since Linux
// 6.5), and how many there are now where it does not.
func (g *Cgroup) Pids() int64 {
	return max(number(g.pids, "pids.peak"), number(g.pids, "pids.current"))
}

// Exceeded names the limit that the group has run into.
func (g *Cgroup) Exceeded() string {
	if before := g.before.Load(); before != nil {
		return *before
	}
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

// Kill ends every process of the group. It needs two seconds at most.
func (g *Cgroup) Kill() {
	before := g.Exceeded()
	g.before.CompareAndSwap(nil, &before)
	if g.v2 && write(g.memory, "cgroup.kill", "1") == nil { // since Linux 5.14
		return
	}
	optional(g.pids, "pids.max", "0") // nobody is born meanwhile
	for range 2000 {
		b, _ := os.ReadFile(filepath.Join(g.pids, "cgroup.procs"))
		pids := strings.Fields(string(b))
		if len(pids) == 0 {
			return
		}
		for _, s := range pids {
			if pid, err := strconv.Atoi(s); err == nil && pid > 1 {
				unix.Kill(pid, unix.SIGKILL)
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// Remove takes the directories away. The kernel may still be busy with the last process for a moment.
func (g *Cgroup) Remove() error {
	if g.dir != nil {
		g.dir.Close()
	}
	var errs []error
	for _, dir := range g.dirs() {
		err := unix.Rmdir(dir)
		for deadline := time.After(10 * time.Second); err == unix.EBUSY; err = unix.Rmdir(dir) {
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
