// Package trust is the step that learns: it moves the trust in a service for a task by what became of an
// attempt, and owns the fact trust.changed. The arithmetic is a pure function (Adjust); the step applies it
// once for each attempt, in one decision. It never chooses a provider.
package trust

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/canon"
	"guild/internal/due"
	"guild/internal/fact"
	"guild/internal/journal"
)

// Fold is all trust, and the attempts that have not moved it yet.
type Fold struct {
	policy Policy
	hash   guild.Hash

	mu    sync.RWMutex
	state folded
}

type folded struct {
	Table map[string]Standing    `json:"table"` // by key(task, service)
	Days  map[string]day         `json:"days"`  // task → what moved in its latest day
	Tasks map[guild.JobID]string `json:"tasks"`
	Asked map[string]asked       `json:"asked"` // attempt → whom; until it ends
	Owed  []owed                 `json:"owed"`
	Moved map[string]Change      `json:"moved"` // attempt → what it changed
	Lasts map[guild.JobID]uint64 `json:"lasts"` // job → latest entry that moved trust for it
}

type asked struct {
	Job     guild.JobID   `json:"job"`
	Service guild.Service `json:"service"`
	Reached bool          `json:"reached,omitempty"` // a relay took the request, or the provider spoke
}

type owed struct {
	asked
	Attempt nostr.ID `json:"attempt"`
	Evidence
	Reason string `json:"reason"`
}

type day struct {
	Day   int64       `json:"day"` // days since 1970, UTC
	Spent guild.Trust `json:"spent"`
}

// NewFold returns an empty fold under a policy.
func NewFold(p Policy) (*Fold, error) {
	hash, err := canon.HashValue(p)
	if err != nil {
		return nil, fmt.Errorf("trust policy: %w", err)
	}
	return &Fold{policy: p, hash: hash, state: empty()}, nil
}

func empty() folded {
	return folded{map[string]Standing{}, map[string]day{}, map[guild.JobID]string{}, map[string]asked{}, nil,
		map[string]Change{}, map[guild.JobID]uint64{}}
}

// Policy is the hash of the policy in force.
func (f *Fold) Policy() guild.Hash { return f.hash }

// Name implements fold.Fold.
func (*Fold) Name() string { return "trust" }

// Version implements fold.Fold.
func (*Fold) Version() int { return 1 }

func key(task string, s guild.Service) string { return task + "\x00" + s.PubKey.Hex() + "\x00" + s.D }

// Trust is how far a service is trusted with a task; met is false when no verdict has founded any.
func (f *Fold) Trust(task string, s guild.Service) (t guild.Trust, met bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	standing := f.state.Table[key(task, s)]
	return standing.Trust, standing.Met
}

// Of lists the trust in a service, by task.
func (f *Fold) Of(s guild.Service) map[string]guild.Trust {
	f.mu.RLock()
	defer f.mu.RUnlock()
	suffix := key("", s)
	of := map[string]guild.Trust{}
	for k, standing := range f.state.Table {
		if task, ok := strings.CutSuffix(k, suffix); ok {
			of[task] = standing.Trust
		}
	}
	return of
}

// Change is what one attempt did to trust.
type Change struct {
	From, To  guild.Trust
	First     bool // nothing was there before
	Unfounded bool // and nothing is there now
}

// Change returns what an attempt did to trust, once that is decided.
func (f *Fold) Change(attempt nostr.ID) (Change, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	c, ok := f.state.Moved[attempt.Hex()]
	return c, ok
}

// Last is the latest entry that moved trust for a job, 0 for none.
func (f *Fold) Last(job guild.JobID) uint64 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.state.Lasts[job]
}

// Settled reports whether nothing is left to learn from the attempts of a job.
func (f *Fold) Settled(job guild.JobID) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return !slices.ContainsFunc(f.state.Owed, func(o owed) bool { return o.Job == job })
}

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range e.Facts {
		f.apply(one, e)
	}
}

func (f *Fold) apply(one fact.Fact, e fact.Entry) {
	switch one := one.(type) {
	case fact.JobOpened:
		f.state.Tasks[one.Job] = one.Task
	case fact.AttemptPlanned:
		f.state.Asked[one.Attempt.Hex()] = asked{Job: one.Job, Service: one.Provider}
	case fact.AttemptRequested:
		f.reached(one.Attempt)
	case fact.AttemptProgressed:
		f.reached(one.Attempt)
	case fact.AttemptJudged:
		f.owe(one.Attempt, Evidence{pattern(one.Verdict.Outcome), one.Verdict.Score},
			fmt.Sprintf("%s, score %s", one.Verdict.Outcome, one.Verdict.Score))
	case fact.AttemptExpired:
		if f.state.Asked[one.Attempt.Hex()].Reached {
			f.owe(one.Attempt, Evidence{Pattern: "TIMEOUT"}, one.Reason)
		}
		delete(f.state.Asked, one.Attempt.Hex()) // what never left is nobody's fault
	case fact.AttemptRefused:
		if one.Fault {
			f.owe(one.Attempt, Evidence{Pattern: pattern(guild.Failure)}, one.Reason)
		}
		delete(f.state.Asked, one.Attempt.Hex())
	case fact.AttemptCancelled:
		delete(f.state.Asked, one.Attempt.Hex())
	case fact.AttemptParked:
		delete(f.state.Asked, one.Attempt.Hex())
	case fact.TrustChanged:
		f.changed(one, e)
	}
}

