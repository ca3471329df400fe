package work

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"guild"
	"guild/internal/judging/sandbox"
	"guild/replay/session"
)

// maxStep bounds one command of a worker that runs several.
const maxStep = 5 * time.Minute

// Record records a call of a tool by a worker that is part of the program. done ends the call with its output; a call that
// failed has another exit code than 0. What is over the limits of a record is dropped.
func (a Assignment) Record(tool string, params map[string]string) (done func(output string, exit int)) {
	r := a.recording
	if r == nil {
		return func(string, int) {}
	}
	r.began = true
	id, err := r.Call(r.now(), tool, params)
	return func(output string, exit int) {
		if err == nil {
			_ = r.Result(r.now(), id, session.Output{Hash: guild.Sum([]byte(output)), Head: output}, &exit) // its call is open
		}
	}
}

// RecordModel records which model did the work, if that is known, and the tokens that it took so far.
func (a Assignment) RecordModel(model string, tokens session.Tokens) {
	line, err := json.Marshal(struct {
		Model  string         `json:"model,omitempty"`
		Tokens session.Tokens `json:"tokens"`
	}{model, tokens})
	if a.recording != nil && err == nil {
		a.recording.Line(a.recording.now(), session.Guild, line)
	}
}

// Step runs one command of a worker that runs several, as Do runs the only one, and writes its output to out. The error is about
// the sandbox; a command that goes over a limit has exit code 124 and says so in its output.
func (x Exec) Step(ctx context.Context, a Assignment, command string, out io.Writer) (exit int, err error) {
	x.Command = "exec 2>&1\n" + command // one stream, so that the lines stay in their order
	a.Limit = min(a.Limit, maxStep)
	result, err := x.Runner.Run(ctx, x.spec(a), sandbox.IO{
		Stdin: strings.NewReader(""), Stdout: sandbox.Whole{Writer: out}, Stderr: io.Discard, Results: sandbox.Whole{Writer: io.Discard, Free: true},
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("the sandbox: %w", err)
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case result.Killed != "":
		fmt.Fprintf(out, "\n[ended: it went over its limit: %s]\n", result.Killed)
		return 124, nil
	}
	return result.Exit, nil
}

// Serve runs a command that a worker speaks to over the command's standard input and output, for as long as the assignment may
// take. In all else it runs as the commands of Step do. It returns nil if ctx ended it. Otherwise the error says why it ended, and is
// a *FailedError unless the sandbox failed.
func (x Exec) Serve(ctx context.Context, a Assignment, in io.Reader, out io.Writer) error {
	var stderr tail
	result, err := x.Runner.Run(ctx, x.spec(a), sandbox.IO{
		Stdin: in, Stdout: sandbox.Whole{Writer: out}, Stderr: &stderr, Results: sandbox.Whole{Writer: io.Discard, Free: true},
	})
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return fmt.Errorf("the sandbox: %w", err)
	case result.Killed != "":
		return &FailedError{"it went over its limit: " + result.Killed, stderr.shown(a.hide)}
	}
	return &FailedError{fmt.Sprintf("it ended with exit code %d", result.Exit), stderr.shown(a.hide)}
}
