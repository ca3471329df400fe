package judge

import (
	"cmp"
	"slices"
	"time"

	"guild"
)

// Attempts of an evaluation (the partnership protocol, section 3.2.3).
const (
	ordinary = 3 // attempts that fix a standing when they agree
	extended = 5 // attempts when they do not
)

// Cooldown is how long a provider is left alone after a number of evaluations that it failed (the partnership
// protocol, section 3.4.3).
func Cooldown(failedEvaluations int) time.Duration {
	const day = 24 * time.Hour
	switch {
	case failedEvaluations <= 0:
		return 0
	case failedEvaluations == 1:
		return day
	case failedEvaluations == 2:
		return 3 * day
	case failedEvaluations == 3:
		return 7 * day
	default:
		return 30 * day
	}
}

// Evaluation is what several attempts of one provider at one task come to.
type Evaluation struct {
	Standing guild.Standing // so far, and at most conditional, while More is set
	More     bool           // another attempt is needed
	Cooldown time.Duration  // before the next evaluation, when this one failed
	Reason   string         // in a few words
}

// Evaluate holds the verdicts of an evaluation, in their order, against the table of section 3.2.3: three
// successes in a row make a provider active; two successes and one partial, and every mix that the table does
// not have, are extended to five attempts, whose median decides; one success and two failures make it
// conditional; three failures reject it for 30 days. An ERROR is a failure, and a SECURITY_VIOLATION ends the
// evaluation at once. failedBefore is how many evaluations failed before this one.
func Evaluate(verdicts []guild.Verdict, failedBefore int) Evaluation {
	var tried trials
	for _, v := range verdicts[:min(len(verdicts), extended)] {
		tried.add(v)
		if e, decided := tried.decide(); decided {
			if e.Standing == guild.StandingRejected {
				e.Cooldown = max(e.Cooldown, Cooldown(failedBefore+1))
			}
			return e
		}
	}
	so := tried.median()
	if len(tried.verdicts) < extended {
		if so == guild.StandingActive {
			so = guild.StandingConditional
		}
		return Evaluation{Standing: so, More: true, Reason: "more attempts are needed"}
	}
	e := Evaluation{Standing: so, Reason: "the median of five attempts"}
	if so == guild.StandingRejected {
		e.Cooldown = Cooldown(failedBefore + 1)
	}
	return e
}

// trials are the attempts so far.
type trials struct {
	verdicts  []guild.Verdict
	successes int
	failures  int
	running   int // successes in a row, up to now
	violated  bool
}

func (t *trials) add(v guild.Verdict) {
	t.verdicts = append(t.verdicts, v)
	t.running++
	switch v.Outcome {
	case guild.Success:
		t.successes++
		return
	case guild.Partial:
	case guild.Violation:
		t.violated = true
		t.failures++
	default:
		t.failures++
	}
	t.running = 0
}

// decide applies the rows of the table that end an evaluation.
func (t *trials) decide() (Evaluation, bool) {
	const month = 30 * 24 * time.Hour
	switch {
	case t.violated:
		return Evaluation{Standing: guild.StandingRejected, Cooldown: month, Reason: "a security violation"}, true
	case t.failures >= ordinary:
		return Evaluation{Standing: guild.StandingRejected, Cooldown: month, Reason: "three failures"}, true
	case t.running >= ordinary:
		return Evaluation{Standing: guild.StandingActive, Reason: "three successes in a row"}, true
	case len(t.verdicts) == ordinary && t.successes == 1 && t.failures == 2:
		return Evaluation{Standing: guild.StandingConditional, Reason: "one success and two failures"}, true
	default:
		return Evaluation{}, false
	}
}

// median is where the attempt in the middle stands; of an even number, the lower one. No attempt is provisionally
// conditional: that is how a provider not known yet is treated.
func (t *trials) median() guild.Standing {
	if len(t.verdicts) == 0 {
		return guild.StandingConditional
	}
	sorted := slices.SortedFunc(slices.Values(t.verdicts), func(a, b guild.Verdict) int { return cmp.Compare(a.Score, b.Score) })
	middle := sorted[(len(sorted)-1)/2]
	return StandingOf(middle.Score, middle.Outcome == guild.Success)
}
