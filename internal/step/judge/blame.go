package judge

import (
	"fmt"
	"slices"

	"guild"
	"guild/internal/judging/exam"
)

// remedies says what the customer can do about a test that did not pass, by whose fault it is.
var remedies = map[guild.Blame]string{
	guild.BlameTests:   "correct the tests",
	guild.BlameJudge:   "change the criteria",
	guild.BlameMachine: "install it",
}

// excused returns an error that matches exam.ErrUndecided if functional tests did not pass, none of them by the
// delivery's fault. The error names the first and says what to do. Otherwise it returns nil: the tests that passed, and
// those that failed by the delivery's fault, decide.
func excused(v guild.Verdict) error {
	tests := count(v.Tests)
	if tests.excused == 0 || tests.functional.passed < tests.functional.expected || v.Outcome == guild.Error || len(v.Breaches) > 0 {
		return nil
	}
	i := slices.IndexFunc(v.Tests, func(t guild.Test) bool { return exam.Excused(t) && functional(t) })
	if i < 0 {
		i = slices.IndexFunc(v.Tests, exam.Excused)
	}
	first := v.Tests[i]
	return fmt.Errorf("%w: %d of %d tests did not pass by no fault of the delivery, the first of them %s (%s: %s); %s and judge again",
		exam.ErrUndecided, tests.excused, v.Expected, first.ID, first.Blame, first.Because, remedies[first.Blame])
}
