package route

import (
	"cmp"
	"slices"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/policy"
)

// Decision is a past decision with its outcome.
type Decision struct {
	Job     guild.JobID
	Turn    int // from 1
	Task    string
	At      int64 // Unix ms
	Service guild.Service
	Choice  fact.Choice
	Routing policy.Routing // the settings of the decision

	Ended int64       // Unix ms of the attempt's end, if the provider answers for it; 0 if there is none yet
	Score guild.Score // of the verdict; 0 if it ended without one
	Cost  guild.Msat  // the bid, or the quoted amount
}

// Replayed is a decision made again with other settings.
type Replayed struct {
	Decision
	Again      fact.Candidate   // the service that the other settings choose
	Rule       string           // the rule of that choice
	Same       bool             // the choice has not changed
	Candidates []fact.Candidate // with the new terms and scores, the best first
	Kept       bool             // not replayed: the router did not decide it (named, offered, meeting), or its candidate is unknown

	WouldCost guild.Msat  // estimated cost of Again at the time
	Then      Expectation // of Again's score, from its verdicts up to then
	Overall   Expectation // from all its verdicts except that of this decision
}

// Expectation is an expected score with its certainty.
type Expectation struct {
	Score    guild.Score
	Verdicts int         // number of verdicts that it is based on
	Sure     guild.Trust // the part of it that these determine; the mean of all verdicts on the task determines the rest
}

// Report summarizes the effect of other settings.
type Report struct {
	Decisions []Replayed
	Changed   int // decisions that choose another service
	Kept      int
	Exact     bool // every term could be recomputed; false if a weight that is now used was 0 at the time

	// For the replayed decisions that have ended: the actual cost and score (mean, in micro-units), and the estimated ones, by the
	// other verdicts of the services. For an unchanged decision the estimate is the actual value.
	Ended               int
	Cost, WouldCost     guild.Msat
	Score, Would        guild.Score
	WouldThen           guild.Score // by the verdicts up to then only
	Sure                guild.Trust // mean of the certainty of Would
	Explored, DidBefore int         // decisions that explore, with the other settings and originally
}

// prior is the number of verdicts from which a service's own verdicts weigh more than the mean of the task.
const prior = 3

