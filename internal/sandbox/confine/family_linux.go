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

// family is what the processes of a run use now. They are all descendants of the first one, for whoever loses
// its parent in a process namespace gets that one.
type family struct {
	proc    string // where the processes are shown
	pids    []string
	threads int
	cpu     time.Duration // including children that are gone
	memory  int64         // resident bytes; shared pages count once for each process
}

// familyOf looks at the first process of a run and all others of it, through the run's own /proc if it has one: who
// looks for descendants misses those whose parent ends meanwhile. What ends meanwhile is left out.
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

// shownIn lists the processes in the /proc of a run; none if it is ours, as before the run has one.
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

// familyOfAll looks at these processes only.
func familyOfAll(pids []int) family {
	f := family{proc: "/proc"}
	for _, pid := range pids {
		f.look(strconv.Itoa(pid))
	}
	return f
}

// look counts one process, and reports whether it is there.
func (f *family) look(pid string) bool {
	b, err := os.ReadFile(f.proc + "/" + pid + "/stat")
	if err != nil {
		return false
	}
	f.pids = append(f.pids, pid)
	f.count(string(b))
	return true
}

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

// count reads the line of /proc/PID/stat (proc(5)): times are fields 14 to 17, threads 20, pages 24.
func (f *family) count(stat string) {
	_, after, _ := strings.Cut(stat[strings.LastIndexByte(stat, ')')+1:], " ")
	fields := strings.Fields(after) // the first is field 3
	if len(fields) < 22 {
		return
	}
	at := func(field int) int64 {
		n, _ := strconv.ParseInt(fields[field-3], 10, 64)
		return n
	}
	f.cpu += time.Duration(at(14)+at(15)+at(16)+at(17)) * time.Second / ticksPerSecond
	f.threads += int(max(at(20), 1)) // one that has ended and is not waited for has no thread, and still takes a place
	f.memory += at(24) * int64(unix.Getpagesize())
}

// proportional is the memory in bytes with each shared page counted once. It costs more than memory, and is
// never more.
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
