package review

import (
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/policy"
)

// The reasons for a review, as they are named in facts.
const (
	causeBenchmark = "benchmark" // a meeting ended
	causeFirst     = "first"     // trust was set for the first time, without a meeting
	causeChange    = "change"    // trust differs too much from the published rating
	causeViolation = "violation"
	causeOwner     = "owner"
)

// Limits on the memory of a line.
const (
	maxRecent = 16 // judged attempts; a verdict on them can be disputed
	maxSaid   = 16 // published reviews; they can be retracted
)

// settling limits how long a review waits for the latest verdict's receipt and change of trust. After that it is
// written without them.
const settling = time.Minute

// line holds this node's knowledge of a service's work on a task, and its reviews of it. The pointers and slices in it
// are never changed in place.
type line struct {
	Service guild.Service `json:"service"`
	Task    string        `json:"task"`

	Trust     guild.Trust `json:"trust"`
	Met       bool        `json:"met,omitempty"`       // trust was set
	Merged    bool        `json:"merged,omitempty"`    // imported from another guild, with no verdict since
	Concluded *concluded  `json:"concluded,omitempty"` // result of the latest meeting
	Meeting   string      `json:"meeting,omitempty"`   // id of the meeting that is running
	Tally     tally       `json:"tally"`
	Latest    latest      `json:"latest,omitzero"`
	Proof     *proof      `json:"proof,omitempty"`
	Recent    []string    `json:"recent,omitempty"` // attempts in hex, the latest last
	Open      bool        `json:"open,omitempty"`   // some of it came from a job that was not private

	Waiting *cause `json:"waiting,omitempty"` // benchmark or first
	Alarm   *cause `json:"alarm,omitempty"`   // violation
	False   *cause `json:"false,omitempty"`   // change: a published violation was overturned
	Failed  int64  `json:"failed,omitempty"`  // Unix ms of the last time that no relay took a review

	Draft  *draft        `json:"draft,omitempty"`
	Said   []said        `json:"said,omitempty"`      // the latest last
	Public *guild.Trust  `json:"public,omitempty"`    // the trust in the last published rating, retracted or not
	Undone []nostr.Event `json:"deletions,omitempty"` // deletions to be published

	Held     *held    `json:"held,omitempty"`
	Disputed []string `json:"disputed,omitempty"` // attempts in hex
}

// concluded is the result of a meeting.
type concluded struct {
	Meeting string              `json:"meeting"`
	To      guild.ProviderState `json:"to"`
	Score   guild.Score         `json:"score"` // the median
	Runs    int                 `json:"runs"`
}

// tally counts the endings of the attempts.
type tally struct {
	Passed   int         `json:"passed,omitempty"`
	Partial  int         `json:"partial,omitempty"`
	Failed   int         `json:"failed,omitempty"`
	Crashed  int         `json:"crashed,omitempty"`
	Violated int         `json:"violated,omitempty"`
	Expired  int         `json:"expired,omitempty"` // the request arrived, but no answer in time
	Faults   int         `json:"faults,omitempty"`  // answers that broke the protocol
	Scores   guild.Score `json:"scores,omitempty"`  // the sum over all verdicts
}

func (t tally) judged() int { return t.Passed + t.Partial + t.Failed + t.Crashed + t.Violated }

// count adds a verdict (by is 1) or subtracts it (by is -1).
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

// latest is the newest verdict.
type latest struct {
	Attempt  nostr.ID `json:"attempt"`
	At       int64    `json:"at"` // Unix ms
	Recorded bool     `json:"recorded,omitempty"`
	Learned  bool     `json:"learned,omitempty"`
}

// proof is the latest recorded attempt that has a verdict and belongs to no private job.
type proof struct {
	Attempt nostr.ID   `json:"attempt"`
	Kind    int        `json:"kind"` // of the request
	Receipt string     `json:"receipt"`
	Stored  guild.Hash `json:"stored"`
	Verdict guild.Hash `json:"verdict"`
}

// cause is a reason for a review.
type cause struct {
	Why     string `json:"why"`
	At      int64  `json:"at"` // Unix ms
	Seq     uint64 `json:"seq"`
	Meeting string `json:"meeting,omitempty"`
}

// draft is a signed review that is not published yet.
type draft struct {
	said
	Events []nostr.Event `json:"events"`
}

// said is one review of this node.
type said struct {
	Review    nostr.ID        `json:"review"`
	Trust     guild.Trust     `json:"trust"`
	Why       string          `json:"why"`
	Seq       uint64          `json:"seq"` // the journal entry with the events
	At        int64           `json:"at"`  // Unix ms: when it was drafted, later when it was published
	Date      nostr.Timestamp `json:"date"`
	Summary   string          `json:"summary"`
	Events    []written       `json:"written"`
	Retracted bool            `json:"retracted,omitempty"`
}

// written identifies an event of a review.
type written struct {
	ID   nostr.ID   `json:"id"`
	Kind nostr.Kind `json:"kind"`
}

type held struct {
	By     string `json:"by"`
	Reason string `json:"reason"`
	At     int64  `json:"at"` // Unix ms
}

// rating returns the trust to publish: this node's own, or the score of the benchmarks if trust was never set. A
// provider with a violation always has one, which is 0 if nothing else is known.
func (l *line) rating() (t guild.Trust, ok bool) {
	switch {
	case l.Met:
		return l.Trust, true
	case l.Concluded != nil:
		return guild.Trust(min(max(l.Concluded.Score, 0), guild.Micro)), true
	}
	return 0, l.Tally.Violated > 0
}

// rest returns why nothing may be published for now, or "".
func (l *line) rest() string {
	switch {
	case l.Held != nil:
		return "held by " + l.Held.By + ": " + l.Held.Reason
	case len(l.Disputed) > 0:
		return "a verdict is disputed"
	}
	return ""
}

// quiet returns why nothing is published automatically for now, or "". A review that rests on private jobs alone would
// reveal that they exist, so only the owner may publish it.
func (l *line) quiet() string {
	if rest := l.rest(); rest != "" {
		return rest
	}
	if !l.Open && l.Concluded == nil {
		return "all that is known is of private jobs"
	}
	return ""
}

// wants returns the review that is due and from when (the table of section 4.3.3), regardless of holds.
//
// The zero time means at once. A benchmark's result waits for the policy's delay. Every review waits until the latest
// verdict is recorded and trust has followed it, but not longer than settling, so that it can name the receipt and
// shows the new trust. After a review that no relay took, the next one waits for the policy's delay, too.
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

// outdated returns why a draft must not be published any more, or "".
//
// A draft that waits for relays can become wrong meanwhile. It is dropped then, and the next draft has the present
// numbers.
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

// find finds one of this node's latest reviews on the line.
func (l *line) find(review nostr.ID) (said, bool) {
	i := slices.IndexFunc(l.Said, func(s said) bool { return s.Review == review })
	if i < 0 {
		return said{}, false
	}
	return l.Said[i], true
}

func (l *line) subject() fact.Subject { return fact.ReviewSubject(l.Task, l.Service) }

func distance(a, b guild.Trust) guild.Trust { return max(a-b, b-a) }

// after returns the time that is ms after at, both in milliseconds.
func after(at, ms int64) time.Time { return time.UnixMilli(at + ms) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
