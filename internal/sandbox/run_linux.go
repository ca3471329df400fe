package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"guild"
)

// run is one run of bwrap.
type run struct {
	spec    Spec
	streams IO
	flood   *flood

	cmd    *exec.Cmd
	fds    descriptors
	stderr bytes.Buffer // the beginning of it, in case it is bwrap that complains
	status *os.File     // bwrap's JSON lines
	gate   *os.File     // writing to it starts the command
	copies *os.File     // the files to unpack; nil if there are none
	pump   sync.WaitGroup
	copied error

	first    int // process id of the sandbox's first process
	pidfd    int // the same, for sure
	group    *cgroup
	counters []*os.File    // of the network namespace
	peak     int64         // most bytes of memory seen by polling
	cpu      time.Duration // processor time seen by polling
	started  time.Time
}

// prepare makes the command line and everything that is handed to the child.
func (r *run) prepare(bwrap string) error {
	r.pidfd = -1
	a := &arguments{fds: &r.fds}
	results, _, err := r.fds.out() // the first, so ResultsFD
	if err != nil {
		return err
	}
	if len(r.spec.Copies) > 0 {
		if r.copies, _, err = r.fds.in(); err != nil { // the second, so copiesFD
			return err
		}
	}
	var status, gate string
	if r.status, status, err = r.fds.out(); err != nil {
		return err
	}
	if r.gate, gate, err = r.fds.in(); err != nil {
		return err
	}
	a.add("--json-status-fd", status, "--block-fd", gate)
	if f := newFilter(); f != nil {
		fd, err := r.fds.memory("seccomp", f.bytes())
		if err != nil {
			return err
		}
		a.add("--seccomp", fd)
	}
	a.world(r.spec)
	a.command(r.spec)
	if a.err != nil {
		return a.err
	}
	return r.command(bwrap, a.list, results)
}

// command hands the command line over in memory, where other users' ps does not see it.
func (r *run) command(bwrap string, list []string, results *os.File) error {
	split := len(list)
	for i, s := range list {
		if s == "--" {
			split = i
			break
		}
	}
	args, err := r.fds.memory("args", []byte(strings.Join(list[:split], "\x00")+"\x00"))
	if err != nil {
		return err
	}
	kept := r.spec.Limits.Output
	r.cmd = exec.Command(bwrap, append([]string{"--args", args}, list[split:]...)...)
	r.cmd.Env = []string{}
	r.cmd.Stdin = r.streams.Stdin
	r.cmd.Stdout = &keep{r.streams.Stdout, kept, r.flood}
	r.cmd.Stderr = &keep{io.MultiWriter(orDiscard(r.streams.Stderr), &start{&r.stderr}), kept, r.flood}
	r.cmd.ExtraFiles = r.fds.child
	r.cmd.WaitDelay = time.Second // for a Stdin that never ends
	r.pump.Go(func() {
		io.Copy(&keep{r.streams.Results, kept, r.flood}, results) // ends when the last writer does
	})
	return nil
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// start keeps the first bytes of a stream.
type start struct{ *bytes.Buffer }

func (s *start) Write(p []byte) (int, error) {
	s.Buffer.Write(p[:min(len(p), max(0, 1000-s.Len()))])
	return len(p), nil
}

// run starts the command, watches it to its end and says how it ended.
func (r *run) run(ctx context.Context) (Result, error) {
	// The kernel kills bwrap when the thread that started it ends (--die-with-parent), so keep this one.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r.started = time.Now()
	// What this process has inherited itself must not be handed on. Go's own files never are.
	if err := unix.CloseRange(ResultsFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return Result{}, fmt.Errorf("close_range: %w", err)
	}
	if err := r.cmd.Start(); err != nil {
		r.fds.started()
		return Result{}, fmt.Errorf("bubblewrap: %w", err)
	}
	r.fds.started()
	status := json.NewDecoder(r.status)
	if err := r.open(status); err != nil {
		r.kill()
		r.cmd.Wait()
		return Result{}, fmt.Errorf("bubblewrap: %w: %s", err, strings.TrimSpace(r.stderr.String()))
	}
	ended := make(chan error, 1)
	go func() { ended <- r.cmd.Wait() }()
	killed, err := r.watch(ctx, ended)
	r.awaitAll()
	if r.copies != nil {
		r.copies.Close()
	}
	r.pump.Wait()
	if err != nil {
		return Result{}, err
	}
	return r.result(killed, status)
}

// open waits for the sandbox's first process, puts the limits on it and lets it start the command.
func (r *run) open(status *json.Decoder) error {
	var s struct {
		Pid int `json:"child-pid"`
	}
	if err := status.Decode(&s); err != nil || s.Pid == 0 {
		return errors.New("no sandbox")
	}
	r.first = s.Pid
	var err error
	if r.pidfd, err = unix.PidfdOpen(r.first, 0); err != nil {
		return fmt.Errorf("pidfd: %w", err)
	}
	if err := r.limit(); err != nil {
		return err
	}
	if !r.spec.Network {
		r.holdCounters()
	}
	if len(r.spec.Copies) > 0 {
		r.pump.Go(func() {
			r.copied = writeCopies(r.copies, r.spec.Copies)
			r.copies.Close()
		})
	}
	_, err = r.gate.Write([]byte{1})
	return err
}

// limit puts the first process in a control group and sets its resource limits; all others inherit both.
func (r *run) limit() error {
	l := r.spec.Limits
	if g, err := newCgroup(l); err == nil {
		r.group = g
		if err := g.add(r.first); err != nil {
			r.group = nil
			if err := g.remove(); err != nil {
				return err
			}
		}
	}
	limits := map[int]uint64{
		unix.RLIMIT_CPU:    uint64(l.CPU/time.Second) + 1,
		unix.RLIMIT_FSIZE:  uint64(l.Disk),
		unix.RLIMIT_NOFILE: 1024,
		unix.RLIMIT_CORE:   0,
	}
	if os.Geteuid() != 0 && limitsByNamespace() {
		limits[unix.RLIMIT_NPROC] = uint64(l.Pids)
	}
	for resource, n := range limits {
		if err := unix.Prlimit(r.first, resource, &unix.Rlimit{Cur: n, Max: n}, nil); err != nil {
			return fmt.Errorf("resource limit %d: %w", resource, err)
		}
	}
	return nil
}

// limitsByNamespace reports whether RLIMIT_NPROC counts the processes of a user namespace, as since Linux 5.14.
// Before, it counts all that the user has, and a busy desktop would be over the limit from the start.
func limitsByNamespace() bool {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return false
	}
	major, rest, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), ".")
	minor, _, _ := strings.Cut(rest, ".")
	x, _ := strconv.Atoi(major)
	y, _ := strconv.Atoi(minor)
	return x > 5 || x == 5 && y >= 14
}

