package fact

import (
	"encoding/json"

	"fiatjaf.com/nostr"

	"guild"
)

// ProviderSubject is the boundary of what is decided about one provider.
func ProviderSubject(p nostr.PubKey) Subject { return Subject("provider." + p.Hex()) }

// ProviderMoved says that a provider is in another state now. Written by registry.
type ProviderMoved struct {
	Service guild.Service       `json:"service"`
	From    guild.ProviderState `json:"from"`
	To      guild.ProviderState `json:"to"`
	Until   int64               `json:"until,omitempty"` // Unix ms: end of a quarantine
	Cause   string              `json:"cause"`
	Attempt nostr.ID            `json:"attempt,omitzero"`  // what it was moved for
	Meeting string              `json:"meeting,omitempty"` // or the meeting

	Signal string     `json:"signal,omitempty"` // what kind of sign it was, one of the constants Signal…
	Policy guild.Hash `json:"policy,omitzero"`  // by which it was decided

	Said    guild.Hash      `json:"said,omitzero"`     // of what it announced when an evaluation failed
	Version string          `json:"version,omitempty"` // and the version that it stated
	Row     json.RawMessage `json:"row,omitempty"`     // all that a backup has of it, when it was restored
}

// What a provider was moved for, other than a passed benchmark or a delivery that was good.
const (
	SignalTimeout    = "timeout"    // a request that was not answered, or not to its end
	SignalFailure    = "failure"    // a delivery or an evaluation that failed
	SignalSilence    = "silence"    // nothing heard of it, though it works for us
	SignalSustained  = "sustained"  // warned, and no success since
	SignalRate       = "rate"       // success rate (section 3.4.1)
	SignalLatency    = "latency"    // p95
	SignalTimeouts   = "timeouts"   // several in a row
	SignalFloor      = "floor"      // trust reached its floor
	SignalPersistent = "persistent" // suspended again and again, or still failing
	SignalViolation  = "violation"
	SignalOwner      = "owner"    // a person said so, and only a violation undoes it
	SignalReleased   = "released" // a person leaves it to the rules again
	SignalRestored   = "restored" // from a backup
	SignalRejudged   = "rejudged" // the verdict that it was moved for was overturned
	SignalResumed    = "resumed"  // a benchmark taught nothing: it is where it was
	SignalOver       = "over"     // a quarantine ended
	SignalStale      = "stale"    // not heard of, or not announced
	SignalHeard      = "heard"    // heard of again
)

// Type returns the stored name.
func (ProviderMoved) Type() string { return "provider.moved" }
