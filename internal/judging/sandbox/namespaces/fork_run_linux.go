package namespaces

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/confine"
	"guild/internal/judging/sandbox/namespaces/plan"
)

// fork is a run in a process that a template forked. It uses the streams, limits and result of a coldRun. Its first
// process is template.py, which has its own protocol.
type fork struct {
	coldRun

	control  *net.UnixConn // to the run's first process
	settings *os.File      // our end of the pipe with its settings and files
	tasks    []*os.File    // with these the first process enters its control group; nil once they are handed over
}

// run runs a program in a fork of its template. If the error wraps errNotForked, nothing of the run has happened, and
// it can be started cold.
func (ts *templates) run(ctx context.Context, launch launcher, s sandbox.Spec, streams sandbox.IO) (sandbox.Result, error) {
	t, err := ts.take(launch, s)
	if err != nil {
		return sandbox.Result{}, notForked(err)
	}
	defer ts.giveBack(t)
	user, release := ts.users.take()
	defer release()
	f := &fork{coldRun: coldRun{
		spec: s, streams: streams, flood: confine.NewFlood(s.Limits.Output), plan: &plan.Plan{},
	}}
	f.watch = confine.Watch{Pidfd: -1, Limits: s.Limits, Flood: f.flood, Scratch: sandbox.Box}
	defer f.close()
	if err := f.begin(ctx, t, user); err != nil {
		if ctx.Err() == nil && errors.Is(err, os.ErrDeadlineExceeded) {
			ts.abandon(t)
		}
		return sandbox.Result{}, f.failure(ctx, err)
	}
	return f.finish(ctx)
}

// begin prepares the run up to the start of its program.
func (f *fork) begin(ctx context.Context, t *template, user uint32) error {
	var err error
	if f.control, err = t.ask(user); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, templatePatience)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { f.control.SetDeadline(time.Unix(1, 0)) })
	for _, step := range []func() error{f.awaitHello, f.open, f.handOver, f.awaitStart} {
		if err := step(); err != nil {
			stop()
			return err
		}
	}
	if !stop() {
		return context.Cause(ctx)
	}
	return nil
}

// awaitHello waits for the run's first process and creates its control group. In version 1 the first process enters the
// group itself, by files that it receives, before it does anything else: moving it would take ten milliseconds more. If
// no group can be created, Watch polls.
func (f *fork) awaitHello() error {
	hello, err := receive(f.control)
	if err != nil {
		return fmt.Errorf("the fork: %w", err)
	}
	if hello.text != "hello" || hello.pid == 0 {
		return errors.New(strings.TrimPrefix(hello.text, "e"))
	}
	f.watch.First = hello.pid
	if f.watch.Pidfd, err = unix.PidfdOpen(hello.pid, 0); err != nil {
		return fmt.Errorf("pidfd: %w", err)
	}
	f.counters = confine.OpenCounters(hello.pid)
	limits := f.spec.Limits
	limits.Pids++ // the first process
	g, err := confine.NewCgroup(limits)
	if err != nil {
		return nil
	}
	f.watch.Group = g
	if g.Version() == 2 {
		return g.Add(f.watch.First)
	}
	f.tasks, err = g.Tasks()
	return err
}

// open creates the pipes in the order of the command's descriptors, and then the pipe for the settings.
func (f *fork) open() error {
	if err := f.coldRun.open(); err != nil {
		return err
	}
	ours, theirs, err := f.in()
	if err != nil {
		return err
	}
	f.settings = ours
	f.ends.own = append(f.ends.own, theirs)
	return nil
}

// handOver sends the run's descriptors to the first process, and starts to send its settings and files.
func (f *fork) handOver() error {
	var fds []int
	for _, file := range slices.Concat(f.ends.stdio[:], f.ends.passed, f.ends.own, f.tasks) {
		fds = append(fds, int(file.Fd()))
	}
	word := []byte(strconv.Itoa(len(f.tasks)))
	if _, _, err := f.control.WriteMsgUnix(word, unix.UnixRights(fds...), nil); err != nil {
		return fmt.Errorf("hand over: %w", err)
	}
	f.handedOver()
	f.sendCopies(f.settings, settings(f.spec))
	return nil
}

// handedOver closes our copies of the run's ends.
func (f *fork) handedOver() {
	closeAll(f.ends.inside)
	closeAll(f.tasks)
	f.tasks = nil
}

// awaitStart waits for the message that the program is about to call main(). It may come with the listener of the run's
// filter.
func (f *fork) awaitStart() error {
	m, err := receive(f.control)
	switch {
	case err != nil:
		return fmt.Errorf("the first process: %w", err)
	case m.text == "l" && m.file != nil:
		f.supervisor = confine.Supervise(m.file, false)
		f.watch.Breach = f.supervisor.Breach()
		return nil
	case m.text == "n":
		return nil
	default:
		return errors.New(strings.TrimPrefix(m.text, "e"))
	}
}

// finish waits for the end of the run and returns its result.
func (f *fork) finish(ctx context.Context) (sandbox.Result, error) {
	f.copyStdin()
	ended := make(chan error, 1)
	go func() { // reads the report of the first process, which ends after all others of the run
		for {
			m, err := receive(f.control)
			if err != nil {
				f.watch.Gone()
				ended <- nil
				return
			}
			last, full := &plan.Message{Kind: plan.Ended}, 0
			n, _ := fmt.Sscanf(m.text, "s%d %d %d %d %d", &last.Status, &last.CPU, &last.Memory, &last.Disk, &full)
			if n == 5 {
				last.Full = full != 0
				f.last = last
			}
		}
	}()
	killed, err := f.watch.Wait(ctx, ended)
	f.stopStdin()
	f.pump.Wait()
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("sandbox: %w", err)
	}
	return f.result(killed)
}

// failure ends a run that did not begin and returns the reason.
func (f *fork) failure(ctx context.Context, err error) error {
	f.stop()
	f.pump.Wait()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("sandbox: %w", context.Cause(ctx))
	case f.copied != nil:
		return fmt.Errorf("sandbox: %w", f.copied)
	default:
		return notForked(err)
	}
}

// stop kills the run's processes and waits for their end.
func (f *fork) stop() {
	if f.control != nil {
		f.control.Close()
	}
	f.handedOver()
	if f.watch.Pidfd >= 0 {
		f.watch.Kill()
		f.watch.Gone()
	}
	if f.settings != nil {
		f.settings.Close()
	}
}

// close ends the run and releases all resources.
func (f *fork) close() {
	f.stop()
	if f.watch.Pidfd >= 0 {
		unix.Close(f.watch.Pidfd)
	}
	f.coldRun.close()
}
