package work

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"guild/internal/judging/sandbox"
)

// Bare runs a worker's command without a sandbox, in a process group that is killed as a whole. It is for owners who trust
// every customer. Judging never uses it.
type Bare struct{}

// Probe implements sandbox.Runner.
func (Bare) Probe(context.Context) sandbox.Caps {
	return sandbox.Caps{Tier: "none", Usable: true, Gaps: []string{"there is no sandbox at all"}, Lacks: []sandbox.Feature{sandbox.ServesInside}}
}

// results reads the data that a command writes to sandbox.ResultsFD.
type results struct {
	ours, theirs *os.File
	read         sync.WaitGroup
}

// passResults adds the descriptor to a command that has not started, and begins to read it.
func passResults(cmd *exec.Cmd, to io.Writer) (*results, error) {
	var r results
	var err error
	if r.ours, r.theirs, err = os.Pipe(); err != nil {
		return nil, err
	}
	if to == nil {
		to = io.Discard
	}
	cmd.ExtraFiles = []*os.File{r.theirs} // the first is sandbox.ResultsFD
	r.read.Go(func() { io.Copy(to, r.ours) })
	return &r, nil
}

// begun closes our copy of the command's end.
func (r *results) begun() { r.theirs.Close() }

// end waits for the end of the data. A process that outlives the command may hold the descriptor, so it waits a second at
// most.
func (r *results) end() {
	r.ours.SetReadDeadline(time.Now().Add(time.Second))
	r.read.Wait()
	r.ours.Close()
}

// Run implements sandbox.Runner. It ignores mounts, and of the limits all but the wall time.
func (Bare) Run(ctx context.Context, s sandbox.Spec, streams sandbox.IO) (sandbox.Result, error) {
	if streams.Serve != nil {
		return sandbox.Result{}, sandbox.CannotServe("none")
	}
	limits := s.Limits.WithDefaults()
	limited, cancel := context.WithTimeout(ctx, limits.Wall)
	defer cancel()
	cmd := exec.CommandContext(limited, s.Argv[0], s.Argv[1:]...)
	cmd.Env, cmd.Dir = s.Env, s.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = streams.Stdin, streams.Stdout, streams.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	sandbox.EndWithParent(cmd.SysProcAttr, syscall.SIGKILL)
	killGroup := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = killGroup
	cmd.WaitDelay = time.Second
	// Where the kernel kills the command when the thread that started it ends, the thread is kept until then.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	results, err := passResults(cmd, streams.Results)
	if err != nil {
		return sandbox.Result{}, err
	}
	start := time.Now()
	err = cmd.Start()
	results.begun()
	if err != nil {
		results.end()
		return sandbox.Result{}, err
	}
	err = cmd.Wait()
	killGroup() // processes that it left running
	results.end()
	result := sandbox.Result{Exit: cmd.ProcessState.ExitCode()}
	result.Usage.WallMs = time.Since(start).Milliseconds()
	if _, exited := errors.AsType[*exec.ExitError](err); !exited && !errors.Is(err, exec.ErrWaitDelay) && err != nil && ctx.Err() == nil {
		return result, err
	}
	if limited.Err() != nil && ctx.Err() == nil {
		result.Killed = sandbox.KilledWall
	}
	return result, nil
}
