package trust

import (
	"cmp"
	"fmt"
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/policy"
	"guild/oa"
)

// job holds the properties of a job that the evidence of its attempts needs.
type job struct {
	Task   string   `json:"task"`
	Class  string   `json:"class,omitempty"`
	Votes  bool     `json:"votes,omitempty"` // several deliveries must agree
	Live   int      `json:"live,omitempty"`  // attempts that have not ended
	Closed bool     `json:"closed,omitempty"`
	Held   []string `json:"held,omitempty"` // accepted deliveries that wait for the comparison, in the order of their verdicts
}

// asked is an attempt without evidence so far.
type asked struct {
	Job       guild.JobID         `json:"job"`
	Service   guild.Service       `json:"service"`
	Reached   bool                `json:"reached,omitempty"` // a relay took the request, or the provider answered
	LatencyMs int64               `json:"latency_ms,omitempty"`
	Agrees    string              `json:"agrees,omitempty"` // the attempt whose delivery is the same
	Held      *fact.AttemptJudged `json:"held,omitempty"`   // its verdict, kept until the job is closed
}

// owed is evidence that trust has not followed yet.
type owed struct {
	Task    string        `json:"task"`
	Job     guild.JobID   `json:"job"`
	Attempt nostr.ID      `json:"attempt"`
	Service guild.Service `json:"service"`
	Evidence
	Reason string `json:"reason"`
	Again  bool   `json:"again,omitempty"` // a second verdict on an attempt from which trust was changed
}

// verdict holds the effect of a verdict on trust, for as long as the verdict can be disputed.
type verdict struct {
	Job       guild.JobID   `json:"job"`
	Task      string        `json:"task"`
	Service   guild.Service `json:"service"`
	Class     string        `json:"class,omitempty"`
	LatencyMs int64         `json:"latency_ms,omitempty"`
	Outcome   guild.Outcome `json:"outcome"`            // that trust followed, or will follow
	Until     int64         `json:"until"`              // Unix ms: when it is final
	Disputed  bool          `json:"disputed,omitempty"` // it is being judged again, which may take any time

	Seq   uint64      `json:"seq,omitempty"` // the entry of the change, 0 before there is one
	At    int64       `json:"at,omitempty"`  // Unix ms: the time of the change
	Delta guild.Trust `json:"delta"`         // the part of the present trust that comes from the change
	First bool        `json:"first,omitempty"`

	Reverts string `json:"reverts,omitempty"` // the attempt whose decrease the change took back
}

// until holds the time at which an attempt's verdict is final, in Unix ms.
type until struct {
	Attempt string `json:"attempt"`
	At      int64  `json:"at"`
}

// mostLatencies limits the accepted deliveries of a task whose latencies are kept.
const mostLatencies = 100

func (s *state) apply(one fact.Fact, e fact.Entry, p *policy.Policy) {
	switch one := one.(type) {
	case fact.PolicyAdopted:
		s.Adopted = one.Policy
	case fact.JobOpened:
		s.Jobs.Set(one.Job, job{Task: one.Task, Class: class(one), Votes: oa.Adjudication(one.Compare).Quorum(one.Criticality) > 1})
	case fact.JobClosed:
		s.close(one, e.At, p)
	case fact.AttemptPlanned:
		s.plan(one)
	case fact.AttemptRequested:
		s.ask(one.Attempt, func(a *asked) { a.Reached = true })
	case fact.AttemptQuoted:
		s.ask(one.Attempt, func(a *asked) { a.Reached = true })
	case fact.AttemptProgressed:
		s.ask(one.Attempt, func(a *asked) { a.Reached = true })
	case fact.AttemptDelivered:
		s.ask(one.Attempt, func(a *asked) { a.Reached, a.LatencyMs = true, one.LatencyMs })
	case fact.AttemptCompared:
		s.ask(one.Attempt, func(a *asked) { a.Agrees = one.With.Hex() })
	case fact.AttemptJudged:
		s.judge(one, e.At, p)
	case fact.AttemptDisputed:
		if v, ok := s.Judged.Get(one.Attempt.Hex()); ok {
			v.Disputed = true
			s.Judged.Set(one.Attempt.Hex(), v)
		}
	case fact.AttemptExpired:
		if a := s.Asked.Of(one.Attempt.Hex()); a.Reached { // a request that reached nobody is not the provider's fault
			s.owe(one.Attempt, a, Evidence{Pattern: timeout, At: e.At}, one.Reason)
		}
		s.end(one.Attempt)
	case fact.AttemptRefused:
		if a, ok := s.Asked.Get(one.Attempt.Hex()); ok && one.Fault {
			s.owe(one.Attempt, a, Evidence{Pattern: failed, At: e.At}, fact.NotAsAgreed)
		}
		s.end(one.Attempt)
	case fact.AttemptCancelled:
		s.end(one.Attempt)
	case fact.AttemptRecorded: // before that, a parked attempt may still be judged, or judged again
		if a, ok := s.Asked.Get(one.Attempt.Hex()); ok && a.Held == nil {
			s.end(one.Attempt)
		}
		if v, ok := s.Judged.Get(one.Attempt.Hex()); ok && v.Disputed {
			s.contestable(one.Attempt.Hex(), v, e.At, p)
		}
	case fact.TrustChanged:
		s.change(one, e, p)
	}
}

