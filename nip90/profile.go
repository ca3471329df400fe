package nip90

import (
	"encoding/json"
	"fmt"

	"fiatjaf.com/nostr"

	"guild"
)

// IdempotencyKey is the same for everything about one attempt of a job, from the quote to the receipt (the OpenAgents
// surface, "Receipt Lifecycle"): 64 hex digits that bind the customer's job, the provider that is asked, and which of
// the job's attempts it is, from 1. Two events of one customer with the same key are one piece of work.
func IdempotencyKey(job guild.JobID, provider nostr.PubKey, attempt int) string {
	return guild.Sum(fmt.Appendf(nil, "[%q,%q,%d]", job, provider.Hex(), attempt)).Hex()
}

// offer is the one thing that is solicited.
const offer = "offer"

// Solicit makes r a solicitation: it asks everybody for an offer and nobody for the work.
func (r *Request) Solicit() {
	r.Provider = nil
	r.Set(ParamSolicitation, offer)
}

// Solicits reports whether r asks for an offer only. The answer is feedback: payment-required with the amount that it
// would cost, or processing for nothing. A result would be an answer to what nobody asked.
func (r Request) Solicits() bool { return r.Get(ParamSolicitation) == offer }

// Benchmark is what the benchmark_spec input says (the partnership protocol, section 2.4.1).
type Benchmark struct {
	ID      string   `json:"benchmark_id"`
	Modules []string `json:"modules"`
}

// Input is b as an input.
func (b Benchmark) Input() Input {
	text, _ := json.Marshal(b) // strings cannot fail
	return Input{Data: string(text), Type: "text", Marker: MarkerBenchmark}
}

// IsWebURL reports whether a text can be the data of an input of type url: an http or https URL of at most MaxURL
// bytes.
func IsWebURL(s string) bool { return isHTTPURL(s) }

// IsRelay reports whether a text can be the relay of an input: a ws or wss URL of at most MaxURL bytes.
func IsRelay(s string) bool { return isRelayURL(s) }
