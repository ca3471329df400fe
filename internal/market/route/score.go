package route

import (
	"iter"
	"math/bits"

	"guild"
	"guild/internal/journal/fact"
)

// median returns the median of the numbers above 0, to an eighth below so that it seldom changes; 0 without any.
func median(numbers iter.Seq[int64]) int64 {
	var counts [64 * 8]int
	n := 0
	for v := range numbers {
		if v > 0 {
			counts[bucket(v)]++
			n++
		}
	}
	sum, half := 0, (n+1)/2
	for b := range counts {
		sum += counts[b]
		if sum >= half && n > 0 {
			return least(b)
		}
	}
	return 0
}

// bucket numbers intervals of numbers above 0, eight for each doubling.
func bucket(v int64) int {
	if v < 8 {
		return int(v)
	}
	e := bits.Len64(uint64(v)) - 4
	return e*8 + int(v>>e)
}

// least is the smallest number of a bucket.
func least(bucket int) int64 {
	if bucket < 16 {
		return int64(bucket)
	}
	return int64(bucket%8+8) << (bucket/8 - 1)
}

// references are what costs, latencies and recent requests are measured by.
type references struct {
	cost    int64 // msat: median of the services that were met, or of all where none was
	latency int64 // ms: median of those measured
	total   int64 // requests for the task in the window, to an eighth below
}

// The shares of the median latency below which a service is FAST (section 3.2.2) and above which it is SLOW: the
// share above which a run gets nothing for its performance (section 3.2.1).
const (
	fastBelow = 75
	slowAbove = 150
)

func (r *references) performance(latency int64) guild.Speed {
	switch {
	case latency <= 0 || r.latency <= 0:
		return guild.Steady
	case latency*100 < r.latency*fastBelow:
		return guild.Fast
	case latency*100 > r.latency*slowAbove:
		return guild.Slow
	}
	return guild.Steady
}

// usualSlots is how many requests a provider is thought to take at once that does not say.
const usualSlots = 8

// terms are the five criteria of section 4.1.1, each from 0 (worst) to one:
//
//   - trust: the trust. Who was not met is taken for as good as the worst that gets work.
//   - cost: one for nothing, a half for the task's base cost, 0 from twice that on. The base cost where nothing says it.
//   - latency: the same of the predicted latency against the task's median.
//   - load: one without requests; each full slot, of those announced, takes from the first half, and each part of the
//     window's requests from the second.
//   - exploration: one without samples, falling to 0 at as many as the policy calls enough.
func (s *Settings) terms(f *Facts, r *references) fact.Terms {
	t := fact.Terms{Trust: f.Trust, Cost: falling(int64(f.cost()), r.cost), Latency: falling(f.Measured.Latency, r.latency)}
	if !f.Met {
		t.Trust = s.Lowest
	}
	if f.Free && f.Quoted == 0 {
		t.Cost = guild.Micro
	}
	slots := f.Offer.Slots
	if slots <= 0 {
		slots = usualSlots
	}
	t.Load = guild.Micro - (part(int64(f.Waiting+f.Queue), int64(slots))+part(int64(f.Recent), r.total))/2
	if w := s.thirst(f); w > 0 {
		t.Exploration = guild.Trust(int64(w) * guild.Micro / int64(s.Samples))
	}
	return t
}

// thirst is how many samples of a service are missing.
func (s *Settings) thirst(f *Facts) int { return max(s.Samples-f.Measured.Samples, 0) }

// falling is one at 0 and 0 at twice the reference. What is not known is taken for the reference, and where there is
// none all are alike.
func falling(v, reference int64) guild.Trust {
	switch {
	case reference <= 0:
		return guild.Micro
	case v <= 0:
		return guild.Micro / 2
	case v >= 2*reference:
		return 0
	}
	return guild.Micro - guild.Trust(ratio(v, 2*reference))
}

// part is how much of the whole a number is, at most one.
func part(n, whole int64) guild.Trust {
	switch {
	case n <= 0:
		return 0
	case n >= whole:
		return guild.Micro
	}
	return guild.Trust(ratio(n, whole))
}

// ratio is n in micro-units of the whole, which is larger.
func ratio(n, whole int64) int64 {
	hi, lo := bits.Mul64(uint64(n), guild.Micro)
	q, _ := bits.Div64(hi, lo, uint64(whole))
	return int64(q)
}

// weigh multiplies the terms by the policy's weights.
func (s *Settings) weigh(t fact.Terms) (weighed fact.Terms, score guild.Trust) {
	w := s.Weights
	weighed = fact.Terms{
		Trust: t.Trust * w.Trust / guild.Micro, Cost: t.Cost * w.Cost / guild.Micro, Latency: t.Latency * w.Latency / guild.Micro,
		Load: t.Load * w.Load / guild.Micro, Exploration: t.Exploration * w.Exploration / guild.Micro,
	}
	return weighed, weighed.Trust + weighed.Cost + weighed.Latency + weighed.Load + weighed.Exploration
}

// unsure is what stands before the score of a service that was not met and may not do the task at all: who names it
// exactly comes before who names a synonym, and that before who only seems to do it (section 1.4.2). Of one that was
// met the verdicts say so.
func unsure(f *Facts) guild.Trust {
	if f.Met {
		return 0
	}
	return guild.Trust((1-f.Offer.Confidence)*5+0.5) * guild.Micro * 2
}

// rank orders services, the best first: by score, and where that is the same by a number that follows from the service.
type rank struct {
	score guild.Trust
	order uint64
}

func (a *rank) before(b *rank) bool {
	return a.score > b.score || a.score == b.score && a.order < b.order
}