// class returns the class of a job's task (the partnership protocol, section 5.2.3).
func class(j fact.JobOpened) string {
	if j.Meeting != nil {
		return guild.ClassBenchmark
	}
	return j.Class
}

func (s *state) plan(p fact.AttemptPlanned) {
	j, ok := s.Jobs.Get(p.Job)
	if !ok || s.Asked.Has(p.Attempt.Hex()) {
		return
	}
	j.Live++
	s.Jobs.Set(p.Job, j)
	s.Asked.Set(p.Attempt.Hex(), asked{Job: p.Job, Service: p.Provider})
}

func (s *state) ask(attempt nostr.ID, change func(*asked)) {
	if a, ok := s.Asked.Get(attempt.Hex()); ok {
		change(&a)
		s.Asked.Set(attempt.Hex(), a)
	}
}

// end forgets an attempt that will have no evidence any more, and its job after the last attempt.
func (s *state) end(attempt nostr.ID) {
	a, ok := s.Asked.Get(attempt.Hex())
	if !ok {
		return
	}
	s.Asked.Delete(attempt.Hex())
	j := s.Jobs.Of(a.Job)
	j.Live--
	j.Held = slices.DeleteFunc(slices.Clone(j.Held), func(id string) bool { return id == attempt.Hex() })
	s.keep(a.Job, j)
}

func (s *state) keep(id guild.JobID, j job) {
	if j.Closed && j.Live <= 0 {
		s.Jobs.Delete(id)
		return
	}
	s.Jobs.Set(id, j)
}

// judge applies a verdict. If several deliveries must agree, an accepted delivery is no evidence until they were
// compared, which is known when the job is closed.
func (s *state) judge(v fact.AttemptJudged, at int64, p *policy.Policy) {
	id := v.Attempt.Hex()
	if _, again := s.Judged.Get(id); again {
		s.judgeAgain(v, at, p)
		return
	}
	a, ok := s.Asked.Get(id)
	if !ok {
		return
	}
	j := s.Jobs.Of(a.Job)
	if j.Votes && !j.Closed && v.Verdict.Outcome == guild.Success {
		if a.Held == nil {
			j.Held = append(slices.Clip(j.Held), id)
			s.Jobs.Set(a.Job, j)
		}
		v.Verdict = guild.Verdict{Outcome: v.Verdict.Outcome, Score: v.Verdict.Score, Strength: v.Verdict.Strength,
			Strengths: v.Verdict.Strengths, Ruling: v.Verdict.Ruling}
		a.Held = &v
		s.Asked.Set(id, a)
		return
	}
	s.conclude(v, a, s.evidence(v, j.Task, j.Class, a.LatencyMs, at, p), said(v), p)
}

// conclude queues the evidence of a verdict, unless nothing was verified, and keeps the verdict for as long as it can be
// disputed.
func (s *state) conclude(v fact.AttemptJudged, a asked, e Evidence, reason string, p *policy.Policy) {
	j := s.Jobs.Of(a.Job)
	s.contestable(v.Attempt.Hex(), verdict{Job: a.Job, Task: j.Task, Service: a.Service, Class: j.Class, LatencyMs: a.LatencyMs,
		Outcome: v.Verdict.Outcome}, e.At, p)
	if e.Strength == guild.Unverified {
		s.end(v.Attempt)
		return
	}
	if e.Pattern == success && e.LatencyMs > 0 {
		ms := s.Latencies.Of(j.Task)
		s.Latencies.Set(j.Task, append(ms[max(0, len(ms)+1-mostLatencies):], e.LatencyMs))
	}
	s.owe(v.Attempt, a, e, reason)
	s.end(v.Attempt)
}

