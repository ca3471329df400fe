// Package confine provides the means of the Linux kernel to confine and observe processes: system call filters with a
// supervisor, control groups, resource limits, network counters, and a watch that enforces a run's limits from outside.
// The runners of the other packages use it. It also detects the settings that prevent user namespaces.
package confine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"guild"
	"guild/internal/judging/sandbox"
)

// Intervals at which Watch polls the limits that the kernel does not enforce. If it also counts processes, it polls
// more often at the start of a run, because most runs are short, and while there are many processes, because they may
// soon end.
const (
	firstLook = 10 * time.Millisecond
	lookEvery = 50 * time.Millisecond
	lookOften = 20 * time.Millisecond
	young     = 300 * time.Millisecond
)

// Watch enforces the limits of one run from outside. Its fields are set when the run's first process is known.
type Watch struct {
	First   int             // process id of the first process in our namespace; the run ends when it ends
	Pidfd   int             // its pidfd; -1 if there is none
	Group   *Cgroup         // nil if none could be created; memory and processes are polled then
	Limits  sandbox.Limits  // complete
	Flood   *Flood          // counts the output
	Scratch string          // mount point of the bounded file system in the run; empty if there is none
	Breach  <-chan struct{} // closed when a breach must end the run; nil without a supervisor

	// For a run without namespaces of its own; nil otherwise.
	Members func() []int                    // its processes, which need not descend from First
	Used    func() (bytes int64, full bool) // bytes that it has written, because it has no file system of its own
	End     func()                          // kills all of its processes

	started time.Time
	wall    time.Duration
	short   time.Duration // in which the machine had too few processors, since it runs and then during the run
	peak    int64         // highest memory use at any poll, in bytes
	disk    int64         // highest disk use at any poll, in bytes
	pids    int64         // highest number of processes and threads
	threads int           // at the last poll; 0 if a control group counts them
	cpu     time.Duration
}

// Kill kills the first process. The kernel then kills all others of its process namespace.
func (w *Watch) Kill() {
	if w.End != nil {
		w.End()
	}
	unix.PidfdSendSignal(w.Pidfd, unix.SIGKILL, nil, 0) // fails if it has ended already
}

