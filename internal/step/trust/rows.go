package trust

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"guild"
	"guild/canon"
	"guild/internal/journal/fact"
)

// Limits of a row.
const (
	maxRow  = 4 << 10 // bytes
	maxRuns = 1 << 30 // successes, or samples; more would overflow the arithmetic
)

// Rows returns the matrix: one row as canonical JSON for each task and service with trust. It contains nothing that
// depends on this node's own history, so that two nodes that learned the same have equal rows.
func (f *Fold) Rows() map[string]json.RawMessage {
	all, rows := f.rows(), map[string]json.RawMessage{}
	for _, r := range all.All() {
		if !r.Met {
			continue
		}
		w := wanted{Task: r.Task, Service: r.Service, Trust: r.Trust, EMA: r.EMA, Runs: r.Runs, Samples: r.Samples}
		b, err := canon.Marshal(w)
		if err != nil {
			b = json.RawMessage("null") // cannot happen: a struct of strings and integers has a canonical form
		}
		rows[rowKey(r.Task, r.Service)] = b
	}
	return rows
}

// rowKey returns the name of a row: provider, service and task, of which the latter two are escaped.
func rowKey(task string, s guild.Service) string {
	return s.PubKey.Hex() + "/" + url.PathEscape(s.D) + "/" + url.PathEscape(task)
}

// Hash returns the hash of all rows. Two nodes that learned the same have the same hash.
func (f *Fold) Hash() guild.Hash {
	h, err := canon.HashValue(f.Rows())
	if err != nil {
		return guild.Hash{} // cannot happen, as in Rows
	}
	return h
}

// Restore sets standings to the rows of a backup, and leaves all others as they are. It may be called again after the
// process died in the middle.
func (t *Trust) Restore(ctx context.Context, rows map[string]json.RawMessage, backup string) error {
	byTask := map[string][]wanted{}
	for k, raw := range rows {
		w, err := t.readRow(k, raw)
		if err != nil {
			return fmt.Errorf("backup %s: row %.200q: %w", backup, k, err)
		}
		byTask[w.Task] = append(byTask[w.Task], w)
	}
	for _, task := range sortedTasks(byTask) {
		slices.SortFunc(byTask[task], byService)
		if _, err := t.put(ctx, task, byTask[task], fact.RuleRestored, "from the backup "+guild.Cut(backup, 200)); err != nil {
			return err
		}
	}
	return nil
}

// readRow decodes and checks a row of a backup. Its key must match its content, so that a row cannot restore trust in
// another service.
func (t *Trust) readRow(k string, raw json.RawMessage) (wanted, error) {
	if len(raw) > maxRow {
		return wanted{}, fmt.Errorf("%d bytes, at most %d", len(raw), maxRow)
	}
	var w wanted
	if err := json.Unmarshal(raw, &w); err != nil {
		return wanted{}, err
	}
	p := t.fold.policy.Trust
	switch {
	case k != rowKey(w.Task, w.Service):
		return wanted{}, fmt.Errorf("the row is about %s", rowKey(w.Task, w.Service))
	case w.Task == "" || len(w.Task) > fact.MaxTask:
		return wanted{}, fmt.Errorf("a task of %d bytes, want 1 to %d", len(w.Task), fact.MaxTask)
	case w.Trust < p.Floor || w.Trust > p.Ceiling:
		return wanted{}, fmt.Errorf("trust %s, want %s to %s", w.Trust, p.Floor, p.Ceiling)
	case w.EMA <= 0 || w.EMA > guild.Micro || min(w.Runs, w.Samples) < 0 || max(w.Runs, w.Samples) > maxRuns:
		return wanted{}, fmt.Errorf("average %s, %d successes, %d samples", w.EMA, w.Runs, w.Samples)
	}
	return w, nil
}

func sortedTasks(all map[string][]wanted) []string { return slices.Sorted(maps.Keys(all)) }

func byService(a, b wanted) int {
	return cmp.Or(slices.Compare(a.Service.PubKey[:], b.Service.PubKey[:]), cmp.Compare(a.Service.D, b.Service.D))
}