// close turns the accepted deliveries of a job into evidence. A delivery that disagrees with the one that the job was
// closed with is a wrong answer, whatever its tests say.
//
// A provider that is in a minority has given a wrong answer or agreed with another wrong one. Tests that accept both
// cannot tell them apart, so the majority decides.
func (s *state) close(c fact.JobClosed, at int64, p *policy.Policy) {
	j, ok := s.Jobs.Get(c.Job)
	if !ok {
		return
	}
	j.Closed = true
	s.keep(c.Job, j)
	agreed := s.Asked.Of(c.Chosen.Hex()).Agrees
	for _, id := range j.Held {
		a := s.Asked.Of(id)
		e, reason := s.evidence(*a.Held, j.Task, j.Class, a.LatencyMs, at, p), said(*a.Held)
		if agreed != "" && a.Agrees != "" {
			if a.Agrees != agreed {
				e.Pattern, reason = failed, reason+", but the others agree on another answer"
			}
			if e.Strength == guild.Unverified { // the others' answers are a check of it, although they may all be wrong
				e.Strength = guild.Weak
			}
		}
		s.conclude(*a.Held, a, e, reason, p)
	}
}

// evidence returns the evidence of a verdict, with the usual latency of the task at that time.
func (s *state) evidence(v fact.AttemptJudged, task, class string, latency, at int64, p *policy.Policy) Evidence {
	return Evidence{Pattern: pattern(v.Verdict.Outcome), Score: v.Verdict.Score, Class: class,
		LatencyMs: latency, BaselineMs: baseline(s.Latencies.Of(task), p.Trust), At: at, Strength: strength(v.Verdict)}
}

// strength returns the strength of a verdict as evidence. It is empty, which counts like a strong one, if a person ruled,
// and for verdicts from before strengths were counted: trust has followed these without regard to their strength, and a
// journal must replay to the same trust.
func strength(v guild.Verdict) guild.Strength {
	if v.Ruling != nil || v.Strengths == nil {
		return ""
	}
	return v.Strength
}

func said(v fact.AttemptJudged) string {
	text := fmt.Sprintf("%s, score %s", v.Verdict.Outcome, v.Verdict.Score)
	if s := strength(v.Verdict); s != "" {
		text += ", " + string(s)
	}
	return text
}

// pattern returns the name of an outcome in the partnership protocol, section 5.2.2.
func pattern(o guild.Outcome) string {
	if o == guild.Failure {
		return failed
	}
	return string(o)
}

// baseline returns the median of latencies by nearest rank, or 0 if there are too few.
func baseline(ms []int64, p policy.Trust) int64 {
	if len(ms) == 0 || len(ms) < p.Latencies {
		return 0
	}
	return slices.Sorted(slices.Values(ms))[(len(ms)+1)/2-1]
}

// owe queues evidence behind that of the same task. Trust follows evidence in the order in which it arose, so that a
// replay of the journal computes the same trust.
func (s *state) owe(attempt nostr.ID, a asked, e Evidence, reason string) {
	j := s.Jobs.Of(a.Job)
	e.Class = j.Class
	s.push(owed{Task: j.Task, Job: a.Job, Attempt: attempt, Service: a.Service, Evidence: e, Reason: reason})
}

func (s *state) push(o owed) {
	s.Owed.Set(o.Task, append(s.Owed.Of(o.Task), o))
	s.Owing.Set(o.Job, s.Owing.Of(o.Job)+1)
}

// pull removes the evidence of an attempt from the queue of a task and returns it.
func (s *state) pull(task string, attempt nostr.ID) (owed, bool) {
	q := s.Owed.Of(task)
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
		s.Owed.Set(task, q)
	} else {
		s.Owed.Delete(task)
	}
	if left := s.Owing.Of(o.Job) - 1; left > 0 {
		s.Owing.Set(o.Job, left)
	} else {
		s.Owing.Delete(o.Job)
	}
	return o, true
}

