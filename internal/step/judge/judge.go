// Package judge is the step that judges deliveries. It owns the verdicts. Package exam runs the criteria. The judge
// weighs their results, compares them with baselines, and asks a person if no program can decide.
package judge

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"guild"
	"guild/internal/judging/analysis"
	"guild/internal/judging/exam"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/typed"
)

// Judge examines deliveries and scores the results. Only Exam is required.
type Judge struct {
	Exam *exam.Engine
	Caps sandbox.Caps // of Exam.Runner

	// Analysis grades the delivered code for the quality of the verdict; optional.
	Analysis *analysis.Analyst

	// Typed checks the results of typed jobs, whose bundles have no criteria.
	Typed typed.Checker

	// ProfileHash returns the hash of a system call profile's rules, so that others can judge again with the same rules;
	// optional.
	ProfileHash func(sandbox.Profile) string
}

// Evidence is the judge's output as JSON, which is stored as a blob. With the bundle and the delivery, anybody can judge
// again and compare.
type Evidence []byte

// Judge judges a delivery of which only the files are known. It is otherwise like Hear.
func (j *Judge) Judge(ctx context.Context, bundleDir, deliveryDir string) (guild.Verdict, Evidence, error) {
	return j.Hear(ctx, Case{Bundle: bundleDir, Delivery: deliveryDir})
}

// Hear judges a case. It returns the errors of exam.Engine.ExamineHidden, or a *PersonNeeded together with the verdict
// so far and its evidence. A delivery that tried to escape the sandbox needs no person. If functional tests did not
// pass, and none by the delivery's fault, the error matches exam.ErrUndecided and the verdict, which has no outcome,
// tells whose fault it was. Neither the verdict nor the evidence tells what hidden tests showed; c.Whole receives that.
func (j *Judge) Hear(ctx context.Context, c Case) (guild.Verdict, Evidence, error) {
	if v, evidence, ok, err := j.checkTyped(ctx, c); ok || err != nil {
		return v, evidence, err
	}
	reading := j.startReading(ctx, c)
	if c.Progress != nil {
		ctx = exam.WithProgress(ctx, c.Progress)
	}
	report, err := j.Exam.ExamineHidden(ctx, c.Bundle, c.Delivery, c.Hidden)
	if err != nil {
		if reading != nil {
			reading.Stop()
		}
		return guild.Verdict{}, nil, err
	}
	read, err := endReading(reading, report)
	if err != nil {
		return guild.Verdict{}, nil, err
	}
	public, less := report.Public()
	if less && c.Whole != nil {
		_, whole, err := j.conclude(c, report, read)
		if whole == nil {
			return guild.Verdict{}, nil, err
		}
		c.Whole(whole)
	}
	v, evidence, err := j.conclude(c, public, read)
	if evidence != nil && report.Person != "" && v.Outcome != guild.Violation {
		return v, evidence, &PersonNeeded{Reason: report.Person}
	}
	return v, evidence, err
}

// conclude returns the verdict on a report, and its evidence. They come with an error if the delivery is not at fault.
func (j *Judge) conclude(c Case, report exam.Report, read analysis.Report) (guild.Verdict, Evidence, error) {
	v := j.verdict(c, report, read)
	undecided := excused(v)
	if undecided != nil && report.Person == "" {
		v.Outcome, v.Standing, v.Cause = "", "", undecided.Error()
	}
	evidence, err := json.Marshal(struct {
		Format   string          `json:"format"`
		Verdict  guild.Verdict   `json:"verdict"`
		Baseline Baseline        `json:"baseline"`
		Analysis analysis.Report `json:"analysis"`
		exam.Report
	}{Format: "guild judge evidence 1", Verdict: v, Baseline: c.Baseline, Analysis: read, Report: report})
	if err != nil {
		return guild.Verdict{}, nil, fmt.Errorf("evidence: %w", err)
	}
	return v, evidence, undecided
}

// startReading begins to analyse the delivered code, beside the examination. It returns nil without an analyst.
//
// Linters read the code in sandboxes of their own and never execute it. Only the coverage run executes it, with the
// bundle's own pytest tests.
func (j *Judge) startReading(ctx context.Context, c Case) *analysis.Analysis {
	if j.Analysis == nil {
		return nil
	}
	s := analysis.Subject{Bundle: c.Bundle, Delivery: c.Delivery}
	if c.Progress != nil {
		s.Progress = func(tool string, over bool) { c.Progress(tool, "", over) }
	}
	criteria, err := exam.Read(c.Bundle)
	if err != nil {
		criteria = exam.Criteria{} // the examination will say why
	}
	for _, criterion := range criteria.Criteria {
		if criterion.Framework == "pytest" {
			s.Scripts = append(s.Scripts, criterion.Script)
		}
	}
	return j.Analysis.Start(ctx, s)
}

// endReading waits for the analysis, unless the examination shows that it says nothing.
func endReading(reading *analysis.Analysis, r exam.Report) (analysis.Report, error) {
	if reading == nil {
		return analysis.Report{Reason: "analysis is switched off"}, nil
	}
	sum := add(r.Findings)
	switch {
	case len(sum.breaches) > 0:
		reading.Stop()
		return analysis.Report{Reason: "it tried to break out"}, nil
	case !sum.ran:
		reading.Stop()
		return analysis.Report{Reason: "nothing was run"}, nil
	}
	took := time.Duration(sum.usage.WallMs) * time.Millisecond
	if sum.fault != "" || exam.Passed(sum.tests) < len(sum.tests) {
		took = -1
	}
	return reading.Wait(took)
}
