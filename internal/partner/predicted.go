package partner

import (
	"slices"
	"time"

	"guild"
	"guild/internal/route"
)

// How a latency is predicted from the hour of the day.
const (
	hoursADay = 24
	freshness = 30 // percent of a moving average that a new latency is
	enough    = 12 // latencies of one hour, beyond which more say no more
	doubt     = 3  // latencies of an hour that weigh as much as all other hours together
)

// took adds a latency to the hours, by the one in which the request was made.
func took(hours []hour, asked, latency int64) []hour {
	fresh := make([]hour, hoursADay)
	copy(fresh, hours)
	h := &fresh[hourOf(asked)]
	if h.Runs == 0 {
		h.Mean = latency
	} else {
		h.Mean += (latency - h.Mean) * freshness / 100
	}
	h.Runs = min(h.Runs+1, enough)
	return fresh
}

// hourOf is the UTC hour of a time in Unix ms.
func hourOf(at int64) int { return int(max(at, 0) / time.Hour.Milliseconds() % hoursADay) }

// predict is how long a request will take that is made now (the partnership protocol, section 4.1.1): what is usual at
// this hour, as far as it was seen, and what is usual at any. It is 0 when nothing was seen.
func (l *ledger) predict(now time.Time) int64 {
	if len(l.Hours) != hoursADay {
		return l.Measured.P50
	}
	h := l.Hours[hourOf(now.UnixMilli())]
	return (h.Mean*int64(h.Runs) + l.Measured.P50*doubt) / int64(h.Runs+doubt)
}

// quoted notes a price that was asked for.
func (l *ledger) quoted(price guild.Msat, t *trace) {
	l.Quoted, t.Quoted = price, true
	quotes := append(slices.Clone(l.Quotes), price)
	l.Quotes = quotes[max(0, len(quotes)-maxQuotes):]
}

// ended notes an end for which the provider answers.
func (l *ledger) ended(at int64, accepted bool) {
	l.Measured.Ended++
	today := at / (hoursADay * time.Hour.Milliseconds())
	days := slices.Clone(l.Days)
	if n := len(days); n == 0 || days[n-1].Day < today {
		days = append(days, ends{Day: today})
	}
	last := &days[len(days)-1]
	last.Ended++
	last.Accepted += count(accepted)
	l.Days = slices.DeleteFunc(days, func(t ends) bool { return t.Day <= last.Day-maxDays })
}

// rate is the share of the ends of thirty days that were accepted; ok is false when there was none.
func (l *ledger) rate(now time.Time) (rate guild.Trust, ok bool) {
	today, sum := now.UnixMilli()/(hoursADay*time.Hour.Milliseconds()), ends{}
	for _, t := range l.Days {
		if t.Day > today-maxDays {
			sum.Ended += t.Ended
			sum.Accepted += t.Accepted
		}
	}
	if sum.Ended == 0 {
		return 0, false
	}
	return guild.Trust(sum.Accepted) * guild.Micro / guild.Trust(sum.Ended), true
}

// Routing is what the router needs of what was measured.
func (o *Observed) Routing(s guild.Service, now time.Time) route.Measured {
	l, ok := o.ledger(s)
	if !ok {
		return route.Measured{}
	}
	m := route.Measured{Latency: l.predict(now), Samples: l.Measured.Ended, Verified: l.Judged, Hourly: len(l.Hours) > 0}
	if n := len(l.Quotes); n > 0 {
		m.Cost = slices.Sorted(slices.Values(l.Quotes))[(n-1)/2]
	}
	m.Rate, m.Rated = l.rate(now)
	return m
}
