package fact

import (
	"fiatjaf.com/nostr"

	"guild"
)

// RequestSubject is the boundary of what is decided about one request to us.
func RequestSubject(id nostr.ID) Subject { return Subject("request." + id.Hex()) }

// RequestReceived says that a customer asked us. Written by work.
type RequestReceived struct {
	Request   nostr.ID     `json:"request"`
	Customer  nostr.PubKey `json:"customer"`
	Task      string       `json:"task"`
	Service   string       `json:"service"` // our announcement's d
	Kind      int          `json:"kind"`
	Job       string       `json:"job,omitempty"` // the customer's job id, as it says
	Event     nostr.Event  `json:"event"`         // as received
	Encrypted bool         `json:"encrypted,omitempty"`
	Relays    []string     `json:"relays,omitempty"` // where the customer reads
	From      string       `json:"from"`             // the relay it came from
	Deadline  int64        `json:"deadline"`         // Unix ms: working on it after that is for nothing

	Key     string   `json:"key,omitempty"`    // the customer's idempotency key
	Repeats nostr.ID `json:"repeats,omitzero"` // the request with the same key whose answer this one gets
}

// RequestFinished ends our work on a request with the signed events that tell the customer. Written by work.
type RequestFinished struct {
	Request  nostr.ID      `json:"request"`
	Ending   string        `json:"ending"` // delivered, refused or failed
	Reason   string        `json:"reason,omitempty"`
	Bundle   guild.Hash    `json:"bundle,omitzero"`
	Delivery guild.Hash    `json:"delivery,omitzero"`
	Answers  []nostr.Event `json:"answers"` // result or error feedback, to be published

	Replay  guild.Hash `json:"replay,omitzero"`  // blob: REPLAY.jsonl of the worker's session
	Session guild.Hash `json:"session,omitzero"` // blob: its session receipt
}

// RequestCancelled says that the customer took the request back. Written by work.
type RequestCancelled struct {
	Request nostr.ID `json:"request"`
}

// RequestJudged is what the customer says of our delivery, in a private message. Written by work.
type RequestJudged struct {
	Request nostr.ID      `json:"request"`
	Message nostr.ID      `json:"message"` // NIP-17, inside its wraps
	Outcome guild.Outcome `json:"outcome"`
	Score   guild.Score   `json:"score"`
	Verdict guild.Hash    `json:"verdict"` // as the customer names it
	Text    string        `json:"text,omitempty"`
	Until   int64         `json:"until,omitempty"` // Unix s: as long as the customer hears an objection
}

// RequestObjected says that we object to what the customer says of our delivery. Written by work.
type RequestObjected struct {
	Request nostr.ID `json:"request"`
	Message nostr.ID `json:"message"` // ours, NIP-17, inside its wraps
	Reason  string   `json:"reason"`
	Sent    bool     `json:"sent,omitempty"` // a relay took it
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
func (RequestObjected) Type() string { return "request.objected" }