// holdCounters opens the network namespace's counters. An open file keeps them readable after the namespace's
// last process has gone.
func (r *run) holdCounters() {
	for _, name := range []string{"snmp", "snmp6"} {
		if f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", r.first, name)); err == nil {
			r.counters = append(r.counters, f)
		}
	}
}

// kill ends the first process, and with it, by the rules of a process namespace, all others.
func (r *run) kill() {
	if r.pidfd >= 0 {
		unix.PidfdSendSignal(r.pidfd, unix.SIGKILL, nil, 0) // it may have ended by itself
	} else {
		r.cmd.Process.Kill()
	}
}

// awaitAll waits until the sandbox's first process has ended, and with it all others: bwrap itself is gone a
// moment before.
func (r *run) awaitAll() {
	r.kill()
	poll := []unix.PollFd{{Fd: int32(r.pidfd), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(poll, -1); err != unix.EINTR {
			return
		}
	}
}

// result reads what is left when everything has ended.
func (r *run) result(killed string, status *json.Decoder) (Result, error) {
	var s struct {
		Exit *int `json:"exit-code"`
	}
	for s.Exit == nil && status.Decode(&s) == nil {
	}
	if r.copied != nil && !errors.Is(r.copied, syscall.EPIPE) && !errors.Is(r.copied, os.ErrClosed) {
		return Result{}, r.copied
	}
	if s.Exit == nil && killed == "" && !r.exceeded(&killed) {
		complaint := strings.TrimSpace(r.stderr.String())
		if !strings.Contains(complaint, "bwrap: execvp ") {
			return Result{}, fmt.Errorf("bubblewrap: %s", complaint)
		}
		notFound := 127 // as a shell says it
		s.Exit = &notFound
	}
	res := Result{Killed: killed, Cut: r.flood.cut.Load(), Usage: r.usage()}
	switch {
	case killed != "":
		res.Exit, res.Signal = 128+int(unix.SIGKILL), unix.SignalName(unix.SIGKILL)
	case *s.Exit > 128:
		res.Exit, res.Signal = *s.Exit, unix.SignalName(syscall.Signal(*s.Exit-128))
	default:
		res.Exit = *s.Exit
	}
	r.exceeded(&res.Killed)
	res.Breaches = r.breaches(res.Signal)
	return res, nil
}

// exceeded asks the control group for a limit that the polling was too slow to see.
func (r *run) exceeded(killed *string) bool {
	if *killed == "" && r.group != nil {
		*killed = r.group.exceeded()
	}
	return *killed != ""
}

func (r *run) usage() guild.Usage {
	u := guild.Usage{WallMs: time.Since(r.started).Milliseconds(), MemoryPeak: r.peak}
	if rusage, ok := r.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.MemoryPeak = max(u.MemoryPeak, rusage.Maxrss*1024) // of bwrap's first steps, at least
	}
	u.CPUMs = r.cpu.Milliseconds()
	if r.group != nil {
		if t, counted := r.group.cpuTime(); counted {
			u.CPUMs = t.Milliseconds()
		}
		if peak := r.group.memoryPeak(); peak > 0 {
			u.MemoryPeak = peak
		}
	}
	return u
}

// breaches are the attempts that left a trace.
func (r *run) breaches(signal string) []guild.Breach {
	var found []guild.Breach
	if signal == "SIGSYS" {
		found = append(found, guild.Breach{Syscall: "seccomp", Detail: "killed at a forbidden system call"})
	}
	var noRoute int64
	for _, f := range r.counters {
		b, _ := io.ReadAll(f)
		noRoute += noRoutes(string(b))
	}
	if noRoute > 0 {
		detail := fmt.Sprintf("%d attempts to reach an address outside", noRoute)
		found = append(found, guild.Breach{Syscall: "connect", Detail: detail})
	}
	return found
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

// close lets go of everything. The control group is removed last: it must be empty.
func (r *run) close() {
	for _, f := range r.counters {
		f.Close()
	}
	if r.pidfd >= 0 {
		unix.Close(r.pidfd)
	}
	r.fds.close()
	r.pump.Wait()
	if r.group != nil {
		r.group.remove()
	}
}
