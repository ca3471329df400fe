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

// Exit codes that mean the same for every verb, beside 0. A verb may have others, which its help lists.
const (
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

// answeredError is an error of a verb that has printed its result as JSON.
type answeredError struct{ error }

func (e answeredError) Unwrap() error { return e.error }

// Answered marks the error of a verb that has printed its result as JSON, so that ReportJSON does not print a second value. It
// returns nil if err is nil.
func Answered(err error) error {
	if err == nil {
		return nil
	}
	return answeredError{err}
}

// WithCode makes err end the program with an exit code.
func WithCode(err error, code int) error { return codedError{err, code} }

// Usage makes err one of wrong usage.
func Usage(err error) error { return WithCode(err, ExitUsage) }

// WithHint adds a hint how to solve err.
func WithHint(err error, hint string) error { return hintedError{err, hint} }

// Shown makes err set the exit code only, for a verb whose output already says what is wrong.
func Shown(err error) error { return silentError{err} }

// CodeOf returns the exit code for err: 0 for nil, that of WithCode, ExitInterrupted for a cancelled context, else
// ExitFailed.
func CodeOf(err error) int {
	if err == nil {
		return 0
	}
	if coded, ok := errors.AsType[codedError](err); ok {
		return coded.code
	}
	if errors.Is(err, context.Canceled) {
		return ExitInterrupted
	}
	return ExitFailed
}

// HintOf returns the hint of the outermost error that has one, or "".
func HintOf(err error) string {
	if h, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); ok {
		return h.Hint()
	}
	return ""
}

// Failure is an error as JSON.
type Failure struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
	Code  string `json:"code"` // one word, for programs
}

// ReportJSON prints an error as one line of JSON, unless the verb has printed its result.
func ReportJSON(w io.Writer, err error, hint, code string) {
	_, shown := errors.AsType[silentError](err)
	_, answered := errors.AsType[answeredError](err)
	if err == nil || shown || answered {
		return
	}
	_ = PrintLine(w, Failure{err.Error(), hint, code}) // a failure to print this cannot be printed either
}

// Report prints an error of the program, and the hint if there is one.
func Report(w io.Writer, program string, err error, hint string) {
	if _, shown := errors.AsType[silentError](err); err == nil || shown {
		return
	}
	fmt.Fprintf(w, "%s: %s\n", program, Clean(err.Error()))
	if hint != "" {
		fmt.Fprintln(w, "hint:", Clean(hint))
	}
}

// Interruptible ends the context at the first Ctrl-C or SIGTERM, or when the terminal closes, for a graceful end. The second
// has its usual effect and kills. nohup works as usual.
func Interruptible() (context.Context, func()) {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), ends...)
	stop := context.AfterFunc(ctx, cancel)
	return ctx, func() { stop(); cancel() }
}
