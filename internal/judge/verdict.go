package judge

import (
	"fmt"
	"strings"

	"guild"
	"guild/internal/exam"
)

// maxCause is how long a cause may be, in bytes.
const maxCause = 500

// dimension is one part of the composite score (the partnership protocol, section 3.2.1).
type dimension struct {
	weight int64 // percent
	value  guild.Score
	known  bool // a dimension that a task does not have is left out
}

// composite is the weighted mean of the known dimensions, rounded down; 0 if none is known.
func composite(dimensions ...dimension) guild.Score {
	var sum, weights int64
	for _, d := range dimensions {
		if d.known {
			sum += d.weight * int64(d.value)
			weights += d.weight
		}
	}
	if weights == 0 {
		return 0
	}
	return guild.Score(sum / weights)
}

// score weighs what the judge measures so far: correctness 50 and resources 15. Performance (25) needs a
// baseline and quality (10) a linter; until there are any, the weights of the others are renormalised.
func score(passed, expected int, withinLimits bool) guild.Score {
	correctness := dimension{weight: 50, known: expected > 0}
	if expected > 0 {
		correctness.value = guild.Score(int64(passed) * guild.Micro / int64(expected))
	}
	resources := dimension{weight: 15, known: true}
	if withinLimits {
		resources.value = guild.Micro
	}
	return composite(correctness, resources)
}

// outcome classifies by the share of tests that passed (the partnership protocol, section 4.2.4).
func outcome(passed, expected int) guild.Outcome {
	switch {
	case expected > 0 && passed == expected:
		return guild.Success
	case expected > 0 && passed*100 >= expected*80:
		return guild.Partial
	default:
		return guild.Failure
	}
}

// verdict adds the findings up. A breach outweighs everything, a crash or a limit outweighs the tests.
func verdict(findings []exam.Finding, tier string) guild.Verdict {
	v := guild.Verdict{Strength: guild.Strong, Tier: tier}
	var fault string
	withinLimits := true
	for _, f := range findings {
		v.Tests = append(v.Tests, f.Tests...)
		v.Breaches = append(v.Breaches, f.Breaches...)
		v.Warnings = append(v.Warnings, f.Warnings...)
		v.Decided += f.Decided
		v.Usage = exam.Add(v.Usage, f.Usage)
		withinLimits = withinLimits && !f.OverLimit
		if f.Strength != guild.Strong {
			v.Strength = guild.Weak
		}
		if fault == "" {
			fault = f.Fault
		}
	}
	v.Expected, v.Passed = len(v.Tests), exam.Passed(v.Tests)
	v.Score = score(v.Passed, v.Expected, withinLimits)
	switch {
	case len(v.Breaches) > 0:
		v.Outcome, v.Score = guild.Violation, 0
		v.Cause = v.Breaches[0].Syscall + ": " + v.Breaches[0].Detail
	case fault != "":
		v.Outcome, v.Cause = guild.Error, fault
	default:
		v.Outcome = outcome(v.Passed, v.Expected)
		v.Cause = cause(v)
	}
	v.Cause = guild.Cut(v.Cause, maxCause)
	return v
}

// cause says in a few words which tests did not pass.
func cause(v guild.Verdict) string {
	if v.Outcome == guild.Success {
		return ""
	}
	var names []string
	for _, t := range v.Tests {
		if t.State != guild.TestPassed && len(names) < 3 {
			names = append(names, t.ID)
		}
	}
	return fmt.Sprintf("%d of %d tests did not pass: %s", v.Expected-v.Passed, v.Expected, strings.Join(names, ", "))
}
