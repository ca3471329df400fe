package fact

import (
	"fmt"

	"fiatjaf.com/nostr"

	"guild"
)

// AttemptPlanned carries the signed request event: publishing it again asks the same thing. Written by jobs.
type AttemptPlanned struct {
	Attempt   nostr.ID      `json:"attempt"` // the id of Request
	Job       guild.JobID   `json:"job"`
	Provider  guild.Service `json:"provider"`
	Request   nostr.Event   `json:"request"`
	JobHash   guild.Hash    `json:"job_hash"` // as the request binds it (nip90)
	Encrypted bool          `json:"encrypted,omitempty"`
	Relays    []string      `json:"relays"`          // where to publish, the best first
	Unmet     bool          `json:"unmet,omitempty"` // never benchmarked: LOW criticality only

	Key string `json:"idempotency_key,omitempty"` // the same from quote to receipt

	Bid    guild.Msat `json:"bid_msat,omitempty"` // that the request makes
	Choice *Choice    `json:"choice,omitempty"`   // why this provider
}

// Choice is a routing decision with everything that it was made from (the partnership protocol, section 4.1.1).
type Choice struct {
	Policy     guild.Hash     `json:"policy"`
	Rule       string         `json:"rule"`           // best, explored, unmet, named, offered or meeting
	Tier       string         `json:"tier,omitempty"` // that the dice chose
	Epsilon    guild.Trust    `json:"epsilon_micro"`  // the share of exploring at that time
	Dice       [3]guild.Trust `json:"dice_micro"`     // whether to explore, which tier, whom; they follow from the job and the turn
	Decided    int            `json:"decided"`        // decisions for the task before
	Candidates []Candidate    `json:"candidates"`     // the best first, at most 16; whoever was chosen is among them
	Count      int            `json:"count"`          // of all candidates
	Excluded   []Exclusion    `json:"excluded,omitempty"`
	Barred     map[string]int `json:"barred,omitempty"`  // how many were excluded, by what
	Relaxed    []string       `json:"relaxed,omitempty"` // rules that could not be kept, and why
}

// Candidate is one service as the router saw it.
type Candidate struct {
	Service   guild.Service `json:"service"`
	Name      string        `json:"name,omitempty"`
	Trust     guild.Trust   `json:"trust_micro"`
	Met       bool          `json:"met,omitempty"`
	Tier      string        `json:"tier"`
	Cost      guild.Msat    `json:"cost_msat"`
	LatencyMs int64         `json:"latency_ms"` // predicted
	Load      int           `json:"load"`       // requests that it has not answered
	Samples   int           `json:"samples"`    // verdicts on it
	Terms     Terms         `json:"terms_micro"`
	Score     guild.Trust   `json:"score_micro"`

	Unsure guild.Trust `json:"unsure_micro,omitempty"` // that the score is put back by in the order: it may not do the task at all
}

// Terms are what a candidate's score consists of, each already weighed.
type Terms struct {
	Trust       guild.Trust `json:"trust"`
	Cost        guild.Trust `json:"cost"`
	Latency     guild.Trust `json:"latency"`
	Load        guild.Trust `json:"load"`
	Exploration guild.Trust `json:"exploration"`
}

// Exclusion says what kept one service out.
type Exclusion struct {
	Service guild.Service `json:"service"`
	By      string        `json:"by"` // the rule, in a word or two
	Reason  string        `json:"reason"`
}

// AttemptRequested says that a relay took the request. Written by jobs.
type AttemptRequested struct {
	Attempt nostr.ID `json:"attempt"`
	Relays  []string `json:"relays"`
	Silence int64    `json:"silence"` // Unix ms: with no feedback until then, it is expired
}

// AttemptQuoted says that the provider wants to be paid first. Written by jobs.
type AttemptQuoted struct {
	Attempt nostr.ID   `json:"attempt"`
	Amount  guild.Msat `json:"amount_msat"`
	Invoice string     `json:"invoice,omitempty"`
	Key     string     `json:"idempotency_key,omitempty"` // the attempt's, which the quote is bound to
}

