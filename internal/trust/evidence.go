package trust

import (
	"cmp"
	"fmt"
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/fact"
	"guild/internal/policy"
	"guild/oa"
)

// job is what the evidence of its attempts needs of a job.
type job struct {
	Task   string   `json:"task"`
	Class  string   `json:"class,omitempty"`
	Votes  bool     `json:"votes,omitempty"` // several deliveries must agree
	Live   int      `json:"live,omitempty"`  // attempts that have not ended
	Closed bool     `json:"closed,omitempty"`
	Held   []string `json:"held,omitempty"` // accepted deliveries that wait for the others, the first verdict first
}

// asked is an attempt of which nothing was learned yet.
type asked struct {
	Job       guild.JobID         `json:"job"`
	Service   guild.Service       `json:"service"`
	Reached   bool                `json:"reached,omitempty"` // a relay took the request, or the provider spoke
	LatencyMs int64               `json:"latency_ms,omitempty"`
	Agrees    string              `json:"agrees,omitempty"` // the attempt whose delivery is the same
	Held      *fact.AttemptJudged `json:"held,omitempty"`   // its verdict, until the job is closed
}

// owed is evidence that trust has not learned from.
type owed struct {
	Task    string        `json:"task"`
	Job     guild.JobID   `json:"job"`
	Attempt nostr.ID      `json:"attempt"`
	Service guild.Service `json:"service"`
	Evidence
	Reason string `json:"reason"`
	Again  bool   `json:"again,omitempty"` // another verdict on what was learned from
}

// verdict is what trust learned from a verdict, for as long as that may be contested.
type verdict struct {
	Job       guild.JobID   `json:"job"`
	Task      string        `json:"task"`
	Service   guild.Service `json:"service"`
	Class     string        `json:"class,omitempty"`
	LatencyMs int64         `json:"latency_ms,omitempty"`
	Outcome   guild.Outcome `json:"outcome"`            // that was learned from, or is owed
	Until     int64         `json:"until"`              // Unix ms: when it is final
	Disputed  bool          `json:"disputed,omitempty"` // it is being judged again, however long that takes

	Seq   uint64      `json:"seq,omitempty"` // entry of the change, 0 before there is one
	At    int64       `json:"at,omitempty"`  // Unix ms: the time of the change
	Delta guild.Trust `json:"delta"`         // that the change is of trust now
	First bool        `json:"first,omitempty"`

	Reverts string `json:"reverts,omitempty"` // the attempt whose decrease the change took back
}

// until is when an attempt's verdict is final.
type until struct {
	Attempt string `json:"attempt"`
	At      int64  `json:"at"`
}

// mostLatencies is over how many accepted deliveries of a task the usual latency is found.
const mostLatencies = 100

func (f *Fold) apply(one fact.Fact, e fact.Entry) {
	switch one := one.(type) {
	case fact.PolicyAdopted:
		f.state.Adopted = one.Policy
	case fact.JobOpened:
		f.state.Jobs.Set(one.Job, job{Task: one.Task, Class: class(one), Votes: oa.Adjudication(one.Compare).Quorum(one.Criticality) > 1})
	case fact.JobClosed:
		f.close(one, e.At)
	case fact.AttemptPlanned:
		f.plan(one)
	case fact.AttemptRequested:
		f.ask(one.Attempt, func(a *asked) { a.Reached = true })
	case fact.AttemptQuoted:
		f.ask(one.Attempt, func(a *asked) { a.Reached = true })
	case fact.AttemptProgressed:
		f.ask(one.Attempt, func(a *asked) { a.Reached = true })
	case fact.AttemptDelivered:
		f.ask(one.Attempt, func(a *asked) { a.Reached, a.LatencyMs = true, one.LatencyMs })
	case fact.AttemptCompared:
		f.ask(one.Attempt, func(a *asked) { a.Agrees = one.With.Hex() })
	case fact.AttemptJudged:
		f.judge(one, e.At)
	case fact.AttemptDisputed:
		if v, ok := f.state.Judged.Get(one.Attempt.Hex()); ok {
			v.Disputed = true
			f.state.Judged.Set(one.Attempt.Hex(), v)
		}
	case fact.AttemptExpired:
		if a := f.state.Asked.Of(one.Attempt.Hex()); a.Reached { // what never left is nobody's fault
			f.owe(one.Attempt, a, Evidence{Pattern: timeout, At: e.At}, one.Reason)
		}
		f.end(one.Attempt)
	case fact.AttemptRefused:
		if a, ok := f.state.Asked.Get(one.Attempt.Hex()); ok && one.Fault {
			f.owe(one.Attempt, a, Evidence{Pattern: failed, At: e.At}, one.Reason)
		}
		f.end(one.Attempt)
	case fact.AttemptCancelled:
		f.end(one.Attempt)
	case fact.AttemptRecorded: // until then one that is parked may still be judged, or judged again
		if a, ok := f.state.Asked.Get(one.Attempt.Hex()); ok && a.Held == nil {
			f.end(one.Attempt)
		}
		if v, ok := f.state.Judged.Get(one.Attempt.Hex()); ok && v.Disputed {
			f.contestable(one.Attempt.Hex(), v, e.At)
		}
	case fact.TrustChanged:
		f.change(one, e)
	}
}

