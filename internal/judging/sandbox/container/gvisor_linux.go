package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/confine"
)

// GVisor is the sandbox.Runner that calls gVisor's runsc, a kernel written in Go between the run and the host's kernel. It
// needs runsc and unshare(1), but no daemon and no root.
type GVisor struct {
	Path string // the runsc executable; found on PATH if empty
}

const gvisorRemedy = "install gVisor's runsc on PATH: https://gvisor.dev/docs/user_guide/install/"

// Resources of gVisor itself, in addition to the run's: threads and bytes of memory.
const (
	gvisorThreads = 100
	gvisorMemory  = 96 << 20
)

// Probe implements Runner by running true.
func (g GVisor) Probe(ctx context.Context) sandbox.Caps {
	c := sandbox.Caps{Rootfs: "host", Tier: TierGVisor, Remedy: gvisorRemedy}
	if _, err := g.paths(); err != nil {
		c.Reason = err.Error()
		return c
	}
	if err := sandbox.Try(ctx, g); err != nil {
		c.Reason, c.Remedy = err.Error(), "runsc needs unprivileged user namespaces and about 100 MB of memory"
		if obstacles := confine.ThisMachine().Obstacles(); len(obstacles) > 0 {
			c.Reason, c.Remedy = c.Reason+": "+obstacles[0].Reason, obstacles[0].Remedy
		}
		return c
	}
	c.Usable, c.Remedy = true, ""
	c.Gaps = []string{
		"starting a run takes about a tenth of a second, and system calls are slower than the host's",
		"an attempt to send without connecting is reported without its address",
		"the profiles strict and standard are the same, and calls that are refused are not counted",
		"the workspace, /tmp and /dev/shm are bounded each for itself, by parts of the limit, and not measured",
		"processes are limited with those of gVisor's own kernel, and not measured; files are not counted",
		"nothing can be collected from a run that a limit ended",
		"a run can end its own first process, and with it itself",
	}
	c.Lacks = []sandbox.Feature{
		sandbox.LimitsInodes, sandbox.NamesLimits, sandbox.MeasuresDisk, sandbox.MeasuresPids,
		sandbox.CountsRefused, sandbox.CollectsKilled, sandbox.KeepsFirst, sandbox.ServesInside,
	}
	if os.Geteuid() != 0 {
		c.Gaps = append(c.Gaps, "the run believes that it is root, though it has no capabilities")
		c.Lacks = append(c.Lacks, sandbox.OrdinaryUser)
	}
	return c
}

// programs holds the paths of the programs that start a run.
type programs struct{ runsc, unshare string }

// paths returns the paths of the programs, or an error if one is not installed.
func (g GVisor) paths() (p programs, err error) {
	if p.runsc, err = exec.LookPath(cmp.Or(g.Path, "runsc")); err != nil {
		return p, err
	}
	if p.runsc, err = filepath.Abs(p.runsc); err != nil {
		return p, err
	}
	p.unshare, err = exec.LookPath("unshare")
	return p, err
}

// Run implements Runner.
func (g GVisor) Run(ctx context.Context, s sandbox.Spec, streams sandbox.IO) (sandbox.Result, error) {
	p, err := g.paths()
	if err != nil {
		return sandbox.Refuse(sandbox.Caps{Reason: err.Error(), Remedy: gvisorRemedy}, streams)
	}
	return whole(TierGVisor, s, streams, func(r *run) (sandbox.Result, error) { return r.runsc(ctx, p) })
}

// Descriptors of firstStep. It does not pass them on to runsc.
const (
	gateFD  = 8
	readyFD = 9
)

// firstStep is the script of the first process in runsc's namespaces. It reports that it runs and waits until its
// limits are set; then it becomes runsc. So runsc never runs without limits.
const firstStep = `echo >&9; read x <&8; exec "$@" 8<&- 9>&-`

// runsc runs the command with runsc.
func (r *run) runsc(ctx context.Context, p programs) (sandbox.Result, error) {
	uid := sandbox.User
	if os.Geteuid() != 0 {
		uid = 0 // only one user can be mapped, and gVisor requires it to be root
	}
	if err := r.writeBundle(uid); err != nil {
		return sandbox.Result{}, err
	}
	trace, err := newTracer(r.dir, r.spec.Network)
	if err != nil {
		return sandbox.Result{}, err
	}
	defer trace.close()
	ready, err := r.out(readyFD)
	if err != nil {
		return sandbox.Result{}, err
	}
	gate, err := r.in(gateFD)
	if err != nil {
		return sandbox.Result{}, err
	}
	defer pin()()
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	if err := r.start(r.runscCommand(p), []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin"}, attr); err != nil {
		return sandbox.Result{}, err
	}
	if err := r.limit(ready, gate); err != nil {
		r.cmd.Process.Kill()
		r.cmd.Wait()
		return sandbox.Result{}, fmt.Errorf("%w: %s", err, strings.TrimSpace(r.stderr.String()))
	}
	r.watch.Breach = trace.breach
	r.pump.Go(func() {
		if r.awaitReady() {
			r.unpack()
		} else {
			r.copies.Close()
		}
	})
	killed, err := r.wait(ctx)
	if err != nil {
		return sandbox.Result{}, err
	}
	trace.close()
	res, err := r.result(killed)
	if err != nil {
		return sandbox.Result{}, err
	}
	if !trace.heard && res.Killed == "" { // a tracer reports at least the end of a process
		return sandbox.Result{}, errors.New("gVisor's kernel does not report what it sees")
	}
	res.Breaches = append(res.Breaches, trace.breaches()...)
	return res, nil
}

// runscCommand returns the command line of runsc in its own namespaces, so that it and all its processes end with us.
func (r *run) runscCommand(p programs) []string {
	argv := []string{p.unshare}
	if os.Geteuid() != 0 {
		argv = append(argv, "--user", "--map-root-user")
	}
	network := "none"
	if r.spec.Network {
		network = "host"
	}
	argv = append(argv, "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
		"--", "/bin/sh", "-c", firstStep, "sandbox",
		p.runsc, "--root", filepath.Join(r.dir, "state"), "--rootless", "--network="+network, "--platform=systrap",
		"--ignore-cgroups", "--overlay2=none", "--host-settings=ignore", "--oci-seccomp",
		"--log", filepath.Join(r.dir, "log"), "--pod-init-config", filepath.Join(r.dir, traceConfig),
		"run", "--bundle", r.dir)
	for i, f := range r.child {
		n := strconv.Itoa(sandbox.ResultsFD + i)
		if f != nil && sandbox.ResultsFD+i < gateFD {
			argv = append(argv, "--pass-fd", n+":"+n)
		}
	}
	return append(argv, "box")
}

// limit sets the limits of the first process in runsc's namespaces and lets it continue.
func (r *run) limit(ready, gate *os.File) error {
	var b [1]byte
	if n, _ := ready.Read(b[:]); n == 0 {
		return errors.New("no namespace for runsc")
	}
	first, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", r.cmd.Process.Pid))
	if err != nil {
		return err
	}
	l := r.spec.Limits
	l.Pids += gvisorThreads
	l.Memory += gvisorMemory
	if err := r.hold(first, l); err != nil {
		return err
	}
	_, err = gate.Write([]byte{'\n'})
	return err
}
