// Package analysis reads delivered code without running it, and measures how much of it the tests reach: pylint, mypy,
// bandit, patterns of its own, and coverage. Every tool runs in a sandbox, because a linter's plugins and configuration
// are code too, and a parser that reads a stranger's file may have vulnerabilities. Findings lower a score; they never
// decide one alone.
//
// Only delivered Python files are read. Delivered configuration files and comments that silence a check are ignored,
// and no tool loads a delivered module. Coverage is the exception: it runs the customer's tests beside the delivery, in
// its own sandbox, so the delivery may forge its numbers. They earn an annotation, and nothing else.
package analysis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"guild"
	"guild/internal/judging/sandbox"
)

// Names of the tools in verdicts.
const (
	Bandit   = "bandit"
	Patterns = "pattern"
	Pylint   = "pylint"
	Mypy     = "mypy"
	Coverage = "coverage"
)

// Limits of an analysis.
const (
	defaultTime = 2 * time.Minute
	spare       = 10 * time.Second // for coverage, in addition to a multiple of the tests' duration
	atOnce      = 2                // tools that run concurrently
	shown       = 50               // findings in a verdict; the report has all
)

// Analyst runs the tools. Only Runner is required. It must not be copied after its first use.
type Analyst struct {
	Runner sandbox.Runner

	Python string        // the real interpreter, not a wrapper script; /usr/bin/python3 if empty
	Time   time.Duration // for all tools together; two minutes if zero
	Cache  string        // directory for mypy's cache; no cache if empty

	learning sync.Mutex // held while Cache is filled
	gaveUp   bool       // filling it failed and is not retried; guarded by learning
}

// Subject is a delivery to be analysed.
type Subject struct {
	Bundle   string   // directory of the unpacked request bundle
	Delivery string   // directory of the unpacked delivery; hostile
	Scripts  []string // scripts for pytest, as "tests/test_x.py"; if empty, coverage is not measured

	Took time.Duration // duration of the tests; coverage may take a multiple of it
}

// Report holds the findings of the tools.
type Report struct {
	Quality  *guild.Quality    `json:"quality,omitempty"`  // nil if there is nothing to read
	Tools    []guild.Tool      `json:"tools,omitempty"`    // tools that answered
	Reason   string            `json:"reason,omitempty"`   // why there is no grade
	Unknown  map[string]string `json:"unknown,omitempty"`  // tool → why it has no answer
	Findings []guild.Notice    `json:"findings,omitempty"` // all findings; Quality has the worst
	Usage    guild.Usage       `json:"usage"`              // of all tools
}

// Analyse runs every tool on the delivery. A tool that is not installed, fails or takes too long leaves its part
// unknown; the only error is that of ctx.
//
// A missing part must not be counted as a bad one: otherwise a provider's score would depend on the customer's machine.
func (a *Analyst) Analyse(ctx context.Context, s Subject) (Report, error) {
	files, err := survey(s.Delivery)
	switch {
	case err != nil:
		return Report{Reason: err.Error()}, ctx.Err()
	case len(files.python) == 0:
		return Report{Reason: "there is no Python in it"}, ctx.Err()
	}
	limited, cancel := context.WithTimeout(ctx, cmp.Or(a.Time, defaultTime))
	defer cancel()
	jobs := a.jobs(s, files)
	answers := make([]answer, len(jobs))
	crew := new(errgroup.Group)
	crew.SetLimit(atOnce)
	for i, j := range jobs {
		crew.Go(func() error {
			answers[i] = a.ask(limited, j, files)
			return nil
		})
	}
	_ = crew.Wait() // jobs return no errors, only answers
	if err := ctx.Err(); err != nil {
		return Report{}, fmt.Errorf("analysis: %w", err)
	}
	return combine(jobs, answers), nil
}

// jobs returns the tools to run, with their tasks.
func (a *Analyst) jobs(s Subject, f files) []job {
	order := order{Files: f.inside()}
	list := []job{
		{tool: Patterns, source: patternsSource, order: order},
		{tool: Bandit, source: banditSource, order: order},
		{tool: Pylint, source: pylintSource, order: order},
		{tool: Mypy, source: mypySource, order: order},
	}
	if len(s.Scripts) == 0 {
		return list
	}
	order.Root = sandbox.Judge
	order.Path = []string{sandbox.Judge + "/tests", sandbox.Judge, sandbox.Workspace, sandbox.Workspace + "/src"}
	for _, script := range s.Scripts {
		order.Scripts = append(order.Scripts, sandbox.Judge+"/"+cmp.Or(script, "tests"))
	}
	return append(list, job{tool: Coverage, source: coverageSource, order: order, bundle: s.Bundle, most: 5*s.Took + spare})
}

// combine makes one report from the answers.
func combine(jobs []job, answers []answer) Report {
	r := Report{Quality: new(guild.Quality), Unknown: map[string]string{}}
	for i, j := range jobs {
		a := answers[i]
		r.Usage = r.Usage.Add(a.usage)
		if a.Version != "" {
			r.Tools = append(r.Tools, guild.Tool{Name: j.tool, Version: a.Version})
		}
		if a.unknown != "" {
			r.Unknown[j.tool] = a.unknown
			continue
		}
		if j.tool != Coverage { // the delivery may forge coverage's findings
			for _, n := range a.Findings {
				n.Tool = j.tool
				r.Findings = append(r.Findings, n)
			}
		}
		q := r.Quality
		switch j.tool {
		case Pylint:
			q.Pylint, q.Linted = a.Grade, a.Statements > 0
		case Mypy:
			q.Types = a.Count
		case Coverage:
			q.Covered = a.Statements > 0
			q.Lines, q.Branches = part(a.Covered, a.Statements), part(a.Taken, a.Branches)
		}
	}
	if !r.Quality.Linted {
		r.Reason = "pylint: " + cmp.Or(r.Unknown[Pylint], "no statement to grade")
	}
	slices.SortStableFunc(r.Findings, func(a, b guild.Notice) int { // first what lowers the score, then by severity
		return cmp.Or(
			cmp.Compare(rank(a.Tool), rank(b.Tool)),
			cmp.Compare(slices.Index(severities(), a.Severity), slices.Index(severities(), b.Severity)),
			cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Code, b.Code),
		)
	})
	r.Quality.Findings = r.Findings[:min(len(r.Findings), shown)]
	return r
}

// part returns some/all as a score, or 1 if all is 0.
func part(some, all int64) guild.Score {
	if all <= 0 {
		return guild.Micro
	}
	return guild.Score(some * guild.Micro / all)
}

// rank returns 0 for the tools whose findings lower the quality, and 1 for the others.
func rank(tool string) int {
	if tool == Bandit || tool == Patterns {
		return 0
	}
	return 1
}

// severities returns the severities of findings, the worst first.
func severities() []string { return []string{"high", "medium", "low"} }
