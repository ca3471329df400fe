package nip90

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"fiatjaf.com/nostr"

	"guild"
)

// IdempotencyKey returns 64 hex digits that identify one attempt of a job, from the quote to the receipt (the
// OpenAgents surface, "Receipt Lifecycle"). They bind the customer's job, the provider, and the number of the attempt,
// from 1. Two events of one customer with the same key are about the same work.
func IdempotencyKey(job guild.JobID, provider nostr.PubKey, attempt int) string {
	return guild.Sum(fmt.Appendf(nil, "[%q,%q,%d]", job, provider.Hex(), attempt)).Hex()
}

// offer is the only supported value of a solicitation.
const offer = "offer"

// Solicit makes r a solicitation: it asks every provider for an offer and none for the work.
func (r *Request) Solicit() {
	r.Provider = nil
	r.Set(ParamSolicitation, offer)
}

// Solicits reports whether r asks only for an offer. A provider answers with feedback: payment-required with its
// price, or processing if it works for nothing. It must not send a result.
func (r Request) Solicits() bool { return r.Get(ParamSolicitation) == offer }

// Benchmark is the benchmark_spec input (the partnership protocol, section 2.4.1).
type Benchmark struct {
	ID      string   `json:"benchmark_id"`
	Modules []string `json:"modules"`
}

// Input returns b as an input of a request.
func (b Benchmark) Input() Input {
	text, _ := json.Marshal(b) // cannot fail for strings
	return Input{Data: string(text), Type: "text", Marker: MarkerBenchmark}
}

// IsWebURL reports whether s can be the data of a url input: an http or https URL of at most MaxURL bytes.
func IsWebURL(s string) bool { return isHTTPURL(s) }

// IsRelay reports whether s can be the relay of an input: a ws or wss URL of at most MaxURL bytes.
func IsRelay(s string) bool { return isRelayURL(s) }

// KindTool is the kind of requests of DVMCP, which run a tool of the Model Context Protocol.
const KindTool = 5910

// CallTool makes r a request of DVMCP: the content calls a tool with one text.
func (r *Request) CallTool(tool, parameter, text string) {
	call, _ := json.Marshal(map[string]any{"name": tool, "parameters": map[string]string{parameter: text}}) // cannot fail for strings
	r.Content = string(call)
	r.Extra = append(slices.Clip(r.Extra), nostr.Tag{"c", "execute-tool"})
}

// ToolText returns the text of a result of DVMCP: that of its parts, with line feeds between them. ok is false if the
// content is not the result of a tool.
func (r Result) ToolText() (text string, ok bool) {
	var said struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	}
	if json.Unmarshal([]byte(r.Content), &said) != nil || said.Content == nil {
		return "", false
	}
	var parts []string
	for _, part := range said.Content {
		if part.Text != "" {
			parts = append(parts, part.Text)
		}
	}
	return strings.Join(parts, "\n"), true
}
