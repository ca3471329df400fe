package dm

import (
	"encoding/hex"
	"fmt"

	"fiatjaf.com/nostr"
	"github.com/go-json-experiment/json"

	"guild"
)

// The content of a message between a customer and a provider is a JSON object with one of these types.
const (
	TypeVerdict   = "guild.verdict"
	TypeObjection = "guild.objection"
	TypeWitness   = "guild.witness"
)

// version of all types.
const version = 1

// MaxReason is the longest reason of an objection, in bytes. A longer one is cut.
const MaxReason = 1000

// Limits in bytes.
const (
	maxForm = 24 << 10 // a content that is read
	maxText = 1000     // a text; a longer one is cut
	maxWord = 200      // a name; a longer one is cut
)

// Verdict is a message by which a customer tells a provider the verdict on a delivery. It says how many tests passed but
// not which, since hidden tests must stay hidden.
type Verdict struct {
	Request  nostr.ID
	Task     string
	Outcome  guild.Outcome
	Score    guild.Score
	Passed   int
	Expected int
	Cause    string     // in a few words, without names of tests
	Verdict  guild.Hash // canonical hash of the whole verdict
	Receipt  string     // id of the receipt
	Stored   guild.Hash // of the receipt as stored
	Until    int64      // Unix s: the customer takes an objection until then; 0 if it takes none
	Text     string     // for a person
}

// Objection is a message by which a provider objects to a verdict.
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
	return encodeForm(verdict{
		head: head{TypeVerdict, version, v.Request.Hex()}, Task: guild.Cut(v.Task, maxWord), Outcome: string(v.Outcome), Score: int64(v.Score), Passed: v.Passed, Expected: v.Expected,
		Cause: guild.Cut(v.Cause, maxText), Verdict: v.Verdict, Receipt: guild.Cut(v.Receipt, maxWord), Stored: v.Stored, Until: v.Until, Text: guild.Cut(v.Text, maxText),
	})
}

// Encode writes the content of a message.
func (o Objection) Encode() (string, error) {
	return encodeForm(objection{head{TypeObjection, version, o.Request.Hex()}, guild.Cut(guild.Clean(o.Reason), MaxReason)})
}

func encodeForm(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("private message: %w", err)
	}
	return string(b), nil
}

// TypeOf returns the type of a content, "" if it has none.
func TypeOf(content string) string {
	var h head
	if len(content) > maxForm || json.Unmarshal([]byte(content), &h) != nil {
		return ""
	}
	return h.Type
}

// DecodeVerdict reads a verdict. All of it is the customer's claim. The error is a *guild.DropError.
func DecodeVerdict(content string) (Verdict, error) {
	var w verdict
	id, err := decodeForm(content, &w, &w.head, TypeVerdict)
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
		Expected: w.Expected, Cause: clean(w.Cause, maxText), Verdict: w.Verdict, Receipt: clean(w.Receipt, maxWord), Stored: w.Stored,
		Until: w.Until, Text: clean(w.Text, maxText),
	}, nil
}

// DecodeObjection reads an objection. The error is a *guild.DropError.
func DecodeObjection(content string) (Objection, error) {
	var w objection
	id, err := decodeForm(content, &w, &w.head, TypeObjection)
	return Objection{Request: id, Reason: clean(w.Reason, MaxReason)}, err
}

// decodeForm reads a content into one of the forms, whose head is h, and checks the head.
func decodeForm(content string, into any, h *head, want string) (nostr.ID, error) {
	if len(content) > maxForm {
		return nostr.ID{}, guild.Drop(guild.TooLarge, "%s: %d bytes", want, len(content))
	}
	if err := json.Unmarshal([]byte(content), into); err != nil {
		return nostr.ID{}, guild.Drop(guild.Malformed, "%s: %.200s", want, err)
	}
	if h.Type != want || h.Version != version {
		return nostr.ID{}, guild.Drop(guild.Malformed, "%.40q of version %d is not %s of version %d", h.Type, h.Version, want, version)
	}
	b, err := hex.DecodeString(h.Request) // the Nostr library accepts characters that are no digits
	if err != nil || len(b) != len(nostr.ID{}) {
		return nostr.ID{}, guild.Drop(guild.Malformed, "%s: invalid id of the request", want)
	}
	return nostr.ID(b), nil
}

func clean(text string, most int) string { return guild.Cut(guild.Clean(text), most) }
