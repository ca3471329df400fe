package judge

import (
	"errors"
	"testing"

	"guild"
	"guild/internal/judging/opinion"
	"guild/oa"
)

func TestOpine(t *testing.T) {
	for _, c := range []struct {
		adjudication oa.Adjudication
		choice       opinion.Choice
		want         []guild.Outcome
		undecided    bool
	}{
		{oa.MajorityVote, opinion.Choice{Best: []int{0, 2}, Voters: 3, Agreeing: 2}, []guild.Outcome{guild.Success, guild.Failure, guild.Success}, false},
		{oa.JudgeModel, opinion.Choice{Best: []int{1}, Voters: 4, Agreeing: 4}, []guild.Outcome{guild.Partial, guild.Success, guild.Partial}, false},
		{oa.NoAdjudication, opinion.Choice{Best: []int{0, 1, 2}}, []guild.Outcome{guild.Success, guild.Success, guild.Success}, false},
		{oa.Merge, opinion.Choice{Best: []int{0}}, []guild.Outcome{guild.Success, guild.Failure, guild.Failure}, false},
		{oa.JudgeModel, opinion.Choice{Reason: "the order"}, []guild.Outcome{guild.Failure, guild.Failure, guild.Failure}, true},
	} {
		verdicts, err := Opine(c.adjudication, 3, c.choice)
		if _, needed := errors.AsType[*PersonNeeded](err); needed != c.undecided || len(verdicts) != 3 {
			t.Fatalf("%s: %v", c.adjudication, err)
		}
		for i, v := range verdicts {
			if v.Outcome != c.want[i] || v.Strength != guild.Unverified || v.Opinion.Adjudication != string(c.adjudication) || (v.Cause == "") != (v.Outcome == guild.Success) {
				t.Errorf("%s, result %d: %+v", c.adjudication, i, v)
			}
		}
	}
}
