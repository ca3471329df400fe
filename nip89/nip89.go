// Package nip89 reads and writes announcements: the "handler information" events of NIP-89 (kind 31990) in which a
// provider describes its service, and recommendations by others (kind 31989).
//
// Published announcements use many dialects, and the package reads them all: integers, words, lists and patterns in k
// tags, one or many relays tags, and kinds only in the content. It writes one: integers in k, words in t, one relays
// tag, and a content that repeats both.
//
// The package makes no decisions: its callers decide how fresh an announcement must be and whom to ask. It has no
// clock, and does not check signatures (guild.Verify does).
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

// Limits of the input.
const (
	MaxContent = 64 << 10 // bytes of content
	MaxTags    = 500      // tags of an event
	MaxValue   = 1024     // bytes of one tag value
	MaxWords   = 150      // kinds, tasks and relays kept of one announcement, each
)

// Reasons why an event is not an announcement.
var (
	ErrKind    = errors.New("not of the expected kind")
	ErrTooBig  = errors.New("over a limit")
	ErrContent = errors.New("the content is not a JSON object")
)

// Handler is an announcement: one service of a provider.
type Handler struct {
	PubKey    nostr.PubKey
	D         string // as published; Service has the canonical form
	CreatedAt nostr.Timestamp

	Name    string
	About   string
	Version string

	Kinds      []int    // job kinds (5000-5999) and other integers, ascending
	Confirmed  []int    // kinds that both tags and content name
	NoK        bool     // no k tag: the kinds are known from other sources only
	Tasks      []string // words of tags and content, normalised and sorted; a pattern ends in *
	Relays     []string // relays that the provider reads, preferred first
	Encryption []string // "nip04", "nip44"; empty means unknown, treated as none

	// AgeRecipient is the age recipient to seal a vault of credentials for, as "age1…"; empty if there is none.
	AgeRecipient string

	Behaviour guild.Hash // canonical hash of the behaviour of the agent that does the work (NIP-AE); zero if none is stated

	Bundles bool // it states that it accepts bundles; see ReadsBundles

	Price     guild.Msat         // for one job; 0 if unknown
	Prices    map[int]guild.Msat // for one job, by kind, where they are stated
	PriceText string             // a price in words, such as "per-request"
	Rates     Rates

	SupplyClass   string // SingleNode, BundleLAN, BundleRack, InstanceMarket or ReservePool
	Models        []string
	Hardware      Hardware
	MaxConcurrent int // jobs at once; 0 if unknown
	MaxContext    int // tokens; 0 if unknown
	Stability     Stability
	Performance   Performance

	Contradictions []string // differences between tags and content, one sentence each

	Tool Tool // the first tool of a DVMCP card that takes one text, or zero

	// Extra keeps the unknown members of the content. For a partly known member it has an object of the unknown rest.
	Extra map[string]json.RawMessage
}

// Tool is a tool of the Model Context Protocol that a DVMCP card lists.
type Tool struct {
	Name string
	Text string // the parameter that takes the text to work on
}

// Rates has prices by usage.
type Rates struct {
	InputPer1k       guild.Msat // per 1,000 input tokens
	OutputPer1k      guild.Msat // per 1,000 output tokens
	SandboxPerMinute guild.Msat
}

// Hardware is the hardware that a provider states. Sizes are in GB; 0 means unknown.
type Hardware struct {
	MemoryGB float64
	GPU      string
	VRAMGB   float64
}

// Stability is the record that a provider states. nil means unknown.
type Stability struct {
	SuccessRate   *float64 // 0 to 1
	AvgLatencyMs  *float64
	JobsCompleted *float64
}

// Performance is the speed that a provider states. nil means unknown.
type Performance struct {
	TypicalLatencyMs *float64
}

// Service returns the identity under which trust is kept: the key and the canonical d tag.
func (h Handler) Service() guild.Service {
	return guild.Service{PubKey: h.PubKey, D: CanonicalD(h.D)}
}

// Confirms reports whether both tags and content name the kind. Production jobs go only to confirmed kinds.
func (h Handler) Confirms(kind int) bool { return slices.Contains(h.Confirmed, kind) }

// ReadsBundles reports whether the provider reads bundles: it says so, or has an age recipient, which only bundle jobs
// have a use for. Any other provider gets a plain request.
func (h Handler) ReadsBundles() bool { return h.Bundles || h.AgeRecipient != "" }

// PriceOf returns the price of one job of a kind, or 0 if it is unknown. If only other kinds have a price it is the highest
// of those.
func (h Handler) PriceOf(kind int) guild.Msat {
	price, ok := h.Prices[kind]
	switch {
	case ok:
		return price
	case h.Price > 0:
		return h.Price
	}
	for _, other := range h.Prices {
		price = max(price, other)
	}
	return price
}

// Accepts reports whether the handler states that it reads this encryption, "nip44" or "nip04".
func (h Handler) Accepts(encryption string) bool { return slices.Contains(h.Encryption, encryption) }

// Confidence is the certainty, from 0 to 1, that a handler does a task.
type Confidence float64

// Degrees of confidence (the partnership protocol, section 1.4.2).
const (
	None     Confidence = 0
	Inferred Confidence = 0.6 // has a kind of the task, or the requested kind and performance figures, but does not name the task
	Synonym  Confidence = 0.8 // names a synonym of the task, or a pattern that covers it
	Exact    Confidence = 1.0 // names the task
)

// Confidence returns how certain it is that h does the task under the kind. synonyms maps a task to other words for it
// and can be nil. Without a k tag the confidence is at most Inferred.
func (h Handler) Confidence(kind int, task string, synonyms map[string][]string) Confidence {
	surest := Exact
	if h.NoK {
		surest = Inferred
	}
	task = Word(task)
	switch {
	case slices.Contains(h.Tasks, task):
		return surest
	case slices.ContainsFunc(h.Tasks, func(said string) bool {
		return covers(said, task) || slices.ContainsFunc(synonyms[task], func(s string) bool { return Word(s) == said })
	}):
		return min(Synonym, surest)
	case slices.Contains(h.Kinds, kind) && h.PublishesPerformance(), slices.ContainsFunc(h.Kinds, isIn(KindsOf(task))):
		return Inferred
	}
	return None
}

// Synonyms returns the default synonyms of tasks: the row "Fuzzy" of the table in section 1.4.2 of the partnership
// protocol.
func Synonyms() map[string][]string {
	return map[string][]string{"benchmark-task": {"benchmark", "benchmarking", "perf-test", "compute-benchmark"}}
}

// PublishesPerformance reports whether h states anything about its speed, in a known form or not.
func (h Handler) PublishesPerformance() bool {
	_, more := h.Extra["performance"]
	return more || h.Performance != (Performance{})
}

// covers reports whether a pattern such as "compute-*" covers a task. "*" alone covers nothing, because it carries no
// information.
func covers(pattern, task string) bool {
	prefix, ok := strings.CutSuffix(pattern, "*")
	return ok && prefix != "" && strings.HasPrefix(task, prefix)
}

// Age is the age class of an announcement. The caller decides what follows from it.
type Age string

// The ages.
const (
	Fresh    Age = "fresh"
	Stale    Age = "stale"    // 30 days without an update
	Archived Age = "archived" // 90 days without an update
	Future   Age = "future"   // dated more than an hour ahead; reject it
)

// AgeOf returns the age class of an announcement with this date.
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
