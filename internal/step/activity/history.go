package activity

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"guild"
	"guild/nook"
)

// Profile returns the account of a root as it is now.
func (s *Step) Profile(root string) nook.Profile {
	s.mu.Lock()
	pulses := map[string]nook.Pulse{}
	for who, pulse := range s.pulses {
		if who.root == root {
			pulses[who.id] = pulse
		}
	}
	s.mu.Unlock()
	p := look(s.fold, root, func(a *nook.Account) nook.Profile { return a.Profile(s.c.Owner, s.c.Now().UnixMilli(), pulses) })
	p.RootIdentity = s.Name(root)
	for i := range p.Agents {
		p.Agents[i].RootIdentity = p.RootIdentity
	}
	return p
}

// Name returns how a root identity is shown: Own is the node's key.
func (s *Step) Name(root string) string { return cmp.Or(root, s.c.Key) }

// Roots returns the names of the root identities that have activity, the node's own first.
func (s *Step) Roots() []string {
	all := s.fold.roots()
	all[0] = s.c.Key
	return all
}

// Line is one event of a root identity with what became of it.
type Line struct {
	Event nook.Event `json:"event"`
	Level string     `json:"level"`
	Trace nook.Trace `json:"trace"`
}

// Lines returns the history of a root in the order of the journal. It reads the whole journal.
func (s *Step) Lines(ctx context.Context, root string) ([]Line, error) {
	history, err := s.history(ctx, root)
	if err != nil {
		return nil, err
	}
	lines, at := make([]Line, len(history)), map[string][]int{}
	for i, r := range history {
		lines[i] = Line{Event: r.Event, Level: r.Level.String()}
		at[r.Event.ID] = append(at[r.Event.ID], i)
	}
	for t := range nook.Traces(root, slices.Values(history)) {
		if places := at[t.ID]; len(places) > 0 { // of duplicates, the first was accepted
			lines[places[0]].Trace, at[t.ID] = t, places[1:]
		}
	}
	return lines, nil
}

// history reads what was recorded of a root, in the order of the journal.
func (s *Step) history(ctx context.Context, root string) (all []nook.Recorded, err error) {
	reader, own := &state{}, map[string]int{} // the places of judged events
	for e, err := range s.c.Journal.Entries(ctx, 1) {
		if err != nil {
			return nil, fmt.Errorf("read the activity: %w", err)
		}
		var hash guild.Hash
		for _, one := range reader.effects(e) {
			r := one.recorded
			i, judged := own[r.Event.ID]
			switch {
			case one.root != root:
			case !one.raises:
				if r.Level == nook.Judged {
					own[r.Event.ID] = len(all)
				}
				if hash.IsZero() {
					hash = HashOf(e)
				}
				r.Entry = hash
				all = append(all, r)
			case judged:
				all[i].Level = nook.ReceiptBound
			}
		}
	}
	return all, nil
}

// Exports are the files of the specification's section 8, by name.
func (s *Step) Exports(ctx context.Context, root string) (map[string][]byte, error) {
	lines, err := s.Lines(ctx, root)
	if err != nil {
		return nil, err
	}
	log, ledger := []nook.EventLog{}, nook.Ledger{RootIdentity: s.Name(root), Traces: []nook.Trace{}}
	for _, l := range lines {
		log = append(log, nook.EventLog{ID: l.Event.ID, AgentID: l.Event.AgentID, Event: l.Event, Sparks: l.Trace.Earned, Timestamp: l.Event.Timestamp})
		ledger.Traces = append(ledger.Traces, l.Trace)
	}
	profile := s.Profile(root)
	ledger.Totals = profile.Totals
	files := map[string][]byte{}
	for name, v := range map[string]any{"profile.json": profile, "events.json": log, "sparks.json": ledger} {
		if files[name], err = nook.EncodeExport(v); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return files, nil
}
