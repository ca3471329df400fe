package confine

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox"
)

// cpuPeriod is the period of the limit on processors, in microseconds.
const cpuPeriod = 100_000

// Cgroup is the control group of one run. In version 1 it has a directory for each controller, in version 2 one
// directory.
type Cgroup struct {
	v2                         bool
	memory, pids, cpuacct, cpu string   // directories; the last two may be empty in version 1
	dir                        *os.File // nil in version 1

	before atomic.Pointer[string] // the exceeded limit before Kill, because killing changes the counters
}

// NewCgroup creates a control group below this process's own. In version 2, a group whose children have limits may
// contain no processes. So if this process's group was delegated to it, NewCgroup first moves the process into a child
// group.
func NewCgroup(l sandbox.Limits) (*Cgroup, error) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	h := parseHierarchies(string(groups), string(mounts))
	if l.CPUs == 0 || l.CPUs >= runtime.NumCPU() { // no limit, and one directory less to make in version 1
		l.CPUs = 0
		delete(h.mounts, "cpu")
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

// Version returns 1 or 2.
func (g *Cgroup) Version() int {
	if g.v2 {
		return 2
	}
	return 1
}

// FD returns the directory for syscall.SysProcAttr.CgroupFD, to start a process in the group. It is nil in version 1.
// Remove closes it.
func (g *Cgroup) FD() *os.File { return g.dir }

// Tasks opens the files with which a thread moves itself into a group of version 1: it writes "0" to each. Processes
// that it starts later are in the group too. That takes half a millisecond, while Add takes ten. In version 2 it
// returns none, because FD is faster. The caller closes the files.
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

// limit writes the limits to the group. Only memory and processes are required; kernels without the other files are
// common.
func (g *Cgroup) limit(l sandbox.Limits) error {
	memory, pids := strconv.FormatInt(l.Memory, 10), strconv.Itoa(l.Pids)
	if g.v2 {
		// Swapping would hide a run's memory use from the limit. memory.oom.group kills the whole run and not one of its
		// processes, which the others might not notice.
		optional(g.memory, "memory.swap.max", "0")
		optional(g.memory, "memory.oom.group", "1")
		if l.CPUs > 0 {
			optional(g.cpu, "cpu.max", fmt.Sprintf("%d %d", l.CPUs*cpuPeriod, cpuPeriod))
		}
		return errors.Join(write(g.memory, "memory.max", memory), write(g.pids, "pids.max", pids))
	}
	err := errors.Join(write(g.memory, "memory.limit_in_bytes", memory), write(g.pids, "pids.max", pids))
	optional(g.memory, "memory.memsw.limit_in_bytes", memory) // memory and swap together
	if g.cpu != "" && l.CPUs > 0 {
		optional(g.cpu, "cpu.cfs_period_us", strconv.Itoa(cpuPeriod))
		optional(g.cpu, "cpu.cfs_quota_us", strconv.Itoa(l.CPUs*cpuPeriod))
	}
	return err
}

// dirs returns the group's directories without duplicates.
func (g *Cgroup) dirs() []string {
	all := []string{g.memory, g.pids, g.cpuacct, g.cpu}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(d string) bool { return d == "" })
}

// Add moves a process into the group. Processes that it starts later are in the group too. The kernel delays each
// write, so they run concurrently.
func (g *Cgroup) Add(pid int) error {
	dirs := g.dirs()
	errs := make([]error, len(dirs))
	var all sync.WaitGroup
	for i, dir := range dirs {
		all.Go(func() {
			err := write(dir, "cgroup.procs", strconv.Itoa(pid))
			if dir != g.cpu || dir == g.cpuacct || g.v2 { // the kernel does not allow real-time processes in a cpu group
				errs[i] = err
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// CPUTime returns the processor time used so far; false if this group does not count it.
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

// MemoryPeak returns the highest memory use so far, in bytes; 0 on kernels that do not record it.
func (g *Cgroup) MemoryPeak() int64 {
	if g.v2 {
		return number(g.memory, "memory.peak") // since Linux 5.19
	}
	return number(g.memory, "memory.max_usage_in_bytes")
}

// Memory returns the current memory use in bytes.
func (g *Cgroup) Memory() int64 {
	if g.v2 {
		return number(g.memory, "memory.current")
	}
	return number(g.memory, "memory.usage_in_bytes")
}

// Pids returns the highest number of processes and threads so far, if the kernel records it (version 2 since Linux
// 6.5); otherwise the current number.
func (g *Cgroup) Pids() int64 {
	return max(number(g.pids, "pids.peak"), number(g.pids, "pids.current"))
}

// Exceeded returns the limit that the group has reached, one of the Killed constants; empty if none.
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

// Kill kills every process of the group. It takes at most two seconds.
func (g *Cgroup) Kill() {
	before := g.Exceeded()
	g.before.CompareAndSwap(nil, &before)
	if g.v2 && write(g.memory, "cgroup.kill", "1") == nil { // since Linux 5.14
		return
	}
	optional(g.pids, "pids.max", "0") // no new processes
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

// Remove removes the directories. It waits up to ten seconds until the kernel has released the last process.
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

// field returns the value of a line "name value" in a group's file; 0 if there is no such line.
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

// number returns the number in a group's file; 0 if the file does not exist.
func number(dir, file string) int64 {
	b, _ := os.ReadFile(filepath.Join(dir, file))
	n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n
}

func write(dir, file, value string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(value), 0)
}

// optional writes to a file that not every kernel has.
func optional(dir, file, value string) { _ = write(dir, file, value) }