// learned removes the evidence of a change from its queue and returns it. A rule that follows no evidence removes none.
func (s *state) learned(c fact.TrustChanged) (owed, bool) {
	switch c.Rule {
	case "", fact.RuleContradiction, fact.RuleRejudged:
		return s.pull(c.Task, c.Attempt)
	}
	return owed{}, false
}

// contestable keeps a verdict for the policy's time to object, usually a day.
func (s *state) contestable(id string, v verdict, at int64, p *policy.Policy) {
	v.Until, v.Disputed = at+p.Review.Objection, false
	s.Judged.Set(id, v)
	s.Young = append(s.Young, until{id, v.Until})
}

// prune forgets the verdicts that are final.
func (s *state) prune(now int64) {
	for len(s.Young) > 0 && s.Young[0].At <= now {
		id := s.Young[0].Attempt
		if v, ok := s.Judged.Get(id); ok && !v.Disputed && v.Until <= now {
			s.Judged.Delete(id)
		}
		s.Young = s.Young[1:]
	}
}

// judgeAgain applies another verdict on a delivery. It replaces evidence that is still queued. If trust has followed
// the first verdict, the same outcome changes nothing, and another one becomes evidence that replaces the first.
func (s *state) judgeAgain(v fact.AttemptJudged, at int64, p *policy.Policy) {
	id := v.Attempt.Hex()
	before := s.Judged.Of(id)
	old, waits := s.pull(before.Task, v.Attempt)
	e := s.evidence(v, before.Task, before.Class, before.LatencyMs, at, p)
	now := owed{Task: before.Task, Job: before.Job, Attempt: v.Attempt, Service: before.Service, Evidence: e, Reason: said(v)}
	switch {
	case before.Seq == 0 && waits && v.Verdict.Outcome == before.Outcome:
		s.push(old)
	case before.Seq == 0 && waits:
		s.push(now)
	case v.Verdict.Outcome != before.Outcome:
		now.Again, now.Reason = true, now.Reason+", where it was "+string(before.Outcome)
		s.push(now)
	}
	if before.Seq == 0 {
		before.Outcome = v.Verdict.Outcome
	}
	s.contestable(id, before, at, p)
}

// contested updates the verdict that a change of trust comes from, in case it is disputed later, and returns it as it
// was before the change.
//
// It tracks how much of the present trust comes from each verdict (Delta). Undoing a verdict then subtracts exactly
// that, also after limits, averages and later changes. A rule that takes a decrease back sets the Delta of that
// decrease to 0, because there is nothing left to undo.
func (s *state) contested(c fact.TrustChanged, r row, e fact.Entry, at int64) verdict {
	if c.Rule == fact.RuleContradiction {
		s.counts(c.Reverts.Hex(), 0) // its change is taken back
	}
	before, ok := s.Judged.Get(c.Attempt.Hex())
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
		s.counts(undone.Reverts, -undone.Delta)
		now.Outcome = cmp.Or(outcome(c.Pattern), before.Outcome)
		now.Delta += undone.Delta
		now.First = before.First && undone.First && !c.Unfounded
	}
	if now.First || c.Unfounded {
		now.Delta = 0
	}
	s.Judged.Set(c.Attempt.Hex(), now)
	return undone
}

// counts sets the part of the present trust that comes from a verdict's change.
func (s *state) counts(attempt string, delta guild.Trust) {
	if v, ok := s.Judged.Get(attempt); ok {
		v.Delta = delta
		s.Judged.Set(attempt, v)
	}
}

// refund returns how much of the daily limit is free again if a verdict's change is undone. It is 0 if the change was
// made on another day, and negative if the change took a decrease back, because that had freed the same amount.
func (v verdict) refund(day int64) guild.Trust {
	switch {
	case v.At/dayMs != day:
		return 0
	case v.Reverts != "":
		return -abs(v.Delta)
	}
	return abs(v.Delta)
}

// direction returns a negative number if the verdict's change is a decrease, or took a decrease back.
func (v verdict) direction() guild.Trust {
	if v.Reverts != "" {
		return -abs(v.Delta)
	}
	return v.Delta
}

// effective returns a verdict with the part of its change that is still in trust. Once trust was set outright, that is
// nothing. A first trust can only be replaced while it is the latest change.
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