// Replay makes past decisions of the router again with other settings: other weights, another epsilon, other shares of
// the tiers. It considers only the recorded candidates, at most sixteen for each decision, and what was known at the
// time. It cannot know what the router would have learned from other choices.
func Replay(history []Decision, by policy.Routing) Report {
	history = slices.Clone(history)
	slices.SortStableFunc(history, func(a, b Decision) int { return cmp.Compare(a.At, b.At) })
	r := Report{Exact: true}
	all := newRecord(history)
	past := record{history: history, byEnd: all.byEnd, own: map[owned]sum{}, tasks: map[string]sum{}}
	sums := struct{ cost, would, score, wouldScore, wouldThen, sure int64 }{}
	for i, d := range history {
		// Then uses the verdicts that existed at the time of the decision, Overall all except the decision's own,
		// so that it is not used to judge itself.
		one := again(d, by, &r.Exact)
		past.through(d.At)
		one.Then = past.expect(d.Task, one.Again.Service)
		if d.Ended > 0 {
			all.add(i, -1)
		}
		one.Overall = all.expect(d.Task, one.Again.Service)
		if d.Ended > 0 {
			all.add(i, 1)
		}
		r.Decisions = append(r.Decisions, one)
		r.Kept += count(one.Kept)
		r.Changed += count(!one.Same)
		r.Explored += count(one.Rule == Explored)
		r.DidBefore += count(d.Choice.Rule == Explored)
		if d.Ended == 0 || one.Kept {
			continue
		}
		r.Ended++
		sums.cost, sums.score = sums.cost+int64(d.Cost), sums.score+int64(d.Score)
		if one.Same {
			sums.would, sums.wouldScore, sums.wouldThen = sums.would+int64(d.Cost), sums.wouldScore+int64(d.Score), sums.wouldThen+int64(d.Score)
			sums.sure += guild.Micro
			continue
		}
		sums.would += int64(one.WouldCost)
		sums.wouldScore, sums.wouldThen = sums.wouldScore+int64(one.Overall.Score), sums.wouldThen+int64(one.Then.Score)
		sums.sure += int64(one.Overall.Sure)
	}
	if n := int64(r.Ended); n > 0 {
		r.Cost, r.WouldCost = guild.Msat(sums.cost), guild.Msat(sums.would)
		r.Score, r.Would, r.WouldThen = guild.Score(sums.score/n), guild.Score(sums.wouldScore/n), guild.Score(sums.wouldThen/n)
		r.Sure = guild.Trust(sums.sure / n)
	}
	return r
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// again makes one decision again.
func again(d Decision, by policy.Routing, exact *bool) Replayed {
	r := Replayed{Decision: d, Rule: d.Choice.Rule, Same: true}
	r.Candidates = slices.Clone(d.Choice.Candidates)
	at := slices.IndexFunc(r.Candidates, func(c fact.Candidate) bool { return c.Service == d.Service })
	if at >= 0 {
		r.Again, r.WouldCost = r.Candidates[at], d.Cost
	}
	if r.Kept = at < 0 || !slices.Contains([]string{Best, Explored, Sampled, Unmet}, d.Choice.Rule); r.Kept {
		return r
	}
	for i := range r.Candidates {
		reweigh(&r.Candidates[i], d, by, exact)
	}
	slices.SortStableFunc(r.Candidates, func(a, b fact.Candidate) int { return -cmp.Compare(a.Score-a.Unsure, b.Score-b.Unsure) })
	chosen, rule := redraw(d, r.Candidates, by)
	r.Again, r.Rule, r.Same = chosen, rule, chosen.Service == d.Service
	if !r.Same {
		r.WouldCost = chosen.Cost
	}
	return r
}

// reweigh replaces the weights in the score of a candidate. A recorded term is already multiplied by its weight. So a
// term with a weight of 0 is lost, and the replay is not exact. That of trust is made again: it is the trust, or a draw
// from the recorded outcomes, which decisions before there was Thompson sampling do not have.
func reweigh(c *fact.Candidate, d Decision, by policy.Routing, exact *bool) {
	was := d.Routing
	*exact = *exact && was.Span == by.Span
	term := func(weighed, was, by guild.Trust) guild.Trust {
		if was == 0 {
			*exact = *exact && by == 0
			return 0
		}
		return guild.Trust(ratio(int64(weighed)*int64(by), int64(was)*guild.Micro))
	}
	w := was.Weights
	t := &c.Terms
	switch {
	case by.Thompson > 0:
		t.Trust = sample(drawOf(d.Choice.Dice), c.Service, c.Won, c.Lost, by.Thompson) * by.Weights.Trust / guild.Micro
		*exact = *exact && (was.Thompson > 0 || c.Samples == 0 || c.Won+c.Lost > 0)
	case was.Thompson == 0:
		t.Trust = term(t.Trust, w.Trust, by.Weights.Trust)
	case c.Met:
		t.Trust = c.Trust * by.Weights.Trust / guild.Micro
	default:
		t.Trust = by.Lowest * by.Weights.Trust / guild.Micro
	}
	t.Cost = term(t.Cost, w.Cost, by.Weights.Cost)
	t.Latency, t.Load = term(t.Latency, w.Latency, by.Weights.Latency), term(t.Load, w.Load, by.Weights.Load)
	t.Exploration = term(t.Exploration, w.Exploration, by.Weights.Exploration)
	c.Score = t.Trust + t.Cost + t.Latency + t.Load + t.Exploration
}

// redraw chooses among candidates, the best first, with the recorded dice. A candidate that had a lower grade then,
// because it had its share or was reduced, has it again. If both explore, the choice is the recorded one.
func redraw(d Decision, candidates []fact.Candidate, by policy.Routing) (fact.Candidate, string) {
	var in [tiers][grades][]fact.Candidate
	var there, busy [tiers]bool
	for _, c := range candidates {
		tier := slices.IndexFunc(by.Tiers[:], func(t policy.Tier) bool { return t.Name == c.Tier })
		if tier < 0 {
			continue
		}
		grade := gladly
		if at := slices.IndexFunc(d.Choice.Excluded, func(e fact.Exclusion) bool { return e.Service == c.Service }); at >= 0 {
			grade = gradeOf(d.Choice.Excluded[at].By)
		}
		in[tier][grade] = append(in[tier][grade], c)
		there[tier] = there[tier] || grade < full
		busy[tier] = true
	}
	if by.Thompson > 0 {
		return rehighest(in), Sampled
	}
	if there == [tiers]bool{} {
		there = busy
	}
	tier := drawTier(by, there, d.Choice.Dice[1])
	if tier < 0 {
		return candidates[0], d.Choice.Rule
	}
	if d.Choice.Dice[0] < Epsilon(by, d.Choice.Decided) {
		if c, ok := reexplore(d, in[tier][gladly], by); ok {
			return c, Explored
		}
	}
	for _, try := range order(tier) {
		if all := in[try.tier][try.grade]; len(all) > 0 {
			if rule := d.Choice.Rule; rule == Unmet && !all[0].Met {
				return all[0], rule
			}
			return all[0], Best
		}
	}
	return candidates[0], d.Choice.Rule
}

// rehighest does the same as decision.highest among candidates, the best of each tier and grade first.
func rehighest(in [tiers][grades][]fact.Candidate) (best fact.Candidate) {
	for grade := range grades {
		found, tierOf := false, -1
		for tier := range tiers {
			if all := in[tier][grade]; len(all) > 0 && (!found || rankOf(all[0]) > rankOf(best)) {
				best, tierOf, found = all[0], tier, true
			}
		}
		if tierOf == tertiary && grade < full {
			for tier := range tertiary {
				if all := in[tier][full]; len(all) > 0 && rankOf(all[0]) > rankOf(best) {
					best = all[0]
				}
			}
		}
		if found {
			break
		}
	}
	return best
}

func rankOf(c fact.Candidate) guild.Trust { return c.Score - c.Unsure }

// reexplore draws a candidate with few samples.
func reexplore(d Decision, from []fact.Candidate, by policy.Routing) (fact.Candidate, bool) {
	if at := slices.IndexFunc(from, func(c fact.Candidate) bool { return c.Service == d.Service }); at >= 0 && d.Choice.Rule == Explored {
		return from[at], true
	}
	tickets := 0
	for _, c := range from {
		tickets += max(by.Samples-c.Samples, 0)
	}
	ticket := int(int64(d.Choice.Dice[2]) * int64(tickets) / guild.Micro)
	for _, c := range from {
		if ticket -= max(by.Samples-c.Samples, 0); ticket < 0 {
			return c, true
		}
	}
	return fact.Candidate{}, false
}

// record sums up the verdicts of a history.
type record struct {
	history []Decision
	byEnd   []int // indexes in the history of the ended decisions, by the time of the end
	counted int   // number of elements of byEnd that are counted
	own     map[owned]sum
	tasks   map[string]sum
}

type owned struct {
	task    string
	service guild.Service
}

type sum struct {
	scores int64
	n      int
}

// newRecord counts all verdicts.
func newRecord(history []Decision) *record {
	r := &record{history: history, own: map[owned]sum{}, tasks: map[string]sum{}}
	for n, d := range history {
		if d.Ended > 0 {
			r.byEnd = append(r.byEnd, n)
			r.add(n, 1)
		}
	}
	slices.SortStableFunc(r.byEnd, func(a, b int) int { return cmp.Compare(history[a].Ended, history[b].Ended) })
	return r
}

// through counts the verdicts up to a time, Unix ms.
//
// A decision of the past may only use verdicts that existed then, so through is called with growing times and counts
// each verdict once.
func (r *record) through(at int64) {
	for r.counted < len(r.byEnd) && r.history[r.byEnd[r.counted]].Ended <= at {
		r.add(r.byEnd[r.counted], 1)
		r.counted++
	}
}

func (r *record) add(place, by int) {
	d := r.history[place]
	k := owned{d.Task, d.Service}
	own, task := r.own[k], r.tasks[d.Task]
	r.own[k] = sum{own.scores + int64(by)*int64(d.Score), own.n + by}
	r.tasks[d.Task] = sum{task.scores + int64(by)*int64(d.Score), task.n + by}
}

// expect returns the score to expect of a service. It is the mean of its own verdicts and of prior verdicts that have
// the mean score of the task, so a few verdicts move it only a little.
func (r *record) expect(task string, s guild.Service) Expectation {
	own, all := r.own[owned{task, s}], r.tasks[task]
	e := Expectation{Verdicts: own.n, Sure: guild.Trust(int64(own.n) * guild.Micro / int64(own.n+prior))}
	if all.n > 0 {
		e.Score = guild.Score((own.scores + prior*(all.scores/int64(all.n))) / int64(own.n+prior))
	}
	return e
}
