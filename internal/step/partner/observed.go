package partner

import (
	"cmp"
	"slices"
	"strings"

	"guild"
	"guild/internal/hand/relay"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/market/registry"
)

// Limits of the memory of one service.
const (
	maxSample  = 100 // latest latencies
	maxPaths   = 16  // relays
	maxPathLog = 64  // requests over one relay before the older ones count half
	maxServed  = 32  // kinds
	maxQuotes  = 21  // latest prices
	maxDays    = 30  // of the rate of success
)

// inClear is part of the reason with which jobs refused an unencrypted answer to an encrypted request, before there was
// AttemptRefused.Clear.
const inClear = "in clear"

// Observed measures how each service answers this node's requests.
type Observed struct {
	*fold.State[observed]
}

type observed struct {
	Services fold.Table[registry.ID, ledger] `json:"services"`
	Open     fold.Table[string, request]     `json:"open"` // attempts that have not ended
}

// ledger holds the measurements of one service. Its slices are replaced and never changed in place.
type ledger struct {
	Measured
	Sample []int64      `json:"sample,omitempty"` // latencies in ms, the latest last
	Hours  []hour       `json:"hours,omitempty"`  // latencies by the UTC hour of the request: none, or 24
	Quotes []guild.Msat `json:"quotes,omitempty"` // prices asked for, the latest last
	Days   []dayCount   `json:"days,omitempty"`   // the latest days with an ended request, the last one last
	Judged int64        `json:"judged,omitempty"` // Unix ms of the latest verdict
}

// hour is the latency of a service at one hour of the day.
type hour struct {
	Mean int64 `json:"mean"` // number of latencies in it, counted up to enough
	Runs int   `json:"runs"` // latencies in it, counted up to enough
}

// dayCount counts the ended requests of one UTC day.
type dayCount struct {
	Day      int64 `json:"day"` // since 1970
	Ended    int   `json:"ended"`
	Accepted int   `json:"accepted"`
}

// request is an attempt that has not ended.
type request struct {
	Service   guild.Service `json:"service"`
	Kind      int           `json:"kind"`
	Encrypted bool          `json:"encrypted,omitempty"`
	Relays    []string      `json:"relays,omitempty"` // relays that took it
	Answered  bool          `json:"answered,omitempty"`
	Quoted    bool          `json:"quoted,omitempty"`
}

// Measured holds the measurements of one service. Times are in milliseconds. A value that was never measured is zero.
type Measured struct {
	Since     int64      `json:"since"`     // Unix ms: the first request
	Asked     int        `json:"asked"`     // requests that a relay took
	Answered  int        `json:"answered"`  // requests with any answer
	Delivered int        `json:"delivered"` // results that contained a delivery
	Accepted  int        `json:"accepted"`  // deliveries whose verdict was SUCCESS
	Ended     int        `json:"ended"`     // requests for whose end the provider is responsible
	Expired   int        `json:"expired"`   // no answer, or no result, in time
	Refused   int        `json:"refused"`
	Faults    int        `json:"faults"`     // answers that broke the protocol
	P50       int64      `json:"p50_ms"`     // request to result, of the latest hundred results
	P95       int64      `json:"p95_ms"`     // as P50
	Quoted    guild.Msat `json:"quoted"`     // the latest price asked for
	Encrypted int        `json:"encrypted"`  // encrypted results for encrypted requests
	InClear   int        `json:"in_clear"`   // unencrypted results for encrypted requests
	Kinds     []int      `json:"kinds"`      // of the requests with a delivery, ascending
	Relays    []Path     `json:"relays"`     // over which it was asked, the best first
	Heard     int64      `json:"last_heard"` // Unix ms: the last answer
}

// Path counts the answered and the lost requests to a provider over one relay (the partnership protocol, section
// 1.4.3). Older ones count less.
type Path struct {
	URL    string `json:"url"`
	Worked int    `json:"worked"`
	Lost   int    `json:"lost"`
}

