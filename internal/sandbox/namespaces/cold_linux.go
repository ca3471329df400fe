package namespaces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"guild/internal/sandbox"
	"guild/internal/sandbox/confine"
	"guild/internal/sandbox/namespaces/plan"
)

// coldRun is one run that starts its command itself.
type coldRun struct {
	runner  *Runner
	spec    sandbox.Spec // with complete limits
	streams sandbox.IO

	flood *confine.Flood
	plan  *plan.Plan
	who   *ids
	trees trees
	ends  streams
	pump  sync.WaitGroup // what flows; its results are read after it

	first      *process
	command    *os.File // a pidfd
	watch      confine.Watch
	counters   confine.Counters
	supervisor *confine.Supervisor

	last      *plan.Message // how it ended; nil if the first process was killed before it could say so
	copied    error
	collected error
	left      int // files that were to be collected and were not
}

// grace is how long the first process may take to end a run whose wall time is over.
const grace = 5 * time.Second

// run brings the run to its end and says how that was.
func (r *coldRun) run(ctx context.Context) (sandbox.Result, error) {
	r.flood = confine.NewFlood(r.spec.Limits.Output)
	r.watch = confine.Watch{Pidfd: -1, Limits: r.spec.Limits, Flood: r.flood, Scratch: sandbox.Box}
	var group sync.WaitGroup
	group.Go(r.makeGroup) // which takes as long as everything else
	err := r.prepare()
	group.Wait()
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("sandbox: %w", err)
	}
	if err := r.begin(); err != nil {
		return sandbox.Result{}, fmt.Errorf("sandbox: %w", err)
	}
	stop := context.AfterFunc(ctx, r.first.kill)
	defer stop()
	hard := time.AfterFunc(r.spec.Limits.Wall+grace, r.first.kill)
	defer hard.Stop()

	if err := r.awaitStart(); err != nil {
		return r.notStarted(ctx, err)
	}
	killed, err := r.watchIt(ctx)
	hard.Stop()
	r.first.wait()
	r.first = nil
	r.starve()
	r.pump.Wait()
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("sandbox: %w", err)
	}
	if ctx.Err() != nil {
		return sandbox.Result{}, fmt.Errorf("sandbox: %w", context.Cause(ctx))
	}
	return r.result(killed)
}

// prepare makes everything that the first process is started with.
func (r *coldRun) prepare() error {
	var err error
	if r.who, err = takeIDs(sandbox.User); err != nil {
		return err
	}
	if err := r.makePlan(); err != nil {
		return err
	}
	return r.open()
}

// makeGroup makes the run's control group if that can be done. Else Watch polls, and Probe says so.
func (r *coldRun) makeGroup() {
	limits := r.spec.Limits
	limits.Pids += firstThreads
	if group, err := confine.NewCgroup(limits); err == nil {
		r.watch.Group = group
	}
}

// begin starts the first process, in the control group that the run is to be in.
func (r *coldRun) begin() error {
	b := beginning{
		plan: r.plan, who: r.who, stdio: r.ends.stdio, passed: r.ends.passed, own: r.ends.own,
		network: r.spec.Network, group: r.watch.Group,
	}
	var err error
	if r.first, err = begin(b); err != nil && b.group != nil { // which may be ours to make and not to use
		b.group.Remove()
		b.group, r.watch.Group = nil, nil
		if r.first, err = begin(b); err == nil {
			r.runner.noGroup.Store(true)
		}
	}
	closeAll(r.ends.inside)
	if err != nil {
		return err
	}
	r.watch.First = r.first.os.Pid
	if !r.spec.Network {
		r.counters = confine.OpenCounters(r.watch.First)
	}
	r.sendCopies()
	return nil
}

// firstThreads is how many threads the first process has, which count against the control group's limit.
const firstThreads = 6

// errEnded is why there is no run to watch: the command has ended, or was never there.
var errEnded = errors.New("the command has ended")

// awaitStart waits until the command runs and can be killed, and its calls are supervised.
func (r *coldRun) awaitStart() error {
	for {
		m, file, err := r.first.receive()
		if err != nil {
			return errors.New("the first process ended early")
		}
		switch m.Kind {
		case plan.Failed:
			return &setupError{m.Text, unix.Errno(m.Errno)}
		case plan.Listener:
			r.supervisor = confine.Supervise(file, r.spec.Network)
			r.watch.Breach = r.supervisor.Breach()
		case plan.Started:
			r.command = file
			r.watch.Pidfd = int(file.Fd())
			return nil
		case plan.Ended:
			r.last = m
			return errEnded
		}
	}
}

// notStarted says why there is no run, which may be the run's own fault.
func (r *coldRun) notStarted(ctx context.Context, err error) (sandbox.Result, error) {
	r.first.kill()
	r.first.wait()
	r.first = nil
	r.starve()
	r.pump.Wait()
	e, failed := errors.AsType[*setupError](err)
	switch {
	case errors.Is(err, errEnded):
		return r.result("")
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case r.copied != nil:
		err = r.copied
	case failed && e.errno == unix.ENOSPC && r.plan.Copies:
		return r.result(sandbox.KilledDisk)
	}
	return sandbox.Result{}, fmt.Errorf("sandbox: %w", err)
}

// watchIt keeps the run to its limits until the command, and everything that it has started, has ended.
func (r *coldRun) watchIt(ctx context.Context) (killed string, err error) {
	if r.streams.Channel != nil {
		r.streams.Channel.Close() // the run has its own
	}
	r.feed()
	ended := make(chan error, 1)
	go func() {
		m, _, err := r.first.receive()
		if err == nil {
			r.last = m
		}
		ended <- nil
	}()
	return r.watch.Wait(ctx, ended)
}

// close lets go of everything. The control group is removed last: it must be empty.
func (r *coldRun) close() {
	if r.first != nil {
		r.first.kill()
		r.first.wait()
	}
	r.ends.close()
	r.trees.close()
	r.pump.Wait()
	if r.command != nil {
		r.command.Close()
	}
	if r.supervisor != nil {
		r.supervisor.Close()
	}
	r.counters.Close()
	if r.watch.Group != nil {
		r.watch.Group.Remove()
	}
	if r.who != nil {
		r.who.release()
	}
}

// orDiscard is w, or what swallows everything.
func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}
