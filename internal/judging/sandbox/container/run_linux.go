package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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
	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/confine"
)

// run is one run, with any runtime.
type run struct {
	spec    sandbox.Spec
	streams sandbox.IO
	flood   *confine.Flood
	dir     string // a directory of the host for this run; removed at its end

	cmd    *exec.Cmd
	child  []*os.File // the child's descriptors from 3 on; nil for an unused number
	ours   []*os.File // our ends of the pipes among them
	copies *os.File
	done   *os.File
	stderr sandbox.Head // the runtime's own errors
	pump   sync.WaitGroup

	unpacked  bool  // the copies were unpacked
	copied    error // error of sending the copies
	collected error // error of receiving the collected files
	skipped   int   // files of Spec.Collect that were skipped

	watch    confine.Watch
	counters confine.Counters // of the network namespace; nil if the host cannot read them
}

// whole checks a spec, creates its run, and calls runtime to execute it.
func whole(tier string, s sandbox.Spec, streams sandbox.IO, runtime func(*run) (sandbox.Result, error)) (sandbox.Result, error) {
	if streams.Channel != nil {
		defer streams.Channel.Close() // already closed if the run was started
	}
	if err := s.Check(); err != nil {
		return sandbox.Result{}, err
	}
	if streams.Serve != nil {
		return sandbox.Result{}, sandbox.CannotServe(tier)
	}
	s.Limits = s.Limits.WithDefaults()
	r, err := newRun(s, streams)
	if r != nil {
		defer r.close()
	}
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("%s: %w", tier, err)
	}
	res, err := runtime(r)
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("%s: %w", tier, err)
	}
	return res, nil
}

// newRun creates the resources that all runtimes need: a directory, pipes and the child's descriptors. The caller must
// close the run even after an error, unless the run is nil.
func newRun(s sandbox.Spec, streams sandbox.IO) (*run, error) {
	r := &run{spec: s, streams: streams, flood: confine.NewFlood(s.Limits.Output)}
	r.watch.Pidfd = -1
	r.stderr.Most = 2000
	var err error
	if r.dir, err = sandbox.TempDir("guild-box-"); err != nil {
		return nil, err
	}
	r.child = make([]*os.File, doneFD-sandbox.ResultsFD+1)
	r.give(sandbox.ChannelFD, streams.Channel)
	results, err := r.out(sandbox.ResultsFD)
	if err != nil {
		return r, err
	}
	r.pump.Go(func() { io.Copy(r.flood.Keep(streams.Results, s.Limits.Output), results) })
	if r.done, err = r.out(doneFD); err != nil {
		return r, err
	}
	if r.copies, err = r.in(copiesFD); err != nil {
		return r, err
	}
	if len(s.Collect) > 0 {
		files, err := r.out(filesFD)
		if err != nil {
			return r, err
		}
		r.pump.Go(func() {
			to := r.streams.Files
			if to == nil {
				to = io.Discard
			}
			r.skipped, r.collected = sandbox.SiftFiles(to, files, s.Collect, s.Limits)
			io.Copy(io.Discard, files) // so that no process inside blocks on the pipe
		})
	}
	return r, nil
}

// give sets the child's descriptor of a number to f, which may be nil.
func (r *run) give(number int, f *os.File) {
	for len(r.child) <= number-sandbox.ResultsFD {
		r.child = append(r.child, nil)
	}
	r.child[number-sandbox.ResultsFD] = f
}

// out creates a pipe that the child writes, and returns our end.
func (r *run) out(number int) (*os.File, error) {
	here, there, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	r.give(number, there)
	r.ours = append(r.ours, here)
	return here, nil
}

// in creates a pipe that the child reads, and returns our end.
func (r *run) in(number int) (*os.File, error) {
	there, here, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	r.give(number, there)
	r.ours = append(r.ours, here)
	return here, nil
}

// start starts the runtime.
func (r *run) start(argv []string, env []string, attr *syscall.SysProcAttr) error {
	kept := r.spec.Limits.Output
	stderr := r.streams.Stderr
	if stderr == nil {
		stderr = io.Discard
	}
	r.cmd = exec.Command(argv[0], argv[1:]...)
	r.cmd.Env, r.cmd.SysProcAttr = env, attr
	r.cmd.Stdin = r.streams.Stdin
	r.cmd.Stdout = r.flood.Keep(r.streams.Stdout, kept)
	r.cmd.Stderr = r.flood.Keep(io.MultiWriter(stderr, &r.stderr), kept)
	r.cmd.ExtraFiles = r.child
	r.cmd.WaitDelay = time.Second // the caller's Stdin may never end
	err := r.cmd.Start()
	r.started()
	return err
}