// class is that of a job's task (the partnership protocol, section 5.2.3).
func class(j fact.JobOpened) string {
	if j.Meeting != nil {
		return guild.ClassBenchmark
	}
	return j.Class
}

func (f *Fold) plan(p fact.AttemptPlanned) {
	j, ok := f.state.Jobs.Get(p.Job)
	if !ok || f.state.Asked.Has(p.Attempt.Hex()) {
		return
	}
	j.Live++
	f.state.Jobs.Set(p.Job, j)
	f.state.Asked.Set(p.Attempt.Hex(), asked{Job: p.Job, Service: p.Provider})
}

func (f *Fold) ask(attempt nostr.ID, change func(*asked)) {
	if a, ok := f.state.Asked.Get(attempt.Hex()); ok {
		change(&a)
		f.state.Asked.Set(attempt.Hex(), a)
	}
}

// end forgets an attempt that no more will become of, and its job after the last of them.
func (f *Fold) end(attempt nostr.ID) {
	a, ok := f.state.Asked.Get(attempt.Hex())
	if !ok {
		return
	}
	f.state.Asked.Delete(attempt.Hex())
	j := f.state.Jobs.Of(a.Job)
	j.Live--
	j.Held = slices.DeleteFunc(slices.Clone(j.Held), func(id string) bool { return id == attempt.Hex() })
	f.keep(a.Job, j)
}

func (f *Fold) keep(id guild.JobID, j job) {
	if j.Closed && j.Live <= 0 {
		f.state.Jobs.Delete(id)
		return
	}
	f.state.Jobs.Set(id, j)
}

// judge takes a verdict. An accepted delivery of a job in which several must agree says nothing before they were
// compared; that is known when the job is closed.
func (f *Fold) judge(v fact.AttemptJudged, at int64) {
	id := v.Attempt.Hex()
	if _, again := f.state.Judged.Get(id); again {
		f.judgeAgain(v, at)
		return
	}
	a, ok := f.state.Asked.Get(id)
	if !ok {
		return
	}
	j := f.state.Jobs.Of(a.Job)
	if j.Votes && !j.Closed && v.Verdict.Outcome == guild.Success {
		if a.Held == nil {
			j.Held = append(slices.Clip(j.Held), id)
			f.state.Jobs.Set(a.Job, j)
		}
		v.Verdict = guild.Verdict{Outcome: v.Verdict.Outcome, Score: v.Verdict.Score}
		a.Held = &v
		f.state.Asked.Set(id, a)
		return
	}
	f.conclude(v, a, f.evidence(v, j.Task, j.Class, a.LatencyMs, at), said(v))
}

// conclude owes what a verdict comes to, and keeps it for as long as it may be contested.
func (f *Fold) conclude(v fact.AttemptJudged, a asked, e Evidence, reason string) {
	j := f.state.Jobs.Of(a.Job)
	f.contestable(v.Attempt.Hex(), verdict{Job: a.Job, Task: j.Task, Service: a.Service, Class: j.Class, LatencyMs: a.LatencyMs,
		Outcome: v.Verdict.Outcome}, e.At)
	if e.Pattern == success && e.LatencyMs > 0 {
		ms := f.state.Latencies.Of(j.Task)
		f.state.Latencies.Set(j.Task, append(ms[max(0, len(ms)+1-mostLatencies):], e.LatencyMs))
	}
	f.owe(v.Attempt, a, e, reason)
	f.end(v.Attempt)
}

