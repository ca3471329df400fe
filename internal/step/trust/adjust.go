package trust

import (
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/policy"
)

// Standing is the trust in one service for one task, with the values that its next change is computed from.
type Standing struct {
	Trust   guild.Trust `json:"trust"`
	EMA     guild.Trust `json:"ema"`
	Runs    int         `json:"runs"`              // successes in a row
	Met     bool        `json:"met"`               // there is trust
	Samples int         `json:"samples,omitempty"` // pieces of evidence behind it
	Wrong   int         `json:"wrong,omitempty"`   // changes in a row in the wrong direction
}

// State is everything that the next change of a standing depends on besides the evidence and the policy.
type State struct {
	Standing
	Spent guild.Trust // how far trust in the task has moved that day, for all services, counting only what its limit counts
	Fell  guild.Trust // how far trust in this service has fallen that day, if decreases have a limit of their own
	Mean  guild.Trust // of trust, over the policy's time
	Past  []Past      // changes since trust was last set outright, the oldest first
	Last  nostr.ID    // the attempt of the latest change
}

// Evidence is one finished attempt as the arithmetic sees it, the input of the hook of section 5.1.1.
type Evidence struct {
	Pattern    string         `json:"pattern"` // SUCCESS or one of policy.Trust.Decay
	Score      guild.Score    `json:"score"`
	Class      string         `json:"class,omitempty"`       // of the task, section 5.2.3
	Strength   guild.Strength `json:"strength,omitempty"`    // of the verdict; empty if a person ruled, or nothing was judged
	LatencyMs  int64          `json:"latency_ms,omitempty"`  // request → result; 0 if there was none
	BaselineMs int64          `json:"baseline_ms,omitempty"` // usual for the task; 0 if unknown
	At         int64          `json:"at"`                    // Unix ms: when the attempt ended
}

// Proposal is the change that a piece of evidence should make to a standing (the partnership protocol, section 5.1.2).
// It is a value: making one changes nothing.
type Proposal struct {
	Next       Standing
	Founded    bool        // false if there was no trust and the evidence sets none
	Rule       string      // "" for the formulas, or fact.RuleContradiction
	Reverts    nostr.ID    // the attempt whose change that rule takes back
	Confidence guild.Trust // 0 to 1, see confidence
	Action     string      // ActionMerge, ActionReview or ActionAlert
	Rationale  string      // the arithmetic, for a person
	Oscillates bool        // trust changed direction often, so the change was reduced
	Suspends   bool        // the formula reached the floor
	Held       guild.Trust // the part of a decrease that the daily limit prevented
}

// The recommended handling of a proposal.
const (
	ActionMerge  = "AUTO_MERGE" // no person needs to look at it
	ActionReview = "REVIEW"     // a person should look at it at some time
	ActionAlert  = "ALERT"      // a person should look at it now
)

const (
	success   = "SUCCESS"
	partial   = "PARTIAL"
	failed    = "VALIDATION_FAIL"
	timeout   = "TIMEOUT"
	violation = "SECURITY_VIOLATION"
)

// Adjust returns the change that a piece of evidence makes to a standing: it sets a first trust (section 3.3.2), takes
// back the decrease right before it (5.5.3), or moves trust by the formulas (5.2).
func Adjust(s State, e Evidence, p policy.Trust) Proposal {
	switch {
	case !s.Met:
		return first(s, e, p)
	case contradicts(s, e, p):
		return takenBack(s, e, p)
	}
	return moved(s, e, p)
}

// share returns how much of a change counts: of an increase what the policy gives for the strength of the verdict, and
// of a decrease all. What is unverified counts in neither direction.
//
// Hostile code can forge its success in a weak test, and never its failure.
func share(e Evidence, p policy.Trust) guild.Trust {
	part, ok := p.Strengths[string(e.Strength)]
	if !ok || e.Pattern != success && part > 0 {
		return guild.Micro
	}
	return part
}

