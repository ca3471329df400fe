package relay

import (
	"cmp"
	"errors"
	"math/bits"
	"slices"
	"sync"
	"time"
)

// Quality holds the measurements of one relay since the start, in which recent ones weigh most. A restart forgets them.
type Quality struct {
	Connect time.Duration // until a connection was open, which shows how near the relay is; 0 if there was none
	Latency time.Duration // from an event or a query to OK, EOSE or CLOSED; 0 if none came
	Loss    float64       // share of connections, events and queries that failed or were not answered in time, 0 to 1
	Samples int           // 0 if nothing was measured

	answers, connects int
	last              time.Time // when something was measured
}

const (
	maxMeasured  = 512                    // relays whose quality is kept
	smoothing    = 0.2                    // least weight of one measurement
	measuredFor  = time.Hour              // after this time without measurements a relay is ranked as an unknown one
	assumedDelay = 500 * time.Millisecond // expected of an unknown relay
)

// Expected returns the time until an answer, on average: connecting, answering, and for the share that is lost the time
// that we wait in vain. Of an unknown relay it is half a second.
func (q Quality) Expected() time.Duration {
	if q.Samples == 0 {
		return assumedDelay
	}
	return q.Connect + q.Latency + time.Duration(q.Loss*float64(reply))
}

func (q *Quality) connected(d time.Duration) {
	q.connects++
	q.Connect = average(q.Connect, d, q.connects)
	q.keptOrLost(0)
}

func (q *Quality) answered(d time.Duration) {
	q.answers++
	q.Latency = average(q.Latency, d, q.answers)
	q.keptOrLost(0)
}

func (q *Quality) lost() { q.keptOrLost(1) }

func (q *Quality) keptOrLost(loss float64) {
	q.Samples++
	q.Loss += smoothing * (loss - q.Loss)
}

// average adds the n-th measurement to an average: the mean of the first five, then a moving average.
func average(mean, d time.Duration, n int) time.Duration {
	return mean + time.Duration(max(smoothing, 1/float64(n))*float64(d-mean))
}

// qualities holds what was measured of relays, by normalized URL, also of those that are not connected now. No other
// lock is taken while its own is held.
type qualities struct {
	now func() time.Time

	mu sync.Mutex
	of map[string]Quality
}

// measure changes the quality of a relay. The relay that was measured the longest ago makes room for a new one.
func (q *qualities) measure(url string, change func(*Quality)) {
	now := q.now()
	q.mu.Lock()
	defer q.mu.Unlock()
	one, known := q.of[url]
	if !known && len(q.of) >= maxMeasured {
		oldest := url
		for other, o := range q.of {
			if oldest == url || o.last.Before(q.of[oldest].last) {
				oldest = other
			}
		}
		delete(q.of, oldest)
	}
	change(&one)
	one.last = now
	q.of[url] = one
}

func (q *qualities) get(url string) Quality {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.of[url]
}

// Quality returns what was measured of a relay.
func (p *Pool) Quality(url string) Quality {
	if clean, err := Normalize(url); err == nil {
		url = clean
	}
	return p.qualities.get(url)
}

// Rank returns the relays in the order in which to use them: those with the shortest expected time until an answer first.
// Relays between which there is less than about a factor of two keep their order, which is that of preference.
//
// A relay that was not measured for an hour counts as unknown. Otherwise one that failed would never be tried again.
func (p *Pool) Rank(urls []string) []string {
	now := p.cfg.Now()
	class := func(url string) int {
		q := p.Quality(url)
		if now.Sub(q.last) > measuredFor {
			q = Quality{}
		}
		return bits.Len64(uint64(max(q.Expected(), 0) / (50 * time.Millisecond)))
	}
	classes := make(map[string]int, len(urls))
	for _, url := range urls {
		classes[url] = class(url)
	}
	ranked := slices.Clone(urls)
	slices.SortStableFunc(ranked, func(a, b string) int { return cmp.Compare(classes[a], classes[b]) })
	return ranked
}

// measure records how long a relay took for an answer that was asked for at began, or that none came. If the caller gave up
// early, nothing is recorded.
func (s *session) measure(began time.Time, err error) {
	took := s.pool.cfg.Now().Sub(began)
	switch {
	case err == nil:
		s.pool.qualities.measure(s.link.url, func(q *Quality) { q.answered(took) })
	case errors.Is(err, errLost), took >= reply/2:
		s.pool.qualities.measure(s.link.url, (*Quality).lost)
	}
}
