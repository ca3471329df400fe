package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// router chooses the next provider for a job among those not asked yet, and learns from the outcome. It knows only the
// announced prices.
type router interface {
	choose(t time.Duration, left []*provider) *provider
	learn(t time.Duration, p *provider, o outcome)
}

// peer is a router to compare guild with.
type peer struct {
	name string
	make func(w *world, random *rand.Rand) router
}

// peers are all routers except guild.
var peers = []peer{
	{"random", func(_ *world, r *rand.Rand) router { return &chance{r} }},
	{"cheapest first", func(*world, *rand.Rand) router { return cheapest{} }},
	{"round robin", func(w *world, _ *rand.Rand) router {
		return &turns{w: w, until: make([]time.Duration, len(w.providers))}
	}},
	{"ε-greedy", func(w *world, r *rand.Rand) router { return &greedy{newArms(w.market), r} }},
	{"UCB1", func(w *world, _ *rand.Rand) router { return &ucb{newArms(w.market)} }},
	{"Thompson", func(w *world, r *rand.Rand) router { return &thompson{newArms(w.market), r} }},
	{"EWMA", func(w *world, _ *rand.Rand) router {
		n := len(w.providers)
		return &ewma{share: slices.Repeat([]float64{ewmaShare}, n), latency: slices.Repeat([]float64{60}, n), failures: make([]int, n),
			until: make([]time.Duration, n)}
	}},
}

// chance chooses at random.
type chance struct{ random *rand.Rand }

func (c *chance) choose(_ time.Duration, left []*provider) *provider {
	return left[c.random.IntN(len(left))]
}
func (*chance) learn(time.Duration, *provider, outcome) {}

// cheapest chooses the lowest announced price.
type cheapest struct{}

func (cheapest) choose(_ time.Duration, left []*provider) *provider {
	return slices.MinFunc(left, func(a, b *provider) int { return int(a.price - b.price) })
}
func (cheapest) learn(time.Duration, *provider, outcome) {}

// turns chooses providers in turn, except for a day after a failure.
type turns struct {
	w     *world
	next  int
	until []time.Duration
}

func (r *turns) choose(t time.Duration, left []*provider) *provider {
	n := len(r.until)
	rank := func(p *provider) int {
		place := (p.n - r.next + n) % n
		if r.until[p.n] > t {
			place += n
		}
		return place
	}
	p := slices.MinFunc(left, func(a, b *provider) int { return rank(a) - rank(b) })
	r.next = (p.n + 1) % n
	return p
}

func (r *turns) learn(t time.Duration, p *provider, o outcome) {
	if o.ending != accepted && o.ending != full {
		r.until[p.n] = t + day
		if p.character == steady {
			r.w.tally.Kept++
		}
	}
}

// arms has the observations of each provider.
type arms struct {
	tries   int
	n       []float64
	won     []float64
	mean    []float64 // utility, in msat
	latency []float64 // sum in seconds
}

func newArms(m *market) arms {
	of := func() []float64 { return make([]float64, len(m.providers)) }
	return arms{n: of(), won: of(), mean: of(), latency: of()}
}

func (a *arms) learn(_ time.Duration, p *provider, o outcome) {
	if o.ending == full {
		return
	}
	u := -float64(p.price) - cost(o.after)
	if o.ending == accepted {
		u += float64(worth)
		a.won[p.n]++
	}
	a.tries++
	a.n[p.n]++
	a.mean[p.n] += (u - a.mean[p.n]) / a.n[p.n]
	a.latency[p.n] += o.after.Seconds()
}

func best(left []*provider, of func(*provider) float64) *provider {
	var found *provider
	most := math.Inf(-1)
	for _, p := range left {
		if v := of(p); v > most {
			found, most = p, v
		}
	}
	return found
}

// greedy chooses the best mean utility so far, and at random in one of ten cases.
type greedy struct {
	arms
	random *rand.Rand
}

func (g *greedy) choose(_ time.Duration, left []*provider) *provider {
	if g.random.Float64() < 0.1 {
		return left[g.random.IntN(len(left))]
	}
	return best(left, func(p *provider) float64 { return g.mean[p.n] })
}

// ucb is UCB1 (Auer, Cesa-Bianchi and Fischer 2002) on the utility, scaled to 0..1.
type ucb struct{ arms }

func (u *ucb) choose(_ time.Duration, left []*provider) *provider {
	const least, most = -70_000, 100_000 // range of a request's utility in msat
	return best(left, func(p *provider) float64 {
		if u.n[p.n] == 0 {
			return math.Inf(1)
		}
		return (u.mean[p.n]-least)/(most-least) + math.Sqrt(2*math.Log(float64(u.tries))/u.n[p.n])
	})
}

// thompson draws each provider's share of accepted deliveries from Beta(1 + won, 1 + lost) and chooses the highest
// utility with this share, the price and the mean latency. A provider without observations has a latency of one
// minute.
type thompson struct {
	arms
	random *rand.Rand
}

func (h *thompson) choose(_ time.Duration, left []*provider) *provider {
	return best(left, func(p *provider) float64 {
		share := h.beta(1+h.won[p.n], 1+h.n[p.n]-h.won[p.n])
		latency := (60 + h.latency[p.n]) / (1 + h.n[p.n])
		return share*float64(worth) - float64(p.price) - latency*float64(perSecond)
	})
}

func (h *thompson) beta(a, b float64) float64 {
	x, y := h.gamma(a), h.gamma(b)
	return x / (x + y)
}

// gamma draws from the gamma distribution with a shape of at least one (Marsaglia and Tsang 2000).
func (h *thompson) gamma(shape float64) float64 {
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := h.random.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v *= v * v
		if math.Log(1-h.random.Float64()) < 0.5*x*x+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// ewma chooses the highest utility by exponentially weighted moving averages of each provider's share of accepted
// deliveries and of its latency, with the price. A provider that fails is not asked for an hour, and for twice as long
// after each further failure, if another may be asked.
type ewma struct {
	share, latency []float64 // latencies in seconds
	failures       []int     // in a row
	until          []time.Duration
}

const (
	ewmaAlpha = 0.2
	ewmaShare = 0.9 // assumed of a provider without observations
)

func (e *ewma) choose(t time.Duration, left []*provider) *provider {
	rested := slices.DeleteFunc(slices.Clone(left), func(p *provider) bool { return e.until[p.n] > t })
	if len(rested) == 0 {
		rested = left
	}
	return best(rested, func(p *provider) float64 {
		return e.share[p.n]*float64(worth) - float64(p.price) - e.latency[p.n]*float64(perSecond)
	})
}

func (e *ewma) learn(t time.Duration, p *provider, o outcome) {
	if o.ending == full {
		return
	}
	won := 0.0
	if o.ending == accepted {
		won, e.failures[p.n] = 1, 0
	} else {
		e.until[p.n] = t + time.Hour<<min(e.failures[p.n], 10)
		e.failures[p.n]++
	}
	e.share[p.n] += ewmaAlpha * (won - e.share[p.n])
	e.latency[p.n] += ewmaAlpha * (o.after.Seconds() - e.latency[p.n])
}

// knowing is the oracle. It knows all true parameters and chooses the provider with a free slot and the highest
// utility.
type knowing struct{ w *world }

func (o knowing) choose(t time.Duration, left []*provider) *provider {
	if best := o.w.oracle(t, left); len(best) > 0 {
		return best[0]
	}
	return nil
}
func (knowing) learn(time.Duration, *provider, outcome) {}
