package namespaces

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/confine"
	"guild/internal/judging/sandbox/namespaces/plan"
)

// coldRun is a run whose first process starts the command. A fork embeds a coldRun for its streams, limits and result.
type coldRun struct {
	runner  *Runner
	spec    sandbox.Spec // with complete limits
	streams sandbox.IO

	flood *confine.Flood
	plan  *plan.Plan
	who   *ids
	trees trees
	ends  streams
	pump  sync.WaitGroup // the goroutines that copy streams; read copied, collected and skipped after it

	first      *process
	command    *os.File // a pidfd
	served     net.Listener
	watch      confine.Watch
	counters   confine.Counters
	supervisor *confine.Supervisor

	last      *plan.Message // the end of the command; nil if the first process was killed before it reported that
	copied    error         // error of sending the copies
	collected error         // error of receiving the collected files
	skipped   int           // files of Spec.Collect that were skipped
}

// grace is added to the wall time before the run's first process is killed. The watch is meant to end the run first;
// grace is for a run that does not get as far as being watched.
const grace = 5 * time.Second

// run runs the command to its end.
//
// The wall limit must hold even while the run is being prepared, for example while the copies are sent. So two timers
// exist: hard kills the first process in any case, and Watch measures from the start of the command.
func (r *coldRun) run(ctx context.Context) (sandbox.Result, error) {
	r.flood = confine.NewFlood(r.spec.Limits.Output)
	r.watch = confine.Watch{Pidfd: -1, Limits: r.spec.Limits, Flood: r.flood, Scratch: sandbox.Box}
	var group sync.WaitGroup
	group.Go(func() { // in parallel, because it takes as long as the rest of the preparation
		limits := r.spec.Limits
		limits.Pids += firstThreads
		if g, err := confine.NewCgroup(limits); err == nil { // else Watch polls, and Probe reports it
			r.watch.Group = g
		}
	})
	var err error
	if r.who, err = takeIDs(sandbox.User); err == nil {
		err = r.makePlan()
	}
	if err == nil {
		err = r.open()
	}
	group.Wait()
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("sandbox: %w", err)
	}
	if err := r.begin(); err != nil {
		return sandbox.Result{}, fmt.Errorf("sandbox: %w", err)
	}
	// Watch takes over once the command runs. Until then these two end the run.
	stop := context.AfterFunc(ctx, r.first.kill)
	defer stop()
	hard := time.AfterFunc(r.spec.Limits.Wall+grace, r.first.kill)
	defer hard.Stop()

	if err := r.awaitStart(); err != nil {
		return r.notStarted(ctx, err)
	}
	if r.streams.Channel != nil {
		r.streams.Channel.Close() // the command has its own descriptor
	}
	r.copyStdin()
	ended := make(chan error, 1)
	go func() {
		m, _, err := r.first.receive()
		if err == nil {
			r.last = m
		}
		ended <- nil
	}()
	killed, err := r.watch.Wait(ctx, ended)
	hard.Stop()
	r.first.wait()
	r.first = nil
	r.stopStdin()
	r.stopServing()
	r.pump.Wait()
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("sandbox: %w", err)
	}
	if ctx.Err() != nil {
		return sandbox.Result{}, fmt.Errorf("sandbox: %w", context.Cause(ctx))
	}
	return r.result(killed)
}

// begin starts the first process in the run's control group.
func (r *coldRun) begin() error {
	c := processConfig{
		plan: r.plan, who: r.who, stdio: r.ends.stdio, passed: r.ends.passed, own: r.ends.own,
		network: r.spec.Network, group: r.watch.Group,
	}
	var err error
	if r.first, err = begin(c); err != nil && c.group != nil { // some machines let us create groups, but not enter them
		c.group.Remove()
		c.group, r.watch.Group = nil, nil
		if r.first, err = begin(c); err == nil {
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
	if r.ends.copies != nil {
		r.sendCopies(r.ends.copies, nil)
	}
	return nil
}

// firstThreads is the number of threads of the first process. They count against the control group's limit.
const firstThreads = 6

// errEnded means that there is no run to watch: the command has already ended, or could not be started.
var errEnded = errors.New("the command has ended")

// awaitStart waits until the command runs under supervision and can be killed.
func (r *coldRun) awaitStart() error {
	for {
		m, file, err := r.first.receive()
		if err != nil {
			return errors.New("the first process ended early")
		}
		switch m.Kind {
		case plan.Failed:
			return &setupError{what: m.Text, errno: unix.Errno(m.Errno)}
		case plan.Listener:
			r.supervisor = confine.Supervise(file, r.spec.Network)
			r.watch.Breach = r.supervisor.Breach()
		case plan.Serving:
			if err := r.serve(file); err != nil {
				return err
			}
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

// notStarted ends a run that did not start. The spec may be the cause, for example if the copies exceed the disk limit;
// then the run has a result.
func (r *coldRun) notStarted(ctx context.Context, err error) (sandbox.Result, error) {
	r.first.kill()
	r.first.wait()
	r.first = nil
	r.stopStdin()
	r.stopServing()
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

// close releases all resources. The control group is removed last, because it must be empty.
func (r *coldRun) close() {
	if r.first != nil {
		r.first.kill()
		r.first.wait()
	}
	r.ends.close()
	r.stopServing()
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
