package landlock

import (
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

	"guild/internal/sandbox"
	"guild/internal/sandbox/confine"
)

// firstStep is what a process in the cage does before it becomes the command: it waits on descriptor 5 until the
// limits are in force.
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

	child   []*os.File // what the first step gets, by number
	talks   bool       // over sandbox.ChannelFD
	gate    *os.File   // writing to it starts the command
	inputs  []*os.File // our ends of what it reads
	outputs []*os.File // our ends of what it writes
	output  sync.WaitGroup

	status unix.WaitStatus
	rusage unix.Rusage
}

// prepare makes the directory, the rules, the caged thread and the streams.
func (r *run) prepare() (err error) {
	r.watch.Pidfd = -1
	r.flood = confine.NewFlood(r.spec.Limits.Output)
	if r.scratch, err = newScratch(); err != nil {
		return err
	}
	if err := r.scratch.unpack(r.spec.Copies); err != nil {
		return err
	}
	if err := r.enter(); err != nil {
		return err
	}
	return r.connect()
}

// enter makes the cage.
func (r *run) enter() error {
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

// connect makes the streams.
func (r *run) connect() error {
	kept := r.spec.Limits.Output
	if err := r.input(r.streams.Stdin); err != nil {
		return err
	}
	for _, w := range []io.Writer{r.streams.Stdout, r.streams.Stderr, r.streams.Results} {
		from, to, err := os.Pipe()
		if err != nil {
			return err
		}
		r.child, r.outputs = append(r.child, to), append(r.outputs, from)
		r.output.Go(func() {
			io.Copy(r.flood.Keep(w, kept), from) // ends when the last writer does
			from.Close()
		})
	}
	channel := r.streams.Channel
	r.talks = channel != nil
	if !r.talks {
		null, err := os.Open(os.DevNull) // so that the gate has its number; the first step closes it
		if err != nil {
			return err
		}
		channel = null
	}
	r.streams.Channel = nil // its end comes with the run's
	r.child = append(r.child, channel)
	gate, open, err := os.Pipe()
	if err != nil {
		return err
	}
	r.child, r.gate = append(r.child, gate), open
	return nil
}

// input gives the first step its standard input.
func (r *run) input(stdin io.Reader) error {
	if stdin == nil {
		null, err := os.Open(os.DevNull)
		r.child = append(r.child, null)
		return err
	}
	from, to, err := os.Pipe()
	if err != nil {
		return err
	}
	r.child, r.inputs = append(r.child, from), append(r.inputs, to)
	go func() { // not waited for: a reader may never end
		io.Copy(to, stdin)
		to.Close()
	}()
	return nil
}

// argv is the first step's command line.
func (r *run) argv() []string {
	step := firstStep
	if !r.talks {
		step += " 4<&-"
	}
	return slices.Concat([]string{"/bin/sh", "-c", step, "sh"}, r.scratch.translate(r.spec.Command()))
}

// environment is the run's, with the temporary directory that it can use.
func (r *run) environment() []string {
	env := r.scratch.translate(r.spec.Env)
	if !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "TMPDIR=") }) {
		env = append(env, "TMPDIR="+r.scratch.at(sandbox.Temp))
	}
	return env
}

// run starts the command, watches it to its end and says how it ended.
func (r *run) run(ctx context.Context) (sandbox.Result, error) {
	if err := r.start(); err != nil {
		return sandbox.Result{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- r.wait() }()
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
		for _, from := range r.outputs { // who cannot be ended does not end its output either
			from.Close()
		}
	}
	r.output.Wait()
	if err != nil {
		return sandbox.Result{}, err
	}
	return r.result(killed)
}

// start starts the first step in the cage.
func (r *run) start() error {
	// What this process has inherited itself must not be handed on. Go's own files never are.
	if err := unix.CloseRange(sandbox.ResultsFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	dir := sandbox.Workspace
	if r.spec.Dir != "" {
		dir = r.spec.Dir
	}
	attr := &syscall.ProcAttr{
		Dir: r.scratch.translate([]string{dir})[0], Env: r.environment(),
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}, // when the cage's thread ends
	}
	for _, f := range r.child {
		attr.Files = append(attr.Files, f.Fd())
	}
	pid, err := r.cage.start(r.argv(), attr)
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

// open puts the limits on the first step and lets it become the command.
func (r *run) open() error {
	fd, err := unix.PidfdOpen(r.watch.First, 0)
	if err != nil {
		return fmt.Errorf("pidfd: %w", err)
	}
	r.watch.Pidfd = fd
	if r.watch.Group, err = confine.Enclose(r.watch.First, r.spec.Limits); err != nil {
		return err
	}
	limits := r.mark.limits(confine.Rlimits(r.spec.Limits))
	delete(limits, unix.RLIMIT_NPROC) // would count all that the user has
	for resource, n := range limits {
		if err := unix.Prlimit(r.watch.First, resource, &unix.Rlimit{Cur: n, Max: n}, nil); err != nil {
			return fmt.Errorf("resource limit %d: %w", resource, err)
		}
	}
	_, err = r.gate.Write([]byte("go\n"))
	return err
}

// wait waits for the first process.
func (r *run) wait() error {
	for {
		_, err := unix.Wait4(r.watch.First, &r.status, 0, &r.rusage)
		if err != unix.EINTR {
			return err
		}
	}
}

// killAll sends SIGKILL to all that the run has.
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

// end kills what the command has left behind, until nothing is there. It gives up after half a minute.
func (r *run) end() error {
	for late := time.After(30 * time.Second); ; {
		r.killAll()
		left, ended := r.mark.find()
		for _, pid := range ended {
			unix.Wait4(pid, nil, unix.WNOHANG, nil) // for a guild that is the first process of a container
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-late:
			return fmt.Errorf("%d processes of the run cannot be ended", len(left))
		case <-time.After(time.Millisecond):
		}
	}
}

// result reads what is left when everything has ended.
func (r *run) result(killed string) (sandbox.Result, error) {
	if killed == "" {
		killed = r.watch.Exceeded()
	}
	r.leave()
	res := sandbox.Result{Killed: killed, Cut: r.flood.Cut(), Usage: r.watch.Usage()}
	own := time.Duration(r.rusage.Utime.Nano()+r.rusage.Stime.Nano()) * time.Nanosecond
	res.Usage.CPUMs = max(res.Usage.CPUMs, own.Milliseconds())
	res.Usage.MemoryPeak = max(res.Usage.MemoryPeak, r.rusage.Maxrss<<10)
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

// leave ends the cage, when no process is left in it.
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

// close lets go of everything.
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