// close learns what the accepted deliveries of a job are worth: one that disagrees with those that the job was closed
// by is a wrong answer, whatever its tests say.
func (f *Fold) close(c fact.JobClosed, at int64) {
	j, ok := f.state.Jobs.Get(c.Job)
	if !ok {
		return
	}
	j.Closed = true
	f.keep(c.Job, j)
	agreed := f.state.Asked.Of(c.Chosen.Hex()).Agrees
	for _, id := range j.Held {
		a := f.state.Asked.Of(id)
		e, reason := f.evidence(*a.Held, j.Task, j.Class, a.LatencyMs, at), said(*a.Held)
		if agreed != "" && a.Agrees != "" && a.Agrees != agreed {
			e.Pattern, reason = failed, reason+", but the others agree on another answer"
		}
		f.conclude(*a.Held, a, e, reason)
	}
}

// evidence is what a verdict says, beside what is usual for the task at that time.
func (f *Fold) evidence(v fact.AttemptJudged, task, class string, latency, at int64) Evidence {
	return Evidence{Pattern: pattern(v.Verdict.Outcome), Score: v.Verdict.Score, Class: class,
		LatencyMs: latency, BaselineMs: baseline(f.state.Latencies.Of(task), f.policy.Trust), At: at}
}

func said(v fact.AttemptJudged) string {
	return fmt.Sprintf("%s, score %s", v.Verdict.Outcome, v.Verdict.Score)
}

// pattern maps an outcome to the name it has in the partnership protocol, section 5.2.2.
func pattern(o guild.Outcome) string {
	if o == guild.Failure {
		return failed
	}
	return string(o)
}

// baseline is the median of latencies by nearest rank, 0 where they are too few.
func baseline(ms []int64, p policy.Trust) int64 {
	if len(ms) == 0 || len(ms) < p.Latencies {
		return 0
	}
	return slices.Sorted(slices.Values(ms))[(len(ms)+1)/2-1]
}

// owe notes evidence, in the order in which it came to be.
func (f *Fold) owe(attempt nostr.ID, a asked, e Evidence, reason string) {
	j := f.state.Jobs.Of(a.Job)
	e.Class = j.Class
	f.push(owed{Task: j.Task, Job: a.Job, Attempt: attempt, Service: a.Service, Evidence: e, Reason: reason})
}

func (f *Fold) push(o owed) {
	f.state.Owed.Set(o.Task, append(f.state.Owed.Of(o.Task), o))
	f.state.Owing.Set(o.Job, f.state.Owing.Of(o.Job)+1)
}

// pull takes the evidence of an attempt out of what is owed for a task.
func (f *Fold) pull(task string, attempt nostr.ID) (owed, bool) {
	q := f.state.Owed.Of(task)
	i := slices.IndexFunc(q, func(o owed) bool { return o.Attempt == attempt })
	if i < 0 {
		return owed{}, false
	}
	o := q[i]
	if i == 0 {
		q = q[1:]
	} else {
		q = append(slices.Clip(q[:i]), q[i+1:]...)
	}
	if len(q) > 0 {
		f.state.Owed.Set(task, q)
	} else {
		f.state.Owed.Delete(task)
	}
	if left := f.state.Owing.Of(o.Job) - 1; left > 0 {
		f.state.Owing.Set(o.Job, left)
	} else {
		f.state.Owing.Delete(o.Job)
	}
	return o, true
}

// learned takes the evidence that a change was made from out of what is owed.
func (f *Fold) learned(c fact.TrustChanged) (owed, bool) {
	switch c.Rule {
	case "", fact.RuleContradiction, fact.RuleRejudged:
		return f.pull(c.Task, c.Attempt)
	}
	return owed{}, false
}

// contestable keeps a verdict until a day after it, or as long as the policy says.
func (f *Fold) contestable(id string, v verdict, at int64) {
	v.Until, v.Disputed = at+f.policy.Review.Objection, false
	f.state.Judged.Set(id, v)
	f.state.Young = append(f.state.Young, until{id, v.Until})
}

