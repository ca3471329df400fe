package guild

import (
	"fmt"
	"slices"

	"fiatjaf.com/nostr"
)

// Service is one service of a provider. Trust is kept for a service, not for the provider's key.
type Service struct {
	PubKey nostr.PubKey `json:"pubkey"`
	D      string       `json:"d"` // the canonical d tag of the announcement
}

// ProviderState is the state of a provider, which determines the work it gets.
type ProviderState string

// The states of a provider.
const (
	Seen         ProviderState = "seen"         // announced, never tried
	Benchmarking ProviderState = "benchmarking" // being tried
	Active       ProviderState = "active"       // gets ordinary work
	Conditional  ProviderState = "conditional"  // gets uncritical work
	Unqualified  ProviderState = "rejected"     // failed its trial; tried again later
	Unresponsive ProviderState = "unresponsive" // sent no answer at all; in quarantine for a day
	Warned       ProviderState = "warned"       // first sign of decline
	Reduced      ProviderState = "reduced"      // second sign: half its share of work until a benchmark
	Suspended    ProviderState = "suspended"    // third sign, or a serious one: no work; tried again after 30 days
	Removed      ProviderState = "removed"      // broke out of the sandbox, or failed for good
	Stale        ProviderState = "stale"        // not heard of for 30 days, or announced nowhere
	Archived     ProviderState = "archived"     // not heard of for 90 days
)

// nextProvider has the allowed transitions of a provider's state, from the tables of sections 3.2.3 and 3.4 of the
// partnership protocol. docs/TRUST.md has the causes of the transitions, including those by the owner and by an
// overturned verdict.
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

// CanBecome reports whether the transition from s to to is allowed.
func (s ProviderState) CanBecome(to ProviderState) bool { return slices.Contains(nextProvider[s], to) }

// Provider is our decision about a service.
type Provider struct {
	Service Service
	State   ProviderState
	Until   int64 // Unix ms: end of the quarantine, or 0

	// Provisional says that deliveries gave it its state, and too few to fix it (the partnership protocol, section 3.2.3).
	Provisional bool
}

// Move changes the state of the provider, or returns an error if that is not allowed.
func (p *Provider) Move(to ProviderState) error {
	if !p.State.CanBecome(to) {
		return fmt.Errorf("provider %.8s: %q does not follow %q", p.Service.PubKey.Hex(), to, p.State)
	}
	p.State = to
	return nil
}

// Offer has the parts of a service's announcement that other steps use.
type Offer struct {
	Service   Service
	Name      string
	Tasks     []string
	Kinds     []int
	Relays    []string // relays on which it reads requests, preferred first
	Encrypts  bool     // it reads NIP-44
	Recipient string   // age recipient for its credentials, or ""
	Price     Msat     // of a job in Kind; 0 if not stated
	Kind      int      // in which to ask for the requested task; 0 for the usual kind
	Tool      string   // of the Model Context Protocol, which it runs on a text (DVMCP); "" without any
	ToolText  string   // the tool's parameter for the text
	Plain     bool     // it reads no bundles: its requests are plain NIP-90
	Slots     int      // jobs at the same time, 0 if not stated
	Announced int64    // created_at of the announcement, Unix s
	State     ProviderState
	Until     int64 // Unix ms: end of the quarantine

	Provisional bool    // too few deliveries fix its state
	Confidence  float64 // for the requested task: 1 exact, 0.8 a synonym, 0.6 inferred
	Confirmed   bool    // tags and content both name the requested kind
	Recommended int     // recommendations (kind 31989) by keys that we follow
	Followed    bool    // we follow its key
	First       int64   // Unix ms: when this node first saw the service
	Work        int     // proof of work on the announcement in bits, as it commits to (NIP-13); 0 without
}

// Checkup is a due benchmark of a service that we have worked with before (the partnership protocol, section 3.4).
type Checkup struct {
	Service Service
	Purpose string // one of the constants Purpose…
	Task    string // the last task it did for us, or ""
	Since   int64  // Unix ms: since when it is due
}

// Purposes of a benchmark of a known provider. A heartbeat and a probe are a single run, the others a complete
// evaluation.
const (
	PurposeHeartbeat = "heartbeat" // weekly, for a provider that works for us
	PurposeProbe     = "probe"     // for a provider that has been silent
	PurposeReverify  = "reverify"  // for a reduced provider
	PurposeRetry     = "retry"     // for a rejected or suspended provider, after its waiting time
)

// IsLook reports whether a benchmark for a purpose is a single run of a known provider, which by itself does not lower
// the provider's state.
func IsLook(purpose string) bool { return purpose == PurposeHeartbeat || purpose == PurposeProbe }

// Least scores of an active and of a conditional provider (the partnership protocol, section 3.2.1).
const (
	ActiveFrom      Score = 800_000
	ConditionalFrom Score = 600_000
)
