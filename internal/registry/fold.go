package registry

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/due"
	"guild/internal/fact"
	"guild/internal/journal"
)

// Silence is how long a provider that did not answer is left alone (the partnership protocol, section 2.3.3).
const Silence = 24 * time.Hour

// cooldown is how long a provider whose first work failed is left alone (the partnership protocol, section 3.4.3).
const cooldown = 24 * time.Hour

// hopeless is how long one is left alone that failed three times in one evaluation (section 3.2.3), or in four of
// them (section 3.4.3).
const hopeless = 30 * 24 * time.Hour

// cooldownAfter is the cooldown after that many failed evaluations.
func cooldownAfter(failed int) time.Duration {
	switch failed {
	case 0, 1:
		return cooldown
	case 2:
		return 3 * cooldown
	case 3:
		return 7 * cooldown
	}
	return hopeless
}

// Fold is the state of every provider, and what became of attempts that has not yet moved it.
type Fold struct {
	mu      sync.RWMutex
	state   folded
	changes atomic.Uint64 // of what providers are
}

type folded struct {
	Providers map[identity]guild.Provider      `json:"providers"`
	Blocked   map[string]bool                  `json:"blocked"` // removed for good, with all their services
	Asked     map[string]asked                 `json:"asked"`   // attempts that have not ended
	Owed      []owed                           `json:"owed"`    // ends that a provider's state must follow
	Failed    map[identity]int                 `json:"failed"`  // evaluations in a row
	Heard     map[identity]int64               `json:"heard"`   // Unix ms: the last answer, to the day
	Was       map[identity]guild.ProviderState `json:"was"`     // before it became stale
	Runs      map[string]string                `json:"runs"`    // the meeting that an open job is part of
	Meetings  map[string]meeting               `json:"meetings"`
}

func newFolded() folded {
	return folded{
		Providers: map[identity]guild.Provider{}, Blocked: map[string]bool{}, Asked: map[string]asked{}, Failed: map[identity]int{},
		Heard: map[identity]int64{}, Was: map[identity]guild.ProviderState{}, Runs: map[string]string{}, Meetings: map[string]meeting{},
	}
}

func (s folded) whole() bool {
	return s.Providers != nil && s.Blocked != nil && s.Asked != nil && s.Failed != nil && s.Heard != nil && s.Was != nil &&
		s.Runs != nil && s.Meetings != nil
}

func (s folded) clone() folded {
	return folded{maps.Clone(s.Providers), maps.Clone(s.Blocked), maps.Clone(s.Asked), slices.Clone(s.Owed), maps.Clone(s.Failed),
		maps.Clone(s.Heard), maps.Clone(s.Was), maps.Clone(s.Runs), maps.Clone(s.Meetings)}
}

// asked is an attempt that has not ended.
type asked struct {
	Service guild.Service `json:"service"`
	Meeting string        `json:"meeting,omitempty"` // that it is part of
}

// owed is one end of an attempt or a turn of a meeting, and the state that it leads its provider to.
type owed struct {
	Attempt nostr.ID            `json:"attempt,omitzero"`
	Meeting string              `json:"meeting,omitempty"`
	Service guild.Service       `json:"service"`
	To      guild.ProviderState `json:"to"`
	For     time.Duration       `json:"for"` // length of a quarantine
	At      int64               `json:"at"`  // Unix ms
	Cause   string              `json:"cause"`
}

// paid reports whether a move is the one that is owed.
func (o owed) paid(m fact.ProviderMoved) bool {
	return o.Meeting == m.Meeting && o.Attempt == m.Attempt && o.To == m.To && o.Service == m.Service
}

func (o owed) key() string {
	return fmt.Sprintf("move %s", cmp.Or(o.Meeting, o.Attempt.Hex()))
}

// NewFold returns an empty fold.
func NewFold() *Fold { return &Fold{state: newFolded()} }

// Name implements fold.Fold.
func (*Fold) Name() string { return "registry" }

// Version implements fold.Fold.
func (*Fold) Version() int { return 2 }

// Provider returns what was decided about a service; one that nothing was decided about is merely seen.
func (f *Fold) Provider(s guild.Service) guild.Provider {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.provider(s)
}

