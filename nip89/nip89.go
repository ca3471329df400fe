// Package nip89 reads and writes announcements: the "handler information" events of NIP-89 (kind 31990) with
// which a provider says what it does, and the recommendations of others (kind 31989).
//
// Many dialects are read, because many are published: integers, words, lists and patterns in k tags, one relays
// tag or many, kinds only in the content. One is written: integers in k, words in t, one relays tag, and a
// content that repeats both.
//
// The package decides nothing: how fresh an announcement must be and whom to ask is the business of whoever
// reads it. It has no clock, and does not check signatures (guild.Verify does).
package nip89

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"

	"guild"
)

// Kinds of NIP-89.
const (
	Kind               nostr.Kind = 31990 // handler information: an announcement
	KindRecommendation nostr.Kind = 31989 // a user recommends handlers
)

// Limits on what is read.
const (
	MaxContent = 64 << 10 // bytes of content
	MaxTags    = 500      // tags of an event
	MaxValue   = 1024     // bytes of one tag value
	MaxWords   = 150      // kinds, tasks or relays that are kept of one announcement, each
)

// Reasons why an event is not an announcement.
var (
	ErrKind    = errors.New("not of the expected kind")
	ErrTooBig  = errors.New("over a limit")
	ErrContent = errors.New("the content is not a JSON object")
)

// Handler is what an announcement says: one service of a provider.
type Handler struct {
	PubKey    nostr.PubKey
	D         string // as published; Service has the canonical form
	CreatedAt nostr.Timestamp

	Name    string
	About   string
	Version string

	Kinds      []int    // job kinds (5000-5999) and other integers, ascending
	Confirmed  []int    // the kinds that tags and content both name
	NoK        bool     // there is no k tag: what it does is known from elsewhere only
	Tasks      []string // words of tags and content, normalised, sorted; a pattern ends in *
	Relays     []string // where the provider listens, in its order of preference
	Encryption []string // "nip04", "nip44"; empty means unknown, which is none

	// AgeRecipient is whom to seal a vault of credentials for, as "age1…"; empty if the provider announces nobody.
	AgeRecipient string

	Price     guild.Msat // for one job; 0 if unknown
	PriceText string     // when the price is a phrase, as "per-request"
	Rates     Rates

	SupplyClass   string // SingleNode, BundleLAN, BundleRack, InstanceMarket or ReservePool
	Models        []string
	Hardware      Hardware
	MaxConcurrent int // jobs at once; 0 if unknown
	MaxContext    int // tokens; 0 if unknown
	Stability     Stability
	Performance   Performance

	Contradictions []string // what tags and content say differently, a sentence each

	// Extra keeps the fields of the content that are not understood. For a field that is understood in part
	// it holds an object of the rest.
	Extra map[string]json.RawMessage
}

// Rates are prices by use.
type Rates struct {
	InputPer1k       guild.Msat // per 1,000 input tokens
	OutputPer1k      guild.Msat // per 1,000 output tokens
	SandboxPerMinute guild.Msat
}

// Hardware is what a provider says it runs on. Sizes are in GB; 0 is unknown.
type Hardware struct {
	MemoryGB float64
	GPU      string
	VRAMGB   float64
}

// Stability is what a provider says about its past. Nil is unknown.
type Stability struct {
	SuccessRate   *float64 // 0 to 1
	AvgLatencyMs  *float64
	JobsCompleted *float64
}

// Performance is what a provider says about its speed. Nil is unknown.
type Performance struct {
	TypicalLatencyMs *float64
}

// Service is the identity under which trust is kept: the key and the canonical form of the d tag.
func (h Handler) Service() guild.Service {
	return guild.Service{PubKey: h.PubKey, D: CanonicalD(h.D)}
}

// Confirms reports whether tags and content both name the kind: production jobs go to no other.
func (h Handler) Confirms(kind int) bool { return slices.Contains(h.Confirmed, kind) }

// Accepts reports whether the handler says that it reads this encryption, "nip44" or "nip04".
func (h Handler) Accepts(encryption string) bool { return slices.Contains(h.Encryption, encryption) }

// Confidence says how sure it is that a handler does a task, from 0 to 1.
type Confidence float64

// The degrees of confidence (the partnership protocol, section 1.4.2).
const (
	None     Confidence = 0
	Inferred Confidence = 0.6 // takes the kind and publishes performance figures, but does not name the task
	Synonym  Confidence = 0.8 // names a synonym of the task, or a pattern that covers it
	Exact    Confidence = 1.0 // names the task
)

// Confidence says how sure it is that h does the task under the kind. synonyms maps a task to other words for
// it; nil is none. Without a k tag nothing is surer than Inferred.
func (h Handler) Confidence(kind int, task string, synonyms map[string][]string) Confidence {
	surest := Exact
	if h.NoK {
		surest = Inferred
	}
	task = Word(task)
	switch {
	case slices.Contains(h.Tasks, task):
		return surest
	case slices.ContainsFunc(h.Tasks, func(said string) bool { return means(said, task, synonyms[task]) }):
		return min(Synonym, surest)
	case slices.Contains(h.Kinds, kind) && h.PublishesPerformance():
		return Inferred
	}
	return None
}

// Synonyms are the words that stand for a task where nothing is configured: the row "Fuzzy" of the table of section
// 1.4.2 of the partnership protocol.
func Synonyms() map[string][]string {
	return map[string][]string{"benchmark-task": {"benchmark", "benchmarking", "perf-test", "compute-benchmark"}}
}

// PublishesPerformance reports whether h says anything about its speed, in a form that is understood or not.
func (h Handler) PublishesPerformance() bool {
	_, more := h.Extra["performance"]
	return more || h.Performance != (Performance{})
}

// means reports whether what a handler says is another word for the task, or a pattern that covers it.
func means(said, task string, synonyms []string) bool {
	return covers(said, task) || slices.ContainsFunc(synonyms, func(s string) bool { return Word(s) == said })
}

// covers reports whether a pattern as "compute-*" covers a task. "*" alone says nothing, and covers none.
func covers(pattern, task string) bool {
	prefix, ok := strings.CutSuffix(pattern, "*")
	return ok && prefix != "" && strings.HasPrefix(task, prefix)
}

// Age is how old an announcement is, for whoever decides what to do with it.
type Age string

// The ages.
const (
	Fresh    Age = "fresh"
	Stale    Age = "stale"    // 30 days without an update
	Archived Age = "archived" // 90 days without an update
	Future   Age = "future"   // dated more than an hour ahead: to be rejected
)

// AgeOf compares the date of an announcement with now.
func AgeOf(createdAt nostr.Timestamp, now time.Time) Age {
	const day = 24 * 3600
	age := now.Unix() - int64(createdAt)
	switch {
	case age < -3600:
		return Future
	case age >= 90*day:
		return Archived
	case age >= 30*day:
		return Stale
	}
	return Fresh
}
