// Package session records one run of a worker. A record has the trajectory, which becomes REPLAY.jsonl (package
// replay), and the session receipt (the OpenAgents surface, "Trajectory Format" and RECEIPT.json). The package also
// reads the plan (PlanIR) that a worker may follow.
//
// A worker reports its steps as lines of JSON, in guild's own format (GUILD_TRACE, "guild help trace") or as the event
// stream of an agent. A Recorder takes the lines one by one and adds times and hashes. A line never stops it: it
// counts and skips lines that are faulty, unknown or over a limit. What a worker reports about itself is a claim, and
// the record does not prove it; the hashes only make later changes visible.
//
// The package is pure. Its caller reads the lines and supplies the times.
package session

import (
	"bytes"
	"errors"
	"fmt"

	"guild"
	"guild/replay"
)

// Limits of the input and the record of one run.
const (
	MaxLine   = 4 << 20  // bytes of one line
	MaxRead   = 64 << 20 // bytes of all parsed lines; further lines are only counted
	MaxLines  = 100_000  // parsed lines
	MaxEvents = 20_000   // events of a trajectory; results of recorded calls may exceed it
	MaxBytes  = 8 << 20  // bytes of the params and previews in events
	MaxParams = 256 << 10
	MaxOpen   = 1024 // calls without a result at one time
	MaxID     = 200  // bytes of the id of a call or a step, and of the name of a tool or a model
	MaxNote   = 2000 // characters of a note
)

// ErrInvalid means that a document, or a part of a line, is invalid.
var ErrInvalid = errors.New("invalid")

// Session is the record of a run that has ended.
type Session struct {
	Events  []replay.Event // from the header to SessionEnd
	Effects Effects
	Report  Report
	Provenance
}

// Effects has the side effects of calls by their ids, such as "file:src/main.go".
type Effects map[string][]string

// Report counts the lines of a worker and their faults.
type Report struct {
	Lines     int64  `json:"lines"`           // all lines
	Bytes     int64  `json:"bytes"`           // of all lines
	Malformed int64  `json:"malformed"`       // not JSON, or with invalid values
	Unknown   int64  `json:"unknown"`         // well-formed lines of which the whole or a part is not understood
	TooLong   int64  `json:"too_long"`        // lines over MaxLine
	Dropped   int64  `json:"dropped"`         // lines beyond the limits of a session
	First     string `json:"first,omitempty"` // reason why the first malformed line was refused
}

// Faults returns the number of lost lines.
func (r Report) Faults() int64 { return r.Malformed + r.TooLong + r.Dropped }

// Provenance is the worker's report about the model that did the work.
type Provenance struct {
	Model  string  `json:"model_id,omitempty"`
	Tokens *Tokens `json:"tokens,omitempty"` // nil if unknown

	CostMicroUSD int64 `json:"cost_micro_usd,omitzero"` // price of the model's vendor, in millionths of a US dollar
}

// Tokens counts what a model has read and written, with cached tokens.
type Tokens struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
}

// Encode returns a trajectory as REPLAY.jsonl, and its hash.
func Encode(events []replay.Event) ([]byte, guild.Hash, error) {
	var b bytes.Buffer
	w := replay.NewWriter(&b)
	for _, e := range events {
		if err := w.Write(e); err != nil {
			return nil, guild.Hash{}, fmt.Errorf("session: %w", err)
		}
	}
	h, err := w.Close()
	if err != nil {
		return nil, guild.Hash{}, fmt.Errorf("session: %w", err)
	}
	return b.Bytes(), h, nil
}
