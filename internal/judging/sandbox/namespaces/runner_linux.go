package namespaces

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox"
)

// Runner is guild's own sandbox.Runner. Under root each concurrent run gets user ids of its own on the host. Under an
// ordinary user all runs have that user's id on the host. A Runner must not be copied after its first use.
type Runner struct {
	// Rootfs is a directory with the programs and libraries that runs see; the host's own if empty. It must not change
	// during a run.
	Rootfs string

	hash      sync.Once // of Rootfs
	rootfs    string
	rootfsErr error

	warm templates // interpreters for Spec.Program

	noProc       atomic.Bool // this machine refuses a new /proc
	noSupervisor atomic.Bool // this machine refuses a second supervisor of system calls
	noGroup      atomic.Bool // this machine lets us make control groups, but not enter them
}

// Run implements sandbox.Runner.
func (r *Runner) Run(ctx context.Context, s sandbox.Spec, streams sandbox.IO) (sandbox.Result, error) {
	if streams.Channel != nil {
		defer streams.Channel.Close()
	}
	if err := s.Check(); err != nil {
		return sandbox.Result{}, err
	}
	if s.Network && streams.Serve != nil {
		return sandbox.Result{}, errors.New("sandbox: a port is served for runs without the host's network")
	}
	s.Limits = s.Limits.WithDefaults()
	if r.forkable(s, streams) {
		res, err := r.warm.run(ctx, r.base, s, streams)
		if !errors.Is(err, errNotForked) {
			return res, err
		}
		r.warm.note(err)
	}
	for {
		res, err := r.once(ctx, s, streams)
		if err == nil || !r.adapt(err) {
			return res, err
		}
	}
}

// Close kills the warm interpreters. Runs that are forks of them are killed too.
func (r *Runner) Close() error {
	r.warm.close()
	return nil
}

func (r *Runner) once(ctx context.Context, s sandbox.Spec, streams sandbox.IO) (sandbox.Result, error) {
	one := &coldRun{runner: r, spec: s, streams: streams}
	defer one.close()
	return one.run(ctx)
}

// adapt reports whether to try a run again that failed before it began. It turns off a feature that the machine refuses;
// Probe then reports the gap.
func (r *Runner) adapt(err error) bool {
	e, ok := errors.AsType[*setupError](err)
	switch {
	case !ok:
		return false
	case e.what == "mount proc":
		return r.noProc.CompareAndSwap(false, true)
	case e.what == "seccomp" && e.errno == unix.EBUSY:
		return r.noSupervisor.CompareAndSwap(false, true)
	default:
		return false
	}
}

// rootfsHash returns "host", or the hash of Rootfs, which is computed once.
func (r *Runner) rootfsHash() (string, error) {
	if r.Rootfs == "" {
		return "host", nil
	}
	r.hash.Do(func() { r.rootfs, r.rootfsErr = hashTree(r.Rootfs) })
	if r.rootfsErr != nil {
		return "", fmt.Errorf("rootfs: %w", r.rootfsErr)
	}
	return r.rootfs, nil
}
