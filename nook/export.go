package nook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"guild/canon"
)

// MaxExport is the size in bytes of the largest file that is decoded.
const MaxExport = 64 << 20

// Sprite is the picture of an agent, section 3 of the specification.
type Sprite struct {
	Variant   string      `json:"variant"` // worker before a path is chosen
	Stage     int         `json:"stage"`
	State     SpriteState `json:"state"`
	Cosmetics []string    `json:"cosmetics"`
}

// AgentProfile is an agent, section 3 of the specification. Stage, path, cosmetics and bits are those of its root identity.
type AgentProfile struct {
	ID           string `json:"id"`
	RootIdentity string `json:"rootIdentity"`
	Sprite       Sprite `json:"sprite"`
	Sparks       Sparks `json:"sparks"`
	Bytes        int64  `json:"bytes"` // always 0: the ways to get them are reserved
	Bits         int    `json:"bits"`
	Stage        int    `json:"stage"`
	Path         string `json:"path,omitempty"`
	CreatedAt    int64  `json:"createdAt"` // the earliest event, Unix ms
	UpdatedAt    int64  `json:"updatedAt"` // the latest
}

// Profile is the content of profile.json: the owner's agent, with the sparks of the whole root identity, and what the specification
// has no place for.
type Profile struct {
	AgentProfile
	Agents       []AgentProfile `json:"agents"`
	Evolution    Evolution      `json:"evolution"`
	Totals       Projection     `json:"totals"`
	Imported     Projection     `json:"imported"`
	Streak       Streak         `json:"streak"`
	Achievements []Achievement  `json:"achievements"`
	Heritage     *Heritage      `json:"heritage,omitempty"`
	Inventory    Inventory      `json:"inventory"`
}

// Profile returns the profile as of a time, in Unix ms. owner is the id of the owner's agent. pulses are those of agents that have
// sent heartbeats; it may be nil.
func (a *Account) Profile(owner string, now int64, pulses map[string]Pulse) Profile {
	p := Profile{Evolution: a.Evolution(), Totals: a.Totals(now), Imported: a.Imported(now), Streak: a.Streak(now),
		Achievements: a.Achievements(), Heritage: a.Heritage(), Inventory: a.Inventory(now), Agents: []AgentProfile{}}
	path := p.Evolution.Path()
	cosmetics := []string{}
	for _, c := range p.Inventory.Items {
		cosmetics = append(cosmetics, c.ID)
	}
	profile := func(id string, sparks Sparks, c Counts) AgentProfile {
		pulse, ok := pulses[id]
		if !ok {
			pulse = a.Pulse(id)
		}
		return AgentProfile{ID: id, RootIdentity: a.root, Sparks: sparks, Bits: p.Inventory.Bits, Stage: p.Evolution.Stage, Path: path,
			Sprite:    Sprite{Variant: cmp.Or(path, "worker"), Stage: p.Evolution.Stage, State: pulse.State(now), Cosmetics: cosmetics},
			CreatedAt: c.First, UpdatedAt: c.Last}
	}
	var whole Counts
	for _, g := range a.Agents(now) {
		p.Agents = append(p.Agents, profile(g.ID, g.Lifetime.Total(), g.Counts))
		if whole.First == 0 || g.First < whole.First {
			whole.First = g.First
		}
		whole.Last = max(whole.Last, g.Last)
	}
	p.AgentProfile = profile(owner, p.Totals.Lifetime.Total(), whole)
	return p
}

// EventLog is one element of events.json, section 3 of the specification.
type EventLog struct {
	ID        string `json:"id"`
	AgentID   string `json:"agentId"`
	Event     Event  `json:"event"`
	Sparks    Sparks `json:"sparks"`
	Timestamp int64  `json:"timestamp"` // Unix ms
}

// Ledger is the content of sparks.json.
type Ledger struct {
	RootIdentity string     `json:"rootIdentity"`
	Totals       Projection `json:"totals"`
	Traces       []Trace    `json:"traces"`
}

// EncodeExport encodes a Profile, a Ledger or the []EventLog of events.json for a file.
func EncodeExport(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	return append(b, '\n'), err
}

// DecodeProfile decodes a profile.json that EncodeExport wrote. Nothing in it can be trusted.
func DecodeProfile(b []byte) (Profile, error) { return decodeFile[Profile]("profile.json", b) }

// DecodeLedger decodes a sparks.json that EncodeExport wrote. Nothing in it can be trusted: an import computes sparks again.
func DecodeLedger(b []byte) (Ledger, error) { return decodeFile[Ledger]("sparks.json", b) }

// DecodeEvents decodes an events.json. Each event is parsed as strictly as one that arrives, but for ids and triggers of a receiver's
// own, and agrees with its element. The element's id is that of an event without one.
func DecodeEvents(b []byte) ([]EventLog, error) {
	in, err := decodeFile[[]struct {
		EventLog
		Event json.RawMessage `json:"event"`
	}]("events.json", b)
	if err != nil {
		return nil, err
	}
	logs := make([]EventLog, len(in))
	for i, l := range in {
		e, err := parse(l.Event)
		if err == nil {
			if e.ID == "" {
				e.ID = l.ID
			}
			if e.Timestamp == 0 {
				e.Timestamp = l.Timestamp
			}
			if _, err = parse(e.Encode()); err == nil {
				e, err = e.Received(max(l.Timestamp, e.Timestamp))
			}
		}
		if err == nil && (e.AgentID != l.AgentID || e.Timestamp != l.Timestamp) {
			err = errors.New("agentId or timestamp differs from its event's")
		}
		if err != nil {
			return nil, fmt.Errorf("events.json: element %d: %w", i, err)
		}
		logs[i] = l.EventLog
		logs[i].Event = e
	}
	return logs, nil
}

func decodeFile[T any](name string, b []byte) (v T, err error) {
	if len(b) > MaxExport {
		return v, fmt.Errorf("%s: %d bytes, more than %d", name, len(b), MaxExport)
	}
	plain, err := canon.Canonical(b) // refuses duplicate keys and invalid UTF-8
	if err == nil {
		err = strict(plain, &v)
	}
	if err != nil {
		return v, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

// strict decodes one JSON value without unknown members.
func strict(b []byte, into any) error {
	in := json.NewDecoder(bytes.NewReader(b))
	in.DisallowUnknownFields()
	if err := in.Decode(into); err != nil {
		return err
	}
	if _, err := in.Token(); err != io.EOF {
		return errors.New("data after the value")
	}
	return nil
}
