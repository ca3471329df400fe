package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"guild"
	"guild/internal/judging/analysis"
	"guild/internal/judging/exam"
)

// The dimensions of a score and their weights in percent (the partnership protocol, section 3.2.1).
const (
	correctness, correctnessWeight = "correctness", 50
	performance, performanceWeight = "performance", 25
	resources, resourcesWeight     = "resources", 15
	quality, qualityWeight         = "quality", 10
)

// The limits that lower the quality.
const (
	fineGrade = 7_000           // pylint's grade in thousandths below which the quality is at most halfGood
	halfGood  = guild.Micro / 2 // the quality that such a grade is limited to
)

// severities maps the severity of a static finding to the quality that it costs.
var severities = map[string]guild.Score{"high": guild.Micro / 5, "medium": guild.Micro / 10, "low": guild.Micro / 50}

// tally counts tests.
type tally struct{ passed, expected int }

// share returns the share of passed tests, rounded down.
func (t tally) share() guild.Score {
	if t.expected == 0 {
		return 0
	}
	return guild.Score(int64(t.passed) * guild.Micro / int64(t.expected))
}

func (t tally) whole() bool { return t.expected > 0 && t.passed == t.expected }

// tallies counts tests by what they decide. Tests without a known layer count as correctness.
type tallies struct {
	smoke       tally
	functional  tally // smoke and correctness
	side        tally // edge and security
	performance tally

	excused int // functional tests that did not pass by no fault of the delivery; they count nowhere else
}

// count counts the tests by layer. If no test is functional, all of them count as functional, because otherwise nothing
// would decide. A test that did not pass by no fault of the delivery is not counted.
func count(tests []guild.Test) tallies {
	var t tallies
	var all tally
	beside := 0 // excused tests that are not functional
	for _, test := range tests {
		if exam.Excused(test) {
			if functional(test) {
				t.excused++
			} else {
				beside++
			}
			continue
		}
		into := []*tally{&all}
		switch test.Layer {
		case guild.LayerSmoke:
			into = append(into, &t.smoke, &t.functional)
		case guild.LayerEdge, guild.LayerSecurity:
			into = append(into, &t.side)
		case guild.LayerPerformance:
			into = append(into, &t.performance)
		default:
			into = append(into, &t.functional)
		}
		for _, one := range into {
			one.expected++
			if test.State == guild.TestPassed {
				one.passed++
			}
		}
	}
	if t.functional.expected == 0 && t.excused == 0 {
		t.functional, t.excused = all, beside
	}
	return t
}

// functional reports whether a test is functional.
func functional(t guild.Test) bool {
	return !slices.Contains([]string{guild.LayerEdge, guild.LayerPerformance, guild.LayerSecurity}, t.Layer)
}

// smokeFailed reports whether a smoke test did not pass, which rejects the delivery at once.
func (t tallies) smokeFailed() bool { return t.smoke.passed < t.smoke.expected }

// measured holds the values from which a score is computed.
type measured struct {
	tests     tallies
	ran       bool   // a part of the delivery was run
	fault     bool   // a run did not end by itself
	overLimit bool   // a run exceeded a limit
	wallMs    int64  // the time of all runs
	waitedMs  int64  // of that, in which the machine had too few processors
	baseline  int64  // milliseconds, 0 if there is none
	why       string // why there is no baseline

	quality *guild.Quality // nil without an analysis
	unread  string         // why there is no grade
}

// dimensions returns the four parts of the score, including unknown ones.
func (m measured) dimensions() []guild.Dimension {
	return []guild.Dimension{m.correctness(), m.performance(), m.resources(), m.qualityOf()}
}

// correctness is the share of functional tests that passed. It is unknown without tests.
func (m measured) correctness() guild.Dimension {
	f := m.tests.functional
	d := guild.Dimension{Name: correctness, Weight: correctnessWeight, Known: f.expected > 0, Value: f.share()}
	switch {
	case !d.Known:
		d.Reason = "there are no tests"
	case !f.whole():
		d.Reason = fmt.Sprintf("%d of %d functional tests passed", f.passed, f.expected)
	}
	return d
}

// performance compares the run time with the baseline. It is unknown if a run was aborted.
func (m measured) performance() guild.Dimension {
	d := guild.Dimension{Name: performance, Weight: performanceWeight}
	switch {
	case !m.ran || m.fault:
		d.Reason = "no run came to its end"
	case m.baseline <= 0:
		d.Reason = cmp.Or(m.why, "there is no baseline yet")
	default:
		took := m.wallMs - m.waitedMs
		d.Known, d.Value = true, pace(took, m.baseline)
		if d.Value < guild.Micro {
			d.Reason = fmt.Sprintf("%d ms, the baseline is %d ms", took, m.baseline)
		}
	}
	return d
}