func (f *Fold) provider(s guild.Service) guild.Provider {
	if len(f.state.Blocked) > 0 && f.state.Blocked[s.PubKey.Hex()] {
		return guild.Provider{Service: s, State: guild.Removed}
	}
	if len(f.state.Providers) > 0 {
		if p, ok := f.state.Providers[identify(s)]; ok {
			return p
		}
	}
	return guild.Provider{Service: s, State: guild.Seen}
}

// standing is Provider, and the Unix ms at which it last answered.
func (f *Fold) standing(s guild.Service) (guild.Provider, int64) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if len(f.state.Heard) == 0 {
		return f.provider(s), 0
	}
	return f.provider(s), f.state.Heard[identify(s)]
}

// age grows whenever a provider may have become something else.
func (f *Fold) age() uint64 { return f.changes.Load() }

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range e.Facts {
		f.hear(one, e.At)
		f.apply(one, e.At)
	}
}

func (f *Fold) apply(one fact.Fact, at int64) {
	switch one := one.(type) {
	case fact.ProviderMoved:
		f.moved(one)
	case fact.JobOpened:
		if one.Meeting != nil {
			f.state.Runs[one.Job.String()] = one.Meeting.Meeting
		}
	case fact.JobClosed:
		delete(f.state.Runs, one.Job.String())
	case fact.MeetingBegan:
		f.began(one, at)
	case fact.MeetingEnded:
		f.ended(one, at)
	case fact.AttemptPlanned:
		f.state.Asked[one.Attempt.Hex()] = asked{one.Provider, f.state.Runs[one.Job.String()]}
	case fact.AttemptExpired:
		f.expired(one, at)
	case fact.AttemptJudged:
		f.judged(one, at)
	case fact.AttemptRefused:
		if one.Fault && !f.ran(one.Attempt, run{failed: true}) {
			f.reject(one.Attempt, at, one.Reason)
		}
		delete(f.state.Asked, one.Attempt.Hex())
	case fact.AttemptCancelled:
		delete(f.state.Asked, one.Attempt.Hex())
	case fact.AttemptParked:
		delete(f.state.Asked, one.Attempt.Hex())
	}
}

// hear notes that a provider answered. To the day is enough, for this only keeps it from becoming stale.
func (f *Fold) hear(one fact.Fact, at int64) {
	var attempt nostr.ID
	switch one := one.(type) {
	case fact.AttemptQuoted:
		attempt = one.Attempt
	case fact.AttemptProgressed:
		attempt = one.Attempt
	case fact.AttemptDelivered:
		attempt = one.Attempt
	case fact.AttemptRefused:
		attempt = one.Attempt
	default:
		return
	}
	a, ok := f.state.Asked[attempt.Hex()]
	if i := identify(a.Service); ok && at-f.state.Heard[i] >= (24*time.Hour).Milliseconds() {
		f.state.Heard[i] = at
		f.changes.Add(1)
	}
}

// moved also drops the debts that can no longer be paid from the new state.
func (f *Fold) moved(m fact.ProviderMoved) {
	i := identify(m.Service)
	f.state.Providers[i] = guild.Provider{Service: m.Service, State: m.To, Until: m.Until}
	switch m.To {
	case guild.Removed:
		f.state.Blocked[m.Service.PubKey.Hex()] = true
	case guild.Unqualified:
		f.state.Failed[i]++
	case guild.Active:
		delete(f.state.Failed, i)
	case guild.Stale:
		f.state.Was[i] = m.From
	}
	if m.To != guild.Stale {
		delete(f.state.Was, i)
	}
	f.state.Owed = slices.DeleteFunc(f.state.Owed, func(o owed) bool {
		return o.paid(m) || !f.provider(o.Service).State.CanBecome(o.To)
	})
	f.changes.Add(1)
}

func (f *Fold) expired(x fact.AttemptExpired, at int64) {
	if !f.ran(x.Attempt, run{failed: true, silent: x.Silent}) && x.Silent {
		f.owe(x.Attempt, guild.Unresponsive, Silence, at, "not a word: "+x.Reason)
	}
	delete(f.state.Asked, x.Attempt.Hex())
}