// lossy reports whether a relay is used only after all others: it lost at least two requests, and more than it carried.
func (p Path) lossy() bool { return p.Lost >= 2 && p.Lost > p.Worked }

// SuccessRate returns the share of ended requests whose delivery was accepted, from 0 to 1. ok is false if none has
// ended. Requests that were postponed, cancelled or not paid for do not count.
func (m Measured) SuccessRate() (rate float64, ok bool) {
	if m.Ended == 0 {
		return 0, false
	}
	return float64(m.Accepted) / float64(m.Ended), true
}

// NewObserved returns an empty fold.
func NewObserved() *Observed { return &Observed{State: fold.NewState[observed]("observed", 2)} }

// Of returns what was measured of a service.
func (o *Observed) Of(s guild.Service) (Measured, bool) {
	l, ok := o.ledger(s)
	m := l.Measured
	m.Kinds, m.Relays = slices.Clone(m.Kinds), slices.Clone(m.Relays)
	slices.SortStableFunc(m.Relays, func(a, b Path) int {
		return cmp.Or(cmp.Compare(b.Worked-b.Lost, a.Worked-a.Lost), strings.Compare(a.URL, b.URL))
	})
	m.P50, m.P95 = percentile(l.Sample, 50), percentile(l.Sample, 95)
	return m, ok
}

// ledger returns the measurements of a service.
func (o *Observed) ledger(s guild.Service) (l ledger, ok bool) {
	o.View(func(st *observed) {
		if st.Services.Len() > 0 {
			l, ok = st.Services.Get(registry.IDOf(s))
		}
	})
	return l, ok
}

// Lossy implements registry.Reach.
func (o *Observed) Lossy(s guild.Service) (urls []string) {
	l, _ := o.ledger(s)
	for _, p := range l.Relays {
		if p.lossy() {
			urls = append(urls, p.URL)
		}
	}
	return urls
}

// percentile returns the smallest value that p percent of a sample do not exceed, or 0 for an empty sample.
func percentile(sample []int64, p int) int64 {
	if len(sample) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(sample))
	return sorted[(len(sorted)*p+99)/100-1]
}

// Apply implements fold.Fold.
func (o *Observed) Apply(e fact.Entry) {
	o.Change(func(st *observed) {
		for _, one := range e.Facts {
			o.apply(st, one, e.At)
		}
	})
}

func (o *Observed) apply(st *observed, one fact.Fact, at int64) {
	switch one := one.(type) {
	case fact.AttemptPlanned:
		st.Open.Set(one.Attempt.Hex(), request{Service: one.Provider, Kind: int(one.Request.Kind), Encrypted: one.Encrypted})
	case fact.AttemptRequested:
		st.sent(one, at)
	case fact.AttemptQuoted:
		o.answer(st, one.Attempt.Hex(), at, func(l *ledger, t *request) { l.quoted(one.Amount, t) })
	case fact.AttemptProgressed:
		o.answer(st, one.Attempt.Hex(), at, func(l *ledger, _ *request) { l.Faults += count(one.Fault) })
	case fact.AttemptDelivered:
		o.answer(st, one.Attempt.Hex(), at, func(l *ledger, t *request) { l.delivered(one, *t, at) })
	case fact.AttemptRefused:
		o.answer(st, one.Attempt.Hex(), at, func(l *ledger, t *request) { l.refused(one, *t, at) })
		st.Open.Delete(one.Attempt.Hex())
	case fact.AttemptExpired:
		o.expired(st, one, at)
	case fact.AttemptJudged:
		st.edit(one.Attempt.Hex(), func(l *ledger, _ *request) {
			l.Judged = at
			if one.Verdict.Counts() {
				l.Accepted += count(one.Verdict.Outcome == guild.Success)
				l.ended(at, one.Verdict.Outcome == guild.Success)
			}
		})
		st.Open.Delete(one.Attempt.Hex())
	case fact.AttemptCancelled:
		st.Open.Delete(one.Attempt.Hex())
	case fact.AttemptRecorded:
		st.Open.Delete(one.Attempt.Hex())
	}
}

