// Package probe tests a sandbox on this machine by running small hostile programs in it. It has the list of programs,
// and knows what a person can do about a sandbox that is missing or incomplete.
package probe

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/confine"
)

// Check is the result of one hostile program.
type Check struct {
	Name     string // what it tries, as "connect to an address outside"
	Held     bool   // the attempt failed, or the program was killed
	Reported bool   // the runner reported it: as a breach, an exceeded limit, or a warning
	Skipped  bool   // it was not tried; only Name and Detail are set
	Detail   string // a description of the result, for people
}

// Report holds the results for one runner.
type Report struct {
	Caps     sandbox.Caps
	Checks   []Check  // empty if the runner is not usable
	Remedies []string // improvements for this machine, one line each
}

// Held reports whether every attempt failed.
func (r Report) Held() bool {
	for _, c := range r.Checks {
		if !c.Held && !c.Skipped {
			return false
		}
	}
	return r.Caps.Usable
}

// Examine runs the hostile programs one after the other. The error is about ctx or a sandbox that could not be built; a
// program that succeeds is in the report. The programs do no harm even if they succeed.
func Examine(ctx context.Context, r sandbox.Runner) (Report, error) {
	report := Report{Caps: r.Probe(ctx)}
	report.Remedies = remedies(confine.ThisMachine(), report.Caps)
	if !report.Caps.Usable {
		return report, context.Cause(ctx)
	}
	for _, a := range attacks {
		var out, complaints bytes.Buffer // can be trusted, because the programs are ours
		s := sandbox.Spec{
			Argv: []string{"/usr/bin/python3", "-I", "-S", "-c", prelude + a.program},
			Env:  []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"}, Limits: limits,
		}
		res, err := r.Run(ctx, s, sandbox.IO{Stdout: &out, Stderr: &complaints})
		if err != nil {
			return report, fmt.Errorf("probe: %s: %w", a.name, err)
		}
		report.Checks = append(report.Checks, a.judge(res, strings.TrimSpace(out.String()), strings.TrimSpace(complaints.String())))
	}
	return report, nil
}

// limits of a hostile program. They are far below the machine's resources, so a program that succeeds does no harm.
var limits = sandbox.Limits{
	Wall: 10 * time.Second, CPU: 5 * time.Second, Memory: 192 << 20, Disk: 16 << 20, Output: 64 << 10, Pids: 40,
}

// longestDetail limits the kept part of a program's output, in bytes.
const longestDetail = 200

// judge reads a program's output: one line that begins with a word of the prelude, or nothing if it was killed.
func (a attack) judge(res sandbox.Result, output, complaint string) Check {
	c := Check{Name: a.name, Reported: len(res.Breaches) > 0 || res.Killed != "" || len(res.Warnings) > 0}
	word, detail, _ := strings.Cut(output, " ")
	switch {
	case word == "skipped":
		c.Skipped, c.Reported, c.Detail = true, false, detail
	case word == "succeeded":
		c.Detail = detail
	case word == "failed":
		c.Held, c.Detail = true, detail
	case res.Killed != "":
		c.Held, c.Detail = true, "killed for the limit of "+res.Killed
	case len(res.Breaches) > 0:
		c.Held = true
	case res.Signal != "":
		c.Held, c.Detail = true, "killed by "+res.Signal
	default:
		c.Skipped, c.Reported, c.Detail = true, false, "it did not run: "+complaint
	}
	if c.Held && len(res.Breaches) > 0 {
		b := res.Breaches[0]
		c.Detail = b.Detail
		if !strings.HasPrefix(b.Detail, b.Syscall+" ") {
			c.Detail = b.Syscall + " " + b.Detail
		}
	}
	c.Detail = strings.ToValidUTF8(c.Detail[:min(len(c.Detail), longestDetail)], "")
	return c
}
