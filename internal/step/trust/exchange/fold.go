// Package exchange merges the trust of separate guilds, by documents with vector clocks (the partnership protocol,
// section 5.5.2). It owns the fact trust.imported, and writes trust.changed and variable.changed for the values that it
// imports.
// It never raises trust that the owner set, and exports nothing of jobs, customers or money.
package exchange

import (
	"maps"
	"slices"
	"sync/atomic"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/policy"
)

// Fold holds the values that this guild and others have set, each with its vector clock. A change by this guild counts
// its own entry of the clock up by one.
type Fold struct {
	*fold.State[state]
	policy policy.Policy
	self   atomic.Pointer[string] // this guild's public key in hex
}

type state struct {
	Trust     fold.Table[string, trustRegister]    `json:"trust"`     // by trustKey(task, service)
	Variables fold.Table[string, variableRegister] `json:"variables"` // by variableKey(name, key)
	Imported  fold.Table[string, imported]         `json:"imported"`  // latest signed document, by the guild's key in hex
}

type imported struct {
	Event nostr.ID `json:"event"`
	At    int64    `json:"at"` // Unix s, by the clock of the guild
}

// trustRegister holds the values that all guilds have set for one service and task. Its slices are never changed in
// place.
type trustRegister struct {
	Task     string                 `json:"task"`
	Service  guild.Service          `json:"service"`
	Trust    guild.Trust            `json:"trust"` // in force; 0 if there is none
	EMA      guild.Trust            `json:"ema"`
	Runs     int                    `json:"runs"`
	Met      bool                   `json:"met,omitempty"`   // a verdict or the owner of this guild has set trust
	Owner    bool                   `json:"owner,omitempty"` // this guild's latest value is its owner's
	Siblings []fact.VariableSibling `json:"siblings"`
}

type variableRegister struct {
	Name     string                 `json:"name"`
	Key      string                 `json:"key"`
	Value    int64                  `json:"value"` // in force
	Siblings []fact.VariableSibling `json:"siblings"`
}

// here is the name of this guild in the clocks of the state and of facts, because a journal is read before its key is
// known. Documents have the guild's public key instead.
const here = ""

// NewFold returns an empty fold.
func NewFold(p policy.Policy) *Fold {
	return &Fold{State: fold.NewState[state]("exchange", 2), policy: p}
}

// Become sets this guild's public key. It must be called before anything is exchanged.
func (f *Fold) Become(self nostr.PubKey) {
	key := self.Hex()
	f.self.Store(&key)
}

// key returns this guild's public key in hex.
func (f *Fold) key() string {
	if key := f.self.Load(); key != nil {
		return *key
	}
	return nostr.PubKey{}.Hex()
}

// renamed returns the siblings with a guild of their clocks renamed.
//
// It is needed where clocks enter or leave the state, because state and facts have no name for this guild.
func renamed(all []fact.VariableSibling, from, to string, careful func(a, b int64) int64) []fact.VariableSibling {
	other := make([]fact.VariableSibling, len(all))
	for i, s := range all {
		clock := maps.Clone(s.Clock)
		if n, ok := clock[from]; ok {
			delete(clock, from)
			clock[to] = max(clock[to], n)
		}
		other[i] = fact.VariableSibling{Value: s.Value, Clock: clock}
	}
	return mergeSiblings(other, nil, careful)
}

func trustKey(task string, s guild.Service) string {
	return task + "\x00" + s.PubKey.Hex() + "\x00" + s.D
}

func variableKey(name, key string) string { return name + "\x00" + key }

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	f.Change(func(s *state) {
		for _, one := range e.Facts {
			switch one := one.(type) {
			case fact.TrustChanged:
				s.trustChanged(one)
			case fact.VariableChanged:
				s.variableChanged(one)
			case fact.TrustImported:
				s.Imported.Set(one.Guild.Hex(), imported{one.Event, one.Signed})
			}
		}
	})
}

// trustChanged applies a change of trust. A change by this guild replaces all siblings, because it was made with
// knowledge of them. An import brings the merged siblings along. Trust that was removed becomes a value of 0, so that
// other guilds learn of the removal.
func (s *state) trustChanged(c fact.TrustChanged) {
	key := trustKey(c.Task, c.Service)
	r, known := s.Trust.Get(key)
	if c.Unfounded { // there was no trust, or its first verdict was overturned
		if known && r.Trust != 0 {
			r.Trust, r.EMA, r.Runs, r.Met, r.Owner, r.Siblings = 0, 0, 0, false, false, said(r.Siblings, 0)
			s.Trust.Set(key, r)
		}
		return
	}
	foreign := c.Rule == fact.RuleMerged
	r.Task, r.Service, r.Trust, r.EMA, r.Runs = c.Task, c.Service, c.To, c.EMA, c.Runs
	r.Met = r.Met || !foreign
	if !foreign {
		r.Owner = c.Rule == fact.RuleOwner || c.Rule == fact.RuleRollback
	}
	if len(c.Siblings) > 0 {
		r.Siblings = nil
		for _, one := range c.Siblings {
			r.Siblings = append(r.Siblings, fact.VariableSibling{Value: int64(one.Trust), Clock: one.Clock})
		}
	} else {
		r.Siblings = said(r.Siblings, int64(c.To))
	}
	s.Trust.Set(key, r)
}

