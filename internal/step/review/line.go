package review

import (
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/policy"
)

// Why something is published, as facts have it.
const (
	causeBenchmark = "benchmark" // a meeting ended
	causeFirst     = "first"     // trust was founded without one
	causeChange    = "change"    // trust is far from what was published
	causeViolation = "violation"
	causeOwner     = "owner"
)

// Bounds on what is remembered of a line.
const (
	maxRecent = 16 // judged attempts, which may be disputed
	maxSaid   = 16 // reviews, which may be taken back
)

// settling is how long a verdict waits for its receipt and for trust to have learned from it, before something is said
// without them.
const settling = time.Minute

// line is what this node knows and has said of a service's work on a task. What it points to is never changed in place.
type line struct {
	Service guild.Service `json:"service"`
	Task    string        `json:"task"`

	Trust     guild.Trust `json:"trust"`
	Met       bool        `json:"met,omitempty"`       // trust was founded
	Merged    bool        `json:"merged,omitempty"`    // it is what another guild said, and nothing was learned since
	Concluded *concluded  `json:"concluded,omitempty"` // by the latest meeting
	Meeting   string      `json:"meeting,omitempty"`   // that goes on
	Tally     tally       `json:"tally"`
	Latest    latest      `json:"latest,omitzero"`
	Proof     *proof      `json:"proof,omitempty"`
	Recent    []string    `json:"recent,omitempty"` // attempts in hex, the latest last
	Open      bool        `json:"open,omitempty"`   // some of it was no private job

	Waiting *cause `json:"waiting,omitempty"` // benchmark or first
	Alarm   *cause `json:"alarm,omitempty"`   // violation
	False   *cause `json:"false,omitempty"`   // change: a violation that was published is none after all
	Failed  int64  `json:"failed,omitempty"`  // Unix ms: when no relay took a review

	Draft  *draft        `json:"draft,omitempty"`
	Said   []said        `json:"said,omitempty"`      // the latest last
	Public *guild.Trust  `json:"public,omitempty"`    // that the last published rating says, taken back or not
	Undone []nostr.Event `json:"deletions,omitempty"` // deletions that are to be published

	Held     *held    `json:"held,omitempty"`
	Disputed []string `json:"disputed,omitempty"` // attempts in hex
}

// concluded is what a meeting came to.
type concluded struct {
	Meeting string              `json:"meeting"`
	To      guild.ProviderState `json:"to"`
	Score   guild.Score         `json:"score"` // the median
	Runs    int                 `json:"runs"`
}

// tally counts what became of the attempts.
type tally struct {
	Passed   int         `json:"passed,omitempty"`
	Partial  int         `json:"partial,omitempty"`
	Failed   int         `json:"failed,omitempty"`
	Crashed  int         `json:"crashed,omitempty"`
	Violated int         `json:"violated,omitempty"`
	Expired  int         `json:"expired,omitempty"` // the request arrived, and nothing came in time
	Faults   int         `json:"faults,omitempty"`  // answers that broke the protocol
	Scores   guild.Score `json:"scores,omitempty"`  // of all verdicts together
}

func (t tally) judged() int { return t.Passed + t.Partial + t.Failed + t.Crashed + t.Violated }

// count adds a verdict, or takes it out again.
func (t *tally) count(o guild.Outcome, score guild.Score, by int) {
	switch o {
	case guild.Success:
		t.Passed += by
	case guild.Partial:
		t.Partial += by
	case guild.Failure:
		t.Failed += by
	case guild.Error:
		t.Crashed += by
	case guild.Violation:
		t.Violated += by
	default:
		return
	}
	t.Scores += guild.Score(by) * score
}

// latest is the verdict that came last.
type latest struct {
	Attempt  nostr.ID `json:"attempt"`
	At       int64    `json:"at"` // Unix ms
	Recorded bool     `json:"recorded,omitempty"`
	Learned  bool     `json:"learned,omitempty"`
}

// proof is the latest recorded attempt with a verdict that was of no private job.
type proof struct {
	Attempt nostr.ID   `json:"attempt"`
	Kind    int        `json:"kind"` // of the request
	Receipt string     `json:"receipt"`
	Stored  guild.Hash `json:"stored"`
	Verdict guild.Hash `json:"verdict"`
}

