package route

import (
	"cmp"
	"slices"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/policy"
)

// Decision is one decision of the past, and what became of it.
type Decision struct {
	Job     guild.JobID
	Turn    int // from 1
	Task    string
	At      int64 // Unix ms
	Service guild.Service
	Choice  fact.Choice
	Routing policy.Routing // by which it was made

	Ended int64       // Unix ms of the end for which the provider answers; 0 when there is none yet
	Score guild.Score // of the verdict; 0 for an end without one
	Cost  guild.Msat  // what was bid or quoted
}

// Replayed is a decision made again.
type Replayed struct {
	Decision
	Again      fact.Candidate   // whom the other settings choose
	Rule       string           // by which
	Same       bool             // it is the one that was chosen
	Candidates []fact.Candidate // with the new terms and scores, the best first
	Kept       bool             // it was not the router's to decide: named, offered, a meeting; or nothing is known of it

	WouldCost guild.Msat  // of Again, as it was estimated then
	Then      Expectation // of Again's score, by its verdicts until then
	Overall   Expectation // by all of its verdicts but those of this decision
}

// Expectation is a score that is expected, and how sure that is.
type Expectation struct {
	Score    guild.Score
	Verdicts int         // that it rests on
	Sure     guild.Trust // the part that these are of it; the rest is the mean of all verdicts on the task
}

// Report is what other settings would have done.
type Report struct {
	Decisions []Replayed
	Changed   int // decisions that choose somebody else
	Kept      int
	Exact     bool // every term could be computed anew; false where a weight was 0 at the time

	// Of the decisions that have ended: what they cost and what they scored, the mean in micro-units, and what they
	// would have, by the services' other verdicts. For what stays the same that is what it was.
	Ended               int
	Cost, WouldCost     guild.Msat
	Score, Would        guild.Score
	WouldThen           guild.Score // by the verdicts until then only
	Sure                guild.Trust // mean certainty of Would
	Explored, DidBefore int         // decisions that explore, by the other settings and before
}

// prior is how many verdicts of its own a service must have before they weigh more than the task's mean.
const prior = 3

// Replay makes the router's decisions of the past again by other settings: other weights, another epsilon, other shares
// of the tiers. The candidates are those that were written down, at most sixteen for each, and each decision is made
// from what was known then: what the others would have learned from other choices is not known.
func Replay(history []Decision, by policy.Routing) Report {
	history = slices.Clone(history)
	slices.SortStableFunc(history, func(a, b Decision) int { return cmp.Compare(a.At, b.At) })
	r := Report{Exact: true}
	all := newRecord(history)
	past := record{history: history, byEnd: all.byEnd, own: map[owned]sum{}, tasks: map[string]sum{}}
	sums := struct{ cost, would, score, wouldScore, wouldThen, sure int64 }{}
	for i, d := range history {
		one := again(d, by, &r.Exact)
		past.through(d.At)
		one.Then, one.Overall = past.expect(d.Task, one.Again.Service), all.without(i).expect(d.Task, one.Again.Service)
		all.with(i)
		r.Decisions = append(r.Decisions, one)
		r.Kept += count(one.Kept)
		r.Changed += count(!one.Same)
		r.Explored += count(one.Rule == Explored)
		r.DidBefore += count(d.Choice.Rule == Explored)
		if d.Ended == 0 {
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
	if r.Kept = at < 0 || d.Choice.Rule != Best && d.Choice.Rule != Explored && d.Choice.Rule != Unmet; r.Kept {
		return r
	}
	for i := range r.Candidates {
		reweigh(&r.Candidates[i], d.Routing, by, exact)
	}
	slices.SortStableFunc(r.Candidates, func(a, b fact.Candidate) int { return -cmp.Compare(a.Score-a.Unsure, b.Score-b.Unsure) })
	chosen, rule := redraw(d, r.Candidates, by)
	r.Again, r.Rule, r.Same = chosen, rule, chosen.Service == d.Service
	if !r.Same {
		r.WouldCost = chosen.Cost
	}
	return r
}

// reweigh replaces the weights in a candidate's score.
func reweigh(c *fact.Candidate, was, by policy.Routing, exact *bool) {
	term := func(weighed, was, by guild.Trust) guild.Trust {
		if was == 0 {
			*exact = *exact && by == 0
			return 0
		}
		return guild.Trust(ratio(int64(weighed)*int64(by), int64(was)*guild.Micro))
	}
	w := was.Weights
	t := &c.Terms
	t.Trust, t.Cost = term(t.Trust, w.Trust, by.Weights.Trust), term(t.Cost, w.Cost, by.Weights.Cost)
	t.Latency, t.Load = term(t.Latency, w.Latency, by.Weights.Latency), term(t.Load, w.Load, by.Weights.Load)
	t.Exploration = term(t.Exploration, w.Exploration, by.Weights.Exploration)
	c.Score = t.Trust + t.Cost + t.Latency + t.Load + t.Exploration
}

// redraw chooses among candidates, the best first, by the dice that were thrown then. Who was taken for less then, because
// it had its share or was reduced, is so again. Where both explore, it is whom the dice chose then.
func redraw(d Decision, candidates []fact.Candidate, by policy.Routing) (fact.Candidate, string) {
	var in [tiers][grades][]fact.Candidate
	var there, busy [tiers]bool
	for _, c := range candidates {
		tier := slices.IndexFunc(by.Tiers[:], func(t policy.Tier) bool { return t.Name == c.Tier })
		if tier < 0 {
			continue
		}
		grade := gradeThen(d.Choice, c.Service)
		in[tier][grade] = append(in[tier][grade], c)
		there[tier] = there[tier] || grade < atLast
		busy[tier] = true
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

// gradeThen is how gladly a candidate was taken then.
func gradeThen(c fact.Choice, s guild.Service) int {
	at := slices.IndexFunc(c.Excluded, func(e fact.Exclusion) bool { return e.Service == s })
	if at < 0 {
		return gladly
	}
	return gradeOf(c.Excluded[at].By)
}

// reexplore draws one of those with few samples.
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

// record is what the verdicts say.
type record struct {
	history []Decision
	byEnd   []int // places in the history of those that have ended, the first first
	counted int   // of byEnd
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

// through counts the verdicts until a time, Unix ms.
func (r *record) through(at int64) {
	for r.counted < len(r.byEnd) && r.history[r.byEnd[r.counted]].Ended <= at {
		r.add(r.byEnd[r.counted], 1)
		r.counted++
	}
}

// without takes the verdict of one decision out, and with puts it back.
func (r *record) without(place int) *record {
	if r.history[place].Ended > 0 {
		r.add(place, -1)
	}
	return r
}

func (r *record) with(place int) {
	if r.history[place].Ended > 0 {
		r.add(place, 1)
	}
}

func (r *record) add(place, by int) {
	d := r.history[place]
	k := owned{d.Task, d.Service}
	own, task := r.own[k], r.tasks[d.Task]
	r.own[k] = sum{own.scores + int64(by)*int64(d.Score), own.n + by}
	r.tasks[d.Task] = sum{task.scores + int64(by)*int64(d.Score), task.n + by}
}

// expect is the score that a service's own verdicts let expect, pulled to the mean of the task by as much as few verdicts
// say little.
func (r *record) expect(task string, s guild.Service) Expectation {
	own, all := r.own[owned{task, s}], r.tasks[task]
	e := Expectation{Verdicts: own.n, Sure: guild.Trust(int64(own.n) * guild.Micro / int64(own.n+prior))}
	if all.n > 0 {
		e.Score = guild.Score((own.scores + prior*(all.scores/int64(all.n))) / int64(own.n+prior))
	}
	return e
}