func (f *Fold) reached(attempt nostr.ID) {
	if whom, ok := f.state.Asked[attempt.Hex()]; ok {
		whom.Reached = true
		f.state.Asked[attempt.Hex()] = whom
	}
}

// pattern maps an outcome to the name it has in the partnership protocol, section 5.2.2.
func pattern(o guild.Outcome) string {
	if o == guild.Failure {
		return "VALIDATION_FAIL"
	}
	return string(o)
}

func (f *Fold) owe(attempt nostr.ID, e Evidence, reason string) {
	whom, ok := f.state.Asked[attempt.Hex()]
	if !ok {
		return
	}
	delete(f.state.Asked, attempt.Hex())
	f.state.Owed = append(f.state.Owed, owed{whom, attempt, e, reason})
}

func (f *Fold) changed(c fact.TrustChanged, e fact.Entry) {
	f.state.Lasts[c.Job] = e.Seq
	f.state.Owed = slices.DeleteFunc(f.state.Owed, func(o owed) bool { return o.Attempt == c.Attempt })
	f.state.Moved[c.Attempt.Hex()] = Change{From: c.From, To: c.To, First: c.First, Unfounded: c.Unfounded}
	if c.Unfounded {
		return
	}
	f.state.Table[key(c.Task, c.Service)] = Standing{Trust: c.To, EMA: c.EMA, Runs: c.Runs, Met: true}
	if !c.First {
		today := f.today(c.Task, e.At)
		f.state.Days[c.Task] = day{today.Day, today.Spent + max(c.To-c.From, c.From-c.To)}
	}
}

// today is what trust in a task has moved on the UTC day of at.
func (f *Fold) today(task string, at int64) day {
	const dayMs = 24 * 60 * 60 * 1000
	if d := f.state.Days[task]; d.Day == at/dayMs {
		return d
	}
	return day{Day: at / dayMs}
}

// Due lists the attempts that have not moved trust yet. It implements due.Source.
func (f *Fold) Due(time.Time) []due.Work {
	f.mu.RLock()
	defer f.mu.RUnlock()
	work := make([]due.Work, 0, len(f.state.Owed))
	for _, o := range f.state.Owed {
		task := f.state.Tasks[o.Job]
		work = append(work, due.Decide("learn from "+o.Attempt.Hex(), fact.TrustSubject(task), time.Time{},
			func(tx *journal.Tx) error { f.learn(tx, task, o); return nil }))
	}
	return work
}

func (f *Fold) learn(tx *journal.Tx, task string, o owed) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if !slices.Contains(f.state.Owed, o) {
		return
	}
	before := f.state.Table[key(task, o.Service)]
	after, founded := Adjust(before, o.Evidence, f.today(task, tx.Now().UnixMilli()).Spent, f.policy)
	tx.Append(fact.TrustChanged{
		Task: task, Service: o.Service, From: before.Trust, To: after.Trust, EMA: after.EMA, Runs: after.Runs,
		First: !before.Met && founded, Unfounded: !founded, Policy: f.hash,
		Job: o.Job, Attempt: o.Attempt, Reason: o.Reason,
	})
}

// Snapshot implements fold.Fold.
func (f *Fold) Snapshot() ([]byte, error) {
	f.mu.RLock()
	state := folded{maps.Clone(f.state.Table), maps.Clone(f.state.Days), maps.Clone(f.state.Tasks),
		maps.Clone(f.state.Asked), slices.Clone(f.state.Owed), maps.Clone(f.state.Moved), maps.Clone(f.state.Lasts)}
	f.mu.RUnlock()
	return json.Marshal(state)
}

// Restore implements fold.Fold.
func (f *Fold) Restore(b []byte) error {
	var fresh folded
	if err := json.Unmarshal(b, &fresh); err != nil {
		return fmt.Errorf("trust: %w", err)
	}
	if fresh.Table == nil || fresh.Days == nil || fresh.Tasks == nil || fresh.Asked == nil || fresh.Moved == nil || fresh.Lasts == nil {
		return errors.New("trust: the snapshot is incomplete")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = fresh
	return nil
}
