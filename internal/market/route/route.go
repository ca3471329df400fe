// Package route chooses among the services for a task: it scores them, excludes those that must not be asked, draws
// random numbers, and explains the choice (the partnership protocol, sections 3.3 and 4.1.1). It keeps the services in
// memory and scans them for each decision. It has no clock and records nothing; its caller does.
package route

import (
	"iter"
	"slices"
	"time"

	"guild"
	"guild/internal/policy"
)

// Facts holds what a node knows of one service for a task.
type Facts struct {
	Offer    guild.Offer // from its announcement, with its state
	Trust    guild.Trust // for the task
	Met      bool        // Trust is based on a verdict
	Measured Measured
	Waiting  int // our requests that its provider has not answered yet
	Queue    int // requests that wait at the provider, as it reports
	Recent   int // requests for the task to its provider, in the policy's window

	Free bool // it offered to do this job for nothing

	Given  int        // our requests that the service itself has not answered yet
	Paused int64      // Unix ms: end of its cooldown after it reported no capacity
	Unpaid int64      // Unix ms: end of its cooldown after it asked for payment first
	Quoted guild.Msat // the amount that it asked for then; 0 after the cooldown, or if it named none
}

// Measured holds measurements of a service that was asked before. Unknown values are zero.
type Measured struct {
	Cost     guild.Msat  // median of its quotes
	Latency  int64       // predicted for the given hour, ms
	Samples  int         // ended attempts that the provider answers for
	Won      int         // of the latest of those, the accepted ones
	Lost     int         // and the others; at most Recent together
	Verified int64       // Unix ms of the latest verdict
	Rate     guild.Trust // success rate of the last 30 days
	Rated    bool        // Rate is known
	Hourly   bool        // the latency differs in the next hour
}

// Recent limits the ended attempts that Measured.Won and Measured.Lost count.
const Recent = 63

// cost returns the expected cost of a request, or 0 if unknown.
func (f *Facts) cost() guild.Msat {
	if f.Quoted > 0 {
		return f.Quoted
	}
	if f.Measured.Cost > 0 {
		return f.Measured.Cost
	}
	return f.Offer.Price
}

// Entry is a row of the matrix: a service for a task (section 3.3.1).
type Entry struct {
	Facts
	Tier        string      // primary, secondary or tertiary; "" if it gets no work
	Performance guild.Speed // its latency relative to the median of the services for the task: FAST below 75 %, SLOW above 150 %
	Score       guild.Trust
	Barred      string // the reason why it gets no work, one of the By constants
}

// Reasons that bar a service from every job. The caller has its own words for reasons that bar it from one job.
const (
	ByState       = "state"       // it is suspended, stale or in another state without work (section 3.4)
	ByTrust       = "trust"       // its trust is below the lowest
	ByAgain       = "again"       // it is being benchmarked again
	ByCriticality = "criticality" // the job is too important for a service that is not trusted with the task
)

// Reasons to prefer other services, if there are any.
const (
	ByShare     = "share"     // it has had its share of the task's jobs in the window (section 3.3.3)
	ByProviders = "providers" // too few other providers were asked in the window (section 3.3.3)
	ByReduced   = "reduced"   // it gets only a part of its share (section 3.4.2)
	ByBusy      = "busy"      // it was asked for this job and had no capacity
	BySlots     = "slots"     // it has as many requests of ours as it says it does at a time
	ByRefused   = "refused"   // it had no capacity for another job recently
	ByPayment   = "payment"   // it asked for payment first, which is not possible

	// ByFit: its announcement does not say that it does the task, and the customer named it.
	ByFit = "fit"

	// ByUnconfirmed: it was not met, and its announcement does not confirm the kind.
	ByUnconfirmed = "unconfirmed"
)

// Full reports whether a service has as many requests of ours as it says it does at a time.
func (f *Facts) Full() bool { return f.Offer.Slots > 0 && f.Given >= f.Offer.Slots }

// PassedOver returns one of the By constants if a service should be asked only when no other may be, whatever the job
// is; otherwise "".
func (f *Facts) PassedOver(now time.Time) string {
	at := now.UnixMilli()
	switch {
	case f.Unpaid > at:
		return ByPayment
	case f.Paused > at:
		return ByRefused
	case f.Full():
		return BySlots
	case !f.Offer.Confirmed && (f.Offer.State == guild.Seen || f.Offer.State == guild.Benchmarking):
		return ByUnconfirmed
	}
	return ""
}

// Indexes of the tiers of section 3.3.3.
const (
	primary = iota
	secondary
	tertiary
	tiers
)

// Settings holds the policy's numbers for one task.
type Settings struct {
	policy.Routing
	Hash guild.Hash // of the whole policy
	// Threshold is the trust below which a service gets no ordinary work for the task; 0 means the policy's threshold.
	Threshold guild.Trust
}

// threshold returns the task's threshold, which is never below the lowest trust for any work.
func (s *Settings) threshold() guild.Trust {
	t := s.Threshold
	if t == 0 {
		t = s.Routing.Threshold
	}
	return max(t, s.Lowest)
}

// place returns the tier of a service, or tiers and the reason that bars it. A service that was not met, has a
// provisional state, is below the threshold or on probation is in the last tier, which gets only unimportant work.
func (s *Settings) place(f *Facts) (tier int, by string) {
	state := f.Offer.State
	switch {
	case !slices.Contains(working[:], state):
		return tiers, ByState
	case f.Met && f.Trust < s.Lowest:
		return tiers, ByTrust
	case f.Met && state == guild.Benchmarking:
		return tiers, ByAgain
	case !f.Met || f.Offer.Provisional || f.Trust < s.threshold() || state == guild.Conditional:
		return tertiary, ""
	case f.Trust >= s.Tiers[primary].From:
		return primary, ""
	}
	return secondary, ""
}

// bars lists the reasons that place returns.
var bars = [...]string{ByState, ByTrust, ByAgain}

// placeOf returns the result of place as one number: the tier, or tiers plus the index of the reason in bars.
func (s *Settings) placeOf(f *Facts) int8 {
	tier, by := s.place(f)
	if by == "" {
		return int8(tier)
	}
	return int8(tiers + slices.Index(bars[:], by))
}

// Bars returns the reason that bars a service from every job, or "".
func (s *Settings) Bars(f *Facts) string {
	_, by := s.place(f)
	return by
}

// Qualifies reports whether a service may get important work: it was met, is trusted, and is not on probation.
func (s *Settings) Qualifies(f *Facts) bool {
	tier, _ := s.place(f)
	return tier < tertiary
}

// working lists the states in which a provider gets work.
var working = [...]guild.ProviderState{guild.Seen, guild.Benchmarking, guild.Active, guild.Conditional, guild.Warned, guild.Reduced}

// Source provides the data of a matrix. The matrix calls it with its lock held.
type Source struct {
	All func(task string, kind int) iter.Seq[guild.Offer] // yields the offers for a task
	// One returns the offer of one service for the task; ok is false if there is none. If One is nil, the matrix calls All
	// at each use, and needs no Touch.
	One   func(s guild.Service, task string, kind int) (o guild.Offer, ok bool)
	Facts func(task string, o guild.Offer, now time.Time) Facts // returns all facts, with the offer as given
}

// change names a service that may have changed.
type change struct {
	service guild.Service
	key     bool // all services of its provider
}
