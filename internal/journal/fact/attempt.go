package fact

import (
	"fmt"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip90"
)

// AttemptPlanned carries the signed request event, so that publishing it again is the same request. Written by jobs.
type AttemptPlanned struct {
	Attempt   nostr.ID      `json:"attempt"` // the id of Request
	Job       guild.JobID   `json:"job"`
	Provider  guild.Service `json:"provider"`
	Request   nostr.Event   `json:"request" private:"content,tags"`
	JobHash   guild.Hash    `json:"job_hash"` // in the request (nip90)
	Encrypted bool          `json:"encrypted,omitempty"`
	Plain     bool          `json:"plain,omitempty"`                        // the request is plain NIP-90, because the provider reads no bundles
	Relays    []string      `json:"relays"`                                 // to publish to, the best first
	Files     []nostr.Event `json:"files,omitempty" private:"content,tags"` // metadata of files that the request names (NIP-94), published before it
	Unmet     bool          `json:"unmet,omitempty"`                        // the provider was never benchmarked; only for LOW criticality

	Key string `json:"idempotency_key,omitempty"` // of the attempt, from quote to receipt

	Bid    guild.Msat `json:"bid_msat,omitempty"` // in the request
	Choice *Choice    `json:"choice,omitempty"`   // why this provider

	Hold *Hold `json:"hold,omitempty"` // in the request; nil if no money is held over Lightning for it
}

// Hold is a payment hash for escrow over Lightning. The wallet's words and the nonce give its preimage.
type Hold struct {
	Nonce string     `json:"nonce"`
	Hash  guild.Hash `json:"hash"`
}

// Choice is a routing decision and all that it was made from (the partnership protocol, section 4.1.1).
type Choice struct {
	Policy     guild.Hash     `json:"policy"`
	Rule       string         `json:"rule"`           // best, explored, unmet, named, offered or meeting
	Tier       string         `json:"tier,omitempty"` // chosen by the dice
	Epsilon    guild.Trust    `json:"epsilon_micro"`  // probability of exploring
	Dice       [3]guild.Trust `json:"dice_micro"`     // for exploring, tier and candidate; derived from the job and the turn
	Decided    int            `json:"decided"`        // earlier decisions for the task
	Candidates []Candidate    `json:"candidates"`     // at most 16, the best first, with the chosen one
	Count      int            `json:"count"`          // of all candidates
	Excluded   []Exclusion    `json:"excluded,omitempty"`
	Barred     map[string]int `json:"barred,omitempty"`  // number of excluded services by rule
	Relaxed    []string       `json:"relaxed,omitempty"` // rules that could not be applied, and why
}

// Candidate is a service as the router saw it.
type Candidate struct {
	Service   guild.Service `json:"service"`
	Name      string        `json:"name,omitempty"`
	Trust     guild.Trust   `json:"trust_micro"`
	Met       bool          `json:"met,omitempty"`
	Tier      string        `json:"tier"`
	Cost      guild.Msat    `json:"cost_msat"`
	LatencyMs int64         `json:"latency_ms"` // predicted
	Load      int           `json:"load"`       // unanswered requests
	Samples   int           `json:"samples"`    // number of verdicts
	Terms     Terms         `json:"terms_micro"`
	Score     guild.Trust   `json:"score_micro"`

	Won  int `json:"won,omitempty"`  // accepted deliveries that a policy with Thompson sampling draws its share from
	Lost int `json:"lost,omitempty"` // and other ended requests

	Unsure guild.Trust `json:"unsure_micro,omitempty"` // subtracted from the score for the order, since it may not do the task at all
}

// Terms are the weighted terms of a candidate's score.
type Terms struct {
	Trust       guild.Trust `json:"trust"`
	Cost        guild.Trust `json:"cost"`
	Latency     guild.Trust `json:"latency"`
	Load        guild.Trust `json:"load"`
	Exploration guild.Trust `json:"exploration"`
}

// Exclusion says why a service was excluded.
type Exclusion struct {
	Service guild.Service `json:"service"`
	By      string        `json:"by"` // the rule, in a word or two
	Reason  string        `json:"reason"`
}

// AttemptRequested says that a relay accepted the request. Written by jobs.
type AttemptRequested struct {
	Attempt nostr.ID `json:"attempt"`
	Relays  []string `json:"relays"`
	Silence int64    `json:"silence"` // Unix ms; without feedback until then, the attempt expires
}

