// Package route chooses among services that do a task: it scores them, excludes those that must not be asked, throws the
// dice, and says why (the partnership protocol, sections 3.3 and 4.1.1). It keeps what it knows of the services in memory
// and scans it for each decision. It has no clock and records nothing: the caller does.
package route

import (
	"slices"
	"time"

	"guild"
	"guild/internal/policy"
)

// Facts is what is known of one service for a task.
type Facts struct {
	Offer    guild.Offer // what it announces, and its state
	Trust    guild.Trust // with the task
	Met      bool        // a verdict has founded that
	Measured Measured
	Waiting  int // our requests that its provider has not answered
	Queue    int // requests that wait there, as it says
	Recent   int // requests for the task to its provider, within the policy's window

	Free bool // it offered to do this for nothing

	Given  int        // our requests that the service itself has not answered
	Paused int64      // Unix ms: end of its cooldown after it had no capacity for another job
	Unpaid int64      // Unix ms: end of its cooldown after it asked to be paid first
	Quoted guild.Msat // what it asked for then; 0 after the cooldown, or if it named no amount
}

// Measured is what was seen of a service that was asked before. What was never seen is zero.
type Measured struct {
	Cost     guild.Msat  // median of what it quoted
	Latency  int64       // predicted for the hour that is looked at, ms
	Samples  int         // ends for which it answers
	Verified int64       // Unix ms of the latest verdict
	Rate     guild.Trust // of success, in 30 days
	Rated    bool        // there is one
	Hourly   bool        // the latency is another one in the next hour
}

// cost is what a request is expected to cost, 0 when nothing says it.
func (f *Facts) cost() guild.Msat {
	if f.Quoted > 0 {
		return f.Quoted
	}
	if f.Measured.Cost > 0 {
		return f.Measured.Cost
	}
	return f.Offer.Price
}

// Entry is what the matrix holds of a service for a task (section 3.3.1).
type Entry struct {
	Facts
	Tier        string      // primary, secondary or tertiary; "" when it gets no work
	Performance guild.Speed // by its latency against the median of those that do the task: FAST below 75 %, SLOW above 150 %
	Score       guild.Trust
	Barred      string // why it gets no work, in a word; one of the By constants
}

// What bars a service from every job. What bars it from one job is said in the caller's words.
const (
	ByState       = "state"       // it is suspended, stale, … (section 3.4)
	ByTrust       = "trust"       // below the lowest
	ByAgain       = "again"       // it is being tried once more
	ByUnconfirmed = "unconfirmed" // its announcement does not confirm the kind, and it has passed no benchmark
	ByCriticality = "criticality" // the job is too important for whoever is not trusted with the task
)

// What the router avoids as long as there is somebody else.
const (
	ByShare     = "share"     // it has its share of the task's jobs in the window (section 3.3.3)
	ByProviders = "providers" // too few others were asked in the window (section 3.3.3)
	ByReduced   = "reduced"   // it gets a part of its share only (section 3.4.2)
	ByBusy      = "busy"      // it was asked for this job, and had no capacity
	BySlots     = "slots"     // it has as many requests of ours as it does at a time, as it announces
	ByRefused   = "refused"   // it had no capacity for another job a moment ago
	ByPayment   = "payment"   // it wanted to be paid first, which cannot be done
)

// PassedOver returns one of the By constants if a service is asked only when nobody else may be, whatever the job is, or "".
func (f *Facts) PassedOver(now time.Time) string {
	at := now.UnixMilli()
	switch {
	case f.Unpaid > at:
		return ByPayment
	case f.Paused > at:
		return ByRefused
	case f.Offer.Slots > 0 && f.Given >= f.Offer.Slots:
		return BySlots
	}
	return ""
}

// Places of the tiers of section 3.3.3.
const (
	primary = iota
	secondary
	tertiary
	tiers
)

// Settings are the policy's numbers for one task.
type Settings struct {
	policy.Routing
	Hash guild.Hash // of the whole policy
	// Threshold is the trust below which the task's ordinary work is not given; the policy's where it is 0.
	Threshold guild.Trust
}

// threshold is never below what anybody needs.
func (s *Settings) threshold() guild.Trust {
	t := s.Threshold
	if t == 0 {
		t = s.Routing.Threshold
	}
	return max(t, s.Lowest)
}

// place is the tier of a service, or says what keeps it out of all. Below the threshold, not met or on probation it
// is in the last one, which is for unimportant work only.
func (s *Settings) place(f *Facts) (tier int, by string) {
	state := f.Offer.State
	switch {
	case !slices.Contains(working[:], state):
		return tiers, ByState
	case f.Met && f.Trust < s.Lowest:
		return tiers, ByTrust
	case f.Met && state == guild.Benchmarking:
		return tiers, ByAgain
	case !f.Offer.Confirmed && (state == guild.Seen || state == guild.Benchmarking):
		return tiers, ByUnconfirmed
	case !f.Met || f.Trust < s.threshold() || state == guild.Conditional:
		return tertiary, ""
	case f.Trust >= s.Tiers[primary].From:
		return primary, ""
	}
	return secondary, ""
}

// bars are the reasons of place.
var bars = [...]string{ByState, ByTrust, ByAgain, ByUnconfirmed}

// placeOf is place as one number: the tier, or tiers and the index of the reason among bars.
func (s *Settings) placeOf(f *Facts) int8 {
	tier, by := s.place(f)
	if by == "" {
		return int8(tier)
	}
	return int8(tiers + slices.Index(bars[:], by))
}

// Bars says in a word what keeps a service out of every job, or "".
func (s *Settings) Bars(f *Facts) string {
	_, by := s.place(f)
	return by
}

// Qualifies reports whether a service may be given what matters: met, trusted, and not on probation.
func (s *Settings) Qualifies(f *Facts) bool {
	tier, _ := s.place(f)
	return tier < tertiary
}

// working are the states in which a provider gets work.
var working = [...]guild.ProviderState{guild.Seen, guild.Benchmarking, guild.Active, guild.Conditional, guild.Warned, guild.Reduced}

// Source is where a matrix reads. It is read with the matrix locked.
type Source struct {
	All func(task string, kind int) []guild.Offer // who offers a task
	// One is what one service offers for it, ok is false for nothing. Without it All is asked at each look, and the
	// matrix needs no Touch.
	One   func(s guild.Service, task string, kind int) (o guild.Offer, ok bool)
	Facts func(task string, o guild.Offer, now time.Time) Facts // all of them; the offer is as given
}

// change is that something about a service may have changed.
type change struct {
	service guild.Service
	key     bool // of all its provider's
}
