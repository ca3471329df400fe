package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes that mean the same for every verb. A verb may have others, and says so in its help.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitInterrupted = 130
)

// codedError is an error that decides the exit code.
type codedError struct {
	error
	code int
}

func (e codedError) Unwrap() error { return e.error }

// hintedError is an error with a word to the person.
type hintedError struct {
	error
	hint string
}

func (e hintedError) Unwrap() error { return e.error }
func (e hintedError) Hint() string  { return e.hint }

// silentError is an error that has been shown already and only decides the exit code.
type silentError struct{ error }

func (e silentError) Unwrap() error { return e.error }

// WithCode makes err end the program with an exit code.
func WithCode(err error, code int) error { return codedError{err, code} }

// Usage makes err one of wrong usage.
func Usage(err error) error { return WithCode(err, ExitUsage) }

// WithHint adds what the person can do about err.
func WithHint(err error, hint string) error { return hintedError{err, hint} }

// Shown is for a verb whose output already says what is wrong: the exit code is that of err, and nothing more is
// printed.
func Shown(err error) error { return silentError{err} }

// CodeOf returns the exit code for err: what WithCode said, ExitInterrupted for a cancelled context, else ExitFailed.
func CodeOf(err error) int {
	if err == nil {
		return ExitDone
	}
	if coded, ok := errors.AsType[codedError](err); ok {
		return coded.code
	}
	if errors.Is(err, context.Canceled) {
		return ExitInterrupted
	}
	return ExitFailed
}

// HintOf returns what the outermost error that knows a remedy says, or nothing.
func HintOf(err error) string {
	if h, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); ok {
		return h.Hint()
	}
	return ""
}

// Report prints, in the name of program, what went wrong and what can be done about it.
func Report(w io.Writer, program string, err error, hint string) {
	if _, shown := errors.AsType[silentError](err); err == nil || shown {
		return
	}
	fmt.Fprintf(w, "%s: %s\n", program, Clean(err.Error()))
	if hint != "" {
		fmt.Fprintln(w, "hint:", Clean(hint))
	}
}

// Interruptible ends the context at the first Ctrl-C or SIGTERM, for a graceful end. The second has its usual
// effect and kills.
func Interruptible() (context.Context, func()) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	stop := context.AfterFunc(ctx, cancel)
	return ctx, func() { stop(); cancel() }
}