// AttemptQuoted says that the provider demands payment first. Written by jobs.
type AttemptQuoted struct {
	Attempt nostr.ID     `json:"attempt"`
	Amount  guild.Msat   `json:"amount_msat"`
	Invoice string       `json:"invoice,omitempty"`
	Key     string       `json:"idempotency_key,omitempty"`               // of the attempt, to which the quote is bound
	Bitcoin string       `json:"bitcoin,omitempty"`                       // the URI of a payment on the chain (BIP 21)
	Hold    bool         `json:"hold,omitempty"`                          // Invoice is for the hash that the request chose, and is paid instead of Terms
	Terms   string       `json:"terms,omitempty"`                         // a payment request for ecash (NUT-18), which is answered by pay
	Event   nostr.ID     `json:"event,omitzero"`                          // that has the quote
	Answer  *nostr.Event `json:"answer,omitempty" private:"content,tags"` // that event, if there are Terms that may be paid and it is not too large
	Silence int64        `json:"silence,omitempty"`                       // Unix ms, as in AttemptRequested
	Rates   *nip90.Rates `json:"rates,omitempty"`                         // the price by usage, of which Terms and Amount are the most; nil for a fixed price
}

// AttemptProgressed is feedback that extends the time to wait and changes nothing else. Written by jobs.
type AttemptProgressed struct {
	Attempt nostr.ID `json:"attempt"`
	Event   nostr.ID `json:"event"`
	Status  string   `json:"status"`                       // processing, partial, success or other
	Text    string   `json:"text,omitempty" private:"all"` // cut to 2,000 bytes
	Silence int64    `json:"silence"`                      // Unix ms, as in AttemptRequested
	Fault   bool     `json:"fault,omitempty"`              // it violates the protocol, which counts against the provider and does not end the attempt

	Capacity *Capacity `json:"capacity,omitempty"` // nil if the provider does not state it
}

// Capacity is a provider's statement of its load (the partnership protocol, section 5.3.3). In this form it is also in the
// content of a processing feedback.
type Capacity struct {
	Queue int `json:"queue_depth"`   // waiting requests
	Idle  int `json:"idle_capacity"` // requests that it could start now
}

// String returns the capacity for a person.
func (c Capacity) String() string { return fmt.Sprintf("queue %d, idle %d", c.Queue, c.Idle) }

// AttemptDelivered says that the requested provider has sent a result. Written by jobs.
type AttemptDelivered struct {
	Attempt   nostr.ID     `json:"attempt"`
	Result    nostr.ID     `json:"result"`                                  // the result event
	Event     guild.Hash   `json:"event"`                                   // hash of the result event as received; a blob, unless it is in Answer
	Answer    *nostr.Event `json:"answer,omitempty" private:"content,tags"` // the result event, if it is small and contains the delivery
	Delivery  guild.Hash   `json:"delivery"`
	Size      int64        `json:"size"`
	Away      *Place       `json:"away,omitempty" private:"url,key"` // where to fetch the delivery; nil if the result contains it
	LatencyMs int64        `json:"latency_ms"`                       // from the relay's acceptance of the request to the result, without the wait for the owner to allow the price
	Plain     bool         `json:"plain,omitempty"`                  // the result was not a bundle, and was packed into one
	Behaviour guild.Hash   `json:"behaviour,omitzero"`               // of the agent that did the work, as the provider claims

	Bill *Bill `json:"bill,omitempty"` // of the provider; nil if the order does not pay after the work

	NudgesLeftOut int `json:"nudges_left_out,omitempty"` // of those that the job asks for, how many the agent did not work by, as the provider says

	Usage *nip90.Usage `json:"usage,omitempty"` // what the work took, as the provider claims
}

// Bill is the price and the invoice in a provider's result.
type Bill struct {
	Amount  guild.Msat `json:"amount_msats"`
	Invoice string     `json:"invoice"` // BOLT 11
}

// Held returns the bill as money that is held for an attempt: its record waits for what becomes of it.
func (b Bill) Held(attempt nostr.ID) *AttemptHeld {
	return &AttemptHeld{Attempt: attempt, Rail: "lightning", Asset: "BTC_LN", Amount: b.Amount, Invoice: b.Invoice}
}

// Place is the location of a bundle that is too large for an event.
type Place struct {
	URL string `json:"url"`
	Key string `json:"key,omitempty"` // the key that it is encrypted with, in hex
}

// AttemptFetched says that a delivery was fetched from its Place and has the right hash. Written by jobs.
type AttemptFetched struct {
	Attempt nostr.ID `json:"attempt"`
}

// AttemptJudged is the verdict. Written by judge.
type AttemptJudged struct {
	Attempt nostr.ID      `json:"attempt"`
	Verdict guild.Verdict `json:"verdict" private:"cause,tests,unproven,hidden,warnings,violations,quality.findings,ruling.note,opinion.reason"` // without the list of tests if that is large; Hash covers it
	Hash    guild.Hash    `json:"hash"`                                                                                                          // canonical hash of the whole verdict
	Stored  guild.Hash    `json:"stored"`                                                                                                        // blob: the whole verdict

	Whole guild.Hash `json:"whole,omitzero"` // blob: the evidence with what hidden tests showed; never exported
}

