// Package trust is the step that moves the trust in a service for a task by the endings of its attempts. It owns the
// facts trust.changed and policy.adopted. The arithmetic is a pure function (Adjust). The step applies it once for each
// attempt, in the order of the evidence, each in one decision. It never chooses a provider and never blacklists one.
// Its subpackage exchange imports the trust of other guilds, and variables moves the values that are not trust.
package trust

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/policy"
)

// Config configures the step.
type Config struct {
	Journal *journal.Journal
	Now     func() time.Time
}

// Trust is the step.
type Trust struct {
	c    Config
	fold *Fold
	ours atomic.Bool // this node's policy was in force since the process began
}

// New returns the step on its fold.
func New(c Config, f *Fold) *Trust { return &Trust{c: c, fold: f} }

// Due lists the evidence to learn from, the first piece of each task. Before that it adopts the policy. It implements
// due.Source.
//
// If another node on the same journal has replaced this node's policy, Due returns nothing any more. Otherwise the two
// nodes would replace each other's policy for ever.
func (t *Trust) Due(time.Time) []due.Work {
	adopted := t.fold.Adopted()
	switch {
	case adopted == t.fold.hash:
		t.ours.Store(true)
	case t.ours.Load():
		return nil
	default:
		return []due.Work{due.Decide("adopt policy "+t.fold.hash.String(), fact.PolicySubject, time.Time{}, t.decideAdopt)}
	}
	// All services of a task share one guard, because they share its daily limit.
	var work []due.Work
	for _, o := range t.fold.next() {
		work = append(work, due.Decide("learn from "+o.Attempt.Hex(), fact.TrustSubject(o.Task), time.Time{},
			func(tx *journal.Tx) error { t.fold.learn(tx, o.Task, o.Attempt); return nil }))
	}
	return work
}

// decideAdopt records the policy with its whole document, so that later decisions can be explained by their policy's
// hash alone, also after the program has other numbers.
func (t *Trust) decideAdopt(tx *journal.Tx) error {
	if t.fold.Adopted() == t.fold.hash {
		return nil
	}
	document, err := t.fold.policy.Encode()
	if err != nil {
		return err
	}
	tx.Append(fact.PolicyAdopted{Policy: t.fold.hash, Name: t.fold.policy.Name, Document: document})
	return nil
}

// adopt makes sure that this node's policy is in force before anything is decided under it.
func (t *Trust) adopt(ctx context.Context) error {
	if t.fold.Adopted() == t.fold.hash {
		return nil
	}
	if err := t.c.Journal.Do(ctx, fact.PolicySubject, "", t.decideAdopt); err != nil {
		return fmt.Errorf("adopt policy %s: %w", t.fold.policy.Name, err)
	}
	return nil
}

// next returns the first evidence of each task.
func (f *Fold) next() (firsts []owed) {
	f.View(func(s *state) {
		firsts = make([]owed, 0, s.Owed.Len())
		for _, q := range s.Owed.All() {
			firsts = append(firsts, q[0])
		}
	})
	return firsts
}

// learn decides the change by the first evidence of a task, if that is still the one of the given attempt.
func (f *Fold) learn(tx *journal.Tx, task string, attempt nostr.ID) {
	f.View(func(s *state) {
		q := s.Owed.Of(task)
		if len(q) > 0 && q[0].Attempt == attempt {
			tx.Append(f.decide(s, q[0])...)
		}
	})
}

// decide returns the changes that a piece of evidence makes.
func (f *Fold) decide(now *state, o owed) []fact.Fact {
	r, p := now.Table.Of(key(o.Task, o.Service)), f.policy.Trust
	s := now.before(r, o, p)
	if o.Again {
		return []fact.Fact{f.judgedAgain(now, r, s, o)}
	}
	made := Adjust(s, o.Evidence, p)
	facts := []fact.Fact{f.fact(r, made, o)}
	back, ok := restored(s, made, p)
	if ok {
		c := f.fact(r, back, o)
		c.Rule, c.From, c.Pattern, c.Reason = fact.RuleMean, made.Next.Trust, "", "changes in the wrong direction"
		facts = append(facts, c)
	}
	return facts
}

// before returns the state that the change by a piece of evidence depends on.
func (s *state) before(r row, o owed, p policy.Trust) State {
	at := max(o.At, r.Since)
	before := State{
		Standing: r.Standing, Spent: s.today(o.Task, at).Spent, Fell: r.Fell.at(at).Spent, Past: r.relevant(), Last: r.Last,
	}
	if r.Met {
		before.Mean = meanOf(addArea(r.Areas, r.Trust, r.Since, at), r.Trust, at, p.Mean)
	}
	return before
}

// fact returns the fact that records a proposal.
func (f *Fold) fact(r row, made Proposal, o owed) fact.TrustChanged {
	return fact.TrustChanged{
		Task: o.Task, Service: o.Service, From: r.Trust, To: made.Next.Trust, EMA: made.Next.EMA, Runs: made.Next.Runs,
		First: !r.Met && made.Founded, Unfounded: !made.Founded, Policy: f.hash, Job: o.Job, Attempt: o.Attempt, Reason: o.Reason,
		Rule: made.Rule, Pattern: o.Pattern, Score: o.Score, Class: o.Class, Strength: o.Strength, Confidence: made.Confidence, Action: made.Action,
		Rationale: made.Rationale, Oscillates: made.Oscillates, Suspends: made.Suspends, Reverts: made.Reverts,
		LatencyMs: o.LatencyMs, BaselineMs: o.BaselineMs, Consecutive: made.Next.Wrong, Samples: made.Next.Samples, Held: made.Held,
	}
}

// judgedAgain replaces a first verdict by a second one. It subtracts the part of the first change that is still in
// trust, and then moves trust by the new evidence.
//
// The first change is subtracted exactly, instead of computing all later changes again without it: these stay as they
// were recorded. The rows of successes and of wrong changes begin anew.
func (f *Fold) judgedAgain(now *state, r row, s State, o owed) fact.TrustChanged {
	p := f.policy.Trust
	undone := effective(now.Judged.Of(o.Attempt.Hex()), r, o.Attempt)
	why := "the first verdict no longer counts; "
	switch {
	case !r.Met:
		why = ""
	case undone.First:
		s.Standing = Standing{Samples: max(0, s.Samples-1)}
		why = "the first trust " + dec(r.Trust) + " is computed again; "
	case undone.Delta != 0:
		s.Trust = clamp(r.Trust-undone.Delta, p.Floor, p.Ceiling)
		why = "without the first verdict " + dec(r.Trust) + " would be " + dec(s.Trust) + "; "
		s.EMA, s.Samples = s.Trust, max(0, s.Samples-1)
		at := max(o.At, r.Since)
		if own(undone.direction(), p) {
			s.Fell = max(0, s.Fell-undone.refund(r.Fell.at(at).Day))
		} else {
			s.Spent = max(0, s.Spent-undone.refund(now.today(o.Task, at).Day))
		}
	}
	s.Runs, s.Wrong, s.Past = 0, 0, withoutChange(s.Past, undone.Seq)
	made := moved(s, o.Evidence, p)
	if !s.Met {
		made = first(s, o.Evidence, p)
	}
	c := f.fact(r, made, o)
	c.Rule, c.Reverts, c.Rationale = fact.RuleRejudged, o.Attempt, why+made.Rationale
	return c
}

// withoutChange returns the changes except that of one entry.
func withoutChange(past []Past, seq uint64) []Past {
	var kept []Past
	for _, p := range past {
		if p.Seq != seq {
			kept = append(kept, p)
		}
	}
	return kept
}
