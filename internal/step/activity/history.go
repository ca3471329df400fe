package activity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"guild"
	"guild/nook"
)

// Profile returns the account of a root as it is now.
func (s *Step) Profile(root string) (p nook.Profile) {
	s.mu.Lock()
	pulses := map[string]nook.Pulse{}
	for who, pulse := range s.pulses {
		if who.root == root {
			pulses[who.id] = pulse
		}
	}
	s.mu.Unlock()
	s.fold.look(root, func(a *nook.Account) {
		p = a.Profile(s.c.Owner, s.c.Now().UnixMilli(), pulses)
	})
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

// Root returns the root identity with a name that a local program gives: Own for "" and for the node's key, else any text
// but the Nostr key of somebody else, which would have to be proven. The error is ErrRoot.
func (s *Step) Root(name string) (string, error) {
	switch {
	case name == "" || name == s.c.Key:
		return Own, nil
	case len(name) > 128 || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return "", fmt.Errorf("%w: want at most 128 bytes of text", ErrRoot)
	case strings.HasPrefix(name, "npub1") || len(name) == 64 && strings.Trim(strings.ToLower(name), "0123456789abcdef") == "":
		return "", fmt.Errorf("%w of this node: %.20s… is the Nostr key of somebody else", ErrRoot, name)
	}
	return name, nil
}

// ErrRoot means that a root identity cannot be used.
var ErrRoot = errors.New("not a root identity")

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

// history reads what was recorded of a root.
func (s *Step) history(ctx context.Context, root string) (all []nook.Recorded, err error) {
	for e, err := range s.entries(ctx) {
		if err != nil {
			return nil, fmt.Errorf("read the activity: %w", err)
		}
		if e.root == root {
			all = append(all, e.recorded)
		}
	}
	return all, nil
}

type read struct {
	root     string
	recorded nook.Recorded
}

// entries reads all activity in the journal.
func (s *Step) entries(ctx context.Context) iter.Seq2[read, error] {
	return func(yield func(read, error) bool) {
		reader := &state{}
		for e, err := range s.c.Journal.Entries(ctx, 1) {
			if err != nil {
				yield(read{}, err)
				return
			}
			var hash guild.Hash
			for _, one := range e.Facts {
				root, r, ok := reader.recorded(e.At, one)
				if !ok {
					continue
				}
				if hash.IsZero() {
					hash = HashOf(e)
				}
				r.Entry = hash
				if !yield(read{root, r}, nil) {
					return
				}
			}
		}
	}
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
