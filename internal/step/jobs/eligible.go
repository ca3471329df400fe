package jobs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/market/route"
)

// This file decides which services may be asked for a job. Three things can exclude one: a rule of the table below, the
// limit on requests that its provider has not answered (limits.go), and the pause after it refused for want of capacity
// (backoff.go). They hold for services that the customer chose, too. What the router demands of all others, such as
// trust, is in internal/market/route.
//
// The rules are a table because each exclusion is recorded with the choice, in one word, and explained to a person later:
// the word, the condition and the explanation of a rule must not drift apart. A full provider and one that pauses are not
// in it, because they can be asked later: those answers carry a time.

// What excludes a service from a job, in one word as it is recorded, beside the words of the router.
const (
	byItself      = "itself"
	byOthers      = "not named"
	byService     = "service"
	byAsked       = "asked"
	byEncryption  = "encryption"
	byCredentials = "credentials"
	byForm        = "form" // it reads no bundles, and the job needs one
	byQuarantine  = "quarantine"
	byPrice       = "price"
	byClass       = "class"
	byFull        = "full"     // at its limit
	byPause       = "pause"    // it had no capacity for this job, and is asked again later
	byCapacity    = "capacity" // the same, and the deadline is before that
)

// probation lists the classes of jobs that a provider on probation may get.
var probation = [...]string{guild.ClassExperimental, guild.ClassBackground}

// pair is a job and a service that may be asked for it.
type pair struct {
	job   *Job
	offer *guild.Offer
	self  nostr.PubKey
	now   time.Time

	unplain func(*Job) string // see Jobs.unplain
}

// chosen reports whether the customer chose the providers, or the job is a benchmark. Then rules about what is known of a
// provider do not count.
func (a pair) chosen() bool { return len(a.job.Providers) > 0 || a.job.Meeting != nil }

// rule excludes services from a job for as long as it applies.
type rule struct {
	by       string
	excludes func(pair) bool
	reason   func(a pair, name string) string // for a person; name is the service's
}

// rules lists all rules. The first that excludes a service is recorded.
var rules = [...]rule{
	{
		by:       byItself,
		excludes: func(a pair) bool { return a.offer.Service.PubKey == a.self },
		reason:   func(pair, string) string { return "a node cannot hire itself" },
	},
	{
		by:       route.ByState, // a removed provider must be allowed again, even if the customer names it
		excludes: func(a pair) bool { return a.offer.State == guild.Removed },
		reason:   func(a pair, name string) string { return fmt.Sprintf("%s is %s", name, a.offer.State) },
	},
	{
		by: byOthers,
		excludes: func(a pair) bool {
			return len(a.job.Providers) > 0 && !slices.Contains(a.job.Providers, a.offer.Service.PubKey)
		},
		reason: func(_ pair, name string) string {
			return name + " is not one of the providers that the customer named"
		},
	},
	{
		by: byService,
		excludes: func(a pair) bool {
			return a.job.Meeting != nil && a.job.Meeting.Service != nil && a.offer.Service != *a.job.Meeting.Service
		},
		reason: func(_ pair, name string) string { return name + " is not the service of this benchmark" },
	},
	{
		by:       byAsked,
		excludes: func(a pair) bool { return a.job.asked(a.offer.Service.PubKey) },
		reason:   func(_ pair, name string) string { return name + " was asked already" },
	},
	{
		by:       byEncryption,
		excludes: func(a pair) bool { return (a.job.Private || a.job.Release != nil) && !a.offer.Encrypts },
		reason:   func(_ pair, name string) string { return name + " does not read encrypted requests" },
	},
	{
		by:       byCredentials,
		excludes: func(a pair) bool { return a.job.Release != nil && sealedFor(a.job.Release, *a.offer) == nil },
		reason:   func(_ pair, name string) string { return "the credentials are not sealed for " + name },
	},
	{
		by: byForm,
		excludes: func(a pair) bool {
			return a.offer.Plain && (a.job.Release != nil || a.unplain(a.job) != "")
		},
		reason: func(a pair, name string) string {
			if a.job.Release != nil {
				return name + " reads no bundles, so it cannot be given credentials"
			}
			return fmt.Sprintf("%s reads no bundles, and %s", name, a.unplain(a.job))
		},
	},
	{
		by:       byQuarantine,
		excludes: func(a pair) bool { return !a.chosen() && a.offer.Until > a.now.UnixMilli() },
		reason: func(a pair, name string) string {
			return fmt.Sprintf("%s is %s until %s", name, a.offer.State, clock(time.UnixMilli(a.offer.Until)))
		},
	},
	{
		by:       byPrice,
		excludes: func(a pair) bool { return !a.chosen() && a.job.limit() > 0 && a.offer.Price > a.job.limit() },
		reason: func(a pair, name string) string {
			return fmt.Sprintf("%s asks %s, the bid is %s", name, a.offer.Price, a.job.limit())
		},
	},
	{
		by: byClass,
		excludes: func(a pair) bool {
			return !a.chosen() && a.offer.State == guild.Conditional && a.job.Criticality.Replicas() == 1 &&
				!slices.Contains(probation[:], a.job.Class)
		},
		reason: func(a pair, name string) string {
			return fmt.Sprintf("%s is %s and gets only %s jobs", name, a.offer.State, strings.Join(probation[:], " and "))
		},
	},
}

