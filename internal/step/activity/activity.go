// Package activity is the step that records what agents do, as events of the Nook protocol (package nook), and keeps the
// account of each root identity: sparks, growth, achievements and streaks. It owns the facts of activity. The node's own
// jobs and requests are activity, too, by the facts of other steps. It decides nothing about jobs.
package activity

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/nook"
)

// MaxReport is the largest number of events in one report.
const MaxReport = 1000

// fitting returns how many of events, at least one, fit into one entry.
func fitting(events []nook.Event) int {
	size := 8 << 10 // what else is in an entry
	for i, e := range events {
		b, err := json.Marshal(e) // as long as it can become in an entry
		size += len(b) + 512      // root, type and separators
		if err != nil || size > fact.MaxEntry && i > 0 {
			return max(1, i)
		}
	}
	return len(events)
}

// ErrReport means that a report has too many events.
var ErrReport = fmt.Errorf("a report has at most %d events", MaxReport)

// Config configures the step.
type Config struct {
	Journal *journal.Journal
	Now     func() time.Time
	Owner   string // the id of the owner's agent
	Key     string // the node's public key as npub: how Own is shown
}

// Step is the step.
type Step struct {
	c    Config
	fold *Fold

	mu     sync.Mutex
	pulses map[agent]nook.Pulse // of agents that sent a heartbeat since the start
}

type agent struct{ root, id string }

// New returns the step on its fold.
func New(c Config, f *Fold) *Step { return &Step{c: c, fold: f, pulses: map[agent]nook.Pulse{}} }

// Counted says how many events of a report were new.
type Counted struct {
	Accepted   int `json:"accepted"`
	Duplicates int `json:"duplicates"`
}

// Report records events of agents of a root identity. A report that has an invalid event, or one of an agent that does not
// belong to the root, is refused as a whole: the error is a *nook.FieldError or ErrReport. An event that was recorded within 24
// hours is not recorded again, so a report may be repeated after any error.
func (s *Step) Report(ctx context.Context, root string, events []nook.Event) (Counted, error) {
	if len(events) > MaxReport {
		return Counted{}, ErrReport
	}
	now, all := s.c.Now().UnixMilli(), make([]nook.Event, 0, len(events))
	for i, e := range events {
		e, err := e.Received(now)
		if err != nil {
			return Counted{}, fmt.Errorf("number %d: %w", i+1, err)
		}
		all = append(all, e)
	}
	var done Counted
	for len(all) > 0 {
		n := fitting(all)
		part, err := s.record(ctx, root, all[:n])
		if err != nil {
			return done, fmt.Errorf("record activity: %w", err)
		}
		all = all[n:]
		done.Accepted, done.Duplicates = done.Accepted+part.Accepted, done.Duplicates+part.Duplicates
	}
	return done, nil
}

// record records events in one entry. Heartbeats are not recorded.
func (s *Step) record(ctx context.Context, root string, events []nook.Event) (Counted, error) {
	var done Counted
	err := s.c.Journal.Do(ctx, fact.ActivitySubject, "", func(tx *journal.Tx) error {
		done = Counted{}
		seen := map[string]bool{}
		if err := s.fold.admit(root, events, s.c.Now()); err != nil {
			return err
		}
		for _, e := range events {
			switch {
			case e.Type == nook.TypeHeartbeat:
				done.Accepted++
			case seen[e.ID] || look(s.fold, root, func(a *nook.Account) bool { return a.Has(e.ID) }):
				done.Duplicates++
			default:
				done.Accepted++
				tx.Append(fact.ActivityReported{Root: root, Event: e})
			}
			seen[e.ID] = true
		}
		return nil
	})
	if err == nil {
		s.observe(root, events)
	}
	return done, err
}

// observe lets heartbeats keep the states of sprites alive.
func (s *Step) observe(root string, events []nook.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		who := agent{root, e.AgentID}
		pulse, known := s.pulses[who]
		if e.Type != nook.TypeHeartbeat && !known {
			continue // the account has its pulse
		}
		if !known {
			pulse = look(s.fold, root, func(a *nook.Account) nook.Pulse { return a.Pulse(e.AgentID) })
		}
		if pulse.Alive == 0 {
			continue // nothing is shown of an agent without events
		}
		pulse.Observe(&e)
		s.pulses[who] = pulse
	}
}

// Import records a history from before this journal and grants the heritage package of its root. The history decides
// the heritage and nothing else. An account that has events or its heritage takes none: nook.ErrHistory. An import that a
// crash has interrupted is repeated with the same history: what was recorded of it then counts once.
func (s *Step) Import(ctx context.Context, root string, events []nook.Event) error {
	trial, history := nook.New(root), make([]nook.Event, 0, len(events))
	for _, e := range events {
		if trial.Add(nook.Recorded{Event: e, Arrived: e.Timestamp}) == nook.Accepted {
			history = append(history, e)
		}
	}
	whole := history
	for first := true; first || len(history) > 0; first = false {
		part := history[:fitting(history)]
		history = history[len(part):]
		err := s.c.Journal.Do(ctx, fact.ActivitySubject, "", func(tx *journal.Tx) error {
			if first && !s.fold.empty(root) {
				return nook.ErrHistory
			}
			if err := s.fold.admit(root, whole, s.c.Now()); first && err != nil {
				return err
			}
			for _, e := range part {
				tx.Append(fact.ActivityImported{Root: root, Event: e})
			}
			if len(history) == 0 {
				tx.Append(fact.AgentsOnboarded{Root: root})
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("import a history: %w", err)
		}
	}
	return nil
}

// Evolve records the owner's choice for the stage that the sprite of a root has reached.
func (s *Step) Evolve(ctx context.Context, root, choice string) error {
	err := s.c.Journal.Do(ctx, fact.ActivitySubject, "", func(tx *journal.Tx) error {
		if err := look(s.fold, root, func(a *nook.Account) error { return a.MayEvolve(choice) }); err != nil {
			return err
		}
		tx.Append(fact.SpriteEvolved{Root: root, Choice: choice})
		return nil
	})
	if err != nil {
		return fmt.Errorf("evolve: %w", err)
	}
	return nil
}
