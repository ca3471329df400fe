// Package nipreview reads and writes reviews of providers: the kinds 2020 (one review) and 32020 (the reviewer's
// current opinion on a subject), which the partnership protocol proposes in section 4.3. It is bytes in, values out:
// what a review is worth is decided by whoever reads it.
//
// A review can also be written in two other forms, for those who read only these: the job reviews of NIP-90 agents
// (kind 31117), which rate one job with whole stars, and the labels of NIP-32 (kind 1985), whose ratings go from 0 to
// 1. Neither is read.
package nipreview

import (
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
	Kind    nostr.Kind = 2020  // one review, which stays
	KindSet nostr.Kind = 32020 // the current opinion, which replaces the one before

	KindJobReview nostr.Kind = 31117 // mirror: one job, in whole stars
	KindLabel     nostr.Kind = 1985  // mirror: NIP-32
)

// Limits on what is read and written. An event over the first three is refused; the rest is cut.
const (
	MaxContent = 16 << 10 // bytes of content
	MaxTags    = 100      // tags of an event
	MaxValue   = 1024     // bytes of one tag value

	MaxText = 2000 // bytes of the summary and of the recommendation
	MaxItem = 500  // bytes of one strength or weakness
	MaxList = 20   // strengths, and weaknesses
	MaxTask = 200  // bytes of a task or of a service's d
)

// Reasons why an event is no review.
var (
	ErrKind    = errors.New("not of the expected kind")
	ErrTooBig  = errors.New("over a limit")
	ErrInvalid = errors.New("no review")
)

// Review is what a reviewer says of a provider's work on a task.
type Review struct {
	Kind      nostr.Kind // Kind or KindSet
	ID        nostr.ID   // of the event; zero before it is signed
	Reviewer  nostr.PubKey
	CreatedAt nostr.Timestamp

	Subject nostr.PubKey // the provider
	Relay   string       // where it may be found, "" if nobody says
	Stars   Stars
	Task    string // "" when it is about everything
	Service string // the d tag of the provider's service, "" when it is about all of them
	D       string // of a KindSet, as read; see Address

	Request nostr.ID // of one job; zero if none is named
	JobKind int      // NIP-90 kind of that request, 0 if none is named

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

	// Extra keeps the fields that are not understood.
	Extra map[string]json.RawMessage
}

// Metrics are measured. A nil one was not.
type Metrics struct {
	TestScore    *guild.Score // 0 to 1 on the wire
	LatencyP50Ms *int64
	LatencyP95Ms *int64

	Extra map[string]json.RawMessage // others, by their name
}

// Evidence is what a review is founded on.
type Evidence struct {
	Receipt     string     // id of the receipt
	ReceiptHash guild.Hash // of its canonical form
	VerdictHash guild.Hash
	CID         string // IPFS reference to full logs

	Extra map[string]json.RawMessage // what else it names
}

// Address is the d tag of the current opinion on a provider's work on a task. There is one for all its services that
// do the task: the tag "service" says which one the opinion was formed on.
func Address(provider nostr.PubKey, task string) string {
	return provider.Hex() + ":" + guild.Cut(guild.Clean(task), MaxTask)
}

// Event builds the unsigned review of the kind that it has. The same review always gives the same tags and content; the
// key and the date are left to whoever signs.
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

// alt is what somebody sees who knows no reviews (NIP-31).
func (r Review) alt() string {
	return fmt.Sprintf("Review of the provider %s for %s: %s of 5 stars", nip19.EncodeNpub(r.Subject), what(r.Task), r.Stars)
}

func what(task string) string {
	if task = guild.Cut(guild.Clean(task), MaxTask); task != "" {
		return task
	}
	return "everything"
}

// hinted is a tag with a relay hint, if there is one.
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

// JobReview is the mirror for those who read job reviews (kind 31117): one job, from 1 to 5 whole stars. There is none
// of a review that names no job.
func (r Review) JobReview() (e nostr.Event, ok bool) {
	if r.Request == (nostr.ID{}) || r.JobKind == 0 {
		return nostr.Event{}, false
	}
	request, kind := r.Request.Hex(), strconv.Itoa(r.JobKind)
	return nostr.Event{Kind: KindJobReview, Content: guild.Cut(guild.Clean(r.Summary), MaxText), Tags: nostr.Tags{
		{"d", request}, {"e", request}, hinted("p", r.Subject.Hex(), r.Relay), {"rating", strconv.Itoa(r.Stars.whole())},
		{"role", "customer"},
		{"k", kind}, {"kind", kind}, // either is read by some
		{"alt", r.alt()},
	}}, true
}

// Label is the mirror as a label (NIP-32, kind 1985). It is put on the provider's key only: tags of one letter name
// what is labelled, so that the task stands in one of several.
func (r Review) Label() nostr.Event {
	const namespace = "review"
	return nostr.Event{Kind: KindLabel, Content: guild.Cut(guild.Clean(r.Summary), MaxText), Tags: nostr.Tags{
		{"L", namespace}, {"l", "review/provider", namespace}, hinted("p", r.Subject.Hex(), r.Relay),
		{"rating", decimal(int64(r.Stars.Trust()))}, {"task", guild.Cut(guild.Clean(r.Task), MaxTask)},
		{"alt", r.alt()},
	}}
}