// Gone waits until the first process has ended.
func (w *Watch) Gone() {
	poll := []unix.PollFd{{Fd: int32(w.Pidfd), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(poll, -1); err != unix.EINTR {
			return
		}
	}
}

// Begin measures the run while its first process waits to start the command. A short run may end before Wait polls.
func (w *Watch) Begin() { w.look(&scratch{}) }

// Wait waits for the end of the run. It kills the run when it exceeds a limit, when Breach is closed, or when ctx ends.
// It returns the exceeded limit, if any. The error is ctx's cause or that of ended, unless the latter is only the exit
// code.
//
// After a kill it goes on waiting for ended, with all other channels off: the caller may release the run's resources
// only when its processes are gone.
func (w *Watch) Wait(ctx context.Context, ended <-chan error) (killed string, err error) {
	w.started, w.short = time.Now(), shortage()
	wall := time.NewTimer(w.Limits.Wall)
	defer wall.Stop()
	look := time.NewTimer(firstLook)
	defer look.Stop()
	s := &scratch{first: w.First, at: w.Scratch}
	defer s.close()
	over, breach, cancelled := w.Flood.over, w.Breach, ctx.Done()
	ending := false
	for {
		if !ending && (killed != "" || err != nil) {
			ending = true
			w.Kill()
			over, breach, cancelled, wall.C, look.C = nil, nil, nil, nil, nil
		}
		select {
		case end := <-ended:
			w.wall, w.short = time.Since(w.started), shortage()-w.short
			if _, exited := errors.AsType[*exec.ExitError](end); exited || errors.Is(end, exec.ErrWaitDelay) {
				end = nil // it concerns the command, not the sandbox
			}
			return killed, errors.Join(err, end)
		case <-cancelled:
			err = context.Cause(ctx)
		case <-breach:
			w.Kill()
			over, breach, wall.C, look.C = nil, nil, nil, nil
		case <-wall.C:
			killed = sandbox.KilledWall
		case <-over:
			killed = sandbox.KilledOutput
		case <-look.C:
			killed = w.look(s)
			look.Reset(w.nextLook())
		}
	}
}

// nextLook returns the time until the next poll.
func (w *Watch) nextLook() time.Duration {
	switch {
	case w.Group != nil:
		return lookEvery
	case time.Since(w.started) < young:
		return firstLook
	case w.threads > w.Limits.Pids/2:
		return lookOften
	default:
		return lookEvery
	}
}

// look polls the run and returns the limit that it exceeds, if any.
func (w *Watch) look(s *scratch) string {
	used, full := s.look()
	if w.Used != nil {
		used, full = w.Used()
	}
	w.disk = max(w.disk, used)
	var over string
	if w.Group != nil {
		w.pids, w.peak = max(w.pids, w.Group.Pids()), max(w.peak, w.Group.Memory())
		t, counted := w.Group.CPUTime()
		if !counted {
			t = w.family().cpu
		}
		w.cpu = max(w.cpu, t)
		over = w.Group.Exceeded()
	} else {
		l, now := w.Limits, w.family()
		w.peak, w.cpu = max(w.peak, now.memory), max(w.cpu, now.cpu)
		w.threads, w.pids = now.threads, max(w.pids, int64(now.threads))
		switch {
		case now.threads >= l.Pids:
			over = sandbox.KilledPids
		case now.memory+used >= l.Memory && now.proportional()+used >= l.Memory:
			over = sandbox.KilledMemory
		}
	}
	switch {
	case over != "":
		return over
	case w.cpu >= w.Limits.CPU:
		return sandbox.KilledCPU
	case full:
		return sandbox.KilledDisk
	default:
		return ""
	}
}

// family measures the run's processes.
func (w *Watch) family() family {
	if w.Members == nil {
		return familyOf(w.First)
	}
	f := family{proc: "/proc"}
	for _, pid := range w.Members() {
		f.look(strconv.Itoa(pid))
	}
	return f
}

// Exceeded returns a limit that the run reached before a poll noticed, or "". Call it after the end of the run, with
// all that is known of what the run used.
func (w *Watch) Exceeded(u guild.Usage) string {
	if w.Group == nil && w.pids >= int64(w.Limits.Pids) {
		return sandbox.KilledPids
	}
	if w.Group != nil {
		if limit := w.Group.Exceeded(); limit != "" {
			return limit
		}
	}
	// RLIMIT_CPU kills a process above the limit, and the kernel does not report that.
	if u.CPUMs >= w.Limits.CPU.Milliseconds() {
		return sandbox.KilledCPU
	}
	return ""
}

// Filled reports whether a bounded file system is full with this many bytes in use. A page or two may stay free,
// because the limit need not be a multiple of the page size.
func Filled(used int64, l sandbox.Limits) bool {
	return used > 0 && used >= l.Disk-2*int64(unix.Getpagesize())
}

// Usage returns the resources that the run used: at least the processor time, memory and disk that its last process has measured,
// if any. Call it after the end of the run, and before its control group is removed.
func (w *Watch) Usage(least guild.Usage) guild.Usage {
	u := guild.Usage{
		WallMs: w.wall.Milliseconds(), CPUMs: w.cpu.Milliseconds(), MemoryPeak: max(w.peak, least.MemoryPeak),
		DiskPeak: max(w.disk, least.DiskPeak), PidsPeak: w.pids, Output: w.Flood.Written(),
	}
	if w.Group != nil {
		if t, counted := w.Group.CPUTime(); counted {
			u.CPUMs = t.Milliseconds()
		}
		u.MemoryPeak = max(u.MemoryPeak, w.Group.MemoryPeak())
		u.PidsPeak = max(u.PidsPeak, w.Group.Pids())
	}
	u.CPUMs = max(u.CPUMs, least.CPUMs)
	u.WaitedMs = max(0, min(w.short.Milliseconds(), u.WallMs-u.CPUMs))
	return u
}

// Warnings returns the soft limits that the run exceeded.
func (w *Watch) Warnings(u guild.Usage) []string {
	var warnings []string
	if soft := w.Limits.SoftCPU; u.CPUMs > soft.Milliseconds() {
		warnings = append(warnings, fmt.Sprintf("used %d ms of processor time, more than %v", u.CPUMs, soft))
	}
	if soft := w.Limits.SoftMemory; u.MemoryPeak > soft {
		warnings = append(warnings, fmt.Sprintf("used %d MB of memory, more than %d", u.MemoryPeak>>20, soft>>20))
	}
	return warnings
}

// scratch reads the use of the run's bounded file system from outside.
type scratch struct {
	first int
	at    string
	fd    int // 0 until it is mounted
}

// look returns the number of bytes in use, and whether the file system is full.
func (s *scratch) look() (used int64, full bool) {
	var st unix.Statfs_t
	if s.at == "" {
		return 0, false
	}
	if s.fd == 0 {
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/root%s", s.first, s.at), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return 0, false
		}
		s.fd = fd
	}
	if err := unix.Fstatfs(s.fd, &st); err != nil {
		return 0, false
	}
	if st.Type != unix.TMPFS_MAGIC { // not mounted yet, so this is the host's
		s.close()
		return 0, false
	}
	return int64(st.Blocks-st.Bfree) * int64(st.Bsize), st.Bavail == 0 || st.Ffree == 0
}

func (s *scratch) close() {
	if s.fd != 0 {
		unix.Close(s.fd)
	}
	s.fd = 0
}

// Counters holds open files with the counters of a network namespace. They can be read after its last process has
// ended.
type Counters []*os.File

// OpenCounters opens the counters of a process's network namespace.
func OpenCounters(pid int) Counters {
	var c Counters
	for _, name := range []string{"snmp", "snmp6"} {
		if f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, name)); err == nil {
			c = append(c, f)
		}
	}
	return c
}

// Close closes the files.
func (c Counters) Close() {
	for _, f := range c {
		f.Close()
	}
}

// Breaches returns a breach if the run tried to reach an outside address, for which its namespace had no route.
func (c Counters) Breaches() []guild.Breach {
	var n int64
	for _, f := range c {
		b, _ := io.ReadAll(f)
		n += noRoutes(string(b))
	}
	if n == 0 {
		return nil
	}
	detail := "to an address outside"
	if n > 1 {
		detail += fmt.Sprintf(", %d times", n)
	}
	return []guild.Breach{{Syscall: "connect", Detail: detail}}
}

// noRoutes returns the number of packets and connections without a route. file is /proc/net/snmp, which has a line of names
// before each line of numbers, or /proc/net/snmp6, which has a name and a number in each line.
func noRoutes(file string) int64 {
	var names []string
	for line := range strings.Lines(file) {
		f := strings.Fields(line)
		switch {
		case len(f) == 2 && f[0] == "Ip6OutNoRoutes":
			return atoi(f[1])
		case len(f) == 0 || f[0] != "Ip:":
		case names == nil:
			names = f
		default:
			for i, name := range names {
				if name == "OutNoRoutes" && i < len(f) {
					return atoi(f[i])
				}
			}
		}
	}
	return 0
}

func atoi(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// Forbidden returns the breach of a command that a filter without a supervisor killed with SIGSYS.
func Forbidden() guild.Breach {
	return guild.Breach{Syscall: "seccomp", Detail: "killed at a forbidden system call"}
}
