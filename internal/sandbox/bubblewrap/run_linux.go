package bubblewrap

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"guild"
	"guild/internal/sandbox"
	"guild/internal/sandbox/confine"
)

// run is one run of bwrap.
type run struct {
	spec    sandbox.Spec
	streams sandbox.IO
	flood   *confine.Flood

	cmd    *exec.Cmd
	fds    descriptors
	stderr sandbox.Head // in case it is bwrap that complains
	status *os.File     // bwrap's JSON lines
	gate   *os.File     // writing to it starts the command
	first  *firstStep   // nil if the command starts at once
	pump   sync.WaitGroup

	watch    confine.Watch
	counters confine.Counters // of the network namespace
}

// prepare makes the command line and everything that is handed to the child.
func (r *run) prepare(bwrap string) error {
	r.watch.Pidfd = -1
	r.stderr.Most = 1000
	a := &arguments{fds: &r.fds}
	results, _, err := r.fds.out() // the first, so ResultsFD
	if err != nil {
		return err
	}
	if r.streams.Channel != nil {
		r.fds.give(r.streams.Channel) // the second, so ChannelFD
	}
	if needsFirstStep(r.spec) {
		if r.first, err = newFirstStep(&r.fds); err != nil {
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
	if f := confine.Denylist(); f != nil {
		fd, err := r.fds.memory("seccomp", f)
		if err != nil {
			return err
		}
		a.add("--seccomp", fd)
	}
	a.world(r.spec)
	a.command(r.spec, r.first)
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
	r.cmd.Stdout = r.flood.Keep(r.streams.Stdout, kept)
	r.cmd.Stderr = r.flood.Keep(io.MultiWriter(orDiscard(r.streams.Stderr), &r.stderr), kept)
	r.cmd.ExtraFiles = r.fds.child
	r.cmd.WaitDelay = time.Second // for a Stdin that never ends
	r.pump.Go(func() {
		io.Copy(r.flood.Keep(r.streams.Results, kept), results) // ends when the last writer does
	})
	return nil
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// run starts the command, watches it to its end and says how it ended.
func (r *run) run(ctx context.Context) (sandbox.Result, error) {
	// The kernel kills bwrap when the thread that started it ends (--die-with-parent), so keep this one.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// What this process has inherited itself must not be handed on. Go's own files never are.
	if err := unix.CloseRange(sandbox.ResultsFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return sandbox.Result{}, fmt.Errorf("close_range: %w", err)
	}
	if err := r.cmd.Start(); err != nil {
		r.fds.started()
		return sandbox.Result{}, fmt.Errorf("bubblewrap: %w", err)
	}
	r.fds.started()
	status := json.NewDecoder(r.status)
	if err := r.open(status); err != nil {
		r.kill()
		r.cmd.Wait()
		return sandbox.Result{}, fmt.Errorf("bubblewrap: %w: %s", err, strings.TrimSpace(r.stderr.String()))
	}
	ended := make(chan error, 1)
	go func() { ended <- r.cmd.Wait() }()
	killed, err := r.watch.Wait(ctx, ended)
	r.awaitAll()
	r.pump.Wait()
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("bubblewrap: %w", err)
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
	fd, err := unix.PidfdOpen(s.Pid, 0)
	if err != nil {
		return fmt.Errorf("pidfd: %w", err)
	}
	r.watch = confine.Watch{First: s.Pid, Pidfd: fd, Limits: r.spec.Limits, Flood: r.flood, Scratch: sandbox.Box}
	if err := r.limit(); err != nil {
		return err
	}
	if !r.spec.Network {
		r.counters = confine.OpenCounters(s.Pid)
	}
	if r.first != nil {
		r.pump.Go(func() { r.first.run(s.Pid, r.spec.Writable()) })
	}
	_, err = r.gate.Write([]byte{1})
	return err
}

// limit puts the first process in a control group and sets its resource limits; all others inherit both.
func (r *run) limit() error {
	var err error
	if r.watch.Group, err = confine.Enclose(r.watch.First, r.spec.Limits); err != nil {
		return err
	}
	return confine.SetRlimits(r.watch.First, r.spec.Limits)
}

// kill ends the first process, and with it, by the rules of a process namespace, all others.
func (r *run) kill() {
	if r.watch.Pidfd >= 0 {
		r.watch.Kill()
	} else {
		r.cmd.Process.Kill()
	}
}

// awaitAll waits until the sandbox's first process has ended, and with it all others: bwrap itself is gone a
// moment before.
func (r *run) awaitAll() {
	r.kill()
	r.watch.Gone()
}

// result reads what is left when everything has ended.
func (r *run) result(killed string, status *json.Decoder) (sandbox.Result, error) {
	var s struct {
		Exit *int `json:"exit-code"`
	}
	for s.Exit == nil && status.Decode(&s) == nil {
	}
	res := sandbox.Result{Killed: cmp.Or(killed, r.watch.Exceeded()), Cut: r.flood.Cut(), Usage: r.usage()}
	if err := r.laidOut(&res); err != nil {
		return sandbox.Result{}, err
	}
	if s.Exit == nil && res.Killed == "" {
		complaint := strings.TrimSpace(r.stderr.String())
		if !strings.Contains(complaint, "bwrap: execvp ") {
			return sandbox.Result{}, fmt.Errorf("bubblewrap: %s", complaint)
		}
		notFound := 127 // as a shell says it
		s.Exit = &notFound
	}
	res.Warnings = r.watch.Warnings(res.Usage)
	switch {
	case res.Killed != "":
		res.Exit, res.Signal = 128+int(unix.SIGKILL), unix.SignalName(unix.SIGKILL)
	case *s.Exit > 128:
		res.Exit, res.Signal = *s.Exit, unix.SignalName(syscall.Signal(*s.Exit-128))
	default:
		res.Exit = *s.Exit
	}
	res.Breaches = r.breaches(res.Signal)
	err := r.collect(&res)
	return res, err
}

// laidOut looks at what the first step came to, and at what became of the file system.
func (r *run) laidOut(res *sandbox.Result) error {
	if r.first == nil {
		return nil
	}
	bytes, inodes, full := r.first.used()
	res.Usage.DiskPeak = max(res.Usage.DiskPeak, bytes)
	if res.Killed == "" && (inodes > r.spec.Limits.Inodes || full) {
		res.Killed = sandbox.KilledDisk
	}
	switch {
	case res.Killed != "":
		return nil
	case r.first.err != nil:
		return r.first.err
	case !r.first.laidOut:
		return fmt.Errorf("bubblewrap: the copies cannot be unpacked: %s", strings.TrimSpace(r.stderr.String()))
	default:
		return nil
	}
}

// collect hands out the files that were asked for.
func (r *run) collect(res *sandbox.Result) error {
	if len(r.spec.Collect) == 0 || r.streams.Files == nil || r.first.scratch == nil {
		return nil
	}
	return r.first.collect(r.streams.Files, r.spec, res)
}

// usage adds what bwrap's first steps took, at least.
func (r *run) usage() guild.Usage {
	u := r.watch.Usage()
	if rusage, ok := r.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.MemoryPeak = max(u.MemoryPeak, rusage.Maxrss*1024)
	}
	return u
}

// breaches are the attempts that left a trace.
func (r *run) breaches(signal string) []guild.Breach {
	var found []guild.Breach
	if signal == "SIGSYS" {
		found = append(found, confine.Forbidden())
	}
	return append(found, r.counters.Breaches()...)
}

// close lets go of everything. The control group is removed last: it must be empty.
func (r *run) close() {
	r.counters.Close()
	if r.watch.Pidfd >= 0 {
		unix.Close(r.watch.Pidfd)
	}
	r.fds.close()
	r.pump.Wait()
	if r.first != nil {
		r.first.close()
	}
	if r.watch.Group != nil {
		r.watch.Group.Remove()
	}
}
