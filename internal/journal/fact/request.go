package fact

import (
	"fiatjaf.com/nostr"

	"guild"
	"guild/nip90"
)

// RequestSubject returns the guard of decisions about a request to us.
func RequestSubject(id nostr.ID) Subject { return Subject("request." + id.Hex()) }

// RequestReceived says that a customer has sent us a request. Written by work.
type RequestReceived struct {
	Request   nostr.ID     `json:"request"`
	Customer  nostr.PubKey `json:"customer"`
	Task      string       `json:"task"`
	Service   string       `json:"service"` // our announcement's d
	Kind      int          `json:"kind"`
	Job       string       `json:"job,omitempty"` // the customer's job id, if stated
	Event     nostr.Event  `json:"event"`         // as received
	Encrypted bool         `json:"encrypted,omitempty"`
	Relays    []string     `json:"relays,omitempty"` // where the customer reads answers
	From      string       `json:"from"`             // the relay it came from
	Deadline  int64        `json:"deadline"`         // Unix ms, after which an answer is useless

	Prepaid bool       `json:"prepaid,omitzero"` // the customer pays before the work
	Onchain bool       `json:"onchain,omitzero"` // the customer does so by a Bitcoin transaction
	Key     string     `json:"key,omitempty"`    // the customer's idempotency key
	Repeats nostr.ID   `json:"repeats,omitzero"` // an earlier request with the same key, whose answer this one gets
	Hold    guild.Hash `json:"hold,omitzero"`    // the payment hash that the customer chose for escrow over Lightning

	Arbiter *nip90.Arbiter `json:"arbiter,omitempty"` // that the order names
	Payout  *nip90.Payout  `json:"payout,omitempty"`  // that the order promises by its verdict; nil if it does not say
}

// RequestFinished ends our work on a request, and carries the signed events for the customer. Written by work.
type RequestFinished struct {
	Request  nostr.ID      `json:"request"`
	Ending   string        `json:"ending"` // delivered, refused, failed or unpaid
	Reason   string        `json:"reason,omitempty"`
	Bundle   guild.Hash    `json:"bundle,omitzero"`
	Delivery guild.Hash    `json:"delivery,omitzero"`
	Answers  []nostr.Event `json:"answers"` // to publish: a result or an error feedback

	Replay  guild.Hash `json:"replay,omitzero"`  // blob: REPLAY.jsonl of the worker's session
	Session guild.Hash `json:"session,omitzero"` // blob: the session's receipt

	Tokens int64 `json:"tokens,omitempty"` // that the worker's model took, by its session

	Agent nostr.PubKey `json:"agent,omitzero"` // of this node, that did the work (NIP-AE)
}

// RequestCancelled says that the customer has withdrawn the request. Written by work.
type RequestCancelled struct {
	Request nostr.ID `json:"request"`
	Unpaid  bool     `json:"unpaid,omitempty"` // it waited for its price, so that no work was lost
}

// RequestJudged records the customer's verdict on our delivery, from a private message. Written by work.
type RequestJudged struct {
	Request nostr.ID      `json:"request"`
	Message nostr.ID      `json:"message"` // NIP-17, inside its wraps
	Outcome guild.Outcome `json:"outcome"`
	Score   guild.Score   `json:"score"`
	Verdict guild.Hash    `json:"verdict"` // stated by the customer
	Text    string        `json:"text,omitempty"`
	Until   int64         `json:"until,omitempty"` // Unix s, until which the customer accepts an objection
}

// RequestPaid says that the customer has paid for our delivery. No step writes it yet.
type RequestPaid struct {
	Request nostr.ID `json:"request"`
	Receipt string   `json:"receipt"` // its id
}

// RequestObjected says that we object to the customer's verdict. Written by work.
type RequestObjected struct {
	Request nostr.ID `json:"request"`
	Message nostr.ID `json:"message"` // ours, NIP-17, inside its wraps
	Reason  string   `json:"reason"`
	Sent    bool     `json:"sent,omitempty"` // a relay accepted it
}

// Type returns the stored name.
func (RequestReceived) Type() string { return "request.received" }

// Type returns the stored name.
func (RequestFinished) Type() string { return "request.finished" }

// Type returns the stored name.
func (RequestCancelled) Type() string { return "request.cancelled" }

// Type returns the stored name.
func (RequestJudged) Type() string { return "request.judged" }

// Type returns the stored name.
func (RequestPaid) Type() string { return "request.paid" }

// Type returns the stored name.
func (RequestObjected) Type() string { return "request.objected" }