// cause makes something due.
type cause struct {
	Why     string `json:"why"`
	At      int64  `json:"at"` // Unix ms
	Seq     uint64 `json:"seq"`
	Meeting string `json:"meeting,omitempty"`
}

// draft is a signed review on its way to relays.
type draft struct {
	said
	Events []nostr.Event `json:"events"`
}

// said is one review.
type said struct {
	Review    nostr.ID        `json:"review"`
	Trust     guild.Trust     `json:"trust"`
	Why       string          `json:"why"`
	Seq       uint64          `json:"seq"` // entry that has the events
	At        int64           `json:"at"`  // Unix ms when it was drafted, and then when it was published
	Date      nostr.Timestamp `json:"date"`
	Summary   string          `json:"summary"`
	Events    []written       `json:"written"`
	Retracted bool            `json:"retracted,omitempty"`
}

// written is an event of a review.
type written struct {
	ID   nostr.ID   `json:"id"`
	Kind nostr.Kind `json:"kind"`
}

type held struct {
	By     string `json:"by"`
	Reason string `json:"reason"`
	At     int64  `json:"at"` // Unix ms
}

// rating is the trust that a rating is made of: our own; of somebody who founded none, what its benchmarks came to.
func (l *line) rating() (t guild.Trust, ok bool) {
	switch {
	case l.Met:
		return l.Trust, true
	case l.Concluded != nil:
		return guild.Trust(min(max(l.Concluded.Score, 0), guild.Micro)), true
	}
	return 0, l.Tally.Violated > 0
}

// rest says why nothing is published for now.
func (l *line) rest() string {
	switch {
	case l.Held != nil:
		return "held by " + l.Held.By + ": " + l.Held.Reason
	case len(l.Disputed) > 0:
		return "a verdict is disputed"
	}
	return ""
}

// quiet says why nothing is published by itself for now. What is known from private jobs alone is nobody's business,
// unless the owner says it.
func (l *line) quiet() string {
	if rest := l.rest(); rest != "" {
		return rest
	}
	if !l.Open && l.Concluded == nil {
		return "all that is known is of private jobs"
	}
	return ""
}

// wants is what is to be said, and when (the table of section 4.3.3), as if nothing were held.
func (l *line) wants(p policy.Review) (why string, ready time.Time, ok bool) {
	rating, ok := l.rating()
	if !ok {
		return "", ready, false
	}
	switch {
	case l.Alarm != nil:
		why = causeViolation
	case l.False != nil:
		why = l.False.Why
	case l.Public != nil && !l.Merged && distance(rating, *l.Public) > p.Delta:
		why = causeChange
	case l.Waiting != nil && l.Meeting == "":
		why, ready = l.Waiting.Why, after(l.Waiting.At, p.Delay)
	default:
		return "", ready, false
	}
	if l.Latest.At != 0 && !(l.Latest.Recorded && l.Latest.Learned) {
		ready = later(ready, after(l.Latest.At, settling.Milliseconds()))
	}
	if l.Failed != 0 {
		ready = later(ready, after(l.Failed, p.Delay))
	}
	return why, ready, true
}

// outdated says why a draft is not to be published any more.
func (l *line) outdated(p policy.Review) string {
	rating, _ := l.rating()
	switch {
	case l.rest() != "":
		return l.rest()
	case l.Alarm != nil && l.Alarm.Seq > l.Draft.Seq:
		return "a security violation came after it"
	case distance(rating, l.Draft.Trust) > p.Delta:
		return "trust has changed since it was written"
	}
	return ""
}

// find looks one of our latest reviews up.
func (l *line) find(review nostr.ID) (said, bool) {
	i := slices.IndexFunc(l.Said, func(s said) bool { return s.Review == review })
	if i < 0 {
		return said{}, false
	}
	return l.Said[i], true
}

func (l *line) subject() fact.Subject { return fact.ReviewSubject(l.Task, l.Service) }

func distance(a, b guild.Trust) guild.Trust { return max(a-b, b-a) }

// after is a moment in Unix ms and some ms more.
func after(at, ms int64) time.Time { return time.UnixMilli(at + ms) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
