package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"guild"
	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/hand/key"
	"guild/internal/journal"
	"guild/internal/judging/sandbox"
)

func TestEachEndingHasItsExitCode(t *testing.T) {
	for ending, want := range map[guild.Ending]int{
		guild.JobAccepted: 0, guild.JobPartial: 7, guild.JobRejected: 7, guild.JobCancelled: 8, guild.JobParked: 6,
		guild.JobDisagreed: 6, guild.JobUnclaimed: 3, guild.JobTimedOut: 4, guild.JobViolated: 5,
	} {
		p := &program{err: &bytes.Buffer{}}
		if got := p.report(endingError(control.Job{ID: "5f21c9aa00", Ending: ending}), false); got != want {
			t.Errorf("%s: exit %d, want %d", ending, got, want)
		}
	}
}

func TestEachErrorHasItsExitCode(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"none":                    {nil, 0},
		"plain":                   {errors.New("x"), 1},
		"usage":                   {cli.Usage(errors.New("x")), 2},
		"usage with a hint":       {fmt.Errorf("x: %w", cli.WithHint(cli.Usage(errors.New("x")), "y")), 2},
		"the node's usage":        {&control.ProblemError{Problem: control.Problem{Error: "x", Code: "usage"}}, 2},
		"no identity":             {fmt.Errorf("x: %w", key.ErrNone), 2},
		"no journal":              {fmt.Errorf("x: %w", journal.ErrNotInitialised), 2},
		"no node":                 {control.ErrNotRunning, 9},
		"a node that died":        {fmt.Errorf("status: %w", control.ErrLost), 9},
		"interrupted":             {interrupted("5f21"), 130},
		"cancelled":               {fmt.Errorf("x: %w", context.Canceled), 130},
		"interrupted, and a stop": {errors.Join(interrupted("5f21"), nil), 130},
	} {
		if got := (&program{err: &bytes.Buffer{}}).report(c.err, false); got != c.want {
			t.Errorf("%s: exit %d, want %d", name, got, c.want)
		}
	}
}

func TestErrorsEndWithAHint(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{control.ErrNotRunning, "guild up"},
		{control.ErrLost, "guild up"},
		{key.ErrNone, "guild init"},
		{&key.ModeError{Path: "/x/identity", Mode: 0o644}, "chmod 600 /x/identity"},
		{&sandbox.UnusableError{Reason: "x", Remedy: "apt-get install podman"}, "apt-get install podman"},
		{&control.ProblemError{Problem: control.Problem{Error: "x", Hint: "more digits"}}, "more digits"},
		{interrupted("5f21c9aa00"), "guild job watch 5f21c9aa"},
		{endingError(control.Job{ID: "5f21c9aa00", Ending: guild.JobRejected, Attempts: []control.Attempt{{Receipt: "r-1"}}}), "guild receipt show 5f21c9aa"},
		{endingError(control.Job{ID: "5f21c9aa00", Ending: guild.JobDisagreed, Attempts: []control.Attempt{{Receipt: "r-1"}}}), "guild job show 5f21c9aa says which agree"},
		{endingError(control.Job{ID: "5f21c9aa00", Task: "python", Ending: guild.JobUnclaimed, Criticality: guild.High}), "guild market bench"},
	} {
		var b bytes.Buffer
		(&program{err: &b}).report(fmt.Errorf("wrapped: %w", c.err), false)
		first, second, _ := strings.Cut(b.String(), "\n")
		if !strings.HasPrefix(first, "guild: wrapped: ") || !strings.HasPrefix(second, "hint: ") || !strings.Contains(second, c.want) {
			t.Errorf("%v: %q", c.err, b.String())
		}
	}
}

func TestErrorsAreCleaned(t *testing.T) {
	var b bytes.Buffer
	(&program{err: &b}).report(cli.WithHint(errors.New("bad\x1b[2J\nguild: fake"), "\x07bell"), false)
	if strings.ContainsAny(b.String(), "\x1b\x07") || strings.Count(b.String(), "\n") != 2 {
		t.Errorf("%q", b.String())
	}
}

func TestShowJobOfSeveral(t *testing.T) {
	job := control.Job{ID: "5f21c9aa00", Criticality: guild.High, Ending: guild.JobAccepted, Chosen: "bb00", Reason: "2 of 3 accepted agree",
		Attempts: []control.Attempt{
			{ID: "aa00", Npub: "npub1aaaaaaaaaaaaaa", State: "accepted", Agrees: "aa00", Verdict: &guild.Verdict{Outcome: guild.Success}},
			{ID: "bb00", Npub: "npub1bbbbbbbbbbbbbb", Name: "bob", State: "accepted", Agrees: "bb00", Verdict: &guild.Verdict{Outcome: guild.Success, Passed: 3, Expected: 3}},
			{ID: "cc00", Npub: "npub1cccccccccccccc", State: "accepted", Agrees: "bb00"},
			{ID: "dd00", Npub: "npub1dddddddddddddd", State: "cancelled"},
		}}
	var got []string
	for _, a := range job.Attempts {
		got = append(got, placeOf(job, a))
	}
	if want := []string{"no other agrees", "this delivery is the job's", "agrees with bb00", ""}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := summary(job), "accepted by bob: 3 of 3 passed; 2 of 3 accepted agree"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	job.Criticality = guild.Low
	if got := placeOf(job, job.Attempts[1]); got != "" {
		t.Errorf("%q, and nobody else was asked", got)
	}
}
