package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"guild"
	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/control"
	"guild/internal/hand/bunker"
	"guild/internal/hand/key"
	"guild/internal/journal"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/suite"
	"guild/oa"
)

// hintOf returns the hint of the outermost error that has one.
func hintOf(err error) string {
	if hint := cli.HintOf(err); hint != "" {
		return hint
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
	case errors.Is(err, control.ErrLost):
		return "the node has ended or was killed; 'guild up' starts it again"
	case errors.Is(err, bunker.ErrNoAnswer):
		return "see that the remote signer runs and reads its relay"
	case errors.Is(err, config.ErrNoHome):
		return "name a directory for everything: --home DIR, or GUILD_HOME"
	case errors.Is(err, key.ErrNone):
		return "make one with 'guild init'"
	case errors.Is(err, key.ErrExists):
		return "choose another --home, or use it as it is"
	case errors.Is(err, key.ErrPassphrase):
		return "try again, or set GUILD_PASSPHRASE"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "make room on the disk, and try again"
	}
	return ""
}

// endingError returns an error with its own exit code for each ending but accepted.
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
	case guild.JobParked, guild.JobDisagreed:
		code = exitUndecided
	case guild.JobRejected, guild.JobPartial:
		code = exitRejected
	case guild.JobCancelled:
		code = exitCancelled
	}
	err := fmt.Errorf("job %s: %s", short(job.ID), describeEnding(job))
	return cli.WithHint(cli.WithCode(err, code), endingHint(job))
}

func describeEnding(job control.Job) string {
	words := map[guild.Ending]string{
		guild.JobPartial:   "partly done",
		guild.JobRejected:  "the delivery was rejected",
		guild.JobViolated:  "the delivery tried to break out of the sandbox",
		guild.JobUnclaimed: describeUnclaimed(job),
		guild.JobDisagreed: "too few deliveries agree",
	}
	text, ok := words[job.Ending]
	if !ok {
		text = string(job.Ending)
	}
	// A reason may begin with the state of the last attempt, which the text already has.
	_, said := words[job.Ending]
	reason := job.Reason
	if state, rest, found := strings.Cut(reason, ", "); found && (state == string(job.Ending) || said && state == string(guild.Refused)) {
		reason = rest
	}
	if reason != "" {
		text += ": " + reason
	}
	return text
}

// describeUnclaimed says of a job that no provider did whether providers were asked, and whether they refused.
func describeUnclaimed(job control.Job) string {
	refused := func(a control.Attempt) bool { return a.State == string(guild.Refused) }
	switch {
	case len(job.Attempts) == 0:
		return "no provider was asked"
	case !slices.ContainsFunc(job.Attempts, func(a control.Attempt) bool { return !refused(a) }):
		return "refused by " + cli.Count(len(job.Attempts), "provider", "providers")
	}
	return "no provider did it"
}

func endingHint(job control.Job) string {
	switch job.Ending {
	case guild.JobUnclaimed:
		if len(job.Attempts) > 0 {
			break
		}
		if job.Criticality.Replicas() > 1 && suite.Name(job.Task) == "" {
			return "hire one of them three times without --criticality; guild market ls --task " + cli.Clean(job.Task) + " shows whom"
		}
		if job.Criticality.Replicas() > 1 {
			return "guild market bench NPUB gets to know one more; guild market ls --task " + cli.Clean(job.Task) +
				" shows whom; or lower --criticality"
		}
		if strings.HasSuffix(job.Reason, "is suspended") {
			return "guild trust show NPUB says why; guild trust set NPUB --state reinstated --because '…' lets it work again"
		}
		if !strings.HasPrefix(job.Reason, "no ") && !strings.Contains(job.Reason, "announced nothing") && job.Reason != "" {
			return "guild job show " + short(job.ID) + " has what was sent; hire again once that is mended"
		}
		return "guild market ls shows who offers what; guild doctor checks the relays"
	case guild.JobDisagreed:
		return "guild job show " + short(job.ID) + " says which agree; --compare sets by what (json, text, numbers:TOLERANCE, tests)"
	case guild.JobTimedOut:
		return "give it more time with --timeout, or ask another with --provider"
	case guild.JobRejected, guild.JobPartial:
		if _, err := oa.ParseID(job.Task); err == nil {
			return "guild judge explain " + short(job.ID) + " tells what was found"
		}
	}
	for _, a := range job.Attempts {
		if a.Receipt != "" {
			return "guild receipt show " + short(job.ID)
		}
	}
	return "guild job show " + short(job.ID)
}

// leftError says that the person left a job that goes on.
type leftError struct{ job string }

func (e *leftError) Error() string { return "job " + short(e.job) + " goes on" }

// interrupted returns the error for a person who stops following a job.
func interrupted(job string) error {
	err := cli.WithCode(&leftError{job}, exitInterrupted)
	return cli.WithHint(err, "guild job watch "+short(job))
}
