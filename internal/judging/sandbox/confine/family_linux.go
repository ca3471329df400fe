package confine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ticksPerSecond is USER_HZ, which is 100 on every Linux that Go runs on.
const ticksPerSecond = 100

// family holds the current resource use of a run's processes. They are all descendants of the first one, because a
// process namespace gives orphans to it.
type family struct {
	proc    string // the /proc that shows the processes
	pids    []string
	threads int
	cpu     time.Duration // including children that were waited for
	memory  int64         // resident bytes; shared pages count once for each process
}

// familyOf measures all processes of a run, given the first one. It reads the run's own /proc if there is one, because
// a walk over descendants misses those whose parent ends meanwhile. Processes that end meanwhile are omitted.
func familyOf(first int) family {
	f := family{proc: fmt.Sprintf("/proc/%d/root/proc", first)}
	for _, pid := range shownIn(f.proc) {
		f.look(pid)
	}
	if len(f.pids) > 0 {
		return f
	}
	f = family{proc: "/proc"}
	f.visit(strconv.Itoa(first))
	return f
}

// shownIn returns the processes in the /proc of a run. It returns none if that is our own /proc, because the run has
// not mounted one yet.
func shownIn(proc string) []string {
	d, err := os.Open(proc)
	if err != nil {
		return nil
	}
	defer d.Close()
	var theirs, ours unix.Stat_t
	var kind unix.Statfs_t
	if unix.Fstatfs(int(d.Fd()), &kind) != nil || kind.Type != unix.PROC_SUPER_MAGIC ||
		unix.Fstat(int(d.Fd()), &theirs) != nil || unix.Stat("/proc", &ours) != nil || theirs.Dev == ours.Dev {
		return nil
	}
	names, _ := d.Readdirnames(-1)
	return slices.DeleteFunc(names, func(name string) bool { return name[0] < '0' || name[0] > '9' })
}

// look adds one process, and reports whether it exists.
func (f *family) look(pid string) bool {
	b, err := os.ReadFile(f.proc + "/" + pid + "/stat")
	if err != nil {
		return false
	}
	f.pids = append(f.pids, pid)
	f.count(string(b))
	return true
}

// visit adds a process and its descendants.
func (f *family) visit(pid string) {
	if !f.look(pid) {
		return
	}
	tasks, _ := filepath.Glob("/proc/" + pid + "/task/*/children")
	for _, t := range tasks {
		children, _ := os.ReadFile(t)
		for child := range strings.FieldsSeq(string(children)) {
			f.visit(child)
		}
	}
}

// count adds the numbers of a line of /proc/PID/stat (proc(5)): times are in fields 14 to 17, threads in 20, pages in
// 24.
func (f *family) count(stat string) {
	_, after, _ := strings.Cut(stat[strings.LastIndexByte(stat, ')')+1:], " ")
	fields := strings.Fields(after) // starts at field 3
	if len(fields) < 22 {
		return
	}
	at := func(field int) int64 {
		n, _ := strconv.ParseInt(fields[field-3], 10, 64)
		return n
	}
	f.cpu += time.Duration(at(14)+at(15)+at(16)+at(17)) * time.Second / ticksPerSecond
	f.threads += int(max(at(20), 1)) // a zombie has no thread, but occupies a process id
	f.memory += at(24) * int64(unix.Getpagesize())
}

// proportional returns the memory in bytes, with each shared page counted once. It is never more than f.memory, but
// takes longer to read.
func (f family) proportional() int64 {
	var sum int64
	for _, pid := range f.pids {
		b, _ := os.ReadFile(f.proc + "/" + pid + "/smaps_rollup")
		for line := range strings.Lines(string(b)) {
			if kb, found := strings.CutPrefix(line, "Pss:"); found {
				n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(kb), " kB"), 10, 64)
				sum += n << 10
			}
		}
	}
	return sum
}
