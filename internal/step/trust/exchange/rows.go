package exchange

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"fiatjaf.com/nostr"

	"guild"
	"guild/canon"
	"guild/internal/journal"
	"guild/internal/journal/fact"
)

// Rows returns the siblings of each service and task as canonical JSON, by "clock/" and the key of its row of trust.
// They are part of a backup. Without the clocks a restored guild would count from one again, and guilds that know its
// earlier values would ignore the new ones.
func (f *Fold) Rows() (map[string]json.RawMessage, error) {
	all, rows := f.Copy(), map[string]json.RawMessage{}
	for _, r := range all.Trust.All() {
		siblings := renamed(r.Siblings, here, ourselves, minimum)
		if checkSiblings(siblings, 0, guild.Micro) != nil {
			continue // with this row, restoring would fail for all rows
		}
		b, err := canon.Marshal(siblings)
		if err != nil {
			return nil, fmt.Errorf("clocks of %.40q: %w", r.Task, err)
		}
		rows[clockRow(r.Task, r.Service)] = b
	}
	return rows, nil
}

const clockRows = "clock/"

// ourselves stands for this guild in rows, so that the rows of a stopped node can be computed without its key. No guild
// has that key.
const ourselves = "0000000000000000000000000000000000000000000000000000000000000000"

func clockRow(task string, s guild.Service) string {
	return clockRows + s.PubKey.Hex() + "/" + url.PathEscape(s.D) + "/" + url.PathEscape(task)
}

// readClockRow reads one row of Rows.
func readClockRow(k string, raw json.RawMessage) (TrustEntry, error) {
	parts := strings.Split(k, "/")
	if len(parts) != 3 {
		return TrustEntry{}, fmt.Errorf("%.80q names no service and task", k)
	}
	key, err := nostr.PubKeyFromHexCheap(parts[0])
	if err != nil {
		return TrustEntry{}, err
	}
	e := TrustEntry{PubKey: key}
	if e.D, err = url.PathUnescape(parts[1]); err != nil {
		return TrustEntry{}, err
	}
	if e.Task, err = url.PathUnescape(parts[2]); err != nil {
		return TrustEntry{}, err
	}
	if err := json.Unmarshal(raw, &e.Siblings); err != nil {
		return TrustEntry{}, err
	}
	return e, checkSiblings(e.Siblings, 0, guild.Micro)
}

// RestoreRows restores the clocks of a backup. Trust must be restored before. It ignores other rows, and those of
// services without trust. It may be called again, because known clocks append nothing.
func (f *Fold) RestoreRows(ctx context.Context, j *journal.Journal, rows map[string]json.RawMessage) error {
	hash, err := f.policy.Hash()
	if err != nil {
		return err
	}
	var wanted []TrustEntry
	for _, row := range slices.Sorted(maps.Keys(rows)) {
		k, ours := strings.CutPrefix(row, clockRows)
		if !ours {
			continue
		}
		e, err := readClockRow(k, rows[row])
		if err != nil {
			return fmt.Errorf("restore clocks: %w", err)
		}
		e.Siblings = renamed(e.Siblings, ourselves, here, minimum)
		wanted = append(wanted, e)
	}
	slices.SortFunc(wanted, TrustEntry.compare)
	for task, entries := range chunksBy(wanted, func(e TrustEntry) string { return e.Task }) {
		err := j.Do(ctx, fact.TrustSubject(task), "", func(tx *journal.Tx) error {
			for _, e := range entries {
				s := guild.Service{PubKey: e.PubKey, D: e.D}
				r := f.trustOf(task, s)
				if r.Trust == 0 || joinClocks(r.Siblings).Dominates(joinClocks(e.Siblings)) {
					continue
				}
				tx.Append(fact.TrustChanged{Task: task, Service: s, From: r.Trust, To: r.Trust, EMA: r.EMA, Runs: r.Runs,
					Rule: fact.RuleMerged, Policy: hash, Siblings: trustSiblings(e.Siblings), Reason: "the clocks of a backup"})
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("restore the clocks of %.40q: %w", task, err)
		}
	}
	return nil
}
