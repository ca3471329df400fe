package landlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"guild"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/confine"
)

// firstStep is the script of the first process in the cage. It waits on descriptor 5 until the limits are set, and then
// becomes the command. So the command never runs without limits.
const firstStep = `read -r go <&5 && exec "$@" 5<&-`

// run is one run.
type run struct {
	spec    sandbox.Spec
	streams sandbox.IO
	mark    mark

	scratch *scratch
	cage    *cage
	super   *confine.Supervisor
	flood   *confine.Flood
	watch   confine.Watch

	child   []*os.File // descriptors of the first process, from 0 on
	talks   bool       // the run has sandbox.ChannelFD
	gate    *os.File   // writing to it starts the command
	inputs  []*os.File // our ends of the pipes that it reads
	outputs []*os.File // our ends of the pipes that it writes
	output  sync.WaitGroup

	status unix.WaitStatus
	rusage unix.Rusage
}

// prepare creates the directory, the cage and the streams.
func (r *run) prepare() (err error) {
	r.watch.Pidfd = -1
	r.flood = confine.NewFlood(r.spec.Limits.Output)
	if r.scratch, err = newScratch(); err != nil {
		return err
	}
	if err := r.scratch.unpack(r.spec.Copies); err != nil {
		return err
	}
	if err := r.makeCage(); err != nil {
		return err
	}
	return r.connect()
}

// makeCage creates the rules, the cage, and the supervisor of its system calls.
func (r *run) makeCage() error {
	version := abi()
	rules, err := newRules(version)
	if err != nil {
		return err
	}
	defer rules.close()
	if err := errors.Join(rules.system(), rules.give(r.scratch.base, read|changeDir|write)); err != nil {
		return err
	}
	for _, m := range r.spec.Mounts {
		access := uint64(read)
		if m.Writable {
			access |= changeDir | write
		}
		if err := errors.Join(r.scratch.show(m), rules.give(m.Host, access)); err != nil {
			return err
		}
	}
	c, err := newCage(rules, confine.AloneFilter(r.spec.Profile, version), version >= 6)
	if err != nil {
		return err
	}
	r.cage = c
	r.super = confine.SuperviseAlone(r.cage.listener, r.mark.has)
	return nil
}

// connect creates the streams and the gate.
func (r *run) connect() error {
	kept := r.spec.Limits.Output
	stdin := r.streams.Stdin
	if stdin == nil {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		r.child = append(r.child, null)
	} else {
		from, to, err := os.Pipe()
		if err != nil {
			return err
		}
		r.child, r.inputs = append(r.child, from), append(r.inputs, to)
		go func() { // not waited for, because the caller's reader may never end
			io.Copy(to, stdin)
			to.Close()
		}()
	}
	for _, w := range []io.Writer{r.streams.Stdout, r.streams.Stderr, r.streams.Results} {
		from, to, err := os.Pipe()
		if err != nil {
			return err
		}
		r.child, r.outputs = append(r.child, to), append(r.outputs, from)
		r.output.Go(func() {
			io.Copy(r.flood.Keep(w, kept), from) // until the last writer has closed it
			from.Close()
		})
	}
	channel := r.streams.Channel
	r.talks = channel != nil
	if !r.talks {
		null, err := os.Open(os.DevNull) // so that the gate is descriptor 5; the first process closes it
		if err != nil {
			return err
		}
		channel = null
	}
	r.streams.Channel = nil // closed with the other descriptors of the child
	r.child = append(r.child, channel)
	gate, open, err := os.Pipe()
	if err != nil {
		return err
	}
	r.child, r.gate = append(r.child, gate), open
	return nil
}

// run runs the command to its end.
func (r *run) run(ctx context.Context) (sandbox.Result, error) {
	if err := r.start(); err != nil {
		return sandbox.Result{}, err
	}
	ended := make(chan error, 1)
	go func() {
		for {
			_, err := unix.Wait4(r.watch.First, &r.status, 0, &r.rusage)
			if err != unix.EINTR {
				ended <- err
				return
			}
		}
	}()
	var killed string
	err := r.open()
	if err == nil {
		killed, err = r.watch.Wait(ctx, ended)
	} else {
		r.watch.Kill()
		<-ended
	}
	if stuck := r.end(); stuck != nil {
		err = errors.Join(err, stuck)
		for _, from := range r.outputs { // a process that cannot be killed holds them open
			from.Close()
		}
	}
	r.output.Wait()
	if err != nil {
		return sandbox.Result{}, err
	}
	return r.result(killed)
}

