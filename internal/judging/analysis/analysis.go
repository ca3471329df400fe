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
	shown       = 50               // findings in a verdict; the report has all
)

// Analyst runs the tools. Only Runner is required. It must not be copied after its first use.
type Analyst struct {
	Runner sandbox.Runner

	Python string        // the real interpreter, not a wrapper script; /usr/bin/python3 if empty
	Time   time.Duration // for all tools together; two minutes if zero
	Cache  string        // directory for mypy's cache; no cache if empty
	Warm   bool          // tools prepare themselves for many deliveries, where Runner keeps them warm; their start takes longer

	learning sync.Mutex // held while Cache is filled
	gaveUp   bool       // filling it failed and is not retried; guarded by learning
}

// Subject is a delivery to be analysed.
type Subject struct {
	Bundle   string   // directory of the unpacked request bundle
	Delivery string   // directory of the unpacked delivery; hostile
	Scripts  []string // scripts for pytest, as "tests/test_x.py"; if empty, coverage is not measured

	// Progress is called, possibly concurrently, when a tool begins and when it has ended; optional.
	Progress func(tool string, over bool)
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

// Analysis is an analysis that runs. Either Wait or Stop must be called.
type Analysis struct {
	ctx       context.Context // the caller's
	stop      func()
	stopTests func() // stops the run for coverage, which runs the tests
	ended     chan struct{}

	reason  string // why there is nothing to analyse
	jobs    []job
	answers []answer
}

// Start runs every tool on the delivery, all at once, beside the tests. A tool that is not installed, fails or takes
// too long leaves its part unknown.
//
// A missing part must not be counted as a bad one: otherwise a provider's score would depend on the customer's machine.
func (a *Analyst) Start(ctx context.Context, s Subject) *Analysis {
	r := &Analysis{ctx: ctx, ended: make(chan struct{}), stop: func() {}, stopTests: func() {}}
	files, err := survey(s.Delivery)
	switch {
	case err != nil:
		r.reason = err.Error()
	case len(files.python) == 0:
		r.reason = "there is no Python in it"
	}
	if r.reason != "" {
		close(r.ended)
		return r
	}
	limited, stop := context.WithTimeout(ctx, cmp.Or(a.Time, defaultTime))
	tests, stopTests := context.WithCancel(limited)
	r.stop, r.stopTests = stop, stopTests
	r.jobs = a.jobs(s, files)
	r.answers = make([]answer, len(r.jobs))
	var crew sync.WaitGroup
	for i, j := range r.jobs {
		crew.Go(func() {
			ctx := limited
			if j.tool == Coverage {
				ctx = tests
			}
			if s.Progress != nil {
				s.Progress(j.tool, false)
				defer s.Progress(j.tool, true)
			}
			r.answers[i] = a.ask(ctx, j, files)
		})
	}
	go func() {
		crew.Wait()
		close(r.ended)
	}()
	return r
}

// Stop ends the tools and drops what they found.
func (r *Analysis) Stop() {
	r.stop()
	<-r.ended
}

// Wait returns the findings of the tools. took is the duration of the tests: coverage may take a multiple of it. If it
// is negative, because the tests did not pass, coverage is not measured: it would not decide anything. The only error is
// that of the context.
func (r *Analysis) Wait(took time.Duration) (Report, error) {
	defer r.Stop()
	if took < 0 {
		r.stopTests()
	} else {
		late := time.AfterFunc(5*took+spare, r.stopTests)
		defer late.Stop()
	}
	<-r.ended
	if err := r.ctx.Err(); err != nil {
		return Report{}, fmt.Errorf("analysis: %w", err)
	}
	if r.reason != "" {
		return Report{Reason: r.reason}, nil
	}
	if took < 0 {
		for i, j := range r.jobs {
			if j.tool == Coverage {
				r.answers[i] = answer{unknown: "the tests did not pass"}
			}
		}
	}
	return combine(r.jobs, r.answers), nil
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
	return append(list, job{tool: Coverage, source: coverageSource, order: order, bundle: s.Bundle})
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