// excludes returns in one word what excludes a service from a job, or "". A service whose provider is at its limit, or had
// no capacity, may be asked again: when is the time of that.
func (j *Jobs) excludes(job *Job, o *guild.Offer, now time.Time) (by string, when time.Time) {
	a := pair{job: job, offer: o, self: j.c.PubKey, now: now, unplain: j.unplain}
	for _, r := range rules {
		if r.excludes(a) {
			return r.by, now
		}
	}
	p := o.Service.PubKey
	_, taken, _ := j.slots.of(p, job.Task)
	when, known := j.room(p, now, taken)
	if !known {
		when = now.Add(time.Hour) // or as soon as it answers a request
	}
	if when.After(now) {
		by = byFull
	}
	again, busy := j.again(job, p)
	switch {
	case busy && !again.Before(job.deadline()):
		return byCapacity, now
	case busy && again.After(when):
		return byPause, again
	case busy && by == "":
		return route.ByBusy, when
	}
	return by, when
}

// temporary reports whether a service with this word of excludes may be asked, now or soon.
func temporary(by string) bool {
	return by == "" || by == byFull || by == byPause || by == route.ByBusy
}

// bars returns in one word why a service of a short list must not be asked, now or later, or "". What the customer chose,
// and what is benchmarked, need not be trusted.
func (j *Jobs) bars(job *Job, f *route.Facts, now time.Time) string {
	by, _ := j.excludes(job, &f.Offer, now)
	if !temporary(by) {
		return by
	}
	if len(job.Providers) > 0 || job.Meeting != nil {
		return ""
	}
	s := j.settings(job.Task)
	if by := s.Bars(f); by != "" {
		return by
	}
	if job.important() && !s.Qualifies(f) {
		return route.ByCriticality
	}
	return ""
}

// explain says for a person what a word of excludes, bars or the router means.
func (j *Jobs) explain(job *Job, f *route.Facts, by string) string {
	name := nameOf(f.Offer)
	for _, r := range rules {
		if r.by == by {
			return r.reason(pair{job: job, offer: &f.Offer, unplain: j.unplain}, name)
		}
	}
	switch by {
	case byFull:
		return name + " is at its limit of concurrent requests"
	case byPause, route.ByBusy:
		return name + " had no capacity for it"
	case byCapacity:
		return name + " has no capacity, and is not asked again before the deadline"
	case route.ByTrust:
		return fmt.Sprintf("%s is trusted %s only", name, f.Trust)
	case route.ByAgain:
		return name + " is being tried once more"
	case route.ByCriticality:
		return fmt.Sprintf("%s %s", name, unqualified(f))
	}
	return name + ": " + by
}

// nameOf names a provider so that a person can find it: the commands take the start of an npub.
func nameOf(o guild.Offer) string {
	return fmt.Sprintf("%s (%.12s…)", guild.Cut(cmp.Or(o.Name, "a provider"), 40), nip19.EncodeNpub(o.Service.PubKey))
}

// unqualified says why a provider gets unimportant work only.
func unqualified(f *route.Facts) string {
	switch {
	case !f.Met:
		return "has not been met"
	case f.Offer.Provisional:
		return fmt.Sprintf("is %s only provisionally: three deliveries or a benchmark fix that", f.Offer.State)
	case f.Offer.State == guild.Conditional || f.Offer.State == guild.Benchmarking:
		return fmt.Sprintf("is %s", f.Offer.State)
	}
	return fmt.Sprintf("is trusted %s only", f.Trust)
}

// Waits says in a sentence why an open job asks nobody now, and until when, if known. It returns "" for a job that is over,
// or that waits only for the providers that it asked.
func (j *Jobs) Waits(id guild.JobID) string {
	job, ok := j.fold.Job(id)
	if !ok || job.Ending != guild.Open || job.Cancelled {
		return ""
	}
	now := j.c.Now()
	if _, waits := j.dueForInputs(job); waits {
		return "the jobs that it builds on are not finished"
	}
	if job.Open && (job.Solicited == nil || now.Before(time.UnixMilli(job.Solicited.Until))) {
		return "providers may still offer to do it"
	}
	v := j.view(job, now)
	if v.missing() <= 0 || v.stops() || !now.Before(v.deadline()) {
		return ""
	}
	who, a := v.field(), v.asks()
	switch {
	case !a.until.IsZero():
		return a.why
	case who.best != nil:
		return ""
	case who.count > 0 && who.when.Before(v.deadline()):
		return fmt.Sprintf("%s; checked again by %s", who.why, clock(who.when))
	case who.count > 0:
		return who.why
	case now.Before(v.patience()):
		return fmt.Sprintf("%s; a provider may appear until %s", who.why, clock(v.patience()))
	}
	return ""
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
