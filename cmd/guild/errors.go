package main

import (
	"context"
	"errors"
	"fmt"

	"guild"
	"guild/internal/control"
	"guild/internal/journal"
	"guild/internal/key"
	"guild/internal/sandbox"
)

// Exit codes, as the help of hire documents them. Other verbs use 0, 1, 2 and 130.
const (
	exitAccepted    = 0
	exitFailed      = 1 // rejected or partial; for other verbs: it did not work
	exitUsage       = 2
	exitUnclaimed   = 3
	exitTimedOut    = 4
	exitViolation   = 5
	exitInterrupted = 130
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

func usage(err error) error { return codedError{err, exitUsage} }

// withHint adds what the person can do about err.
func withHint(err error, hint string) error { return hintedError{err, hint} }

func codeOf(err error) int {
	if coded, ok := errors.AsType[codedError](err); ok {
		return coded.code
	}
	if e, ok := errors.AsType[*control.ProblemError](err); ok && e.Problem.Code == "usage" {
		return exitUsage
	}
	if errors.Is(err, context.Canceled) {
		return exitInterrupted
	}
	return exitFailed
}

// hintOf is what the outermost error that knows a remedy says.
func hintOf(err error) string {
	if h, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); ok && h.Hint() != "" {
		return h.Hint()
	}
	if hint := journal.Hint(err); hint != "" {
		return hint
	}
	if e, ok := errors.AsType[*sandbox.UnusableError](err); ok {
		return e.Remedy
	}
	switch {
	case errors.Is(err, control.ErrNotRunning):
		return "start a node with 'guild up'"
	case errors.Is(err, key.ErrNone):
		return "make one with 'guild init'"
	case errors.Is(err, key.ErrExists):
		return "choose another --home, or use it as it is"
	case errors.Is(err, key.ErrPassphrase):
		return "try again, or set GUILD_PASSPHRASE"
	}
	return ""
}

// endingError says how a job ended when that is not well. Each ending has its exit code.
func endingError(job control.Job) error {
	code := exitFailed
	switch job.Ending {
	case guild.JobAccepted:
		return nil
	case guild.JobUnclaimed:
		code = exitUnclaimed
	case guild.JobTimedOut:
		code = exitTimedOut
	case guild.JobViolated:
		code = exitViolation
	}
	err := fmt.Errorf("job %s: %s", short(job.ID), describeEnding(job))
	return withHint(codedError{err, code}, endingHint(job))
}

func describeEnding(job control.Job) string {
	words := map[guild.Ending]string{
		guild.JobPartial:   "partly done",
		guild.JobRejected:  "the delivery was rejected",
		guild.JobViolated:  "the delivery tried to break out of the sandbox",
		guild.JobUnclaimed: "nobody took it",
	}
	text, ok := words[job.Ending]
	if !ok {
		text = string(job.Ending)
	}
	if job.Reason != "" {
		text += ": " + job.Reason
	}
	return text
}

func endingHint(job control.Job) string {
	switch job.Ending {
	case guild.JobUnclaimed:
		if len(job.Attempts) > 0 {
			break
		}
		return "guild market ls shows who offers what; guild doctor checks the relays"
	case guild.JobTimedOut:
		return "give it more time with --timeout, or ask another with --provider"
	}
	for _, a := range job.Attempts {
		if a.Receipt != "" {
			return "guild receipt show " + short(job.ID)
		}
	}
	return "guild job show " + short(job.ID)
}

// interrupted is what a person sees who leaves a job that goes on.
func interrupted(job string) error {
	err := codedError{fmt.Errorf("job %s goes on", short(job)), exitInterrupted}
	return withHint(err, "guild job watch "+short(job))
}
