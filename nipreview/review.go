// Package nipreview reads and writes reviews of providers: the kinds 2020 (one review) and 32020 (the reviewer's
// current opinion on a subject), which the partnership protocol proposes in section 4.3. It only converts; its callers
// decide how much a review counts.
//
// It also writes reviews in two other forms, for programs that read only these: the job reviews of NIP-90 agents (kind
// 31117), which rate one job in whole stars, and the labels of NIP-32 (kind 1985), with ratings from 0 to 1. It reads
// neither.
package nipreview

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
)

// Kinds of reviews.
const (
	Kind    nostr.Kind = 2020  // one review, permanent
	KindSet nostr.Kind = 32020 // the current opinion; replaces the one before

	KindJobReview nostr.Kind = 31117 // mirror: one job, in whole stars
	KindLabel     nostr.Kind = 1985  // mirror: NIP-32
)

// Limits of the input and output. An event over one of the first three is refused; longer texts and lists are cut.
const (
	MaxContent = 16 << 10 // bytes of content
	MaxTags    = 100      // tags of an event
	MaxValue   = 1024     // bytes of one tag value

	MaxText = 2000 // bytes of the summary and of the recommendation
	MaxItem = 500  // bytes of one strength or weakness
	MaxList = 20   // strengths, and also weaknesses
	MaxTask = 200  // bytes of a task or of a service's d
)

// Reasons why an event is no review.
var (
	ErrKind    = errors.New("not of the expected kind")
	ErrTooBig  = errors.New("over a limit")
	ErrInvalid = errors.New("no review")
)

// Review is a review of a provider's work on a task.
type Review struct {
	Kind      nostr.Kind // Kind or KindSet
	ID        nostr.ID   // of the event; zero before it is signed
	Reviewer  nostr.PubKey
	CreatedAt nostr.Timestamp

	Subject nostr.PubKey // the provider
	Relay   string       // relay that may have it, or ""
	Stars   Stars
	Task    string // "" for all tasks
	Service string // d tag of the provider's service, or "" for all services
	D       string // of a KindSet as received; see Address

	Request nostr.ID // of one job; zero without one
	JobKind int      // NIP-90 kind of that request, or 0

	Content
}

// Content is the text of a review (section 4.3.2.4).
type Content struct {
	Summary        string
	Strengths      []string
	Weaknesses     []string
	Metrics        Metrics
	Recommendation string
	Evidence       Evidence

	// Extra keeps unknown members.
	Extra map[string]json.RawMessage
}

// Metrics has measured values; nil means not measured.
type Metrics struct {
	TestScore    *guild.Score // 0 to 1 on the wire
	LatencyP50Ms *int64
	LatencyP95Ms *int64

	Extra map[string]json.RawMessage // other metrics by name
}

// Evidence names the evidence for a review.
type Evidence struct {
	Receipt     string     // id of the receipt
	ReceiptHash guild.Hash // of its canonical form
	VerdictHash guild.Hash
	CID         string // IPFS reference to full logs

	Extra map[string]json.RawMessage // unknown members
}

// Address returns the d tag of the current opinion on a provider's work on a task. It covers all services of the
// provider that do the task; the service tag names the one that was used.
func Address(provider nostr.PubKey, task string) string {
	return provider.Hex() + ":" + guild.Cut(guild.Clean(task), MaxTask)
}

// Event returns the unsigned review, of kind r.Kind. Equal reviews give equal tags and content. The signer sets the
// key and the date.
func (r Review) Event() nostr.Event {
	return nostr.Event{Kind: r.Kind, Tags: r.tags(), Content: r.Content.encode()}
}

func (r Review) tags() nostr.Tags {
	task, service := guild.Cut(guild.Clean(r.Task), MaxTask), guild.Cut(guild.Clean(r.Service), MaxTask)
	tags := nostr.Tags{
		hinted("subject", r.Subject.Hex(), r.Relay), {"rating", r.Stars.String()}, {"denom", "5"}, {"task", task},
	}
	if r.Kind == KindSet {
		tags = append(tags, nostr.Tag{"d", Address(r.Subject, task)})
	}
	if service != "" {
		tags = append(tags, nostr.Tag{"service", service})
	}
	tags = append(tags, hinted("p", r.Subject.Hex(), r.Relay))
	if r.Request != (nostr.ID{}) {
		tags = append(tags, nostr.Tag{"e", r.Request.Hex()})
	}
	if r.JobKind != 0 {
		tags = append(tags, nostr.Tag{"k", strconv.Itoa(r.JobKind)})
	}
	if task != "" {
		tags = append(tags, nostr.Tag{"t", task})
	}
	return append(tags, nostr.Tag{"alt", r.alt()})
}

// alt returns a text for programs that do not know reviews (NIP-31).
func (r Review) alt() string {
	task := cmp.Or(guild.Cut(guild.Clean(r.Task), MaxTask), "everything")
	return fmt.Sprintf("Review of the provider %s for %s: %s of 5 stars", nip19.EncodeNpub(r.Subject), task, r.Stars)
}

// hinted returns a tag, with a relay hint if relay is valid.
func hinted(name, value, relay string) nostr.Tag {
	if isRelayURL(relay) {
		return nostr.Tag{name, value, relay}
	}
	return nostr.Tag{name, value}
}

func isRelayURL(s string) bool {
	return len(s) <= MaxValue && (strings.HasPrefix(s, "wss://") || strings.HasPrefix(s, "ws://")) &&
		!strings.ContainsAny(s, " \t\r\n") && guild.Clean(s) == s
}

// JobReview returns the mirror as a job review (kind 31117): one job, rated with 1 to 5 whole stars. ok is false if
// the review names no job.
func (r Review) JobReview() (e nostr.Event, ok bool) {
	if r.Request == (nostr.ID{}) || r.JobKind == 0 {
		return nostr.Event{}, false
	}
	request, kind := r.Request.Hex(), strconv.Itoa(r.JobKind)
	whole := int(min(max((r.Stars+star/2)/star, 1), 5)) // rounded half up
	return nostr.Event{Kind: KindJobReview, Content: guild.Cut(guild.Clean(r.Summary), MaxText), Tags: nostr.Tags{
		{"d", request}, {"e", request}, hinted("p", r.Subject.Hex(), r.Relay), {"rating", strconv.Itoa(whole)},
		{"role", "customer"},
		{"k", kind}, {"kind", kind}, // programs read one or the other
		{"alt", r.alt()},
	}}, true
}

// Label returns the mirror as a label (NIP-32, kind 1985). Only the provider's key is labelled. The task is in a tag
// with a longer name, because single-letter tags name what is labelled.
func (r Review) Label() nostr.Event {
	const namespace = "review"
	return nostr.Event{Kind: KindLabel, Content: guild.Cut(guild.Clean(r.Summary), MaxText), Tags: nostr.Tags{
		{"L", namespace}, {"l", "review/provider", namespace}, hinted("p", r.Subject.Hex(), r.Relay),
		{"rating", decimal(int64(r.Stars.Trust()))}, {"task", guild.Cut(guild.Clean(r.Task), MaxTask)},
		{"alt", r.alt()},
	}}
}
