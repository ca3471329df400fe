package meet

import (
	"cmp"
	"fmt"
	"slices"

	"guild"
)

// How many runs a meeting has: three fix the status, unless the policy is content with fewer successes, and those
// that do not agree are extended to five.
const (
	usual    = 3
	extended = 5
)

// Conclusion is what the runs of a meeting come to.
type Conclusion struct {
	To    guild.ProviderState // "" when nothing was learned
	Score guild.Score         // the median
	Cause string
}

// grade is how one run came out, as the table of attempts counts it. The order is that of what they are worth.
type grade int

const (
	nothing  grade = iota // no answer, a refusal, trouble of our own: nothing was learned
	violated              // it tried to break out
	failure
	partial
	success
)

// grade sorts a run by its verdict. A success is one that deserves an active partner: every functional test passed,
// and a score of 0.8 or more. A partial one has a score that deserves a conditional partner.
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

// conclude says what a meeting comes to: of one that is only a look at somebody known, its one run says it.
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

// Conclude says what the runs of a meeting come to (the partnership protocol, section 3.2.3), or that another one is
// needed; the runs are those that are over, in their order. Enough successes, three in the specification, make
// an active partner and three failures a rejected one, at once. One success with two failures makes a conditional one. Every
// other mix of three is extended to five, and the median decides. A violation, or a run of which nothing was learned, ends a
// meeting.
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
	middle := median(runs)
	switch n := len(runs); {
	case n == enough && count[success] == n:
		return Conclusion{guild.Active, middle, inARow(n)}, true
	case n < usual:
		return Conclusion{}, false
	case n == usual && count[failure] == n:
		return Conclusion{guild.Unqualified, middle, "3 failures in a row"}, true
	case n == usual && count[success] == 1 && count[failure] == 2:
		return Conclusion{guild.Conditional, middle, "1 success and 2 failures"}, true
	case n < extended:
		return Conclusion{}, false
	}
	to := stateOf(runs, middle)
	cause := fmt.Sprintf("%d successes, %d partial, %d failures; the median decides", count[success], count[partial], count[failure])
	return Conclusion{to, middle, cause}, true
}

func inARow(n int) string {
	if n == 1 {
		return "a success at once"
	}
	return fmt.Sprintf("%d successes in a row", n)
}

// stateOf is what the median score makes of a provider; at most conditional, unless most runs passed every
// functional test.
func stateOf(runs []Result, middle guild.Score) guild.ProviderState {
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

// median is the score in the middle, the lower one of two.
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
