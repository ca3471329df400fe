package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/control"
)

func TestErrorAsJSON(t *testing.T) {
	for _, c := range []struct {
		err                error
		message, code, end string
	}{
		{cli.WithHint(cli.Usage(errors.New("x")), "y"), "x", "usage", "y"},
		{fmt.Errorf("status: %w", control.ErrNotRunning), "status: " + control.ErrNotRunning.Error(), "no-node", "start a node with 'guild up'"},
		{&control.ProblemError{Problem: control.Problem{Error: "no job", Code: "missing"}}, "no job", "missing", ""},
		{endingError(control.Job{ID: "5f21c9aa00", Ending: guild.JobUnclaimed, Reason: "no eligible provider among 1: able is suspended"}),
			"job 5f21c9aa: no provider was asked: no eligible provider among 1: able is suspended", "unclaimed",
			"guild trust show NPUB says why; guild trust set NPUB --state reinstated --because '…' lets it work again"},
		{hireMark{}.unsent(fmt.Errorf("vet: %w", context.Canceled)), "interrupted: nothing was sent", "interrupted", ""},
		{interrupted("5f21c9aa00"), "job 5f21c9aa goes on", "interrupted", "guild job watch 5f21c9aa"},
		{endingError(control.Job{ID: "5f21c9aa00", Ending: guild.JobParked}), "job 5f21c9aa: parked", "undecided", "guild job show 5f21c9aa"},
	} {
		var out bytes.Buffer
		(&program{out: &out, err: &bytes.Buffer{}}).report(c.err, true)
		var got struct{ Error, Hint, Code string }
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || bytes.Count(out.Bytes(), []byte("\n")) != 1 {
			t.Errorf("%v: %q, %v", c.err, out.String(), err)
		}
		if got.Error != c.message || got.Code != c.code || got.Hint != c.end {
			t.Errorf("%v: %+v", c.err, got)
		}
	}
}

func TestResultIsTheOnlyJSON(t *testing.T) {
	var out bytes.Buffer
	p := &program{out: &out, err: &bytes.Buffer{}}
	root := p.rootCommand()
	root.AddCommand(p.local(&cobra.Command{Use: "look"}, func(*cobra.Command, []string) (*cli.Result, error) {
		return &cli.Result{JSON: []string{}}, errors.New("something is missing")
	}))
	asJSON, err := cli.Execute(t.Context(), root, []string{"look", "--json"})
	if code := p.report(err, asJSON); code != exitFailed || out.String() != "[]\n" {
		t.Errorf("exit %d, %q", code, out.String())
	}
}

func TestExitCodesFitATerminal(t *testing.T) {
	for line := range strings.Lines(exitCodesTopic().Long) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}
