package guild

import (
	"fmt"
	"slices"

	"fiatjaf.com/nostr"
)

// Service is one service of a provider: trust is kept for it, not for the provider's key as a whole.
type Service struct {
	PubKey nostr.PubKey `json:"pubkey"`
	D      string       `json:"d"` // the announcement's d tag in its canonical form
}

// ProviderState says how far we deal with a provider.
type ProviderState string

// The states of a provider.
const (
	Seen         ProviderState = "seen"
	Benchmarking ProviderState = "benchmarking"
	Active       ProviderState = "active"
	Conditional  ProviderState = "conditional"
	Unqualified  ProviderState = "rejected"
	Unresponsive ProviderState = "unresponsive"
	Warned       ProviderState = "warned"
	Reduced      ProviderState = "reduced"
	Suspended    ProviderState = "suspended"
	Removed      ProviderState = "removed"
	Stale        ProviderState = "stale"
	Archived     ProviderState = "archived"
)

// nextProvider is the table of sections 3.2.3 and 3.4 of the partnership protocol: what a provider may become
// from where it is. Which step of the ladder leads where, and which arrows are an owner's word or an overturned
// verdict's, is in docs/STATES.md.
var nextProvider = map[ProviderState][]ProviderState{
	Seen:         {Benchmarking, Active, Conditional, Unqualified, Unresponsive, Suspended, Removed, Stale},
	Benchmarking: {Seen, Active, Conditional, Unqualified, Unresponsive, Reduced, Suspended, Removed, Stale},
	Active:       {Conditional, Warned, Unresponsive, Suspended, Removed, Stale},
	Conditional:  {Active, Warned, Unresponsive, Suspended, Removed, Stale},
	Unqualified:  {Benchmarking, Active, Conditional, Suspended, Removed, Stale},
	Unresponsive: {Seen, Benchmarking, Active, Conditional, Unqualified, Warned, Reduced, Suspended, Removed, Stale},
	Warned:       {Active, Conditional, Reduced, Unresponsive, Suspended, Removed, Stale},
	Reduced:      {Benchmarking, Active, Conditional, Warned, Suspended, Removed, Stale},
	Suspended:    {Benchmarking, Active, Conditional, Warned, Reduced, Removed, Stale},
	Removed:      {Seen, Active, Conditional, Unqualified, Warned, Reduced, Suspended},
	Stale:        {Seen, Benchmarking, Active, Conditional, Unqualified, Warned, Reduced, Suspended, Removed, Archived},
	Archived:     {Seen, Unqualified, Suspended, Removed},
}

// CanBecome reports whether the table allows the step.
func (s ProviderState) CanBecome(to ProviderState) bool { return slices.Contains(nextProvider[s], to) }

// Provider is what we have decided about a service.
type Provider struct {
	Service Service
	State   ProviderState
	Until   int64 // Unix ms: when a quarantine ends, 0 for none
}

// Move takes the provider to another state, or says why it cannot.
func (p *Provider) Move(to ProviderState) error {
	if !p.State.CanBecome(to) {
		return fmt.Errorf("provider %.8s: %q does not follow %q", p.Service.PubKey.Hex(), to, p.State)
	}
	p.State = to
	return nil
}

// Offer is what a service announces, as far as the other steps need it.
type Offer struct {
	Service   Service
	Name      string
	Tasks     []string
	Kinds     []int
	Relays    []string // where it reads requests, the best first
	Encrypts  bool     // it reads NIP-44
	Recipient string   // age recipient that its credentials are sealed for, "" when it says nothing
	Price     Msat     // 0 when it says nothing
	Slots     int      // jobs at a time, 0 when it says nothing
	Announced int64    // created_at of the announcement, Unix s
	State     ProviderState
	Until     int64 // Unix ms: when a quarantine ends

	Confidence  float64 // that it does the task asked about: 1 exact, 0.8 a synonym, 0.6 inferred
	Confirmed   bool    // tags and content both name the kind asked about
	Recommended int     // recommendations (kind 31989) by keys that we follow
}

// Checkup is a benchmark that is due for a service we have dealt with before (the partnership protocol, section 3.4).
type Checkup struct {
	Service Service
	Purpose string // one of the constants Purpose…
	Task    string // that it last did for us, "" when that is not known
	Since   int64  // Unix ms: when it became due
}

// What a benchmark of a provider is for that is not new. A heartbeat and a probe are one run, the others a whole
// evaluation.
const (
	PurposeHeartbeat = "heartbeat" // it works for us, and is looked at every week
	PurposeProbe     = "probe"     // nothing was heard of it
	PurposeReverify  = "reverify"  // it is reduced
	PurposeRetry     = "retry"     // it was rejected or suspended, and its time is over
)

// IsLook reports whether a benchmark for a purpose is one run: a look at somebody known, which takes no state away by
// itself.
func IsLook(purpose string) bool { return purpose == PurposeHeartbeat || purpose == PurposeProbe }

// Scores from which a provider is active and conditional (the partnership protocol, section 3.2.1).
const (
	ActiveFrom      Score = 800_000
	ConditionalFrom Score = 600_000
)