// first applies section 3.3.2 of the partnership protocol, the first trust of a provider. A failure sets none, and only
// a strong verdict more than the conditional one.
func first(s State, e Evidence, p policy.Trust) Proposal {
	i := slices.IndexFunc(p.InitialFrom[:], func(from guild.Score) bool { return e.Score >= from })
	if i == 0 && !fast(e, p) {
		i = 1
	}
	part := share(e, p)
	if i >= 0 && (e.Pattern == partial || part < guild.Micro) {
		i = 2
	}
	if i < 0 || part == 0 || e.Pattern != success && e.Pattern != partial {
		return Proposal{Rationale: founding(e) + " does not change trust", Action: action(Proposal{}, 0, e, p)}
	}
	next := Standing{Trust: p.Initial[i], EMA: p.Initial[i], Met: true, Samples: s.Samples + 1}
	if e.Pattern == success {
		next.Runs = 1
	}
	made := Proposal{Next: next, Founded: true, Confidence: confidence(next.Samples, false, false, p)}
	made.Rationale = founding(e) + ": " + [3]string{"exceptional", "standard", "conditional"}[i] + ", first trust " + dec(next.Trust)
	made.Action = action(made, 0, e, p)
	return made
}

// fast reports whether a delivery was fast enough for the bonus.
func fast(e Evidence, p policy.Trust) bool {
	return e.LatencyMs > 0 && e.BaselineMs > 0 && e.LatencyMs*guild.Micro < e.BaselineMs*int64(p.FastFrom)
}

// moved applies sections 5.2 and 5.1.3 in this order: formula, multiplier of the task's class, moving average, limit of
// one step, reduction if trust oscillates, rest of the day's limit, bounds.
func moved(s State, e Evidence, p policy.Trust) Proposal {
	next := Standing{Met: true, Samples: s.Samples + 1}
	raw, formula := decayed(s, e, p)
	if e.Pattern == success {
		next.Runs = s.Runs + 1
		raw, formula = grown(s, e, next.Runs, p)
	}
	fresh := alpha(e.Class, p)
	next.EMA = mul(raw, fresh) + mul(s.EMA, guild.Micro-fresh)
	by := next.EMA - s.Trust
	// If a limit held trust back, the average is ahead of it. Without this, a failure could still raise trust.
	if e.Pattern == success {
		by = max(0, by)
	} else {
		by = min(0, by)
	}
	step := clamp(by, -p.Step, p.Step)
	// The change that completes an oscillation is itself halved.
	oscillates := step != 0 && reversals(s.Past, step, p.Recent) >= p.Reversals
	slowed := step
	if oscillates {
		slowed = mul(step, p.Oscillating)
	}
	left := s.left(slowed, e, p)
	change := clamp(slowed, -left, left)
	next.Trust = clamp(s.Trust+change, p.Floor, p.Ceiling)
	next.Wrong = wrongWay(s, e, next.Trust, p)
	// The formula suspends, and not trust itself: trust follows the moving average and never quite reaches the floor.
	made := Proposal{Next: next, Founded: true, Oscillates: oscillates,
		Suspends:   e.Pattern != success && raw <= p.Floor,
		Confidence: confidence(next.Samples, oscillates, step != by || change != slowed, p)}
	if slowed < 0 { // no more than down to the floor
		made.Held = s.Trust + change - max(p.Floor, s.Trust+slowed)
		made.Held = max(0, made.Held)
	}
	made.Action = action(made, next.Trust-s.Trust, e, p)
	made.Rationale = formula + averaged(s, raw, fresh, next.EMA) + limited(s, by, step, slowed, left, next.Trust, p)
	return made
}

// left returns how much of the day's limit is left for a change.
func (s State) left(by guild.Trust, e Evidence, p policy.Trust) guild.Trust {
	switch {
	case own(by, p) && e.Pattern == violation:
		return guild.Micro
	case own(by, p):
		return max(0, p.Daily-s.Fell)
	}
	return max(0, p.Daily-s.Spent)
}

// own reports whether a change counts against the service's own limit instead of the task's.
func own(by guild.Trust, p policy.Trust) bool { return by < 0 && p.DailyOf == policy.OfService }

// grown applies section 5.2.1 of the partnership protocol, the formula for a success.
func grown(s State, e Evidence, runs int, p policy.Trust) (guild.Trust, string) {
	headroom := max(0, p.Ceiling-s.Trust)
	increment := mul(p.Growth, headroom)
	terms := dec(p.Growth) + " × headroom " + dec(headroom)
	if e.Score > p.BonusFrom {
		increment += p.Bonus
		terms += " + " + dec(p.Bonus) + " for the score"
	}
	if fast(e, p) {
		increment += p.Fast
		terms += " + " + dec(p.Fast) + " for the latency"
	}
	damping := max(p.Dampest, guild.Micro-p.Damping*guild.Trust(runs-1))
	raw := s.Trust + mul(mul(mul(increment, multiplier(e.Class, p)), damping), share(e, p))
	return raw, increased(s, e, runs, terms, damping, raw, p)
}

