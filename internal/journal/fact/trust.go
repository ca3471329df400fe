package fact

import (
	"encoding/hex"
	"encoding/json"
	"strconv"

	"fiatjaf.com/nostr"

	"guild"
)

// TrustSubject returns the guard of all trust in a task, which has a daily limit. The task is encoded in hex, since a subject may
// not contain dots or spaces.
func TrustSubject(task string) Subject { return Subject("trust." + hex.EncodeToString([]byte(task))) }

// MaxTask is the limit of a task's length in bytes, since in hex it must fit into a subject.
const MaxTask = 120

// TrustChanged carries the result of a change of trust and all that it was computed from. Written by trust, and by
// trust/exchange for a statement of another guild.
type TrustChanged struct {
	Task      string        `json:"task"`
	Service   guild.Service `json:"service"`
	From      guild.Trust   `json:"from_micro"`
	To        guild.Trust   `json:"to_micro"`
	EMA       guild.Trust   `json:"ema_micro"`
	Runs      int           `json:"runs"`                // successes in a row
	First     bool          `json:"first,omitempty"`     // there was no trust before
	Unfounded bool          `json:"unfounded,omitempty"` // there was no trust before, and there is none now
	Policy    guild.Hash    `json:"policy"`
	Job       guild.JobID   `json:"job"`
	Attempt   nostr.ID      `json:"attempt"` // the reason; a rule is applied once to each attempt
	Reason    string        `json:"reason"`

	Rule        string         `json:"rule,omitempty"`             // one of the constants Rule…, "" for the formulas of section 5.2
	Pattern     string         `json:"pattern,omitempty"`          // SUCCESS, or one of section 5.2.2
	Score       guild.Score    `json:"score_micro,omitempty"`      // of the verdict
	Class       string         `json:"class,omitempty"`            // of the task, which has a multiplier
	Strength    guild.Strength `json:"strength,omitempty"`         // of the verdict; an increase by less than a strong one is smaller
	Confidence  guild.Trust    `json:"confidence_micro,omitempty"` // of the change (section 5.1.2)
	Action      string         `json:"action,omitempty"`           // AUTO_MERGE, REVIEW or ALERT
	Rationale   string         `json:"rationale,omitempty"`        // the computation, for a person
	Oscillates  bool           `json:"oscillates,omitempty"`       // the change was reduced, because trust oscillates
	Suspends    bool           `json:"suspends,omitempty"`         // trust reached the floor
	Reverts     nostr.ID       `json:"reverts,omitzero"`           // the attempt whose change is undone
	Siblings    []Sibling      `json:"siblings,omitempty"`         // concurrent statements of guilds (section 5.5.2)
	LatencyMs   int64          `json:"latency_ms,omitempty"`
	BaselineMs  int64          `json:"baseline_ms,omitempty"`
	Consecutive int            `json:"consecutive,omitempty"` // changes in the wrong direction so far
	Samples     int            `json:"samples,omitempty"`     // pieces of evidence so far with this one; 0 if unchanged
	Held        guild.Trust    `json:"held_micro,omitempty"`  // part of a decrease that exceeds the daily limit
}

// Reasons to change trust, other than the formulas.
const (
	RuleContradiction = "contradiction" // a success right after a decrease undoes it (section 5.5.3)
	RuleMean          = "mean"          // after three changes in the wrong direction: the mean of seven days
	RuleOwner         = "owner"         // a person set it
	RuleRollback      = "rollback"      // a person restored an earlier matrix
	RuleRejudged      = "rejudged"      // the same delivery was judged again, with another outcome
	RuleMerged        = "merged"        // another guild's trust was imported
	RuleRestored      = "restored"      // from a backup
)

// Sibling is the trust that a guild, or several that agree, stated last, with its vector clock.
type Sibling struct {
	Trust guild.Trust       `json:"trust_micro"`
	Clock map[string]uint64 `json:"clock"` // guild's public key in hex → number of its changes
}

// Type returns the stored name.
func (TrustChanged) Type() string { return "trust.changed" }

// ExchangeSubject returns the guard of what was imported from a guild.
func ExchangeSubject(g nostr.PubKey) Subject { return Subject("exchange." + g.Hex()) }

// TrustImported says that a document signed by another guild was imported, so that neither it nor an older one is imported
// again. Written by trust/exchange.
type TrustImported struct {
	Guild  nostr.PubKey `json:"guild"`
	Event  nostr.ID     `json:"event"`  // that signs the document
	Signed int64        `json:"signed"` // Unix s, by the clock of that guild
}

// Type returns the stored name.
func (TrustImported) Type() string { return "trust.imported" }

// PolicySubject is the guard of the policy in force.
const PolicySubject Subject = "policy.all"

// PolicyAdopted puts a policy into force. Written by trust.
type PolicyAdopted struct {
	Policy   guild.Hash      `json:"policy"`
	Name     string          `json:"name"`
	Document json.RawMessage `json:"document"` // canonical, of the hash
}

// VariableSubject returns the guard of a variable.
func VariableSubject(name string) Subject { return Subject("variable." + name) }

// Variables that are learned besides trust (the partnership protocol, section 5.3).
const (
	ModelPreference = "MODEL_PREFERENCE"      // key: a purpose; value: names of models, the best first
	TimeoutConfig   = "TIMEOUT_CONFIGURATION" // key: a task; value: factor of the configured silence, in micro-units
	Parallelism     = "PARALLELISM_LIMIT"     // key: a provider's hex key, or "" for all; value: requests at once
	CostBudget      = "COST_BUDGET"           // key: a task; value: msats a month beside the configured ones, or less
)

// Number returns a number as the value of a variable.
func Number(n int64) json.RawMessage { return strconv.AppendInt(nil, n, 10) }

// ParseNumber parses a value that Number returned. For any other value ok is false.
func ParseNumber(value json.RawMessage) (n int64, ok bool) {
	n, err := strconv.ParseInt(string(value), 10, 64)
	return n, err == nil
}

// VariableChanged gives a variable another value. Written by trust/variables, and by trust/exchange for a statement of another
// guild.
type VariableChanged struct {
	Name      string          `json:"name"`
	Key       string          `json:"key"`
	From      json.RawMessage `json:"from,omitempty"` // null or absent for the configured value
	To        json.RawMessage `json:"to"`
	Rule      string          `json:"rule"` // the row of a table of section 5.3, such as "near-timeout"
	Rationale string          `json:"rationale"`
	Alert     bool            `json:"alert,omitempty"`
	Policy    guild.Hash      `json:"policy"`
	Through   uint64          `json:"through"` // the last entry whose observation was counted, since each counts once

	Siblings []VariableSibling `json:"siblings,omitempty"` // as in TrustChanged, for variables that guilds exchange
}

// VariableSibling is the value that a guild, or several that agree, set last, with its vector clock.
type VariableSibling struct {
	Value int64             `json:"value"`
	Clock map[string]uint64 `json:"clock"` // as in Sibling
}

// Type returns the stored name.
func (PolicyAdopted) Type() string { return "policy.adopted" }

// Type returns the stored name.
func (VariableChanged) Type() string { return "variable.changed" }