// said returns the siblings after this guild sets a value: one value, whose clock includes all earlier ones. The count
// stops at the limit of documents.
func said(before []fact.VariableSibling, value int64) []fact.VariableSibling {
	clock := joinClocks(before)
	clock[here] = min(clock[here]+1, maxCount)
	return []fact.VariableSibling{{Value: value, Clock: clock}}
}

func (s *state) variableChanged(c fact.VariableChanged) {
	value, ok := fact.ParseNumber(c.To)
	if !ok || !exchanges(c.Name, c.Key) {
		return
	}
	key := variableKey(c.Name, c.Key)
	r := s.Variables.Of(key)
	r.Name, r.Key, r.Value = c.Name, c.Key, value
	if len(c.Siblings) > 0 {
		r.Siblings = c.Siblings
	} else {
		r.Siblings = said(r.Siblings, value)
	}
	s.Variables.Set(key, r)
}

// trustOf returns the values for a service and a task, or the zero value if there are none.
func (f *Fold) trustOf(task string, of guild.Service) trustRegister {
	return fold.Read(f.State, func(s *state) trustRegister { return s.Trust.Of(trustKey(task, of)) })
}

// variableOf returns the values of a variable for a key.
func (f *Fold) variableOf(name, key string) (r variableRegister, known bool) {
	f.View(func(s *state) { r, known = s.Variables.Get(variableKey(name, key)) })
	return r, known
}

// lastOf returns the latest signed document of a guild that was imported, or the zero value.
func (f *Fold) lastOf(of nostr.PubKey) imported {
	return fold.Read(f.State, func(s *state) imported { return s.Imported.Of(of.Hex()) })
}

// exchanges reports whether guilds exchange a variable. The total number of this node's requests is its own affair.
func exchanges(name, key string) bool {
	return key != "" && (name == fact.TimeoutConfig || name == fact.Parallelism)
}

func trustSiblings(all []fact.VariableSibling) []fact.Sibling {
	var siblings []fact.Sibling
	for _, s := range all {
		siblings = append(siblings, fact.Sibling{Trust: guild.Trust(s.Value), Clock: s.Clock})
	}
	return siblings
}

// Document returns the document that this guild exports. It contains nothing of jobs, customers or money. Entries
// outside the limits, such as a service with a name of several kilobytes, are left out, because others would refuse the
// whole document.
func (f *Fold) Document() Document {
	all := f.Copy()
	d := Document{Version: documentVersion, Guild: f.key(), Entries: []TrustEntry{}, Timeouts: []TimeoutEntry{}, Parallelism: []ParallelismEntry{}}
	for _, r := range all.Trust.All() {
		if e := (TrustEntry{Task: r.Task, PubKey: r.Service.PubKey, D: r.Service.D, Siblings: renamed(r.Siblings, here, f.key(), minimum)}); e.check() == nil {
			d.Entries = append(d.Entries, e)
		}
	}
	for _, r := range all.Variables.All() {
		switch r.Name {
		case fact.TimeoutConfig:
			if e := (TimeoutEntry{r.Key, renamed(r.Siblings, here, f.key(), maximum)}); e.check() == nil {
				d.Timeouts = append(d.Timeouts, e)
			}
		case fact.Parallelism:
			key, err := nostr.PubKeyFromHexCheap(r.Key)
			if e := (ParallelismEntry{key, renamed(r.Siblings, here, f.key(), minimum)}); err == nil && key.Hex() == r.Key && e.check() == nil {
				d.Parallelism = append(d.Parallelism, e)
			}
		}
	}
	slices.SortFunc(d.Entries, TrustEntry.compare)
	slices.SortFunc(d.Timeouts, TimeoutEntry.compare)
	slices.SortFunc(d.Parallelism, ParallelismEntry.compare)
	d.Entries, d.Timeouts = d.Entries[:min(len(d.Entries), maxEntries)], d.Timeouts[:min(len(d.Timeouts), maxEntries)]
	d.Parallelism = d.Parallelism[:min(len(d.Parallelism), maxEntries)]
	return d
}
