package partner

import (
	"slices"
	"time"

	"guild"
	"guild/internal/market/route"
)

// The numbers by which a latency is predicted from the hour of the day.
const (
	hoursADay = 24
	freshness = 30 // percent of a new latency in the moving average
	enough    = 12 // latencies of one hour from which on its weight grows no more
	doubt     = 3  // weight of the median of all hours, in latencies
)

// addHour adds a latency to the hour in which the request was made.
func addHour(hours []hour, asked, latency int64) []hour {
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

// hourOf returns the UTC hour of a time in Unix ms.
func hourOf(at int64) int { return int(max(at, 0) / time.Hour.Milliseconds() % hoursADay) }

// predict returns the expected latency of a request made now, in ms (the partnership protocol, section 4.1.1): the mean
// of this hour, weighted by the number of its latencies, and the median of all hours. It returns 0 if nothing was
// measured.
func (l *ledger) predict(now time.Time) int64 {
	if len(l.Hours) != hoursADay {
		return l.Measured.P50
	}
	h := l.Hours[hourOf(now.UnixMilli())]
	return (h.Mean*int64(h.Runs) + l.Measured.P50*doubt) / int64(h.Runs+doubt)
}

// quoted records a price that the provider asked for.
func (l *ledger) quoted(price guild.Msat, t *request) {
	l.Quoted, t.Quoted = price, true
	quotes := append(slices.Clone(l.Quotes), price)
	l.Quotes = quotes[max(0, len(quotes)-maxQuotes):]
}

// ended records the end of a request for which the provider is responsible.
func (l *ledger) ended(at int64, accepted bool) {
	l.Measured.Ended++
	today := at / (hoursADay * time.Hour.Milliseconds())
	days := slices.Clone(l.Days)
	if n := len(days); n == 0 || days[n-1].Day < today {
		days = append(days, dayCount{Day: today})
	}
	last := &days[len(days)-1]
	last.Ended++
	last.Accepted += count(accepted)
	l.Days = slices.DeleteFunc(days, func(t dayCount) bool { return t.Day <= last.Day-maxDays })
}

// rate returns the share of accepted requests among those that ended in the last thirty days. ok is false if there were
// none.
func (l *ledger) rate(now time.Time) (rate guild.Trust, ok bool) {
	today := now.UnixMilli() / (hoursADay * time.Hour.Milliseconds())
	var sum dayCount
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

// latest counts the accepted and the other requests of the latest days, in whole days until there are route.Recent. If
// the last of these has more, the days before count in full and that one in proportion.
func (l *ledger) latest(now time.Time) (won, lost int) {
	today := now.UnixMilli() / (hoursADay * time.Hour.Milliseconds())
	for _, t := range slices.Backward(l.Days) {
		left := route.Recent - won - lost
		if left == 0 || t.Day <= today-maxDays {
			break
		}
		if t.Ended > left {
			t.Accepted, t.Ended = (t.Accepted*left+t.Ended/2)/t.Ended, left
		}
		won, lost = won+t.Accepted, lost+t.Ended-t.Accepted
	}
	return won, lost
}

// Routing returns the measurements that the router uses.
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
	m.Won, m.Lost = l.latest(now)
	return m
}
