package fact

import (
	"encoding/hex"

	"fiatjaf.com/nostr"

	"guild"
)

// TrustSubject is the boundary of all trust in one task, so that its daily limit holds. The task is written
// in hex, for a subject may hold no dots or spaces.
func TrustSubject(task string) Subject { return Subject("trust." + hex.EncodeToString([]byte(task))) }

// TrustChanged carries the result of the arithmetic and the policy it was done by. Written by trust.
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
	Attempt   nostr.ID      `json:"attempt"` // what it was changed for; never twice
	Reason    string        `json:"reason"`
}

// Type returns the stored name.
func (TrustChanged) Type() string { return "trust.changed" }