// AttemptProgressed is feedback that changes no state but extends the patience. Written by jobs.
type AttemptProgressed struct {
	Attempt nostr.ID `json:"attempt"`
	Event   nostr.ID `json:"event"`
	Status  string   `json:"status"`          // processing, partial, success or other
	Text    string   `json:"text,omitempty"`  // cut to 2,000 bytes
	Silence int64    `json:"silence"`         // Unix ms, as in AttemptRequested
	Fault   bool     `json:"fault,omitempty"` // it broke the protocol by this, which is held against it and ends nothing

	Capacity *Capacity `json:"capacity,omitempty"` // of the provider, when it says
}

// Capacity is what a provider says of how busy it is (the partnership protocol, section 5.3.3). In the content of a
// processing feedback it is this object.
type Capacity struct {
	Queue int `json:"queue_depth"`   // requests that wait
	Idle  int `json:"idle_capacity"` // requests that it could begin at once
}

// String says it for people.
func (c Capacity) String() string { return fmt.Sprintf("queue %d, idle %d", c.Queue, c.Idle) }

// AttemptDelivered is a result from the provider that was asked. Written by jobs.
type AttemptDelivered struct {
	Attempt   nostr.ID     `json:"attempt"`
	Result    nostr.ID     `json:"result"`           // the result event
	Event     guild.Hash   `json:"event"`            // hash of the result event as received; a blob, unless Answer has it
	Answer    *nostr.Event `json:"answer,omitempty"` // the result event, when it is small and brought the delivery along
	Delivery  guild.Hash   `json:"delivery"`
	Size      int64        `json:"size"`
	Away      *Place       `json:"away,omitempty"`  // where the delivery must be fetched from; absent when it came along
	LatencyMs int64        `json:"latency_ms"`      // request accepted by a relay → result here
	Plain     bool         `json:"plain,omitempty"` // the result was no bundle; the delivery is one around it
}

// Place is where a bundle too large for an event waits.
type Place struct {
	URL string `json:"url"`
	Key string `json:"key,omitempty"` // hex: what it is sealed with
}

// AttemptFetched says that a delivery that was away is here, and that its hash is right. Written by jobs.
type AttemptFetched struct {
	Attempt nostr.ID `json:"attempt"`
}

// AttemptJudged is the verdict. Written by judge.
type AttemptJudged struct {
	Attempt nostr.ID      `json:"attempt"`
	Verdict guild.Verdict `json:"verdict"` // without the list of tests when that is large; Hash covers all
	Hash    guild.Hash    `json:"hash"`    // canonical hash of the whole verdict
	Stored  guild.Hash    `json:"stored"`  // blob: the whole verdict
}

// AttemptCompared says with which earlier accepted delivery of its job one agrees: the first that did, or itself.
// Written by jobs.
type AttemptCompared struct {
	Attempt nostr.ID   `json:"attempt"`
	With    nostr.ID   `json:"with"`
	Hash    guild.Hash `json:"hash"` // of what was compared
}

// AttemptUndecided says that there is no verdict yet: the judge itself failed, or the criteria ask for a person,
// whose ruling then is the verdict. Written by judge.
type AttemptUndecided struct {
	Attempt nostr.ID   `json:"attempt"`
	Reason  string     `json:"reason"`
	Held    guild.Hash `json:"held,omitzero"` // blob: the verdict so far, which waits for a person
}

// AttemptRefused says that the provider would not do it, or that we would not pay first. Written by jobs.
type AttemptRefused struct {
	Attempt nostr.ID `json:"attempt"`
	Reason  string   `json:"reason"`
	Later   bool     `json:"later,omitempty"` // at capacity: no failure, try again later
	Fault   bool     `json:"fault,omitempty"` // it did answer, but not as agreed: counted like a delivery that failed
	Event   nostr.ID `json:"event,omitzero"`  // the event that said so, if one did

	Price guild.Msat `json:"price_msat,omitempty"` // the least that it would have done it for, when it said so
}

