// Package letter is the form of the private messages in which customers and providers speak of a verdict: what a
// message of NIP-17 has as its content. Bytes in, values out; whoever sends and receives them is elsewhere.
package letter

import (
	"encoding/hex"
	"fmt"

	"fiatjaf.com/nostr"
	"github.com/go-json-experiment/json"

	"guild"
)

// Version is that of both forms.
const Version = 1

// MaxSize is the largest content that is read, in bytes.
const MaxSize = 16 << 10

// Bounds on what is written and taken over, in bytes. Longer texts are cut.
const (
	MaxText   = 1000
	MaxReason = 1000
	maxWord   = 200
)

// The types.
const (
	TypeVerdict   = "guild.verdict"
	TypeObjection = "guild.objection"
)

// Verdict tells a provider what its delivery was found to be. It says how many tests passed and never which: some are
// kept from providers.
type Verdict struct {
	Request  nostr.ID
	Task     string
	Outcome  guild.Outcome
	Score    guild.Score
	Passed   int
	Expected int
	Cause    string     // in a few words; no test is named
	Verdict  guild.Hash // canonical hash of the whole verdict
	Receipt  string     // its id
	Stored   guild.Hash // of the receipt as stored
	Until    int64      // Unix s: until then an objection is heard; 0 when none is
	Text     string     // for a person
}

// Objection is a provider's word against a verdict.
type Objection struct {
	Request nostr.ID
	Reason  string
}

type head struct {
	Type    string `json:"type"`
	Version int    `json:"version"`
	Request string `json:"request"` // the id of the request event
}

type verdict struct {
	head
	Task     string     `json:"job_type"`
	Outcome  string     `json:"outcome"`
	Score    int64      `json:"score_micro"`
	Passed   int        `json:"passed"`
	Expected int        `json:"expected"`
	Cause    string     `json:"cause,omitempty"`
	Verdict  guild.Hash `json:"verdict_hash"`
	Receipt  string     `json:"receipt"`
	Stored   guild.Hash `json:"receipt_hash"`
	Until    int64      `json:"object_until,omitzero"`
	Text     string     `json:"text,omitempty"`
}

type objection struct {
	head
	Reason string `json:"reason"`
}

// Encode writes the content of a message.
func (v Verdict) Encode() (string, error) {
	return encode(verdict{
		head: head{TypeVerdict, Version, v.Request.Hex()}, Task: guild.Cut(v.Task, maxWord), Outcome: string(v.Outcome), Score: int64(v.Score), Passed: v.Passed, Expected: v.Expected,
		Cause: guild.Cut(v.Cause, MaxText), Verdict: v.Verdict, Receipt: guild.Cut(v.Receipt, maxWord), Stored: v.Stored, Until: v.Until, Text: guild.Cut(v.Text, MaxText),
	})
}

// Encode writes the content of a message.
func (o Objection) Encode() (string, error) {
	return encode(objection{head{TypeObjection, Version, o.Request.Hex()}, guild.Cut(guild.Clean(o.Reason), MaxReason)})
}

func encode(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("private message: %w", err)
	}
	return string(b), nil
}

// TypeOf is the type of a content, "" when it is none of ours.
func TypeOf(content string) string {
	var h head
	if len(content) > MaxSize || json.Unmarshal([]byte(content), &h) != nil {
		return ""
	}
	return h.Type
}

// DecodeVerdict reads what a customer says of a delivery. What is wrong with it is a *guild.DropError. Nothing of it is
// believed but that the customer says so.
func DecodeVerdict(content string) (Verdict, error) {
	var w verdict
	id, err := decode(content, &w, &w.head, TypeVerdict)
	if err != nil {
		return Verdict{}, err
	}
	switch guild.Outcome(w.Outcome) {
	case guild.Success, guild.Partial, guild.Failure, guild.Error, guild.Violation:
	default:
		return Verdict{}, guild.Drop(guild.Malformed, "a verdict with the outcome %.40q", w.Outcome)
	}
	if w.Score < 0 || w.Score > guild.Micro || w.Passed < 0 || w.Expected < w.Passed || w.Until < 0 {
		return Verdict{}, guild.Drop(guild.Malformed, "a verdict with impossible numbers")
	}
	return Verdict{
		Request: id, Task: clean(w.Task, maxWord), Outcome: guild.Outcome(w.Outcome), Score: guild.Score(w.Score), Passed: w.Passed,
		Expected: w.Expected, Cause: clean(w.Cause, MaxText), Verdict: w.Verdict, Receipt: clean(w.Receipt, maxWord), Stored: w.Stored,
		Until: w.Until, Text: clean(w.Text, MaxText),
	}, nil
}

// DecodeObjection reads what a provider says against a verdict. What is wrong with it is a *guild.DropError.
func DecodeObjection(content string) (Objection, error) {
	var w objection
	id, err := decode(content, &w, &w.head, TypeObjection)
	return Objection{Request: id, Reason: clean(w.Reason, MaxReason)}, err
}

func decode(content string, into any, h *head, want string) (nostr.ID, error) {
	if len(content) > MaxSize {
		return nostr.ID{}, guild.Drop(guild.TooLarge, "%s: %d bytes", want, len(content))
	}
	if err := json.Unmarshal([]byte(content), into); err != nil {
		return nostr.ID{}, guild.Drop(guild.Malformed, "%s: %.200s", want, err)
	}
	if h.Type != want || h.Version != Version {
		return nostr.ID{}, guild.Drop(guild.Malformed, "%.40q of version %d is not %s of version %d", h.Type, h.Version, want, Version)
	}
	b, err := hex.DecodeString(h.Request) // the Nostr library takes any characters for digits
	if err != nil || len(b) != len(nostr.ID{}) {
		return nostr.ID{}, guild.Drop(guild.Malformed, "%s: which request it is about", want)
	}
	return nostr.ID(b), nil
}

func clean(text string, most int) string { return guild.Cut(guild.Clean(text), most) }