// prune forgets the verdicts that are final.
func (f *Fold) prune(now int64) {
	for len(f.state.Young) > 0 && f.state.Young[0].At <= now {
		id := f.state.Young[0].Attempt
		if v, ok := f.state.Judged.Get(id); ok && !v.Disputed && v.Until <= now {
			f.state.Judged.Delete(id)
		}
		f.state.Young = f.state.Young[1:]
	}
}

// judgeAgain takes another verdict on a delivery. What was not learned yet is replaced; the same outcome changes
// nothing; another one is evidence that takes the place of the first.
func (f *Fold) judgeAgain(v fact.AttemptJudged, at int64) {
	id := v.Attempt.Hex()
	before := f.state.Judged.Of(id)
	old, waits := f.pull(before.Task, v.Attempt)
	e := f.evidence(v, before.Task, before.Class, before.LatencyMs, at)
	now := owed{Task: before.Task, Job: before.Job, Attempt: v.Attempt, Service: before.Service, Evidence: e, Reason: said(v)}
	switch {
	case before.Seq == 0 && waits && v.Verdict.Outcome == before.Outcome:
		f.push(old)
	case before.Seq == 0 && waits:
		f.push(now)
	case v.Verdict.Outcome != before.Outcome:
		now.Again, now.Reason = true, now.Reason+", where it was "+string(before.Outcome)
		f.push(now)
	}
	if before.Seq == 0 {
		before.Outcome = v.Verdict.Outcome
	}
	f.contestable(id, before, at)
}

// contested keeps what a change is of trust, should its verdict be contested, and returns what was kept before.
func (f *Fold) contested(c fact.TrustChanged, r row, e fact.Entry, at int64) verdict {
	if c.Rule == fact.RuleContradiction {
		f.counts(c.Reverts.Hex(), 0) // it is taken back
	}
	before, ok := f.state.Judged.Get(c.Attempt.Hex())
	if !ok || outright(c.Rule) {
		return verdict{}
	}
	undone := effective(before, r, c.Attempt)
	now := before
	now.Seq, now.At, now.First, now.Reverts = e.Seq, at, c.First, ""
	now.Delta = c.To - c.From
	if c.Rule == fact.RuleContradiction {
		now.Reverts = c.Reverts.Hex()
	}
	if c.Rule == fact.RuleRejudged {
		f.counts(undone.Reverts, -undone.Delta)
		now.Outcome = cmp.Or(outcome(c.Pattern), before.Outcome)
		now.Delta += undone.Delta
		now.First = before.First && undone.First && !c.Unfounded
	}
	if now.First || c.Unfounded {
		now.Delta = 0
	}
	f.state.Judged.Set(c.Attempt.Hex(), now)
	return undone
}

// counts sets what a change that was taken back, or is not any more, is of trust.
func (f *Fold) counts(attempt string, delta guild.Trust) {
	if v, ok := f.state.Judged.Get(attempt); ok {
		v.Delta = delta
		f.state.Judged.Set(attempt, v)
	}
}

// refund is what undoing a change by a verdict frees of the day it was made on: what it took, or less than nothing where
// it had given something back.
func (v verdict) refund(day int64) guild.Trust {
	switch {
	case v.At/dayMs != day:
		return 0
	case v.Reverts != "":
		return -abs(v.Delta)
	}
	return abs(v.Delta)
}

// direction is below zero where the change by a verdict, or the one that it took back, is a decrease.
func (v verdict) direction() guild.Trust {
	if v.Reverts != "" {
		return -abs(v.Delta)
	}
	return v.Delta
}

// effective is what of the change by a verdict is still in trust: nothing, once it was set outright. A first trust can
// be founded anew only as long as nothing was built on it.
func effective(v verdict, r row, attempt nostr.ID) verdict {
	if v.Seq <= r.Set {
		v.Delta = 0
	}
	v.First = v.First && v.Seq > r.Set && r.Last == attempt
	return v
}

// outcome is the inverse of pattern.
func outcome(pattern string) guild.Outcome {
	if pattern == failed {
		return guild.Failure
	}
	return guild.Outcome(pattern)
}
