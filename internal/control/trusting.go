package control

import (
	"encoding/json"

	"guild"
	"guild/internal/step/agents"
)

// Matrix is all trust: GET /v1/trust[?task=T].
type Matrix struct {
	Hash    string       `json:"hash"`   // of trust, states and variables: two nodes that learned the same have the same
	Policy  string       `json:"policy"` // name of the policy in force
	Bundle  string       `json:"policy_bundle_id"`
	Entries []TrustEntry `json:"entries"`
	Alerts  []Alert      `json:"alerts"`
	// Variables are the values beside trust that differ from the configuration.
	Variables []Variable `json:"variables"`
}

// TrustEntry is trust in one service for one task.
type TrustEntry struct {
	Task   string `json:"task"`
	PubKey string `json:"pubkey"`
	Npub   string `json:"npub"`
	D      string `json:"d"`
	Name   string `json:"name,omitempty"`
	State  string `json:"state"`
	Until  int64  `json:"until,omitempty"` // Unix ms: end of a quarantine

	Provisional bool `json:"provisional,omitempty"` // too few deliveries fix the state

	Trust   float64     `json:"trust"` // Micro in decimal form, deprecated
	Micro   guild.Trust `json:"trust_micro"`
	Runs    int         `json:"successes_in_a_row"`
	Changed int64       `json:"changed,omitempty"` // Unix ms: the latest change
}

// Alert is something about trust that a person should look at (the partnership protocol, section 5.5.4).
type Alert struct {
	Rule string `json:"rule"`
	Task string `json:"task,omitempty"`
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"`
}

// Variable is one of the values beside trust (section 5.3).
type Variable struct {
	Name  string          `json:"name"`
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
	// Provider is the name of the provider that the key is of, if the key is one's, and Npub that key.
	Provider string `json:"provider,omitempty"`
	Npub     string `json:"npub,omitempty"`
	Why      string `json:"why,omitempty"` // the arithmetic of its latest change, for a person
}

// Standing is the state of one service here: GET /v1/trust/{key}[?d=D].
type Standing struct {
	PubKey string `json:"pubkey"`
	Npub   string `json:"npub"`
	D      string `json:"d"`
	Name   string `json:"name,omitempty"`
	State  string `json:"state"`
	Until  int64  `json:"until,omitempty"`

	Provisional bool `json:"provisional,omitempty"` // too few deliveries fix the state

	Cause   string             `json:"cause,omitempty"` // of the latest change of state
	Next    string             `json:"next,omitempty"`  // next change without further events, for a person
	Trust   []TrustEntry       `json:"trust"`
	Reviews []Aggregate        `json:"reviews"`          // by others, by task
	Owners  []agents.Ownership `json:"owners,omitempty"` // that its profile names (NIP-AE), as far as known
	Limit   int                `json:"at_once"`          // requests that it may have of us
}

// SetTrust is the body of POST /v1/trust/{key}: a value for a task, or a state.
type SetTrust struct {
	D      *string  `json:"d,omitempty"` // of the service; the only one when absent
	Task   string   `json:"task,omitempty"`
	Trust  *float64 `json:"trust,omitempty"` // 0.1 to 0.9
	State  string   `json:"state,omitempty"` // suspended, reinstated, removed or allowed
	Force  bool     `json:"force,omitempty"` // reinstated without another benchmark
	Reason string   `json:"reason"`
}

// Rollback is the body of POST /v1/trust/rollback.
type Rollback struct {
	To   int64  `json:"to"`             // Unix ms: trust is as it was then
	Task string `json:"task,omitempty"` // only of this task
}

// MatrixChange says how much of the matrix an act changed.
type MatrixChange struct {
	Entries int      `json:"entries"`
	Hash    string   `json:"hash"`              // of the matrix afterwards
	Guild   string   `json:"guild,omitempty"`   // npub of the guild that signed the imported document
	Signed  int64    `json:"signed,omitempty"`  // Unix ms, by its clock
	Skipped []string `json:"skipped,omitempty"` // entries that were not taken over from another guild, and why; at most 100
}
