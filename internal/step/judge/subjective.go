package judge

import (
	"slices"

	"guild"
	"guild/internal/judging/opinion"
	"guild/oa"
)

// The scores of results that an opinion did not choose.
const (
	outdone guild.Score = guild.ConditionalFrom // another result was better, but this one may be good
	outvote guild.Score = 0                     // most results say something else
)

// Opine returns a verdict on each of n results of a subjective job, in their order, according to the choice of an
// opinion. All are unverified. It also returns a *PersonNeeded if the opinion is undecided.
func Opine(adjudication oa.Adjudication, n int, c opinion.Choice) ([]guild.Verdict, error) {
	verdicts := make([]guild.Verdict, n)
	for i := range verdicts {
		verdicts[i] = opined(adjudication, c, slices.Contains(c.Best, i))
	}
	if len(c.Best) == 0 {
		return verdicts, &PersonNeeded{Reason: "the opinion is undecided: " + c.Reason}
	}
	return verdicts, nil
}

// opined returns the verdict on one result.
func opined(adjudication oa.Adjudication, c opinion.Choice, best bool) guild.Verdict {
	test := guild.Test{ID: string(adjudication), State: guild.TestPassed, Layer: guild.LayerCorrectness, Strength: guild.Unverified}
	v := guild.Verdict{Outcome: guild.Success, Score: guild.Micro, Passed: 1}
	switch {
	case best:
	case len(c.Best) > 0 && adjudication == oa.JudgeModel:
		v = guild.Verdict{Outcome: guild.Partial, Score: outdone, Cause: "another result was preferred"}
	default:
		v = guild.Verdict{Outcome: guild.Failure, Score: outvote, Cause: guild.Cut("not chosen: "+c.Reason, maxCause)}
	}
	if !best {
		test.State, test.Message, test.Strength = guild.TestFailed, v.Cause, ""
	}
	v.Strength, v.Strengths, v.Tier, v.Expected, v.Tests = guild.Unverified, &guild.Strengths{}, "none", 1, []guild.Test{test}
	v.Dimensions = []guild.Dimension{{Name: correctness, Weight: correctnessWeight, Value: v.Score, Known: true, Reason: "an opinion: " + c.Reason}}
	v.Standing = StandingOf(v.Score, best)
	v.Opinion = c.Record(adjudication)
	return v
}