// AttemptCompared names the first accepted delivery of the job that an accepted delivery agrees with, which may be itself.
// Written by jobs.
type AttemptCompared struct {
	Attempt nostr.ID   `json:"attempt"`
	With    nostr.ID   `json:"with"`
	Hash    guild.Hash `json:"hash"` // of the compared content
}

// AttemptUndecided says that there is no verdict yet: the judge itself failed, or the criteria leave the decision to a person.
// Written by judge.
type AttemptUndecided struct {
	Attempt nostr.ID   `json:"attempt"`
	Reason  string     `json:"reason" private:"all"`
	Held    guild.Hash `json:"held,omitzero"`  // blob: the verdict so far, for the person
	Whole   guild.Hash `json:"whole,omitzero"` // as in AttemptJudged
}

// AttemptRefused says that the provider refused the request, or that we refused to pay first. Written by jobs.
type AttemptRefused struct {
	Attempt nostr.ID `json:"attempt"`
	Reason  string   `json:"reason" private:"all"`
	Later   bool     `json:"later,omitempty"`  // the provider is at capacity, which is not a failure
	Fault   bool     `json:"fault,omitempty"`  // the answer was not as agreed; it counts as a failed delivery
	Clear   bool     `json:"clear,omitempty"`  // the fault is an answer in clear to an encrypted request
	Event   nostr.ID `json:"event,omitzero"`   // with the refusal, if there was one
	Unpaid  bool     `json:"unpaid,omitempty"` // it is we who do not pay its quote, so that the provider has to be told

	Price guild.Msat `json:"price_msat,omitempty"` // the provider's lowest price, if it stated one
}

// NotAsAgreed says why a refusal with a Fault counts against the provider, in facts that a shredded job does not take along.
const NotAsAgreed = "the answer was not as agreed"

// AttemptExpired says that there was no result in time. Written by jobs.
type AttemptExpired struct {
	Attempt  nostr.ID     `json:"attempt"`
	Reason   string       `json:"reason"`
	Silent   bool         `json:"silent"`             // the provider sent nothing at all
	Deletion *nostr.Event `json:"deletion,omitempty"` // the signed kind 5 event to publish, if the request was published
}

// AttemptCancelled says that the customer has withdrawn the request. Deletion is the signed kind 5 event to publish; there is
// none if the provider has delivered. Written by jobs.
type AttemptCancelled struct {
	Attempt  nostr.ID     `json:"attempt"`
	Deletion *nostr.Event `json:"deletion,omitempty"`
}

// AttemptDisputed says that the provider or the owner objects to the verdict. The delivery is judged again. Written by review.
type AttemptDisputed struct {
	Attempt nostr.ID `json:"attempt"`
	By      string   `json:"by"` // provider or owner
	Reason  string   `json:"reason" private:"all"`
	Event   nostr.ID `json:"event,omitzero"` // with the objection
}

// AttemptTold says that the provider was sent the verdict. Written by review.
type AttemptTold struct {
	Attempt nostr.ID `json:"attempt"`
	Message nostr.ID `json:"message"`         // id of the NIP-17 message inside its wraps
	Given   string   `json:"given,omitempty"` // why sending was given up, "" if it was sent
}

// AttemptParked says that an effect of the attempt failed too often. Written by the step that owns the effect.
type AttemptParked struct {
	Attempt nostr.ID `json:"attempt"`
	Reason  string   `json:"reason" private:"all"`
}

// AttemptRecorded names the receipt and the trajectory. Written by record.
type AttemptRecorded struct {
	Attempt    nostr.ID   `json:"attempt"`
	Receipt    string     `json:"receipt"`          // its id
	Stored     guild.Hash `json:"stored"`           // blob: the receipt
	Replay     guild.Hash `json:"replay"`           // blob: REPLAY.jsonl
	Trajectory guild.Hash `json:"trajectory"`       // canonical hash of the trajectory
	Public     bool       `json:"public,omitempty"` // the owner wants the receipt published

	// Unjudged means that the receipt is of money alone: there was no verdict.
	Unjudged bool `json:"unjudged,omitempty"`

	// Provider delivered. It is zero if it cannot be asked to countersign a seal that covers this.
	Provider nostr.PubKey `json:"provider,omitzero"`
}

// ReceiptPublished says that a relay accepted the event with a receipt, or why it was not published. Written by record.
type ReceiptPublished struct {
	Attempt nostr.ID `json:"attempt"`
	Receipt string   `json:"receipt"` // its id
	Event   nostr.ID `json:"event,omitzero"`
	Reason  string   `json:"reason,omitempty"` // why it was not published
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
