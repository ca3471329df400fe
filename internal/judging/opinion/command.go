package opinion

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"

	"guild/internal/judging/sandbox"
)

// Command asks a program. The program receives one comparison as JSON on standard input, {"task", "request", "a", "b"},
// all strings, and writes {"choice": "A" | "B" | "tie", "reason": "..."} to standard output.
type Command struct {
	Argv []string
	Env  []string // "NAME=value"; complete: nothing is inherited

	// Runner runs the command in a sandbox. Nil is for a trusted command of the owner's, such as one that asks a model
	// over the network.
	Runner   sandbox.Runner
	Patience time.Duration // for one answer; a minute if zero
}

// Best implements Opinion.
func (c Command) Best(ctx context.Context, q Question) (Choice, error) {
	if len(c.Argv) == 0 {
		return Choice{}, errors.New("opinion: no command configured")
	}
	choice, err := knockOut(ctx, q, c.ask)
	choice.Models = []string{"command"}
	return choice, err
}

// ask runs the command for one comparison.
func (c Command) ask(ctx context.Context, p pair) (answer, error) {
	stdin, err := json.Marshal(p)
	if err != nil {
		return answer{}, err
	}
	run := c.bare
	if c.Runner != nil {
		run = c.boxed
	}
	out, err := run(ctx, stdin)
	if err != nil {
		return answer{}, err
	}
	return readAnswer(out)
}

// boxed runs the command in a sandbox.
func (c Command) boxed(ctx context.Context, stdin []byte) ([]byte, error) {
	var stdout bytes.Buffer
	res, err := c.Runner.Run(ctx, sandbox.Spec{
		Argv: c.Argv, Env: c.Env, Limits: sandbox.Limits{Wall: cmp.Or(c.Patience, defaultPatience), Output: maxAnswer},
	}, sandbox.IO{Stdin: bytes.NewReader(stdin), Stdout: &stdout})
	switch {
	case err != nil:
		return nil, err
	case res.Killed != "":
		return nil, fmt.Errorf("the command ran over its limit of %s", res.Killed)
	case res.Exit != 0:
		return nil, fmt.Errorf("the command ended with exit code %d", res.Exit)
	default:
		return stdout.Bytes(), nil
	}
}

// bare runs the owner's command in its own process group, which is killed as a whole.
func (c Command) bare(ctx context.Context, stdin []byte) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, cmp.Or(c.Patience, defaultPatience))
	defer cancel()
	var stdout bytes.Buffer
	cmd := exec.CommandContext(limited, c.Argv[0], c.Argv[1:]...)
	cmd.Env = append([]string{}, c.Env...) // not nil, because nil would inherit our environment
	cmd.Stdin, cmd.Stdout = bytes.NewReader(stdin), &limitedBuffer{&stdout}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	killGroup := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel, cmd.WaitDelay = killGroup, time.Second
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("the command: %w", err)
	}
	err := cmd.Wait()
	killGroup() // kills processes that it left running
	if limited.Err() != nil {
		return nil, fmt.Errorf("the command: %w", limited.Err())
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return nil, fmt.Errorf("the command: %w", err)
	}
	return stdout.Bytes(), nil
}

// limitedBuffer accepts at most maxAnswer bytes.
type limitedBuffer struct{ kept *bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.kept.Len()+len(p) > maxAnswer {
		return 0, io.ErrShortWrite
	}
	return b.kept.Write(p)
}
