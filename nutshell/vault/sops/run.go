package sops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"guild/nutshell/vault"
)

// Limits of a run.
const (
	maxOutput = vault.MaxSealed + 1 // bytes; one more than may be is too many
	maxText   = 1 << 10             // bytes that are kept of what it says
	grace     = 5 * time.Second     // between being asked to stop and being killed
)

// run runs sops on input and returns its output. The error is an *Error, that of ctx, or vault.ErrTooLarge.
func (s *Sealer) run(ctx context.Context, env []string, input []byte, args ...string) (vault.Secret, error) {
	if err := ctx.Err(); err != nil {
		return vault.Secret{}, err
	}
	timed, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	output, text := &bounded{left: maxOutput}, &bounded{left: maxText}
	cmd := exec.CommandContext(timed, s.program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = bytes.NewReader(input), output, text, env
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = grace
	err := cmd.Run()
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return vault.Secret{}, ctx.Err()
	case timed.Err() != nil:
		return vault.Secret{}, fmt.Errorf("sops did not end within %v: %w", s.o.Timeout, timed.Err())
	case exited:
		return vault.Secret{}, &Error{exit.ExitCode(), text.b.String()}
	case err != nil:
		return vault.Secret{}, fmt.Errorf("run sops: %w", err)
	case output.b.Len() > vault.MaxSealed:
		return vault.Secret{}, vault.ErrTooLarge
	}
	return vault.NewSecret(output.b.Bytes()), nil
}

// bounded keeps the first bytes that are written to it and drops the others.
type bounded struct {
	b    bytes.Buffer
	left int
}

// Write implements io.Writer.
func (w *bounded) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	w.left -= n
	w.b.Write(p[:n])
	return len(p), nil
}