// pace scores a time against a baseline, both in milliseconds. The baseline must not be 0. The score is 1 up to the
// baseline and falls linearly to 0 at 150 % of it.
func pace(wallMs, baseline int64) guild.Score {
	over := wallMs - baseline
	switch {
	case over <= 0:
		return guild.Micro
	case over >= baseline-over: // at least 150 % of the baseline
		return 0
	default:
		return guild.Score(guild.Micro - 2*over*guild.Micro/baseline)
	}
}

// resources is all or nothing: 1 if no run exceeded a limit, and 0 otherwise. It is unknown if nothing was run.
func (m measured) resources() guild.Dimension {
	d := guild.Dimension{Name: resources, Weight: resourcesWeight, Known: m.ran}
	switch {
	case !m.ran:
		d.Reason = "nothing was run"
	case m.overLimit:
		d.Reason = "it ran over a limit"
	default:
		d.Value = guild.Micro
	}
	return d
}

// qualityOf starts with pylint's grade, at most one half if the grade is below 7, subtracts the cost of static
// findings, and multiplies by the share of edge and security tests that passed. Without a grade only these tests count,
// if there are any.
func (m measured) qualityOf() guild.Dimension {
	d := guild.Dimension{Name: quality, Weight: qualityWeight}
	linted, side := m.quality != nil && m.quality.Linted, m.tests.side
	if !linted && side.expected == 0 {
		d.Reason = cmp.Or(m.unread, "there is nothing to grade")
		return d
	}
	d.Known, d.Value = true, guild.Micro
	var reasons []string
	if linted {
		grade := min(max(m.quality.Pylint, 0), 10_000)
		d.Value = guild.Score(grade * guild.Micro / 10_000)
		if m.quality.Pylint < fineGrade {
			d.Value = min(d.Value, halfGood)
			reasons = append(reasons, fmt.Sprintf("pylint gives %d.%02d of 10", m.quality.Pylint/1000, m.quality.Pylint%1000/10))
		}
	}
	if m.quality != nil {
		if n, cost := weigh(m.quality.Findings); n > 0 {
			d.Value = max(0, d.Value-cost)
			reasons = append(reasons, fmt.Sprintf("static findings in %d places", n))
		}
	}
	if side.passed < side.expected {
		d.Value = guild.Score(int64(d.Value) * int64(side.passed) / int64(side.expected))
		reasons = append(reasons, fmt.Sprintf("%d of %d edge and security tests passed", side.passed, side.expected))
	}
	d.Reason = strings.Join(reasons, "; ")
	return d
}

// weigh returns how much quality the findings of bandit and of our patterns cost. Several findings in one place cost as
// much as the worst of them, so that two tools that report the same do not count twice.
func weigh(found []guild.Notice) (places int, cost guild.Score) {
	type place struct {
		file string
		line int
	}
	worst := map[place]guild.Score{}
	for _, n := range found {
		if n.Tool == analysis.Bandit || n.Tool == analysis.Patterns {
			at := place{file: n.File, line: n.Line}
			worst[at] = max(worst[at], severities[n.Severity])
		}
	}
	for _, c := range worst {
		if c > 0 {
			places, cost = places+1, cost+c
		}
	}
	return places, cost
}

// composite returns the weighted mean of the known dimensions, rounded down; 0 if none is known.
func composite(dimensions []guild.Dimension) guild.Score {
	var sum, weights int64
	for _, d := range dimensions {
		if d.Known {
			sum += d.Weight * int64(d.Value)
			weights += d.Weight
		}
	}
	if weights == 0 {
		return 0
	}
	return guild.Score(sum / weights)
}

// StandingOf returns the standing for a score alone. If whole is false, because a functional test did not pass, it is
// at most conditional.
func StandingOf(s guild.Score, whole bool) guild.Standing {
	switch {
	case s >= guild.ActiveFrom && whole:
		return guild.StandingActive
	case s >= guild.ConditionalFrom:
		return guild.StandingConditional
	default:
		return guild.StandingRejected
	}
}

// outcome returns the outcome for the functional tests (the partnership protocol, section 4.2.4).
func outcome(functional tally) guild.Outcome {
	switch {
	case functional.whole():
		return guild.Success
	case functional.expected > 0 && functional.passed*100 >= functional.expected*80:
		return guild.Partial
	default:
		return guild.Failure
	}
}
