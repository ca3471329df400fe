package work

import (
	"maps"
	"sync"
	"time"

	"fiatjaf.com/nostr"
	"golang.org/x/time/rate"
)

// limits bounds how often customers make us work, publish or record something. Keys cost nothing: whoever is limited can
// come again with a new one. So each of these has a limit for one customer and another for all of them together, except
// PerMinute, beyond which the queue is the limit. The counts are lost with the process, which does no harm.
type limits struct {
	mu       sync.Mutex
	requests map[visitor]*rate.Limiter
	answers  map[visitor]*rate.Limiter
	idle     map[visitor]*rate.Limiter
	refusals map[nostr.PubKey]refusals

	allAnswers, allIdle, allOffers, newcomers *rate.Limiter
}

// How often we answer what we do not take: all customers together, and one.
const (
	answersAll, answersAllBurst = rate.Limit(5), 100
	answersOne, answersOneBurst = rate.Limit(0.5), 20
)

// How often requests that cost no work are recorded: those that repeat another one, and withdrawals.
const (
	idleAll, idleAllBurst = rate.Limit(5), 300
	idleOne, idleOneBurst = rate.Limit(0.5), 30
)

// How many requests are recorded of all customers together that we never delivered to and that the owner does not list.
const newcomersAll, newcomersBurst = rate.Limit(5), 300

// offersPerMinute bounds our offers, so that customers who ask all providers do not make us answer without end.
const offersPerMinute = 30

// maxKnown is the number of customers whose rate is remembered.
const maxKnown = 4096

// visitor is a customer at a service. The service is empty for what concerns all of them.
type visitor struct {
	customer nostr.PubKey
	service  string
}

func newLimits() *limits {
	return &limits{
		requests: map[visitor]*rate.Limiter{}, answers: map[visitor]*rate.Limiter{}, idle: map[visitor]*rate.Limiter{},
		refusals:   map[nostr.PubKey]refusals{},
		allAnswers: rate.NewLimiter(answersAll, answersAllBurst), allIdle: rate.NewLimiter(idleAll, idleAllBurst),
		allOffers: rate.NewLimiter(rate.Limit(offersPerMinute)/60, offersPerMinute), newcomers: rate.NewLimiter(newcomersAll, newcomersBurst),
	}
}

// refusals counts how often a customer was refused within an hour for asking too often.
type refusals struct {
	hour int64 // Unix time in hours
	n    int
}

// refused counts a refusal for asking too often. What was counted in earlier hours is halved once.
func (l *limits) refused(p nostr.PubKey, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, hour := l.refusals[p], now.Unix()/3600
	if r.hour != hour {
		r = refusals{hour: hour, n: r.n / 2}
	}
	if _, known := l.refusals[p]; !known && len(l.refusals) >= maxKnown {
		maps.DeleteFunc(l.refusals, func(_ nostr.PubKey, r refusals) bool { return r.hour != hour })
	}
	if len(l.refusals) < maxKnown {
		r.n++
		l.refusals[p] = r
	}
}

// refusalsOf returns how often a customer was refused lately for asking too often. The count is halved every hour.
func (l *limits) refusalsOf(p nostr.PubKey, now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.refusals[p]
	if hours := now.Unix()/3600 - r.hour; hours > 0 {
		return r.n >> min(hours, 30)
	}
	return r.n
}

// allowRequest counts a request, and reports whether it is within the service's limit for a customer and a minute.
func (l *limits) allowRequest(s Service, p nostr.PubKey, now time.Time) bool {
	if s.Terms.PerMinute == 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return limiterOf(l.requests, visitor{p, s.D}, rate.Limit(s.Terms.PerMinute)/60, s.Terms.PerMinute, now).AllowN(now, 1)
}

// allowNewcomer counts a request of a customer that we never delivered to, and reports whether it may be recorded.
func (l *limits) allowNewcomer(now time.Time) bool { return l.newcomers.AllowN(now, 1) }

// allowAnswer counts a refusal or an offer, and reports whether it may be published.
func (l *limits) allowAnswer(p nostr.PubKey, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return limiterOf(l.answers, visitor{customer: p}, answersOne, answersOneBurst, now).AllowN(now, 1) && l.allAnswers.AllowN(now, 1)
}

// allowOffer counts an offer, and reports whether it may be published.
func (l *limits) allowOffer(p nostr.PubKey, now time.Time) bool {
	return l.allowAnswer(p, now) && l.allOffers.AllowN(now, 1)
}

// allowIdle counts a repetition or a withdrawal, and reports whether it may be recorded.
func (l *limits) allowIdle(p nostr.PubKey, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return limiterOf(l.idle, visitor{customer: p}, idleOne, idleOneBurst, now).AllowN(now, 1) && l.allIdle.AllowN(now, 1)
}

// limiterOf returns the limiter of a visitor. When there are too many, those with all their tokens are dropped, since a
// new one allows the same. If none has, all are dropped.
func limiterOf(all map[visitor]*rate.Limiter, v visitor, limit rate.Limit, burst int, now time.Time) *rate.Limiter {
	if l := all[v]; l != nil {
		return l
	}
	if len(all) >= maxKnown {
		maps.DeleteFunc(all, func(_ visitor, l *rate.Limiter) bool { return l.TokensAt(now) >= float64(l.Burst()) })
	}
	if len(all) >= maxKnown {
		clear(all)
	}
	all[v] = rate.NewLimiter(limit, burst)
	return all[v]
}
