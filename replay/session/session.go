// Package session makes the record of one run of a worker: the trajectory that is REPLAY.jsonl (package replay) and
// the session receipt beside it (the OpenAgents surface, "Trajectory Format" and RECEIPT.json), and it reads the plan
// (PlanIR) that a worker may follow.
//
// A worker says what it does in lines of JSON: those of guild (GUILD_TRACE, docs/SESSIONS.md), or the event stream of
// an agent that knows nothing of guild. A Recorder takes them one by one, adds the times and the hashes, and is never
// stopped by a line: what is faulty, unknown or too much is counted and left out. What a worker says of itself is a
// claim; the record only keeps it from being changed later.
//
// The package is pure. Who reads the lines, and at what time, is the caller's business.
package session

import (
	"bytes"
	"errors"
	"fmt"

	"guild"
	"guild/replay"
)

// Limits of what is read and kept of one run.
const (
	MaxLine   = 4 << 20  // bytes of one line of a worker
	MaxRead   = 64 << 20 // bytes of all lines that are looked at; what follows is only counted
	MaxLines  = 100_000  // lines that are looked at
	MaxEvents = 20_000   // events of a trajectory, beside the results of calls that have begun
	MaxBytes  = 8 << 20  // bytes of params and previews that are kept in these
	MaxParams = 256 << 10
	MaxOpen   = 1024 // calls without a result at one time
	MaxID     = 200  // bytes of the id of a call or a step, and of the name of a tool or a model
	MaxNote   = 2000 // characters of a note
)

// ErrInvalid says that a document is not what it should be.
var ErrInvalid = errors.New("invalid")

// Session is the record of one run that has ended.
type Session struct {
	Events  []replay.Event // from the header to SessionEnd
	Effects Effects
	Report  Report
	Provenance
}

// Effects are what calls have changed beside their output, by the ids of the calls, as "file:src/main.go".
type Effects map[string][]string

// Report counts what was heard of a worker.
type Report struct {
	Lines     int64  `json:"lines"`           // all of them
	Bytes     int64  `json:"bytes"`           // of these
	Malformed int64  `json:"malformed"`       // no JSON, or not of a form that means anything
	Unknown   int64  `json:"unknown"`         // well-formed lines of which, or of a part of which, nobody here knows what it says
	TooLong   int64  `json:"too_long"`        // lines over MaxLine
	Dropped   int64  `json:"dropped"`         // lines beyond the limits of a session
	First     string `json:"first,omitempty"` // what was wrong with the first malformed line
}

// Faults is how many lines were lost.
func (r Report) Faults() int64 { return r.Malformed + r.TooLong + r.Dropped }

// Provenance is what a worker says of the model that did the work.
type Provenance struct {
	Model  string  `json:"model_id,omitempty"`
	Tokens *Tokens `json:"tokens,omitempty"` // nil if nothing was said

	CostMicroUSD int64 `json:"cost_micro_usd,omitzero"` // what the model's vendor asks for these, in millionths of a US dollar
}

// Tokens are how many a model has read and written, those that were cached included.
type Tokens struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
}

// Encode writes a trajectory as REPLAY.jsonl, and returns its hash.
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
