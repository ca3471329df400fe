package partner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fiatjaf.com/nostr"

	"guild"
	"guild/canon"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/market/registry"
)

// row is the part of a record that goes into a backup: everything that decisions depend on, except single deliveries
// and this node's times.
type row struct {
	Service guild.Service       `json:"service"`
	State   guild.ProviderState `json:"state"`
	Hours   int64               `json:"hours,omitempty"` // length of its quarantine, which begins anew when the row is restored
	Base    guild.ProviderState `json:"base,omitempty"`
	Rung    guild.ProviderState `json:"rung,omitempty"`
	Was     guild.ProviderState `json:"was,omitempty"`
	Owner   bool                `json:"owner,omitempty"`

	Provisional bool `json:"provisional,omitempty"`

	Failed    int        `json:"failed,omitempty"`
	Suspended int        `json:"suspended,omitempty"`
	Signals   []string   `json:"signals,omitempty"`
	Sum       guild.Hash `json:"said,omitzero"`
	Version   string     `json:"version,omitempty"`
	Excused   bool       `json:"excused,omitempty"`
}

const hourMs = 60 * 60 * 1000

// rowPrefix begins the names of rows.
const rowPrefix = "provider "

// asRow returns the row of a record.
func (r record) asRow() row {
	one := row{Service: r.Service, State: r.state(), Base: r.Base, Rung: r.Rung, Was: r.Was, Owner: r.Owner,
		Failed: r.Failed, Suspended: r.Suspended, Sum: r.Sum, Version: r.Version, Excused: r.Excused,
		Provisional: r.Provisional}
	if r.Until > r.Since {
		one.Hours = (r.Until - r.Since + hourMs/2) / hourMs
	}
	for _, s := range r.Signals {
		one.Signals = append(one.Signals, s.Signal)
	}
	return one
}

// Rows returns a row of canonical JSON for each service that was ever moved.
func (f *Fold) Rows() map[string]json.RawMessage {
	records, rows := f.records(), map[string]json.RawMessage{}
	for i, r := range records.All() {
		if r.State == "" {
			continue
		}
		if b, err := canon.Marshal(r.asRow()); err == nil {
			rows[rowPrefix+i.String()] = b
		}
	}
	return rows
}

// maxHours limits a quarantine, in hours.
const maxHours = 10 * 365 * 24

// maxRow limits a row, in bytes.
const maxRow = 50 << 10

// Restore puts every provider into the state of a backup, without regard to the table of states. A quarantine begins
// anew with its whole length. Rows of other steps are skipped. Restore may be called again, because it appends nothing
// for a service that is as the backup has it.
func (p *Partners) Restore(ctx context.Context, rows map[string]json.RawMessage, backup string) error {
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if !strings.HasPrefix(name, rowPrefix) {
			continue
		}
		if err := p.restore(ctx, rows[name], backup); err != nil {
			return fmt.Errorf("restore %.60q: %w", name, err)
		}
	}
	return nil
}

// restore appends the move to the state of one row. The move carries the whole row, so that the fold restores the
// counters and signals with the state.
func (p *Partners) restore(ctx context.Context, raw json.RawMessage, backup string) error {
	one, err := parseRow(raw)
	if err != nil {
		return err
	}
	wanted, err := canon.Marshal(one)
	if err != nil {
		return err
	}
	return p.c.Journal.Do(ctx, fact.ProviderSubject(one.Service.PubKey), "", func(tx *journal.Tx) error {
		rec, _, known := p.fold.record(registry.IDOf(one.Service))
		if known && rec.State != "" {
			if now, err := canon.Marshal(rec.asRow()); err == nil && string(now) == string(wanted) {
				return nil
			}
		}
		rec.Service = one.Service
		m := fact.ProviderMoved{Service: one.Service, From: rec.state(), To: one.State, Signal: fact.SignalRestored,
			Cause: "restored from backup " + guild.Cut(backup, maxTask), Policy: p.fold.hash, Row: wanted}
		if one.Hours > 0 {
			m.Until = tx.Now().UnixMilli() + one.Hours*hourMs
		}
		tx.Append(m)
		return nil
	})
}

// parseRow reads and checks a row. A backup is not trusted to be well-formed.
func parseRow(raw []byte) (row, error) {
	var one row
	if len(raw) > maxRow {
		return one, fmt.Errorf("%d bytes, at most %d", len(raw), maxRow)
	}
	if err := json.Unmarshal(raw, &one); err != nil {
		return one, err
	}
	for _, s := range []guild.ProviderState{one.State, one.Base, one.Rung, one.Was} {
		if !slices.Contains(states, s) {
			return one, fmt.Errorf("unknown state %.20q", s)
		}
	}
	if one.Service.PubKey == (nostr.PubKey{}) || one.State == "" || one.Failed < 0 || one.Suspended < 0 ||
		one.Hours < 0 || one.Hours > maxHours || len(one.Signals) > maxSignals || len(one.Version) > maxVersion {
		return one, errors.New("invalid row: a value is missing or out of bounds")
	}
	return one, nil
}

// states lists the states that a row may name. "" stands for none.
var states = []guild.ProviderState{"", guild.Seen, guild.Benchmarking, guild.Active, guild.Conditional, guild.Unqualified, guild.Unresponsive,
	guild.Warned, guild.Reduced, guild.Suspended, guild.Removed, guild.Stale, guild.Archived}

// restored reports whether the state is that of a backup, and nothing has changed it since.
func (r *record) restored() bool {
	return len(r.Transitions) > 0 && r.Transitions[len(r.Transitions)-1].Signal == fact.SignalRestored
}

// restore applies a restored row.
func (r *record) restore(m fact.ProviderMoved, at int64) {
	one, err := parseRow(m.Row)
	if err != nil {
		return // Restore checked the row before it appended the decision
	}
	r.State, r.Until, r.Since = one.State, m.Until, at
	r.Base, r.Rung, r.Was, r.WasUntil = one.Base, one.Rung, one.Was, 0
	r.Owner, r.Failed, r.Suspended, r.Provisional = one.Owner, one.Failed, one.Suspended, one.Provisional
	r.Sum, r.Version, r.Excused = one.Sum, one.Version, one.Excused
	r.Signals, r.Pending, r.Proved = nil, nil, 0
	for _, s := range one.Signals {
		r.Signals = append(r.Signals, signal{Signal: s})
	}
	if r.Base != "" {
		r.Proved = at
	}
	if r.Was == guild.Unqualified || r.Was == guild.Suspended {
		r.WasUntil = at
	}
}
