package judge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"guild"
	"guild/internal/judging/exam"
	"guild/internal/judging/typed"
	"guild/nutshell"
	"guild/oa"
)

// checkTyped judges the result of a typed job. ok is false for any other case. The result is decided by its schema and
// by doing the work again, and not by criteria. There is no partial success, because exit codes and hashes are right or
// wrong. A *PersonNeeded is returned with the verdict so far if doing it again does not decide.
func (j *Judge) checkTyped(ctx context.Context, c Case) (v guild.Verdict, evidence Evidence, ok bool, err error) {
	e, ok, err := typed.RequestedIn(c.Bundle)
	if !ok || err != nil {
		return v, nil, false, err
	}
	report, err := j.Typed.Check(ctx, e, filepath.Join(c.Delivery, nutshell.ArtifactsDir), c.Provider)
	if errors.Is(err, oa.ErrUnknown) { // the owner may describe the type later, so the provider must not lose its work
		v = guild.Verdict{Outcome: guild.Failure, Strength: guild.Unverified, Strengths: &guild.Strengths{}, Tier: "none", Cause: guild.Cut(err.Error(), maxCause)}
		return v, Evidence(v.Cause), true, &PersonNeeded{Reason: v.Cause}
	}
	if errors.Is(err, oa.ErrInvalid) { // an error in our own request: another try is useless
		err = fmt.Errorf("%w: %w", exam.ErrUndecided, err)
	}
	if err != nil {
		return v, nil, true, fmt.Errorf("%s: %w", e.JobType, err)
	}
	v = j.checked(report)
	evidence, err = json.Marshal(struct {
		Format  string        `json:"format"`
		Verdict guild.Verdict `json:"verdict"`
		Request oa.Envelope   `json:"request"`
		Report  typed.Report  `json:"report"`
	}{Format: "guild typed evidence 1", Verdict: v, Request: e, Report: report})
	if err != nil {
		return v, nil, true, fmt.Errorf("evidence: %w", err)
	}
	if report.Person != "" {
		return v, evidence, true, &PersonNeeded{Reason: report.Person}
	}
	return v, evidence, true, nil
}

// checked returns the verdict for the report of a check.
func (j *Judge) checked(r typed.Report) guild.Verdict {
	v := guild.Verdict{
		Outcome: guild.Success, Score: guild.Micro, Strength: r.Strength, Strengths: strengths(r.Tests), Tier: "none",
		Expected: len(r.Tests), Passed: exam.Passed(r.Tests), Tests: r.Tests, Warnings: r.Warnings,
	}
	if r.Ran {
		v.Tier = j.Caps.Tier
	}
	if !r.Passed() {
		v.Outcome, v.Score = guild.Failure, 0
		for _, t := range r.Tests {
			if t.State != guild.TestPassed {
				v.Cause = guild.Cut(t.ID+": "+t.Message, maxCause)
				break
			}
		}
	}
	v.Dimensions = []guild.Dimension{{Name: correctness, Weight: correctnessWeight, Value: v.Score, Known: true, Reason: r.How}}
	v.Standing = StandingOf(v.Score, v.Outcome == guild.Success)
	return v
}