// AttemptExpired says that nothing came in time. Written by jobs.
type AttemptExpired struct {
	Attempt  nostr.ID     `json:"attempt"`
	Reason   string       `json:"reason"`
	Silent   bool         `json:"silent"`             // not one word from the provider
	Deletion *nostr.Event `json:"deletion,omitempty"` // the signed kind 5 event to publish, when it was requested
}

// AttemptCancelled says that the customer wants nothing more from the provider. Deletion is the signed kind 5
// event to publish. Written by jobs.
type AttemptCancelled struct {
	Attempt  nostr.ID     `json:"attempt"`
	Deletion *nostr.Event `json:"deletion,omitempty"`
}

// AttemptDisputed says that the provider objects to the verdict, or that the owner doubts it: it is judged again.
// Written by review.
type AttemptDisputed struct {
	Attempt nostr.ID `json:"attempt"`
	By      string   `json:"by"` // provider or owner
	Reason  string   `json:"reason"`
	Event   nostr.ID `json:"event,omitzero"` // that said so
}

// AttemptTold says that the provider was sent the verdict. Written by review.
type AttemptTold struct {
	Attempt nostr.ID `json:"attempt"`
	Message nostr.ID `json:"message"`         // id of the NIP-17 message inside its wraps
	Given   string   `json:"given,omitempty"` // why it could not be sent, when that was given up
}

// AttemptParked says that an effect failed for the last time. Written by the step whose effect it was.
type AttemptParked struct {
	Attempt nostr.ID `json:"attempt"`
	Reason  string   `json:"reason"`
}

// AttemptRecorded names the receipt and the trajectory. Written by record.
type AttemptRecorded struct {
	Attempt    nostr.ID   `json:"attempt"`
	Receipt    string     `json:"receipt"`          // its id
	Stored     guild.Hash `json:"stored"`           // blob: the receipt
	Replay     guild.Hash `json:"replay"`           // blob: REPLAY.jsonl
	Trajectory guild.Hash `json:"trajectory"`       // canonical hash of the trajectory
	Public     bool       `json:"public,omitempty"` // the receipt is to be published
}

// ReceiptPublished says that a relay took the event that says a receipt, or why none did. Written by record.
type ReceiptPublished struct {
	Attempt nostr.ID `json:"attempt"`
	Receipt string   `json:"receipt"` // its id
	Event   nostr.ID `json:"event,omitzero"`
	Reason  string   `json:"reason,omitempty"` // why it is not published after all
}

// Type returns the stored name.
func (ReceiptPublished) Type() string { return "receipt.published" }

// Type returns the stored name.
func (AttemptPlanned) Type() string { return "attempt.planned" }

// Type returns the stored name.
func (AttemptRequested) Type() string { return "attempt.requested" }

// Type returns the stored name.
func (AttemptQuoted) Type() string { return "attempt.quoted" }

// Type returns the stored name.
func (AttemptProgressed) Type() string { return "attempt.progressed" }

// Type returns the stored name.
func (AttemptDelivered) Type() string { return "attempt.delivered" }

// Type returns the stored name.
func (AttemptFetched) Type() string { return "attempt.fetched" }

// Type returns the stored name.
func (AttemptJudged) Type() string { return "attempt.judged" }

// Type returns the stored name.
func (AttemptUndecided) Type() string { return "attempt.undecided" }

// Type returns the stored name.
func (AttemptRefused) Type() string { return "attempt.refused" }

// Type returns the stored name.
func (AttemptExpired) Type() string { return "attempt.expired" }

// Type returns the stored name.
func (AttemptCancelled) Type() string { return "attempt.cancelled" }

// Type returns the stored name.
func (AttemptParked) Type() string { return "attempt.parked" }

// Type returns the stored name.
func (AttemptRecorded) Type() string { return "attempt.recorded" }

// Type returns the stored name.
func (AttemptCompared) Type() string { return "attempt.compared" }

// Type returns the stored name.
func (AttemptDisputed) Type() string { return "attempt.disputed" }

// Type returns the stored name.
func (AttemptTold) Type() string { return "attempt.told" }
