package fact

import (
	"encoding/json"

	"fiatjaf.com/nostr"

	"guild"
)

// ProviderSubject returns the guard of decisions about a provider.
func ProviderSubject(p nostr.PubKey) Subject { return Subject("provider." + p.Hex()) }

// ProviderMoved moves a service of a provider to another state. Written by partner.
type ProviderMoved struct {
	Service guild.Service       `json:"service"`
	From    guild.ProviderState `json:"from"`
	To      guild.ProviderState `json:"to"`
	Until   int64               `json:"until,omitempty"` // Unix ms: end of a quarantine
	Cause   string              `json:"cause"`
	Attempt nostr.ID            `json:"attempt,omitzero"`  // the reason, if it is an attempt
	Meeting string              `json:"meeting,omitempty"` // the reason, if it is a meeting

	Signal string     `json:"signal,omitempty"` // the kind of reason: one of the constants Signal…
	Policy guild.Hash `json:"policy,omitzero"`  // in force then

	Said    guild.Hash      `json:"said,omitzero"`     // hash of the announcement at the time of a failed evaluation
	Version string          `json:"version,omitempty"` // stated in that announcement
	Row     json.RawMessage `json:"row,omitempty"`     // all that the backup has of it, if it was restored
}

// Reasons to move a provider, other than a passed benchmark or an accepted delivery.
const (
	SignalTimeout    = "timeout"    // a request was not answered, or not completely
	SignalFailure    = "failure"    // a delivery or an evaluation failed
	SignalSilence    = "silence"    // no message from it while it works for us
	SignalSustained  = "sustained"  // no success since it was warned
	SignalRate       = "rate"       // its success rate is too low (section 3.4.1)
	SignalLatency    = "latency"    // its p95 latency is too high
	SignalTimeouts   = "timeouts"   // several in a row
	SignalFloor      = "floor"      // its trust reached the floor
	SignalPersistent = "persistent" // it was suspended repeatedly, or still fails
	SignalViolation  = "violation"
	SignalOwner      = "owner"    // a person decided it; only a violation overrides that
	SignalReleased   = "released" // a person has left it to the rules again
	SignalRestored   = "restored" // from a backup
	SignalRejudged   = "rejudged" // the verdict behind the last move was overturned
	SignalResumed    = "resumed"  // a benchmark gave no result, so its old state is restored
	SignalOver       = "over"     // its quarantine ended
	SignalStale      = "stale"    // no sign of it for too long, or no announcement
	SignalHeard      = "heard"    // there is a sign of it again
)

// Type returns the stored name.
func (ProviderMoved) Type() string { return "provider.moved" }