// start starts the first process in the cage.
func (r *run) start() error {
	// Descriptors that this process has inherited must not be passed on. Go opens its own with close-on-exec.
	if err := unix.CloseRange(sandbox.ResultsFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	dir := sandbox.Workspace
	if r.spec.Dir != "" {
		dir = r.spec.Dir
	}
	step := firstStep
	if !r.talks {
		step += " 4<&-"
	}
	argv := slices.Concat([]string{"/bin/sh", "-c", step, "sh"}, r.scratch.translate(r.spec.Command()))
	env := r.scratch.translate(r.spec.Env)
	if !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "TMPDIR=") }) {
		env = append(env, "TMPDIR="+r.scratch.at(sandbox.Temp))
	}
	attr := &syscall.ProcAttr{
		Dir: r.scratch.translate([]string{dir})[0], Env: env,
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}, // sent when the cage's thread ends
	}
	for _, f := range r.child {
		attr.Files = append(attr.Files, f.Fd())
	}
	var pid int
	var err error
	r.cage.do(func() { pid, err = syscall.ForkExec(argv[0], argv, attr) })
	r.closeChild()
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	r.watch = confine.Watch{
		First: pid, Pidfd: -1, Limits: r.spec.Limits, Flood: r.flood, Breach: r.super.Breach(),
		Members: r.mark.members, End: r.killAll,
		Used: func() (int64, bool) { return r.scratch.used(r.spec.Limits) },
	}
	return nil
}

// open sets the limits of the first process, and then lets it become the command.
func (r *run) open() error {
	fd, err := unix.PidfdOpen(r.watch.First, 0)
	if err != nil {
		return fmt.Errorf("pidfd: %w", err)
	}
	r.watch.Pidfd = fd
	if r.watch.Group, err = confine.Enclose(r.watch.First, r.spec.Limits); err != nil {
		return err
	}
	limits := confine.Rlimits(r.spec.Limits)
	limits[confine.MarkLimit] = uint64(r.mark)
	delete(limits, unix.RLIMIT_NPROC) // it counts all processes of the user here
	for resource, n := range limits {
		if err := unix.Prlimit(r.watch.First, resource, &unix.Rlimit{Cur: n, Max: n}, nil); err != nil {
			return fmt.Errorf("resource limit %d: %w", resource, err)
		}
	}
	_, err = r.gate.Write([]byte("go\n"))
	return err
}

// killAll sends SIGKILL to all processes of the run.
func (r *run) killAll() {
	if r.watch.Group != nil {
		r.watch.Group.Kill()
	}
	r.cage.killAll()
	if r.cage.scoped {
		return
	}
	for _, pid := range r.mark.members() {
		unix.Kill(pid, unix.SIGKILL)
	}
}

// end kills the processes that the command has left, until there are none. It gives up after half a minute.
func (r *run) end() error {
	for late := time.After(30 * time.Second); ; {
		r.killAll()
		left, ended := r.mark.find()
		for _, pid := range ended {
			unix.Wait4(pid, nil, unix.WNOHANG, nil) // they are our children if we are the first process of a container
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-late:
			return fmt.Errorf("%d processes of the run cannot be killed", len(left))
		case <-time.After(time.Millisecond):
		}
	}
}

// result returns the result of the run. All of its processes have ended. killed is the limit that it was killed for, if
// any.
func (r *run) result(killed string) (sandbox.Result, error) {
	r.leave()
	own := time.Duration(r.rusage.Utime.Nano()+r.rusage.Stime.Nano()) * time.Nanosecond
	least := guild.Usage{CPUMs: own.Milliseconds(), MemoryPeak: r.rusage.Maxrss << 10}
	res := sandbox.Result{Cut: r.flood.Cut(), Usage: r.watch.Usage(least)}
	res.Killed = cmp.Or(killed, r.watch.Exceeded(res.Usage))
	used, full := r.scratch.used(r.spec.Limits)
	res.Usage.DiskPeak = max(res.Usage.DiskPeak, used)
	if res.Killed == "" && full {
		res.Killed = sandbox.KilledDisk
	}
	res.Usage.Refused = r.super.Refused()
	res.Breaches = r.super.Breaches()
	res.Warnings = append(r.watch.Warnings(res.Usage), r.super.Warnings()...)
	switch {
	case res.Killed != "":
		res.Exit, res.Signal = 128+int(unix.SIGKILL), unix.SignalName(unix.SIGKILL)
	case r.status.Signaled():
		res.Exit, res.Signal = 128+int(r.status.Signal()), unix.SignalName(r.status.Signal())
	default:
		res.Exit = r.status.ExitStatus()
	}
	if len(r.spec.Collect) > 0 && r.streams.Files != nil {
		left, err := r.scratch.collect(r.streams.Files, r.spec)
		if err != nil {
			return sandbox.Result{}, err
		}
		res.LeaveOut(left)
	}
	return res, nil
}

// leave ends the cage and its supervisor. All processes in it must have ended.
func (r *run) leave() {
	if r.cage != nil {
		r.cage.close()
		r.super.Stop()
	}
	r.cage = nil
}

func (r *run) closeChild() {
	for _, f := range r.child {
		f.Close()
	}
	r.child = nil
}

// close releases all resources.
func (r *run) close() {
	if r.streams.Channel != nil {
		r.streams.Channel.Close()
	}
	r.closeChild()
	for _, f := range r.inputs {
		f.Close()
	}
	if r.gate != nil {
		r.gate.Close()
	}
	r.leave()
	r.output.Wait()
	if r.watch.Pidfd >= 0 {
		unix.Close(r.watch.Pidfd)
	}
	if r.watch.Group != nil {
		r.watch.Group.Remove()
	}
	if r.scratch != nil {
		r.scratch.remove()
	}
}
