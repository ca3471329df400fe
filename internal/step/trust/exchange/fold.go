// Package exchange is where separate guilds tell each other whom they trust, in documents with vector clocks (the
// partnership protocol, section 5.5.2). It writes the facts trust.changed and variable.changed for what it takes over, and
// only those. It never raises trust that the owner set, and says nothing of jobs, customers or money.
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

// Fold is the state of what this guild and others have said of whom they trust, each with the vector clock of
// when it was said. What this guild changes itself counts one up in its own place of the clock.
type Fold struct {
	*fold.State[state]
	policy policy.Policy
	self   atomic.Pointer[string] // this guild's public key in hex
}

type state struct {
	Trust     fold.Table[string, trustRegister]    `json:"trust"`     // by trustKey(task, service)
	Variables fold.Table[string, variableRegister] `json:"variables"` // by variableKey(name, key)
}

// trustRegister is all that is said of one service for one task. What it points to is never changed in place.
type trustRegister struct {
	Task     string                 `json:"task"`
	Service  guild.Service          `json:"service"`
	Trust    guild.Trust            `json:"trust"` // in force; 0 for none
	EMA      guild.Trust            `json:"ema"`
	Runs     int                    `json:"runs"`
	Met      bool                   `json:"met,omitempty"`   // a verdict, or the owner, of this guild said something
	Owner    bool                   `json:"owner,omitempty"` // a person said the latest
	Siblings []fact.VariableSibling `json:"siblings"`
}

type variableRegister struct {
	Name     string                 `json:"name"`
	Key      string                 `json:"key"`
	Value    int64                  `json:"value"` // in force
	Siblings []fact.VariableSibling `json:"siblings"`
}

// here is this guild's own place in a clock, as the state and the facts have it: a journal is read before it is known
// whose it is. In documents it is the guild's public key.
const here = ""

// NewFold returns an empty fold.
func NewFold(p policy.Policy) *Fold {
	return &Fold{State: fold.NewState[state]("exchange", 1), policy: p}
}

// Become says which guild this is, before anything is exchanged.
func (f *Fold) Become(self nostr.PubKey) {
	key := self.Hex()
	f.self.Store(&key)
}

// key is this guild's public key in hex.
func (f *Fold) key() string {
	if key := f.self.Load(); key != nil {
		return *key
	}
	return nostr.PubKey{}.Hex()
}

// renamed is siblings with a place of their clocks under another name.
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
			}
		}
	})
}

func (s *state) trustChanged(c fact.TrustChanged) {
	key := trustKey(c.Task, c.Service)
	r, known := s.Trust.Get(key)
	if c.Unfounded { // nothing is there, or what founded it was judged again
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

// said is what is left of siblings after this guild, which has seen them all, says a value. The count ends where
// documents do.
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

// trustOf returns what is said of a service for a task; the zero value if nothing is.
func (f *Fold) trustOf(task string, of guild.Service) trustRegister {
	return fold.Read(f.State, func(s *state) trustRegister { return s.Trust.Of(trustKey(task, of)) })
}

// variableOf returns what is said of a variable for a key.
func (f *Fold) variableOf(name, key string) (r variableRegister, known bool) {
	f.View(func(s *state) { r, known = s.Variables.Get(variableKey(name, key)) })
	return r, known
}

// exchanges reports whether guilds tell each other of a variable: how many requests this node has in all is its own.
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

// Document is what this guild tells others. It holds nothing of jobs, customers or money. What is beyond the bounds of
// a document, such as a service with a name of several kilobytes, is left out: a document with it would be refused whole.
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
