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

	"guild/internal/sandbox"
	"guild/internal/sandbox/confine"
	"guild/internal/sandbox/namespaces/plan"
)

// fork is one run in a process that a template forked. Its streams, its watch and its result are those of any
// run; its first process is template.py's and speaks in short words of its own.
type fork struct {
	coldRun

	control *net.UnixConn // to the run's first process
	orders  *os.File      // our end of the pipe with its settings and files
	tasks   []*os.File    // by which the first process enters its control group, until they are handed over
}

// run runs a program in a fork of its template. An error that wraps errNotForked leaves the run to be run in
// another way.
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

// begin brings the run to where its program starts.
func (f *fork) begin(ctx context.Context, t *template, user uint32) error {
	var err error
	if f.control, err = t.ask(user); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, templatePatience)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { f.control.SetDeadline(time.Unix(1, 0)) })
	for _, step := range []func() error{f.meet, f.open, f.handOver, f.awaitStart} {
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

// meet waits for the run's first process and puts the limits on it before it does anything.
func (f *fork) meet() error {
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
	return f.enterGroup()
}

// enterGroup makes the run's control group. In version 1 the first process goes there itself, by files that it is
// given, before it does anything else: to be moved would take ten milliseconds more. Where no group can be made,
// Watch polls.
func (f *fork) enterGroup() error {
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

// open makes what flows in and out, in the order of the payload's descriptors, and then the orders.
func (f *fork) open() error {
	if err := f.coldRun.open(); err != nil {
		return err
	}
	ours, theirs, err := f.in()
	if err != nil {
		return err
	}
	f.orders = ours
	f.ends.own = append(f.ends.own, theirs)
	return nil
}

// handOver gives the first process the run's descriptors, and then its settings and files.
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
	f.pump.Go(func() {
		defer f.orders.Close()
		_, err := f.orders.Write(orders(f.spec))
		if err == nil {
			err = sandbox.WriteCopies(f.orders, f.spec.Copies)
		}
		if !errors.Is(err, unix.EPIPE) && !errors.Is(err, os.ErrClosed) {
			f.copied = err
		}
	})
	return nil
}

// handedOver closes what is the run's alone.
func (f *fork) handedOver() {
	closeAll(f.ends.inside)
	closeAll(f.tasks)
	f.tasks = nil
}

// awaitStart waits for the word that the payload is about to call main(), which comes with the listener of its
// filter if it has one.
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

// finish follows the run to its end and says how it was.
func (f *fork) finish(ctx context.Context) (sandbox.Result, error) {
	f.feed()
	ended := make(chan error, 1)
	go func() {
		f.listen()
		ended <- nil
	}()
	killed, err := f.watch.Wait(ctx, ended)
	f.starve()
	f.pump.Wait()
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("sandbox: %w", err)
	}
	return f.result(killed)
}

// listen takes the first process's report and returns when that process, and with it all others, has ended.
func (f *fork) listen() {
	for {
		m, err := receive(f.control)
		if err != nil {
			f.watch.Gone()
			return
		}
		last, full := &plan.Message{Kind: plan.Ended}, 0
		if n, _ := fmt.Sscanf(m.text, "s%d %d %d %d %d", &last.Status, &last.CPU, &last.Memory, &last.Disk, &full); n == 5 {
			last.Full = full != 0
			f.last = last
		}
	}
}

// failure ends a run that did not begin, and says why.
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

// stop ends whatever there is of the run and waits until it is gone.
func (f *fork) stop() {
	if f.control != nil {
		f.control.Close()
	}
	f.handedOver()
	if f.watch.Pidfd >= 0 {
		f.watch.Kill()
		f.watch.Gone()
	}
	if f.orders != nil {
		f.orders.Close()
	}
}

// close lets go of everything.
func (f *fork) close() {
	f.stop()
	if f.watch.Pidfd >= 0 {
		unix.Close(f.watch.Pidfd)
	}
	f.coldRun.close()
}
