package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
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

// Fold is the state of every provider, and what became of attempts that has not yet moved it.
type Fold struct {
	mu    sync.RWMutex
	state folded
}

type folded struct {
	Providers map[string]guild.Provider `json:"providers"` // by place
	Blocked   map[string]bool           `json:"blocked"`   // removed for good, with all their services
	Asked     map[string]guild.Service  `json:"asked"`     // attempts that have not ended
	Owed      []owed                    `json:"owed"`      // ends that a provider's state must follow
}

// owed is one end of an attempt and the state that it leads its provider to.
type owed struct {
	Attempt nostr.ID            `json:"attempt"`
	Service guild.Service       `json:"service"`
	To      guild.ProviderState `json:"to"`
	For     time.Duration       `json:"for"` // length of a quarantine
	At      int64               `json:"at"`  // Unix ms
	Cause   string              `json:"cause"`
}

// NewFold returns an empty fold.
func NewFold() *Fold {
	return &Fold{state: folded{Providers: map[string]guild.Provider{}, Blocked: map[string]bool{},
		Asked: map[string]guild.Service{}}}
}

// Name implements fold.Fold.
func (*Fold) Name() string { return "registry" }

// Version implements fold.Fold.
func (*Fold) Version() int { return 1 }

// Provider returns what was decided about a service; one that nothing was decided about is merely seen.
func (f *Fold) Provider(s guild.Service) guild.Provider {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.provider(s)
}

func (f *Fold) provider(s guild.Service) guild.Provider {
	if f.state.Blocked[s.PubKey.Hex()] {
		return guild.Provider{Service: s, State: guild.Removed}
	}
	if p, ok := f.state.Providers[place(s)]; ok {
		return p
	}
	return guild.Provider{Service: s, State: guild.Seen}
}

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range e.Facts {
		f.apply(one, e.At)
	}
}

func (f *Fold) apply(one fact.Fact, at int64) {
	switch one := one.(type) {
	case fact.ProviderMoved:
		f.moved(one)
	case fact.AttemptPlanned:
		f.state.Asked[one.Attempt.Hex()] = one.Provider
	case fact.AttemptExpired:
		if one.Silent {
			f.owe(one.Attempt, guild.Unresponsive, Silence, at, "not a word: "+one.Reason)
		}
		delete(f.state.Asked, one.Attempt.Hex())
	case fact.AttemptJudged:
		f.judged(one, at)
	case fact.AttemptRefused:
		if one.Fault {
			f.owe(one.Attempt, guild.Unqualified, cooldown, at, one.Reason)
		}
		delete(f.state.Asked, one.Attempt.Hex())
	case fact.AttemptCancelled:
		delete(f.state.Asked, one.Attempt.Hex())
	case fact.AttemptParked:
		delete(f.state.Asked, one.Attempt.Hex())
	}
}

// moved also drops the debts that can no longer be paid from the new state.
func (f *Fold) moved(m fact.ProviderMoved) {
	f.state.Providers[place(m.Service)] = guild.Provider{Service: m.Service, State: m.To, Until: m.Until}
	if m.To == guild.Removed {
		f.state.Blocked[m.Service.PubKey.Hex()] = true
	}
	f.state.Owed = slices.DeleteFunc(f.state.Owed, func(o owed) bool {
		return o.Attempt == m.Attempt || !f.provider(o.Service).State.CanBecome(o.To)
	})
}

// judged applies section 3.2.1 of the partnership protocol to one verdict: from 0.8 active, from 0.6 or with a
// test failed conditional, below that rejected. A violation removes the provider for good.
func (f *Fold) judged(j fact.AttemptJudged, at int64) {
	v := j.Verdict
	switch {
	case v.Outcome == guild.Violation:
		f.owe(j.Attempt, guild.Removed, 0, at, "security violation: "+v.Cause)
	case v.Outcome == guild.Success && v.Score >= 0.8*guild.Micro:
		f.owe(j.Attempt, guild.Active, 0, at, "score "+v.Score.String())
	case v.Outcome == guild.Success || v.Outcome == guild.Partial && v.Score >= 0.6*guild.Micro:
		f.owe(j.Attempt, guild.Conditional, 0, at, "score "+v.Score.String())
	default:
		f.owe(j.Attempt, guild.Unqualified, cooldown, at, fmt.Sprintf("%s: %s", v.Outcome, v.Cause))
	}
	delete(f.state.Asked, j.Attempt.Hex())
}

// owe notes that a provider must move. A provider whose first work failed is rejected; one that had proven
// itself is only warned by a failure, and what one failure makes of trust is the trust step's.
func (f *Fold) owe(attempt nostr.ID, to guild.ProviderState, quarantine time.Duration, at int64, cause string) {
	service, ok := f.state.Asked[attempt.Hex()]
	if !ok {
		return
	}
	now := f.provider(service).State
	if to == guild.Unqualified && (now == guild.Active || now == guild.Conditional || now == guild.Warned) {
		to, quarantine = guild.Warned, 0
	}
	if now.CanBecome(to) {
		f.state.Owed = append(f.state.Owed, owed{attempt, service, to, quarantine, at, cause})
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
	for _, p := range f.state.Providers {
		if p.Until != 0 && p.State.CanBecome(guild.Seen) && !f.state.Blocked[p.Service.PubKey.Hex()] {
			until := time.UnixMilli(p.Until)
			work = append(work, f.again(p, until))
		}
	}
	return work
}

func (f *Fold) move(o owed) due.Work {
	key := fmt.Sprintf("move %s", o.Attempt.Hex())
	return due.Decide(key, fact.ProviderSubject(o.Service.PubKey), time.Time{}, func(tx *journal.Tx) error {
		f.mu.RLock()
		defer f.mu.RUnlock()
		if !slices.Contains(f.state.Owed, o) {
			return nil
		}
		moved := fact.ProviderMoved{Service: o.Service, From: f.provider(o.Service).State, To: o.To,
			Cause: o.Cause, Attempt: o.Attempt}
		if o.For > 0 {
			moved.Until = o.At + o.For.Milliseconds()
		}
		tx.Append(moved)
		return nil
	})
}

// again lets a provider back in when its quarantine is over.
func (f *Fold) again(p guild.Provider, until time.Time) due.Work {
	key := fmt.Sprintf("readmit %s", place(p.Service))
	return due.Decide(key, fact.ProviderSubject(p.Service.PubKey), until, func(tx *journal.Tx) error {
		if f.Provider(p.Service) != p {
			return nil
		}
		tx.Append(fact.ProviderMoved{Service: p.Service, From: p.State, To: guild.Seen, Cause: "quarantine over"})
		return nil
	})
}

// Snapshot implements fold.Fold.
func (f *Fold) Snapshot() ([]byte, error) {
	f.mu.RLock()
	state := folded{maps.Clone(f.state.Providers), maps.Clone(f.state.Blocked), maps.Clone(f.state.Asked),
		slices.Clone(f.state.Owed)}
	f.mu.RUnlock()
	return json.Marshal(state)
}

// Restore implements fold.Fold.
func (f *Fold) Restore(b []byte) error {
	var fresh folded
	if err := json.Unmarshal(b, &fresh); err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	if fresh.Providers == nil || fresh.Blocked == nil || fresh.Asked == nil {
		return errors.New("registry: the snapshot is incomplete")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = fresh
	return nil
}
