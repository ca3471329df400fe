package judge

import (
	"strings"
	"testing"
	"testing/quick"
	"time"

	"guild"
)

// attempts reads verdicts from letters: S success, P partial, F failure, E error, V violation.
func attempts(letters string) []guild.Verdict {
	verdicts := make([]guild.Verdict, 0, len(letters))
	for _, l := range letters {
		verdicts = append(verdicts, map[rune]guild.Verdict{
			'S': {Outcome: guild.Success, Score: 950_000},
			's': {Outcome: guild.Success, Score: 700_000}, // slow and ugly, but right
			'P': {Outcome: guild.Partial, Score: 900_000},
			'F': {Outcome: guild.Failure, Score: 400_000},
			'E': {Outcome: guild.Error, Score: 300_000},
			'V': {Outcome: guild.Violation},
		}[l])
	}
	return verdicts
}

func TestAnEvaluationFollowsTheTable(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		attempts string
		standing guild.Standing
		more     bool
		cooldown time.Duration
	}{
		// The rows of section 3.2.3.
		{"SSS", guild.StandingActive, false, 0},
		{"SSP", guild.StandingConditional, true, 0},
		{"SPS", guild.StandingConditional, true, 0},
		{"PSS", guild.StandingConditional, true, 0},
		{"SFF", guild.StandingConditional, false, 0},
		{"FSF", guild.StandingConditional, false, 0},
		{"FFS", guild.StandingConditional, false, 0},
		{"FFF", guild.StandingRejected, false, 30 * day},

		// An error is a failure; a violation ends it at once.
		{"FEF", guild.StandingRejected, false, 30 * day},
		{"SEE", guild.StandingConditional, false, 0},
		{"V", guild.StandingRejected, false, 30 * day},
		{"SSV", guild.StandingRejected, false, 30 * day},

		// Too few to say.
		{"", guild.StandingConditional, true, 0},
		{"S", guild.StandingConditional, true, 0},
		{"SS", guild.StandingConditional, true, 0},
		{"FF", guild.StandingRejected, true, 0},

		// Every other mix is extended to five.
		{"SSF", guild.StandingConditional, true, 0},
		{"PPP", guild.StandingConditional, true, 0},
		{"SPF", guild.StandingConditional, true, 0},
		{"PFF", guild.StandingRejected, true, 0},
		{"SSPS", guild.StandingConditional, true, 0},

		// Three in a row decide there, too, and so do three failures.
		{"PSSS", guild.StandingActive, false, 0},
		{"SPSSS", guild.StandingActive, false, 0},
		{"PFPFF", guild.StandingRejected, false, 30 * day},
		{"PFFF", guild.StandingRejected, false, 30 * day},

		// Else the median of five.
		{"SSPSS", guild.StandingActive, false, 0},
		{"SSFSS", guild.StandingActive, false, 0},
		{"SPPPS", guild.StandingConditional, false, 0},
		{"PPPPP", guild.StandingConditional, false, 0},
		{"SSFFP", guild.StandingConditional, false, 0},
		{"ssPss", guild.StandingConditional, false, 0},
		{"SPFPF", guild.StandingConditional, false, 0},
		{"SPFPFFFF", guild.StandingConditional, false, 0}, // the sixth does not count
	} {
		got := Evaluate(attempts(c.attempts), 0)
		if got.Standing != c.standing || got.More != c.more || got.Cooldown != c.cooldown || got.Reason == "" {
			t.Errorf("%s: %+v, want %s, more %v, %v", c.attempts, got, c.standing, c.more, c.cooldown)
		}
	}
}

func TestARejectedMedianCoolsDownByTheNumberOfFailedEvaluations(t *testing.T) {
	bad := attempts("PPPPP")
	for i := range bad {
		bad[i].Score = 500_000
	}
	const day = 24 * time.Hour
	for failed, want := range []time.Duration{day, 3 * day, 7 * day, 30 * day, 30 * day} {
		if got := Evaluate(bad, failed); got.Standing != guild.StandingRejected || got.Cooldown != want {
			t.Errorf("after %d failed evaluations: %+v, want %v", failed, got, want)
		}
	}
	if Cooldown(0) != 0 {
		t.Error("a provider that never failed must wait")
	}
}

func TestAnEvaluationNeedsNoMoreThanFiveAttempts(t *testing.T) {
	ends := func(picks []uint8) bool {
		var letters strings.Builder
		for _, p := range picks {
			letters.WriteByte("SsPFEV"[p%6])
		}
		all := attempts(letters.String())
		decided := false
		for n := range len(all) + 1 {
			e := Evaluate(all[:n], 0)
			if decided && e.More || n >= 5 && e.More || n > 0 && n < 3 && !e.More && !strings.ContainsAny(letters.String()[:n], "V") {
				return false
			}
			decided = decided || !e.More
		}
		return true
	}
	if err := quick.Check(ends, nil); err != nil {
		t.Error(err)
	}
}
