package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/judging/analysis"
	"guild/internal/judging/exam"
)

// maxCause limits a cause, in bytes.
const maxCause = 500

// Case is a delivery to judge, with what is known about it besides its files.
type Case struct {
	Bundle   string // directory of the unpacked request bundle
	Delivery string // directory of the unpacked delivery; hostile
	Hidden   string // directory of the hidden tests; if empty, those of the bundle, if it has any

	Task     string        // empty if judged by hand
	Provider nostr.PubKey  // the provider; zero if unknown
	Latency  time.Duration // from the request to its result; 0 if unknown
	Baseline Baseline      // of the task; zero if there is none

	// Whole receives the evidence with what hidden tests showed, if there are any; optional. It must not be exported.
	Whole func(Evidence)

	Progress exam.Progress // told of the criteria, and of the tools that read the code; optional
}

// findings is the sum of the findings of an examination.
type findings struct {
	tests     []guild.Test
	breaches  []guild.Breach
	warnings  []string
	usage     guild.Usage
	tools     map[string]string
	decided   int
	unproven  []string
	fault     string
	overLimit bool
	ran       bool
}

// add sums up findings. The delivery's first fault is kept.
func add(list []exam.Finding) findings {
	sum := findings{tools: map[string]string{}}
	for _, f := range list {
		sum.tests = append(sum.tests, f.Tests...)
		sum.breaches = append(sum.breaches, f.Breaches...)
		sum.warnings = append(sum.warnings, f.Warnings...)
		sum.decided += f.Decided
		sum.usage = sum.usage.Add(f.Usage)
		sum.overLimit = sum.overLimit || f.OverLimit && f.AtFault()
		sum.ran = sum.ran || len(f.Runs) > 0
		maps.Copy(sum.tools, f.Tools)
		sum.unproven = append(sum.unproven, f.Unproven...)
		if sum.fault == "" && f.AtFault() {
			sum.fault = f.Fault
		}
	}
	slices.Sort(sum.unproven)
	sum.unproven = slices.Compact(sum.unproven)
	return sum
}

// verdict computes a verdict from a report. A breach counts before everything else, a crash or an exceeded limit before
// the tests, and a failed smoke test before the other tests.
func (j *Judge) verdict(c Case, r exam.Report, read analysis.Report) guild.Verdict {
	sum := add(r.Findings)
	tests := count(sum.tests)
	v := guild.Verdict{
		Strength: strengthOf(r.Findings), Strengths: strengths(sum.tests), Unproven: sum.unproven, Tier: j.Caps.Tier,
		Expected: len(sum.tests), Passed: exam.Passed(sum.tests), Tests: sum.tests,
		Quality: read.Quality, Decided: sum.decided, Claims: r.Claims, Hidden: r.Hidden,
		Warnings: slices.Compact(sum.warnings), Breaches: sum.breaches, Usage: sum.usage,
		Box: j.box(r.Findings), Tools: tools(sum.tools, read.Tools),
	}
	v.Dimensions = measured{
		tests: tests, ran: sum.ran, fault: sum.fault != "", overLimit: sum.overLimit, wallMs: sum.usage.WallMs, waitedMs: sum.usage.WaitedMs,
		baseline: c.Baseline.wall(), why: c.Baseline.why(), quality: read.Quality, unread: read.Reason,
	}.dimensions()
	v.Score = composite(v.Dimensions)
	v.Outcome, v.Cause = decide(sum, tests)
	if v.Outcome == guild.Violation {
		v.Score = 0
	}
	v.Standing = StandingOf(v.Score, v.Outcome == guild.Success)
	if tests.smokeFailed() {
		v.Standing = guild.StandingRejected
	}
	if v.Outcome == guild.Success || v.Outcome == guild.Partial {
		v.Speed = speed(tests.performance, reference{
			runMs: sum.usage.WallMs, waitedMs: sum.usage.WaitedMs, baselineMs: c.Baseline.wall(),
			testsUs: micros(sum.tests, guild.LayerPerformance), limitUs: int64(r.Criteria.TimeLimit) * guild.Micro,
		})
	}
	v.Annotations = annotations(c, v)
	return v
}

// decide returns the outcome, and its cause if it is not a success.
func decide(sum findings, tests tallies) (guild.Outcome, string) {
	var out guild.Outcome
	var cause string
	switch {
	case len(sum.breaches) > 0:
		out, cause = guild.Violation, sum.breaches[0].Syscall+": "+sum.breaches[0].Detail
	case sum.fault != "":
		out, cause = guild.Error, sum.fault
	case tests.smokeFailed():
		out, cause = guild.Failure, "a smoke test did not pass: "+strings.Join(unpassed(sum.tests, guild.LayerSmoke), ", ")
	case len(sum.tests) == 0:
		out, cause = guild.Failure, "nothing was run: there is no test"
	default:
		f := tests.functional
		out = outcome(f)
		if out != guild.Success {
			cause = fmt.Sprintf("%d of %d tests did not pass: %s", f.expected-f.passed, f.expected, strings.Join(unpassed(sum.tests, ""), ", "))
		}
	}
	return out, guild.Cut(cause, maxCause)
}

// rescored returns a verdict with a person's ruling as its outcome. The ruling becomes the correctness, and the other
// dimensions stay as measured. For PARTIAL it is the share of the tests that passed, or a half without tests.
func rescored(v guild.Verdict) guild.Verdict {
	d := guild.Dimension{Name: correctness, Weight: correctnessWeight}
	rest := slices.Clone(v.Dimensions)
	if i := slices.IndexFunc(rest, func(d guild.Dimension) bool { return d.Name == correctness }); i >= 0 {
		d = rest[i]
		rest = slices.Delete(rest, i, i+1)
	}
	switch {
	case v.Outcome == guild.Success:
		d.Value = guild.Micro
	case v.Outcome == guild.Failure:
		d.Value = 0
	case !d.Known:
		d.Value = guild.Micro / 2
	}
	d.Known, d.Reason = true, "a person's ruling"
	v.Dimensions = append([]guild.Dimension{d}, rest...)
	v.Score = composite(v.Dimensions)
	v.Standing = StandingOf(v.Score, v.Outcome == guild.Success)
	return v
}

// unpassed names the first three tests that count against the delivery: those of a layer or, if layer is empty, those that decide.
func unpassed(tests []guild.Test, layer string) []string {
	var names []string
	for _, t := range tests {
		if exam.Blamed(t) && (t.Layer == layer || layer == "" && functional(t)) && len(names) < 3 {
			names = append(names, t.ID)
		}
	}
	return names
}

// micros returns the time of all tests of a layer together, in microseconds.
func micros(tests []guild.Test, layer string) int64 {
	var sum int64
	for _, t := range tests {
		if t.Layer == layer {
			sum += t.Micros
		}
	}
	return sum
}

// annotations returns the annotations of a success (the partnership protocol, section 3.2.2).
func annotations(c Case, v guild.Verdict) []string {
	if v.Outcome != guild.Success {
		return nil
	}
	var notes []string
	if c.Latency > 0 {
		notes = Punctual([]time.Duration{c.Latency}, c.Baseline)
	}
	if v.Box != nil && efficient(v.Usage.MemoryPeak, v.Box.Memory) {
		notes = append(notes, Efficient)
	}
	if thorough(v.Quality) {
		notes = append(notes, Thorough)
	}
	return notes
}
