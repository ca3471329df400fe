package namespaces

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"guild/internal/sandbox"
	"guild/internal/sandbox/namespaces/plan"
)

// Runner is guild's own sandbox.Runner. It works for root, who gives each run that goes on at one time users of
// its own, and for an ordinary user, whose runs are that user outside. It must not be copied after its first use.
type Runner struct {
	// Rootfs is a directory with the programs and libraries that runs see; the host's own if empty. It must not
	// change while runs go on.
	Rootfs string

	hash      sync.Once // of Rootfs
	rootfs    string
	rootfsErr error

	warm templates // interpreters for Spec.Program

	noProc  atomic.Bool // this machine refuses a new /proc
	unasked atomic.Bool // this machine refuses a second supervisor of system calls
	noGroup atomic.Bool // this machine lets us make control groups and nobody enter them
}

// world is what a run sees of the root directory.
func (r *Runner) world(network bool) (*plan.Plan, error) {
	if r.Rootfs == "" {
		return world("/", network), nil
	}
	return world(r.Rootfs, network), nil
}

// Run implements sandbox.Runner.
func (r *Runner) Run(ctx context.Context, s sandbox.Spec, streams sandbox.IO) (sandbox.Result, error) {
	if streams.Channel != nil {
		defer streams.Channel.Close()
	}
	if err := s.Check(); err != nil {
		return sandbox.Result{}, err
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

// Close ends the interpreters that are kept warm. Runs that are still going on end with them.
func (r *Runner) Close() error {
	r.warm.close()
	return nil
}

func (r *Runner) once(ctx context.Context, s sandbox.Spec, streams sandbox.IO) (sandbox.Result, error) {
	one := &coldRun{runner: r, spec: s, streams: streams}
	defer one.close()
	return one.run(ctx)
}

// adapt reports whether a run that failed before it began may go better without something that the machine turns
// out to refuse. Probe says what is missing then.
func (r *Runner) adapt(err error) bool {
	e, ok := errors.AsType[*setupError](err)
	switch {
	case !ok:
		return false
	case e.what == "mount proc":
		return r.noProc.CompareAndSwap(false, true)
	case e.what == "seccomp" && e.errno == unix.EBUSY:
		return r.unasked.CompareAndSwap(false, true)
	default:
		return false
	}
}

// rootfsHash names what runs see: "host", or the hash of Rootfs, which is read once.
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
