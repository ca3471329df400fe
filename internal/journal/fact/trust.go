package fact

import (
	"encoding/hex"
	"encoding/json"
	"strconv"

	"fiatjaf.com/nostr"

	"guild"
)

// TrustSubject is the boundary of all trust in one task, so that its daily limit holds. The task is written
// in hex, for a subject may hold no dots or spaces.
func TrustSubject(task string) Subject { return Subject("trust." + hex.EncodeToString([]byte(task))) }

// MaxTask is the longest task, in bytes: in hex it must fit into a subject.
const MaxTask = 120

// TrustChanged carries the result of the arithmetic and the policy it was done by. Written by trust, and by
// trust/exchange for what another guild says.
type TrustChanged struct {
	Task      string        `json:"task"`
	Service   guild.Service `json:"service"`
	From      guild.Trust   `json:"from_micro"`
	To        guild.Trust   `json:"to_micro"`
	EMA       guild.Trust   `json:"ema_micro"`
	Runs      int           `json:"runs"`                // successes in a row, 0 after anything else
	First     bool          `json:"first,omitempty"`     // nothing was there before
	Unfounded bool          `json:"unfounded,omitempty"` // nothing was there, and this founds nothing
	Policy    guild.Hash    `json:"policy"`
	Job       guild.JobID   `json:"job"`
	Attempt   nostr.ID      `json:"attempt"` // what it was changed for; never twice by one rule
	Reason    string        `json:"reason"`

	Rule        string      `json:"rule,omitempty"`             // "" for the formulas of 5.2; see the constants Rule…
	Pattern     string      `json:"pattern,omitempty"`          // SUCCESS, or one of section 5.2.2
	Score       guild.Score `json:"score_micro,omitempty"`      // of the verdict
	Class       string      `json:"class,omitempty"`            // of the task, whose multiplier was used
	Confidence  guild.Trust `json:"confidence_micro,omitempty"` // in the change, section 5.1.2
	Action      string      `json:"action,omitempty"`           // AUTO_MERGE, REVIEW or ALERT
	Rationale   string      `json:"rationale,omitempty"`        // the arithmetic, for a person
	Oscillates  bool        `json:"oscillates,omitempty"`       // the change was made smaller for that
	Suspends    bool        `json:"suspends,omitempty"`         // the floor was reached
	Reverts     nostr.ID    `json:"reverts,omitzero"`           // the attempt whose change is taken back
	Siblings    []Sibling   `json:"siblings,omitempty"`         // what guilds say of it that do not know of each other's, section 5.5.2
	LatencyMs   int64       `json:"latency_ms,omitempty"`
	BaselineMs  int64       `json:"baseline_ms,omitempty"`
	Consecutive int         `json:"consecutive,omitempty"` // wrong-way changes so far
	Samples     int         `json:"samples,omitempty"`     // pieces of evidence so far, this one included; 0 for as many as before
	Held        guild.Trust `json:"held_micro,omitempty"`  // of a decrease, that the limit of the day kept back
}

// Why trust was changed, if not by the formulas.
const (
	RuleContradiction = "contradiction" // a success right after a decrease takes it back (section 5.5.3)
	RuleMean          = "mean"          // three changes in the wrong direction restore the mean of seven days
	RuleOwner         = "owner"         // a person set it
	RuleRollback      = "rollback"      // a person restored an earlier matrix
	RuleRejudged      = "rejudged"      // the same delivery was judged again, with another outcome
	RuleMerged        = "merged"        // another guild's trust was imported
	RuleRestored      = "restored"      // from a backup
)

// Sibling is trust as one guild, or several that agreed, last said it, and the vector clock of that.
type Sibling struct {
	Trust guild.Trust       `json:"trust_micro"`
	Clock map[string]uint64 `json:"clock"` // guild's public key in hex → how often it has changed this
}

// Type returns the stored name.
func (TrustChanged) Type() string { return "trust.changed" }

// PolicySubject is the boundary of which policy is in force.
const PolicySubject Subject = "policy.all"

// PolicyAdopted says that decisions are made by another policy from now on. Written by trust.
type PolicyAdopted struct {
	Policy   guild.Hash      `json:"policy"`
	Name     string          `json:"name"`
	Document json.RawMessage `json:"document"` // canonical, of the hash
}

// VariableSubject is the boundary of one of the variables beside trust.
func VariableSubject(name string) Subject { return Subject("variable." + name) }

// The variables beside trust (the partnership protocol, section 5.3).
const (
	ModelPreference = "MODEL_PREFERENCE"      // key: what for; value: names of models, the best first
	TimeoutConfig   = "TIMEOUT_CONFIGURATION" // key: a task; value: factor of the configured silence, in micro-units
	Parallelism     = "PARALLELISM_LIMIT"     // key: a provider's hex key, or "" for all; value: requests at once
	CostBudget      = "COST_BUDGET"           // key: a task; value: msats a month beside the configured ones, or less
)

// Number is the value of a variable that is a number.
func Number(n int64) json.RawMessage { return strconv.AppendInt(nil, n, 10) }

// ParseNumber reads what Number writes; ok is false for anything else.
func ParseNumber(value json.RawMessage) (n int64, ok bool) {
	n, err := strconv.ParseInt(string(value), 10, 64)
	return n, err == nil
}

// VariableChanged says that one of them has another value. Written by trust/variables, and by trust/exchange for what
// another guild says.
type VariableChanged struct {
	Name      string          `json:"name"`
	Key       string          `json:"key"`
	From      json.RawMessage `json:"from,omitempty"` // null or absent: as configured
	To        json.RawMessage `json:"to"`
	Rule      string          `json:"rule"` // which row of which table of section 5.3, as "near-timeout"
	Rationale string          `json:"rationale"`
	Alert     bool            `json:"alert,omitempty"`
	Policy    guild.Hash      `json:"policy"`
	Through   uint64          `json:"through"` // entry up to which observations were counted; they count once

	Siblings []VariableSibling `json:"siblings,omitempty"` // as in TrustChanged, of values that guilds exchange
}

// VariableSibling is a variable's value as one guild, or several that agreed, last set it, and the vector clock of that.
type VariableSibling struct {
	Value int64             `json:"value"`
	Clock map[string]uint64 `json:"clock"` // as in Sibling
}

// Type returns the stored name.
func (PolicyAdopted) Type() string { return "policy.adopted" }

// Type returns the stored name.
func (VariableChanged) Type() string { return "variable.changed" }
