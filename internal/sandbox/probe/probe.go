// Package probe finds out what a sandbox holds on this machine, by running small hostile programs in it. It owns
// the list of what is tried and what a person could do about what did not hold; it builds no walls.
package probe

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"guild"
	"guild/internal/sandbox"
	"guild/internal/sandbox/confine"
)

// Check is one thing that was tried.
type Check struct {
	Name     string // what was tried, as "connect to an address outside"
	Held     bool   // it failed, or was ended
	Reported bool   // the runner told of it: a breach, the name of a limit, or a warning
	Skipped  bool   // it was not tried, and the other fields but Detail say nothing
	Detail   string // what happened, for people
}

// Report is what a runner holds.
type Report struct {
	Caps     sandbox.Caps
	Checks   []Check  // none if it is not usable
	Remedies []string // one line each, for this machine
}

// Held reports whether everything that was tried failed.
func (r Report) Held() bool {
	for _, c := range r.Checks {
		if !c.Held && !c.Skipped {
			return false
		}
	}
	return r.Caps.Usable
}

// Examine runs the hostile programs, one after the other. The error is about ctx or a sandbox that could not be
// built; what the sandbox does not hold is in the report. A program is such that it does no harm where nothing
// holds it.
func Examine(ctx context.Context, r sandbox.Runner) (Report, error) {
	report := Report{Caps: r.Probe(ctx)}
	report.Remedies = remedies(confine.ThisMachine(), report.Caps)
	if !report.Caps.Usable {
		return report, context.Cause(ctx)
	}
	for _, a := range attacks {
		c, err := a.try(ctx, r)
		if err != nil {
			return report, fmt.Errorf("probe: %s: %w", a.name, err)
		}
		report.Checks = append(report.Checks, c)
	}
	return report, nil
}

// Bounds of each hostile program: far below what the machine has.
var bounds = sandbox.Limits{
	Wall: 10 * time.Second, CPU: 5 * time.Second, Memory: 192 << 20, Disk: 16 << 20, Output: 64 << 10, Pids: 40,
}

// longestDetail is how much of what a program says is kept, in bytes.
const longestDetail = 200

// try runs one attack. The programs are ours, so what they print is believed.
func (a attack) try(ctx context.Context, r sandbox.Runner) (Check, error) {
	var out, complaints bytes.Buffer
	s := sandbox.Spec{
		Argv: []string{"/usr/bin/python3", "-I", "-S", "-c", prelude + a.program},
		Env:  []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"}, Limits: bounds,
	}
	res, err := r.Run(ctx, s, sandbox.IO{Stdout: &out, Stderr: &complaints})
	if err != nil {
		return Check{}, err
	}
	return a.judge(res, strings.TrimSpace(out.String()), strings.TrimSpace(complaints.String())), nil
}

// saidOf is a breach for people, whose detail may name the system call itself.
func saidOf(b guild.Breach) string {
	if strings.HasPrefix(b.Detail, b.Syscall+" ") {
		return b.Detail
	}
	return b.Syscall + " " + b.Detail
}

// judge reads what a program said: one line that begins with a word of ours, or nothing if it was ended.
func (a attack) judge(res sandbox.Result, said, complaint string) Check {
	c := Check{Name: a.name, Reported: len(res.Breaches) > 0 || res.Killed != "" || len(res.Warnings) > 0}
	word, detail, _ := strings.Cut(said, " ")
	switch {
	case word == "skipped":
		c.Skipped, c.Reported, c.Detail = true, false, detail
	case word == "succeeded":
		c.Detail = detail
	case word == "failed":
		c.Held, c.Detail = true, detail
	case res.Killed != "":
		c.Held, c.Detail = true, "ended by the limit of "+res.Killed
	case len(res.Breaches) > 0:
		c.Held = true
	case res.Signal != "":
		c.Held, c.Detail = true, "ended by "+res.Signal
	default:
		c.Skipped, c.Reported, c.Detail = true, false, "it did not run: "+complaint
	}
	if c.Held && len(res.Breaches) > 0 {
		c.Detail = saidOf(res.Breaches[0])
	}
	c.Detail = strings.ToValidUTF8(c.Detail[:min(len(c.Detail), longestDetail)], "")
	return c
}
