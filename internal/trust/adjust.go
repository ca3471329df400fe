package trust

import "guild"

// Policy is every number that trust is moved by. Its canonical hash stands in each change of trust and in each
// receipt, so that anybody can redo the arithmetic. Amounts are in micro-units.
type Policy struct {
	Version int `json:"version"`

	Floor   guild.Trust `json:"floor_micro"`
	Ceiling guild.Trust `json:"ceiling_micro"`
	Step    guild.Trust `json:"step_micro"`  // most by one verdict
	Daily   guild.Trust `json:"daily_micro"` // most for one task in a UTC day

	Initial [3]guild.Trust `json:"initial_micro"` // exceptional, standard, conditional
	Growth  guild.Trust    `json:"growth_micro"`  // share of the headroom that a success adds
	Bonus   guild.Trust    `json:"bonus_micro"`   // for a score above 0.95
	Alpha   guild.Trust    `json:"alpha_micro"`   // of the moving average

	Decay map[string]guild.Trust `json:"decay_micro"` // by what went wrong
}

// Default is the policy of chapter 5 of the partnership protocol.
func Default() Policy {
	return Policy{
		Version: 1,
		Floor:   100_000, Ceiling: 900_000, Step: 200_000, Daily: 300_000,
		Initial: [3]guild.Trust{750_000, 600_000, 450_000},
		Growth:  100_000, Bonus: 50_000, Alpha: 300_000,
		Decay: map[string]guild.Trust{
			"VALIDATION_FAIL": 150_000, "TIMEOUT": 200_000, "SECURITY_VIOLATION": 300_000,
			"ERROR": 100_000, "PARTIAL": 80_000,
		},
	}
}

// Standing is what trust in one service for one task rests on.
type Standing struct {
	Trust guild.Trust `json:"trust"`
	EMA   guild.Trust `json:"ema"`
	Runs  int         `json:"runs"` // successes in a row
	Met   bool        `json:"met"`  // a verdict has fixed a first trust
}

// Evidence is one finished attempt as the arithmetic sees it.
type Evidence struct {
	Pattern string // SUCCESS or one of Policy.Decay
	Score   guild.Score
}

// Adjust moves trust by one piece of evidence: formula, moving average, single-step clip, what is left of the
// day, bounds, in that order. spent is how far trust in the task has moved today, for all services. The second
// result is false when the evidence founds no trust and none was there.
func Adjust(s Standing, e Evidence, spent guild.Trust, p Policy) (Standing, bool) {
	if !s.Met {
		return first(e, p)
	}
	most := min(p.Step, max(0, p.Daily-spent))
	raw, runs, down, up := decayed(s, e, p), 0, most, guild.Trust(0)
	if e.Pattern == success {
		runs = s.Runs + 1
		raw, down, up = grown(s, e, runs, p), 0, most
	}
	ema := mul(raw, p.Alpha) + mul(s.EMA, guild.Micro-p.Alpha)
	// Where a limit held trust back, the average is ahead of it: a failure must not raise it all the same.
	next := s.Trust + clamp(ema-s.Trust, -down, up)
	next = clamp(next, p.Floor, p.Ceiling)
	return Standing{Trust: next, EMA: ema, Runs: runs, Met: true}, true
}

// first is section 3.3.2 of the partnership protocol: the trust of somebody new. A failure founds none.
func first(e Evidence, p Policy) (Standing, bool) {
	var t guild.Trust
	switch {
	case e.Pattern == success && e.Score >= 0.8*guild.Micro:
		t = p.Initial[1]
	case (e.Pattern == success || e.Pattern == "PARTIAL") && e.Score >= 0.6*guild.Micro:
		t = p.Initial[2]
	default:
		return Standing{}, false
	}
	runs := 0
	if e.Pattern == success {
		runs = 1
	}
	return Standing{Trust: t, EMA: t, Runs: runs, Met: true}, true
}

const success = "SUCCESS"

// grown is section 5.2.1 of the partnership protocol without the bonus for latency, which needs a baseline.
func grown(s Standing, e Evidence, runs int, p Policy) guild.Trust {
	increment := mul(p.Growth, max(0, p.Ceiling-s.Trust))
	if e.Score > 0.95*guild.Micro {
		increment += p.Bonus
	}
	dampening := max(500_000, guild.Micro-100_000*guild.Trust(runs-1))
	return s.Trust + mul(increment, dampening)
}

// decayed is section 5.2.2 of the partnership protocol.
func decayed(s Standing, e Evidence, p Policy) guild.Trust {
	rate, ok := p.Decay[e.Pattern]
	if !ok {
		rate = p.Decay["VALIDATION_FAIL"]
	}
	return max(p.Floor, s.Trust-rate)
}

// mul multiplies two numbers in micro-units, rounding half away from zero.
func mul(a, b guild.Trust) guild.Trust {
	product := a * b
	if product < 0 {
		return (product - guild.Micro/2) / guild.Micro
	}
	return (product + guild.Micro/2) / guild.Micro
}

func clamp(v, low, high guild.Trust) guild.Trust { return min(max(v, low), high) }
