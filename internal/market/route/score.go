package route

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"

	"guild"
	"guild/internal/journal/fact"
)

// median returns the median of the positive numbers, rounded down to an eighth so that it seldom changes; 0 if there
// are none.
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

// bucket returns the number of the interval that a positive number is in. Each doubling has eight intervals.
func bucket(v int64) int {
	if v < 8 {
		return int(v)
	}
	e := bits.Len64(uint64(v)) - 4
	return e*8 + int(v>>e)
}

// least returns the smallest number of a bucket.
func least(bucket int) int64 {
	if bucket < 16 {
		return int64(bucket)
	}
	return int64(bucket%8+8) << (bucket/8 - 1)
}

// references holds the values that costs, latencies and recent requests are compared with.
type references struct {
	cost    int64 // msat: median of the trusted services, or of all (see medianCost)
	latency int64 // ms: median of the measured services
	total   int64 // requests for the task in the window, rounded down to an eighth

	draw uint64 // of the decision: the start of the random numbers of Thompson sampling

	asked []priced // services that were asked, by price
}

// priced counts the services with one price that were asked.
type priced struct {
	cost         int64 // msat
	known, sound int   // all of them, and those that were mostly accepted
}

// For a service without a record, those with similar prices count. The cheapest are asked first, so what is known of all
// services says little about the dearer ones.
const (
	presumed = 3 // deliveries that the record of these counts as
	similar  = 8 // services, those with the nearest prices
)

// evidence returns the accepted and the other deliveries from which a service's share is drawn: its own, and up to presumed
// in the proportion of services with similar prices. So a flood of strangers that never answer is soon asked less.
func (r *references) evidence(f *Facts) (won, lost int) {
	won, lost = f.Measured.Won, f.Measured.Lost
	if won+lost >= presumed {
		return won, lost
	}
	known, sound := r.nearest(r.priceOf(f))
	if more := min(presumed, known) - won - lost; more > 0 {
		good := (more*sound + known/2) / known
		won, lost = won+good, lost+more-good
	}
	return won, lost
}

// priceOf returns the cost of a service. An unknown cost counts as the reference.
func (r *references) priceOf(f *Facts) int64 { return cmp.Or(int64(f.cost()), r.cost) }

// nearest counts the services that were asked and have the prices nearest to a cost: similar of them, and more if several
// have the last price. Of two prices that are as near, the higher one is first.
func (r *references) nearest(cost int64) (known, sound int) {
	above, _ := slices.BinarySearchFunc(r.asked, cost, func(p priced, cost int64) int { return cmp.Compare(p.cost, cost) })
	below := above - 1
	for known < similar && (below >= 0 || above < len(r.asked)) {
		var next priced
		if above == len(r.asked) || below >= 0 && cost-r.asked[below].cost < r.asked[above].cost-cost {
			next = r.asked[below]
			below--
		} else {
			next = r.asked[above]
			above++
		}
		known, sound = known+next.known, sound+next.sound
	}
	return known, sound
}

// Percentages of the median latency: a service below fastBelow is FAST (section 3.2.2), one above slowAbove is SLOW.
// Above the latter a run also gets no points for performance (section 3.2.1).
const (
	fastBelow = 75
	slowAbove = 150
)

// performance returns the speed class of a latency relative to the median; steady if either is unknown.
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

// usualSlots is the assumed number of concurrent requests of a provider that announces none.
const usualSlots = 8

// terms returns the five criteria of section 4.1.1, each from 0 (worst) to one:
//
//   - trust: the trust; for a service that was not met, the lowest trust that gets work. With Thompson sampling: a share of
//     accepted deliveries, drawn from what is known of it (see sample).
//   - cost: one if it is free, a half at the task's reference cost, 0 from twice that on, or from another multiple that
//     the policy says. An unknown cost counts as the reference.
//   - latency: the same, of the predicted latency and the task's median.
//   - load: one without requests. Full slots (of those announced) take up to a half, and its part of the window's
//     requests the other half.
//   - exploration: one without samples, falling to 0 at the number of samples that the policy requires.
func (s *Settings) terms(f *Facts, r *references) fact.Terms {
	t := fact.Terms{Trust: f.Trust, Cost: s.falling(int64(f.cost()), r.cost), Latency: s.falling(f.Measured.Latency, r.latency)}
	switch {
	case s.Thompson > 0:
		won, lost := r.evidence(f)
		t.Trust = sample(r.draw, f.Offer.Service, won, lost, s.Thompson)
	case !f.Met:
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

// thirst returns the number of samples that a service lacks.
func (s *Settings) thirst(f *Facts) int { return max(s.Samples-f.Measured.Samples, 0) }

// falling returns one for a value near 0 and 0 from the policy's multiple of the reference on. An unknown value counts as
// the reference. Without a reference the result is one for every service.
func (s *Settings) falling(v, reference int64) guild.Trust {
	if reference <= 0 {
		return guild.Micro
	}
	if v <= 0 {
		v = reference
	}
	return guild.Micro - part(v, reference*int64(cmp.Or(s.Span, 2)))
}

// part returns n as a part of the whole, at most one.
func part(n, whole int64) guild.Trust {
	switch {
	case n <= 0:
		return 0
	case n >= whole:
		return guild.Micro
	}
	return guild.Trust(ratio(n, whole))
}

// ratio returns n/whole in micro-units. n must be smaller than whole.
func ratio(n, whole int64) int64 {
	hi, lo := bits.Mul64(uint64(n), guild.Micro)
	q, _ := bits.Div64(hi, lo, uint64(whole))
	return int64(q)
}

// weigh multiplies the terms by the policy's weights, and returns them with their sum.
func (s *Settings) weigh(t fact.Terms) (weighed fact.Terms, score guild.Trust) {
	w := s.Weights
	weighed = fact.Terms{
		Trust: t.Trust * w.Trust / guild.Micro, Cost: t.Cost * w.Cost / guild.Micro, Latency: t.Latency * w.Latency / guild.Micro,
		Load: t.Load * w.Load / guild.Micro, Exploration: t.Exploration * w.Exploration / guild.Micro,
	}
	return weighed, weighed.Trust + weighed.Cost + weighed.Latency + weighed.Load + weighed.Exploration
}

// unsure returns what is subtracted from the score of a service that was not met, because it may not do the task at
// all. It is larger than any score, so exact names of the task rank before synonyms, and synonyms before services that
// only seem to do it (section 1.4.2). For a service that was met, its verdicts decide.
func unsure(f *Facts) guild.Trust {
	if f.Met {
		return 0
	}
	return guild.Trust((1-f.Offer.Confidence)*5+0.5) * guild.Micro * 2
}

// rank orders services, the best first: by score, then by a number derived from the service.
type rank struct {
	score guild.Trust
	order uint64
}

func (a *rank) before(b *rank) bool {
	return a.score > b.score || a.score == b.score && a.order < b.order
}