// decayed applies section 5.2.2 of the partnership protocol, the formula for everything but a success.
func decayed(s State, e Evidence, p policy.Trust) (guild.Trust, string) {
	rate, ok := p.Decay[e.Pattern]
	if !ok {
		rate = p.Decay[failed]
	}
	raw := max(p.Floor, s.Trust-mul(mul(rate, multiplier(e.Class, p)), share(e, p)))
	return raw, decreased(s, e, rate, raw, p)
}

// multiplier returns the factor of a task's class (section 5.2.3 of the partnership protocol).
func multiplier(class string, p policy.Trust) guild.Trust {
	if m, ok := p.Multipliers[class]; ok {
		return m
	}
	return guild.Micro
}

// alpha returns the share of a formula's result in the moving average (section 5.2.4 of the partnership protocol). A
// policy may have another share for a class of tasks.
func alpha(class string, p policy.Trust) guild.Trust {
	if a, ok := p.Alphas[class]; ok {
		return a
	}
	return p.Alpha
}

// reversals counts the changes of direction among the latest recent changes, the last of which is by.
func reversals(past []Past, by guild.Trust, recent int) (turned int) {
	for i, seen := len(past)-1, 1; i >= 0 && seen < recent; i-- {
		before := past[i].by()
		if before == 0 {
			continue
		}
		if (before < 0) != (by < 0) {
			turned++
		}
		by, seen = before, seen+1
	}
	return turned
}

// confidence returns how sure a change is. It grows with the evidence: a half with the three verdicts that fix a
// provider's status (section 3.2.3), 0.8 with twelve, 0.91 with thirty. It is halved if trust oscillates, and halved if
// a limit held the change back, because in both cases trust is not yet where the evidence says that it should be.
func confidence(samples int, oscillates, held bool, p policy.Trust) guild.Trust {
	c := guild.Trust(guild.Micro * int64(samples) / int64(max(1, samples+p.Sampled)))
	if oscillates {
		c = mul(c, p.Hedged)
	}
	if held {
		c = mul(c, p.Hedged)
	}
	return c
}

// action recommends how to handle a proposal that moves trust by by.
func action(made Proposal, by guild.Trust, e Evidence, p policy.Trust) string {
	switch {
	case made.Oscillates || made.Suspends || e.Pattern == violation:
		return ActionAlert
	case made.Confidence > p.Sure && max(by, -by) < p.Large:
		return ActionMerge
	}
	return ActionReview
}

// contradicts reports whether a success shows the decrease right before it to be a mistake. Only decreases for the
// policy's patterns, silence and crashes, are taken back. Otherwise a provider could alternate wrong answers with good
// ones and lose no trust.
func contradicts(s State, e Evidence, p policy.Trust) bool {
	if e.Pattern != success || share(e, p) == 0 || len(s.Past) == 0 {
		return false
	}
	last := s.Past[len(s.Past)-1]
	return last.Rule == "" && last.by() < 0 && slices.Contains(p.Contradicted, last.Pattern)
}

// takenBack restores trust to its value before the decrease (section 5.5.3). The success adds nothing, but begins a new
// row of successes. No limit applies, because this is no new adjustment, and the decrease's share of its day's limit is
// free again.
func takenBack(s State, e Evidence, p policy.Trust) Proposal {
	last := s.Past[len(s.Past)-1]
	next := Standing{Trust: last.From, EMA: last.From, Runs: 1, Met: true, Samples: s.Samples + 1}
	turns := reversals(s.Past, next.Trust-s.Trust, p.Recent) >= p.Reversals
	made := Proposal{Next: next, Founded: true, Rule: fact.RuleContradiction, Reverts: s.Last,
		Confidence: confidence(next.Samples, turns, false, p)}
	made.Action = action(Proposal{Confidence: made.Confidence, Oscillates: turns}, next.Trust-s.Trust, e, p)
	made.Rationale = founding(e) + " right after " + last.Pattern + ": its decrease from " + dec(last.From) + " to " + dec(last.To) + " is taken back"
	return made
}

// mul multiplies two numbers in micro-units and rounds half away from zero.
func mul(a, b guild.Trust) guild.Trust {
	product := a * b
	if product < 0 {
		return (product - guild.Micro/2) / guild.Micro
	}
	return (product + guild.Micro/2) / guild.Micro
}

func clamp(v, low, high guild.Trust) guild.Trust { return min(max(v, low), high) }
