package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/hand/key"
	"guild/internal/journal"
	"guild/internal/node"
	"guild/internal/step/work"
)

// Exit codes, as exits describes them.
const (
	exitAccepted    = 0
	exitFailed      = cli.ExitFailed
	exitUsage       = cli.ExitUsage
	exitUnclaimed   = 3
	exitTimedOut    = 4
	exitViolation   = 5
	exitUndecided   = 6
	exitRejected    = 7
	exitCancelled   = 8
	exitNoNode      = 9
	exitInterrupted = cli.ExitInterrupted
)

// exit is an exit code with its name, which is the code of an error in JSON, and its meaning.
type exit struct {
	Code        int
	Name, Means string
}

// exits returns the exit codes of all verbs. "guild help exit-codes" and the help of hire are printed from it.
func exits() []exit {
	return []exit{
		{exitAccepted, "done", "it worked; of a job: accepted"},
		{exitFailed, "failed", "it did not work, or a check found something wrong"},
		{exitUsage, "usage", "wrong usage, input or configuration; or no guild init yet"},
		{exitUnclaimed, "unclaimed", "no provider took the job"},
		{exitTimedOut, "timed-out", "the job was not done in time"},
		{exitViolation, "violation", "security violation: it tried to break out of the sandbox"},
		{exitUndecided, "undecided", "a person must decide, or too few deliveries agree"},
		{exitRejected, "rejected", "the delivery was rejected, or passed in part only"},
		{exitCancelled, "cancelled", "the job was cancelled"},
		{exitNoNode, "no-node", "no node is running, or it died; guild up starts one"},
		{exitInterrupted, "interrupted", "interrupted; the job goes on, guild job watch follows it"},
	}
}

// listExits returns a line on each of the exit codes for a help text.
func listExits() string {
	var b strings.Builder
	for _, e := range exits() {
		fmt.Fprintf(&b, "  %-4d %-12s %s\n", e.Code, e.Name, e.Means)
	}
	return b.String()
}

// exitCodesTopic has the text of "guild help exit-codes".
func exitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "What the exit codes mean",
		Long: "guild ends with one of these exit codes.\n\n" + listExits() + `
With --json an error is one JSON object on standard output, {"error":…,
"hint":…, "code":…}. Its code is a name above, or one of guild help api where
the node refuses something. A verb that has printed its result already says the
error on standard error alone. guild replay diff and guild audit watch end as
diff does: 0 the same, 1 different, 2 trouble.`,
	}
}

// codeOf returns the exit code for an error. Without an identity or a journal it is that of wrong usage.
func codeOf(err error) int {
	if errors.Is(err, key.ErrNone) || errors.Is(err, journal.ErrNotInitialised) {
		return exitUsage
	}
	if _, foreign := errors.AsType[*key.ForeignError](err); foreign {
		return exitUsage
	}
	if _, missing := errors.AsType[*node.MissingError](err); missing {
		return exitUsage
	}
	if _, wrong := errors.AsType[*work.CommandError](err); wrong {
		return exitUsage
	}
	if isLost(err) {
		return exitNoNode
	}
	if e, ok := errors.AsType[*control.ProblemError](err); ok && e.Problem.Code == "usage" {
		return exitUsage
	}
	return cli.CodeOf(err)
}

// nameOfError returns the code of an error in JSON: what the node calls it, or the name of its exit code.
func nameOfError(err error) string {
	if e, ok := errors.AsType[*control.ProblemError](err); ok && e.Problem.Code != "" {
		return e.Problem.Code
	}
	code := codeOf(err)
	for _, e := range exits() {
		if e.Code == code {
			return e.Name
		}
	}
	return ""
}
