// Package confine is what the Linux kernel can be told to hold a process back with, and to report of it: system
// call filters and their supervisor, control groups, resource limits, network counters, and a watch over a run's
// limits from outside. It owns no sandbox; the runners are made of it.
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
	"guild/internal/sandbox"
)

// How often the limits that the kernel does not enforce are looked at. Where processes are counted by looking, it is
// more often while the run is young, for most are short, and while there are many, for they may be gone at once.
const (
	firstLook = 10 * time.Millisecond
	lookEvery = 50 * time.Millisecond
	lookOften = 20 * time.Millisecond
	young     = 300 * time.Millisecond
)

// Watch keeps one run to its limits from outside. Its fields are set once the run's first process is known.
type Watch struct {
	First   int             // process id, as seen from here, of the process by whose end all of the run ends
	Pidfd   int             // the same, for sure
	Group   *Cgroup         // nil where none can be made: memory and processes are polled then
	Limits  sandbox.Limits  // complete
	Flood   *Flood          // what the run writes
	Scratch string          // where in the run its bounded file system is mounted; empty if there is none
	Breach  <-chan struct{} // closed when a breach is to end the run; nil if nothing tells

	// For a run without namespaces of its own; nil otherwise.
	Members func() []int                    // its processes, where they need not descend from First
	Used    func() (bytes int64, full bool) // what it has written, where Scratch is not a file system of its own
	End     func()                          // kills all of its processes

	started time.Time
	wall    time.Duration
	peak    int64 // bytes of memory, seen by polling
	disk    int64 // bytes written, seen by polling
	pids    int64 // processes and threads at most
	threads int   // at the last look; 0 where a control group counts
	cpu     time.Duration
}

// Kill ends the first process, and with it, by the rules of a process namespace, all others.
func (w *Watch) Kill() {
	if w.End != nil {
		w.End()
	}
	unix.PidfdSendSignal(w.Pidfd, unix.SIGKILL, nil, 0) // it may have ended by itself
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

// Wait waits for the end, which it brings about when a limit is passed, a breach says so, or ctx ends. It returns
// the limit, if one was passed; the error is ctx's cause, or about waiting.
func (w *Watch) Wait(ctx context.Context, ended <-chan error) (killed string, err error) {
	w.started = time.Now()
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
			w.wall = time.Since(w.started)
			return killed, errors.Join(err, waitError(end))
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

// nextLook is how long after a look the next one is.
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

// waitError leaves out what is about the command and not about the sandbox.
func waitError(err error) error {
	if _, exited := errors.AsType[*exec.ExitError](err); exited || errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}

// look names the limit that the run is over, if any.
func (w *Watch) look(s *scratch) string {
	used, full := s.look()
	if w.Used != nil {
		used, full = w.Used()
	}
	w.disk = max(w.disk, used)
	var over string
	if w.Group != nil {
		over = w.lookAtGroup()
	} else {
		over = w.lookAtFamily(used)
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

// lookAtGroup asks the kernel, which keeps count.
func (w *Watch) lookAtGroup() string {
	w.pids, w.peak = max(w.pids, w.Group.Pids()), max(w.peak, w.Group.Memory())
	t, counted := w.Group.CPUTime()
	if !counted {
		t = w.family().cpu
	}
	w.cpu = max(w.cpu, t)
	return w.Group.Exceeded()
}

func (w *Watch) family() family {
	if w.Members == nil {
		return familyOf(w.First)
	}
	return familyOfAll(w.Members())
}

// lookAtFamily counts what the kernel does not.
func (w *Watch) lookAtFamily(used int64) string {
	l, now := w.Limits, w.family()
	w.peak, w.cpu = max(w.peak, now.memory), max(w.cpu, now.cpu)
	w.threads, w.pids = now.threads, max(w.pids, int64(now.threads))
	switch {
	case now.threads >= l.Pids:
		return sandbox.KilledPids
	case now.memory+used >= l.Memory && now.proportional()+used >= l.Memory:
		return sandbox.KilledMemory
	default:
		return ""
	}
}

// Exceeded names, after the end, a limit that was reached before the polling could end the run for it.
func (w *Watch) Exceeded() string {
	if limit := w.groupExceeded(); limit != "" {
		return limit
	}
	if w.Group == nil && w.pids >= int64(w.Limits.Pids) {
		return sandbox.KilledPids
	}
	return ""
}

// groupExceeded asks the control group, which keeps count.
func (w *Watch) groupExceeded() string {
	if w.Group == nil {
		return ""
	}
	if limit := w.Group.Exceeded(); limit != "" {
		return limit
	}
	// A resource limit ends a process a little above the limit, and nobody tells that it did.
	if used, counted := w.Group.CPUTime(); counted && used >= w.Limits.CPU {
		return sandbox.KilledCPU
	}
	return ""
}

// Filled reports whether a bounded file system of which so many bytes are in use has no room left: a page or two may
// stay free, as where the limit is not a number of whole pages.
func Filled(used int64, l sandbox.Limits) bool {
	return used > 0 && used >= l.Disk-2*int64(unix.Getpagesize())
}

// Usage is what the run used, after the end and before the control group is removed.
func (w *Watch) Usage() guild.Usage {
	u := guild.Usage{
		WallMs: w.wall.Milliseconds(), CPUMs: w.cpu.Milliseconds(), MemoryPeak: w.peak,
		DiskPeak: w.disk, PidsPeak: w.pids, Output: w.Flood.Written(),
	}
	if w.Group == nil {
		return u
	}
	if t, counted := w.Group.CPUTime(); counted {
		u.CPUMs = t.Milliseconds()
	}
	u.MemoryPeak = max(u.MemoryPeak, w.Group.MemoryPeak())
	u.PidsPeak = max(u.PidsPeak, w.Group.Pids())
	return u
}

// Warnings are the soft limits that the run passed.
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

// scratch looks at the run's bounded file system from outside.
type scratch struct {
	first int
	at    string
	fd    int // 0 until it is mounted
}

// look is how many bytes are written, and whether nothing more can be.
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
	if st.Type != unix.TMPFS_MAGIC { // not there yet: this is the host's
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

// Counters are those of a network namespace, held open so that they can be read after its last process has gone.
type Counters []*os.File

// OpenCounters holds the counters of a process's network namespace.
func OpenCounters(pid int) Counters {
	var c Counters
	for _, name := range []string{"snmp", "snmp6"} {
		if f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, name)); err == nil {
			c = append(c, f)
		}
	}
	return c
}

// Close lets go of them.
func (c Counters) Close() {
	for _, f := range c {
		f.Close()
	}
}

// Breaches are the attempts to reach out, which had nowhere to go.
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

// noRoutes reads the counter of packets and connections that had nowhere to go from /proc/net/snmp, where a
// line of names precedes a line of numbers, or /proc/net/snmp6, where each line has a name and a number.
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

// Forbidden is the breach of a command that a filter without a supervisor has ended with SIGSYS.
func Forbidden() guild.Breach {
	return guild.Breach{Syscall: "seccomp", Detail: "killed at a forbidden system call"}
}
