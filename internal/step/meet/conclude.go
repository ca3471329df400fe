package meet

import (
	"cmp"
	"fmt"
	"slices"

	"guild"
)

// The number of runs of a meeting: three, or fewer if the policy requires fewer successes, or five if three do not
// decide.
const (
	usual    = 3
	extended = 5
)

// Conclusion is the result of a meeting.
type Conclusion struct {
	To    guild.ProviderState // the state for the provider; "" if nothing was learned
	Score guild.Score         // the median
	Cause string
}

// grade is the result of one run, from worst to best.
type grade int

const (
	nothing  grade = iota // nothing was learned: no answer, a refusal, or an error of this node
	violated              // it tried to break out
	failure
	partial
	success
)

// grade returns the grade of a run by its verdict. A success passed every functional test with a score from 0.8, enough
// for an active partner. A partial run has a score from 0.6, enough for a conditional one.
func (r Result) grade() grade {
	switch {
	case r.Outcome == guild.Violation:
		return violated
	case r.Outcome == "" && !r.Failed:
		return nothing
	case r.Outcome == guild.Success && r.Score >= guild.ActiveFrom:
		return success
	case (r.Outcome == guild.Success || r.Outcome == guild.Partial) && r.Score >= guild.ConditionalFrom:
		return partial
	default:
		return failure
	}
}

// conclude returns the result of a meeting: that of its one run if it is a look, otherwise that of Conclude. over is
// false if another run is needed.
func conclude(m *Meeting, enough int) (c Conclusion, over bool) {
	if !guild.IsLook(m.Purpose) || len(m.Runs) == 0 {
		return Conclude(m.Runs, enough)
	}
	r := m.Runs[0]
	switch r.grade() {
	case violated, nothing:
		return Conclude(m.Runs[:1], enough)
	case success:
		return Conclusion{guild.Active, r.Score, "it does its work"}, true
	case partial:
		return Conclusion{guild.Conditional, r.Score, cmp.Or(r.Cause, "it does part of its work")}, true
	}
	return Conclusion{guild.Unqualified, r.Score, cmp.Or(r.Cause, string(r.Outcome), "it failed")}, true
}

// Conclude returns the result of the ended runs of a meeting, in their order (the partnership protocol, section 3.2.3).
// over is false if another run is needed. Enough successes in a row, three in the specification, make an active
// partner, three failures a rejected one. One success and two failures make a conditional one. Every other mix of three
// is extended to five, and the median decides. A violation ends the meeting, and so does a run from which nothing was
// learned.
func Conclude(runs []Result, enough int) (c Conclusion, over bool) {
	var count [success + 1]int
	for _, r := range runs {
		count[r.grade()]++
		switch r.grade() {
		case violated:
			return Conclusion{guild.Removed, 0, "security violation: " + r.Cause}, true
		case nothing:
			return Conclusion{"", 0, cmp.Or(r.Cause, "no answer")}, true
		}
	}
	middle, n := median(runs), len(runs)
	switch {
	case n == 1 && enough == 1 && count[success] == 1:
		return Conclusion{guild.Active, middle, "a success at once"}, true
	case n == enough && count[success] == n:
		return Conclusion{guild.Active, middle, fmt.Sprintf("%d successes in a row", n)}, true
	case n < usual:
		return Conclusion{}, false
	case n == usual && count[failure] == n:
		return Conclusion{guild.Unqualified, middle, "3 failures in a row"}, true
	case n == usual && count[success] == 1 && count[failure] == 2:
		return Conclusion{guild.Conditional, middle, "1 success and 2 failures"}, true
	case n < extended:
		return Conclusion{}, false
	}
	cause := fmt.Sprintf("%d successes, %d partial, %d failures; the median decides", count[success], count[partial], count[failure])
	return Conclusion{byMedian(runs, middle), middle, cause}, true
}

// byMedian returns the state for a median score. It is active only if most runs were successes.
func byMedian(runs []Result, middle guild.Score) guild.ProviderState {
	grades := make([]grade, len(runs))
	for i, r := range runs {
		grades[i] = r.grade()
	}
	slices.Sort(grades)
	switch {
	case middle >= guild.ActiveFrom && grades[len(grades)/2] == success:
		return guild.Active
	case middle >= guild.ConditionalFrom:
		return guild.Conditional
	default:
		return guild.Unqualified
	}
}

// median returns the median score, the lower one of two.
func median(runs []Result) guild.Score {
	if len(runs) == 0 {
		return 0
	}
	scores := make([]guild.Score, len(runs))
	for i, r := range runs {
		scores[i] = r.Score
	}
	slices.Sort(scores)
	return scores[(len(scores)-1)/2]
}