// started closes our copies of the child's descriptors.
func (r *run) started() {
	for i, f := range r.child {
		if f != nil {
			f.Close()
		}
		r.child[i] = nil
	}
}

// unpack starts to send the writable copies; the read-only ones are mounted. The command starts at the end of the
// stream.
func (r *run) unpack() {
	r.pump.Go(func() {
		defer r.copies.Close()
		err := sandbox.WriteCopies(r.copies, r.spec.Writable())
		if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, os.ErrClosed) {
			r.copied = err
			return
		}
		r.copies.Close()
		var b [1]byte
		n, _ := r.done.Read(b[:])
		r.unpacked = n > 0
	})
}

// awaitReady waits until the first process inside is ready for its files. It returns false if that process has ended.
func (r *run) awaitReady() bool {
	var b [1]byte
	n, _ := r.done.Read(b[:])
	return n > 0
}

// hold starts to watch the run's first process, given by its id as text, and puts it in its own control group.
func (r *run) hold(number []byte, l sandbox.Limits) error {
	first, err := strconv.Atoi(strings.TrimSpace(string(number)))
	if err != nil {
		return fmt.Errorf("the first process: %w", err)
	}
	fd, err := unix.PidfdOpen(first, 0)
	if err != nil {
		return fmt.Errorf("pidfd: %w", err)
	}
	r.watch = confine.Watch{First: first, Pidfd: fd, Limits: l, Flood: r.flood}
	r.watch.Group, err = confine.Enclose(first, l)
	r.watch.Begin()
	return err
}

// wait watches the run until it has ended, and returns the limit that it was killed for, if any.
func (r *run) wait(ctx context.Context) (killed string, err error) {
	ended := make(chan error, 1)
	go func() { ended <- r.cmd.Wait() }()
	killed, err = r.watch.Wait(ctx, ended)
	r.watch.Kill()
	r.watch.Gone()
	// A process that holds the other ends open for longer does not belong to the run.
	late := time.AfterFunc(time.Second, r.closeOurs)
	defer late.Stop()
	r.pump.Wait()
	return killed, err
}

// result returns the result of the run, after wait.
func (r *run) result(killed string) (sandbox.Result, error) {
	exit := r.cmd.ProcessState.ExitCode()
	res := sandbox.Result{Exit: exit, Cut: r.flood.Cut(), Usage: r.watch.Usage(guild.Usage{})}
	res.Killed = cmp.Or(killed, r.watch.Exceeded(res.Usage))
	res.Warnings = r.watch.Warnings(res.Usage)
	switch {
	case res.Killed != "":
		res.Exit = 128 + int(unix.SIGKILL)
	case r.copied != nil:
		return sandbox.Result{}, r.copied
	case !r.unpacked:
		return sandbox.Result{}, fmt.Errorf("exit code %d: %s", exit, strings.TrimSpace(r.stderr.String()))
	case r.collected != nil:
		return sandbox.Result{}, r.collected
	}
	if res.Exit > 128 {
		res.Signal = unix.SignalName(syscall.Signal(res.Exit - 128))
	}
	res.LeaveOut(r.skipped)
	res.Breaches = append(res.Breaches, r.counters.Breaches()...)
	return res, nil
}

// close releases all resources.
func (r *run) close() {
	r.started()
	r.closeOurs()
	r.pump.Wait()
	r.counters.Close()
	if r.watch.Pidfd >= 0 {
		unix.Close(r.watch.Pidfd)
	}
	if r.watch.Group != nil {
		r.watch.Group.Remove()
	}
	os.RemoveAll(r.dir)
}

// closeOurs closes our ends of all pipes; some are already closed.
func (r *run) closeOurs() {
	for _, f := range r.ours {
		f.Close()
	}
}

// pin keeps the calling goroutine on its thread until unpin is called: the kernel kills the child when the thread that
// started it ends.
func pin() (unpin func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}
