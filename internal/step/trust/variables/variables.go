// Package variables is the step that adapts how providers are asked: how long to wait for an answer, how many requests
// are made at once, which models are preferred and what each task may spend. It follows what was observed (the
// partnership protocol, section 5.3). It owns the fact variable.changed, together with exchange, which imports the
// values of other guilds. It never delays a job, and never changes trust.
package variables

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// Config holds the configured values, from which the rules of section 5.3 start.
type Config struct {
	Journal *journal.Journal

	AtOnce  int                                         // requests that one provider may have at once; 8 if 0
	Total   int                                         // requests that all together may have; 0 is unlimited
	Budgets map[string]guild.Msat                       // task → budget of a month; without budgets nothing is reallocated
	Model   func(guild.Service) string                  // model that a service announces, "" for none or several; optional
	Trusted func(task string, from guild.Trust) (n int) // number of services with at least this trust; optional
}

// Variables changes the variables beside trust by what was observed. It considers each at most once a minute, and all
// its keys in one decision, so that jobs never wait for it. Only an emergency is decided at once.
type Variables struct {
	c    Config
	fold *Fold
	hash guild.Hash // of the policy

	mu     sync.Mutex
	looked map[string]lookedAt
}

// lookedAt records when a variable was last considered in this process.
type lookedAt struct {
	at    time.Time
	seen  uint64 // the latest observation at that time
	moved uint64 // the latest entry that had changed the variable at that time
	wrote bool   // changes were appended; they count as decided once they are applied
	more  bool   // there were more changes than one decision holds
}

// pause limits how often a variable is considered.
const pause = time.Minute

// mostChanges limits the changes of one decision.
const mostChanges = 150

// New returns the step. It returns an error if the fold's policy cannot be hashed.
func New(c Config, f *Fold) (*Variables, error) {
	hash, err := f.policy.Hash()
	if err != nil {
		return nil, err
	}
	c.AtOnce = cmp.Or(c.AtOnce, 8)
	return &Variables{c: c, fold: f, hash: hash, looked: map[string]lookedAt{}}, nil
}

// Due lists the variables with observations since they were last considered. It implements due.Source.
func (s *Variables) Due(now time.Time) []due.Work {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fold.Read(s.fold.State, func(state *folded) []due.Work { return s.due(state, now) })
}

// due is Due for a given state. The caller holds mu.
//
// A decision may fail to be recorded, for example if the disk is full. Then no entry has changed the variable since
// (failed), and it is considered again.
func (s *Variables) due(state *folded, now time.Time) (work []due.Work) {
	for _, name := range [...]string{fact.Parallelism, fact.TimeoutConfig, fact.ModelPreference, fact.CostBudget} {
		last, known := s.looked[name]
		failed := last.wrote && state.Moved.Of(name) == last.moved
		news := state.News.Of(name) > last.seen || last.more || failed
		if name == fact.CostBudget {
			news = len(s.c.Budgets) > 0 && state.Seq > 0 && (news || !known || monthOf(last.at.UnixMilli()) < monthOf(now.UnixMilli()))
		}
		if !news {
			continue
		}
		ready := last.at.Add(pause)
		if name == fact.Parallelism && len(cascade(s.fold.policy.Variables, state.Expired)) > 0 || last.more && !failed {
			ready = time.Time{}
		}
		work = append(work, due.Decide("consider "+name, fact.VariableSubject(name), ready, func(tx *journal.Tx) error {
			s.consider(tx, name)
			return nil
		}))
	}
	return work
}

// consider decides on one variable. It works on a copy, so that entries can be applied meanwhile.
func (s *Variables) consider(tx *journal.Tx, name string) {
	state := s.fold.Copy()
	var changes []fact.VariableChanged
	switch name {
	case fact.TimeoutConfig:
		changes = s.timeouts(&state)
	case fact.Parallelism:
		changes = s.parallelism(&state)
	case fact.ModelPreference:
		changes = s.models(&state)
	case fact.CostBudget:
		changes = s.budgets(&state, tx.Now().UnixMilli())
	}
	more := len(changes) > mostChanges && name != fact.CostBudget // a reallocation must not be split
	if more {
		changes = changes[:mostChanges]
	}
	for _, c := range changes {
		c.Name, c.Policy, c.Through = name, s.hash, state.Seq
		if before, ok := state.Values.Get(keyOf(name, c.Key)); ok {
			c.From = before.To
		}
		tx.Append(c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked[name] = lookedAt{at: tx.Now(), seen: state.News.Of(name), moved: state.Moved.Of(name), wrote: len(changes) > 0, more: more}
}

// Restore sets variables to the rows of a backup (see Fold.Rows), and leaves the others as they are. It ignores other
// rows. It may be called again, because values that are as wanted append nothing.
func (s *Variables) Restore(ctx context.Context, rows map[string]json.RawMessage, backup string) error {
	wanted := map[string][]fact.VariableChanged{}
	for _, row := range slices.Sorted(maps.Keys(rows)) {
		k, ours := strings.CutPrefix(row, rowPrefix)
		if !ours {
			continue
		}
		name, escaped, _ := strings.Cut(k, "/")
		key, err := url.PathUnescape(escaped)
		if err == nil {
			err = s.checkValue(name, key, rows[row])
		}
		if err != nil {
			return fmt.Errorf("restore %s[%.80q]: %w", name, key, err)
		}
		wanted[name] = append(wanted[name], fact.VariableChanged{Name: name, Key: key, To: rows[row],
			Rule: fact.RuleRestored, Rationale: "from backup " + backup, Policy: s.hash})
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		for some := range slices.Chunk(wanted[name], mostChanges) {
			err := s.c.Journal.Do(ctx, fact.VariableSubject(name), "", func(tx *journal.Tx) error {
				for _, c := range some {
					before, known := s.fold.value(name, c.Key)
					if known && string(before.To) == string(c.To) {
						continue
					}
					c.From = before.To
					tx.Append(c)
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("restore %s: %w", name, err)
			}
		}
	}
	return nil
}

// checkValue refuses a value that no rule can produce.
func (s *Variables) checkValue(name, key string, raw json.RawMessage) error {
	p := s.fold.policy.Variables
	if len(key) > maxKey {
		return fmt.Errorf("a key of %d bytes", len(key))
	}
	n, isNumber := fact.ParseNumber(raw)
	least, most := int64(0), int64(0)
	switch name {
	case fact.ModelPreference:
		names, ok := readNames(raw)
		if !ok || len(names) > maxModels || slices.ContainsFunc(names, func(m string) bool { return modelName(m) != m || m == "" }) {
			return fmt.Errorf("%.80q is not a list of at most %d models", raw, maxModels)
		}
		return nil
	case fact.TimeoutConfig:
		least, most = int64(p.TimeoutMin), int64(p.TimeoutMax)
	case fact.Parallelism:
		least, most = 1, maxAtOnce
	case fact.CostBudget:
		least, most = -maxDelta, maxDelta
	default:
		return fmt.Errorf("unknown variable")
	}
	if !isNumber || n < least || n > most {
		return fmt.Errorf("%.80q is not a number from %d to %d", raw, least, most)
	}
	return nil
}