// judged applies section 3.2.1 of the partnership protocol to one verdict: from 0.8 active, from 0.6 or with a
// test failed conditional, below that rejected. A violation removes the provider for good. What any other verdict on
// a benchmark means is said by the end of its meeting.
func (f *Fold) judged(j fact.AttemptJudged, at int64) {
	v := j.Verdict
	good := v.Outcome == guild.Success || v.Outcome == guild.Partial && v.Score >= 0.6*guild.Micro
	switch {
	case v.Outcome == guild.Violation:
		f.owe(j.Attempt, guild.Removed, 0, at, "security violation: "+v.Cause)
	case f.ran(j.Attempt, run{failed: !good}):
	case v.Outcome == guild.Success && v.Score >= 0.8*guild.Micro:
		f.owe(j.Attempt, guild.Active, 0, at, "score "+v.Score.String())
	case good:
		f.owe(j.Attempt, guild.Conditional, 0, at, "score "+v.Score.String())
	default:
		f.reject(j.Attempt, at, fmt.Sprintf("%s: %s", v.Outcome, v.Cause))
	}
	delete(f.state.Asked, j.Attempt.Hex())
}

// reject notes that a provider failed. One whose first work failed is rejected; one that had proven itself is only
// warned by a failure, and what one failure makes of trust is the trust step's.
func (f *Fold) reject(attempt nostr.ID, at int64, cause string) {
	service := f.state.Asked[attempt.Hex()].Service
	switch f.provider(service).State {
	case guild.Active, guild.Conditional, guild.Warned:
		f.owe(attempt, guild.Warned, 0, at, cause)
	default:
		f.owe(attempt, guild.Unqualified, cooldownAfter(f.state.Failed[identify(service)]+1), at, cause)
	}
}

// owe notes that a provider must move, if its state allows it.
func (f *Fold) owe(attempt nostr.ID, to guild.ProviderState, quarantine time.Duration, at int64, cause string) {
	a, ok := f.state.Asked[attempt.Hex()]
	if ok && f.provider(a.Service).State.CanBecome(to) {
		f.state.Owed = append(f.state.Owed, owed{attempt, "", a.Service, to, quarantine, at, cause})
	}
}

// Due lists the moves that are owed, and the quarantines that have ended. It implements due.Source.
func (f *Fold) Due(now time.Time) []due.Work {
	f.mu.RLock()
	defer f.mu.RUnlock()
	var work []due.Work
	for _, o := range f.state.Owed {
		work = append(work, f.move(o))
	}
	for i, p := range f.state.Providers {
		if p.Until != 0 && p.State.CanBecome(guild.Seen) && !f.state.Blocked[p.Service.PubKey.Hex()] {
			work = append(work, f.turn("readmit "+i.String(), p, guild.Seen, time.UnixMilli(p.Until), "quarantine over"))
		}
	}
	return work
}

func (f *Fold) move(o owed) due.Work {
	return due.Decide(o.key(), fact.ProviderSubject(o.Service.PubKey), time.Time{}, func(tx *journal.Tx) error {
		f.mu.RLock()
		defer f.mu.RUnlock()
		if !slices.Contains(f.state.Owed, o) {
			return nil
		}
		moved := fact.ProviderMoved{Service: o.Service, From: f.provider(o.Service).State, To: o.To,
			Cause: o.Cause, Attempt: o.Attempt, Meeting: o.Meeting}
		if o.For > 0 {
			moved.Until = o.At + o.For.Milliseconds()
		}
		tx.Append(moved)
		return nil
	})
}

// turn moves a provider at a time, unless it has moved before.
func (f *Fold) turn(key string, p guild.Provider, to guild.ProviderState, at time.Time, cause string) due.Work {
	return due.Decide(key, fact.ProviderSubject(p.Service.PubKey), at, func(tx *journal.Tx) error {
		if f.Provider(p.Service) != p {
			return nil
		}
		tx.Append(fact.ProviderMoved{Service: p.Service, From: p.State, To: to, Cause: cause})
		return nil
	})
}

// Snapshot implements fold.Fold.
func (f *Fold) Snapshot() ([]byte, error) {
	f.mu.RLock()
	state := f.state.clone()
	f.mu.RUnlock()
	return json.Marshal(state)
}

// Restore implements fold.Fold.
func (f *Fold) Restore(b []byte) error {
	var fresh folded
	if err := json.Unmarshal(b, &fresh); err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	if !fresh.whole() {
		return errors.New("registry: the snapshot is incomplete")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = fresh
	f.changes.Add(1)
	return nil
}