// edit changes an open attempt and the ledger of its service.
func (st *observed) edit(attempt string, change func(*ledger, *request)) {
	t, ok := st.Open.Get(attempt)
	if !ok {
		return
	}
	i := registry.IDOf(t.Service)
	l := st.Services.Of(i)
	change(&l, &t)
	st.Services.Set(i, l)
	st.Open.Set(attempt, t)
}

// sent counts a request once, even if several relays take it.
func (st *observed) sent(r fact.AttemptRequested, at int64) {
	st.edit(r.Attempt.Hex(), func(l *ledger, t *request) {
		if len(t.Relays) == 0 {
			l.Asked++
			l.Since = cmp.Or(l.Since, at)
		}
		for _, raw := range r.Relays {
			if url, err := relay.Normalize(raw); err == nil && !slices.Contains(t.Relays, url) && len(t.Relays) < maxPaths {
				t.Relays = append(slices.Clone(t.Relays), url)
			}
		}
	})
}

// answer records an answer of a provider. Only the first one counts for the relays of the request.
func (o *Observed) answer(st *observed, attempt string, at int64, change func(*ledger, *request)) {
	st.edit(attempt, func(l *ledger, t *request) {
		l.Heard = max(l.Heard, at)
		if !t.Answered {
			t.Answered = true
			l.Answered++
			o.countPaths(l, *t, true)
		}
		change(l, t)
	})
}

// expired counts a timeout. Only complete silence counts against the relays, because an answer shows that they work.
func (o *Observed) expired(st *observed, x fact.AttemptExpired, at int64) {
	st.edit(x.Attempt.Hex(), func(l *ledger, t *request) {
		l.Expired++
		l.ended(at, false)
		if x.Silent && !t.Answered {
			o.countPaths(l, *t, false)
		}
	})
	st.Open.Delete(x.Attempt.Hex())
}

// countPaths counts a request for or against the relays that took it.
func (o *Observed) countPaths(l *ledger, t request, worked bool) {
	paths := slices.Clone(l.Relays)
	for _, url := range t.Relays {
		at := slices.IndexFunc(paths, func(p Path) bool { return p.URL == url })
		if at < 0 {
			if len(paths) == maxPaths {
				paths = paths[1:]
			}
			at, paths = len(paths), append(paths, Path{URL: url})
		}
		p := &paths[at]
		if p.Worked+p.Lost >= maxPathLog {
			p.Worked, p.Lost = p.Worked/2, p.Lost/2
		}
		p.Worked += count(worked)
		p.Lost += count(!worked)
	}
	l.Relays = paths
}

// delivered counts a delivery and its latency, in all and in the hour of the request.
func (l *ledger) delivered(d fact.AttemptDelivered, t request, at int64) {
	l.Delivered++
	l.Encrypted += count(t.Encrypted) // jobs refuses a plain answer to an encrypted request
	sample := append(slices.Clone(l.Sample), max(d.LatencyMs, 0))
	l.Sample = sample[max(0, len(sample)-maxSample):]
	l.Measured.P50 = percentile(l.Sample, 50)
	l.Hours = addHour(l.Hours, at-max(d.LatencyMs, 0), max(d.LatencyMs, 0))
	if !slices.Contains(l.Kinds, t.Kind) && len(l.Kinds) < maxServed {
		l.Kinds = slices.Sorted(slices.Values(append(slices.Clone(l.Kinds), t.Kind)))
	}
}

// refused counts a refusal. The provider is not responsible if it is busy or wanted a payment.
func (l *ledger) refused(r fact.AttemptRefused, t request, at int64) {
	l.Refused++
	l.Faults += count(r.Fault)
	l.InClear += count(r.Fault && t.Encrypted && (r.Clear || strings.Contains(r.Reason, inClear)))
	if !r.Later && !t.Quoted {
		l.ended(at, false)
	}
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
