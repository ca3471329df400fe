package main

import (
	"fmt"
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
	name     string
	settings []setting // the usual one first; the report tries all (tune)
}

// setting is one choice of a router's parameters.
type setting struct {
	says string // the parameters; "" if the router has none
	make func(w *world, random *rand.Rand) router
}

// peers are all routers except guild.
var peers = []peer{
	{"random", plain(func(_ *world, r *rand.Rand) router { return &chance{r} })},
	{"cheapest first", plain(func(*world, *rand.Rand) router { return cheapest{} })},
	{"round robin", plain(func(w *world, _ *rand.Rand) router {
		return &turns{w: w, until: make([]time.Duration, len(w.providers))}
	})},
	{"ε-greedy", greedies(0.1, 0.02, 0.05, 0.2)},
	{"UCB1", ucbs(math.Sqrt2, 1, 0.5, 0.25, 0.1)},
	{"Thompson", thompsons()},
	{"EWMA", ewmas()},
}

func plain(of func(*world, *rand.Rand) router) []setting { return []setting{{"", of}} }

func greedies(epsilons ...float64) (all []setting) {
	for _, e := range epsilons {
		all = append(all, setting{fmt.Sprintf("ε %g", e), func(w *world, r *rand.Rand) router { return &greedy{newArms(w.market), r, e} }})
	}
	return all
}

func ucbs(widths ...float64) (all []setting) {
	for _, c := range widths {
		all = append(all, setting{fmt.Sprintf("c %.3g", c), func(w *world, _ *rand.Rand) router { return &ucb{newArms(w.market), c} }})
	}
	return all
}

func thompsons() (all []setting) {
	for _, keeps := range []float64{1, 0.999, 0.99} {
		for _, prior := range []float64{1, 3} {
			all = append(all, setting{fmt.Sprintf("prior %g:1, discount %g", prior, keeps), func(w *world, r *rand.Rand) router {
				return &thompson{newArms(w.market), r, prior, keeps}
			}})
		}
	}
	return all
}

func ewmas() (all []setting) {
	for _, share := range []float64{0.9, 0.7} {
		for _, alpha := range []float64{0.2, 0.1, 0.4} {
			for _, rest := range []time.Duration{time.Hour, 6 * time.Hour} {
				all = append(all, setting{fmt.Sprintf("α %g, share %g, back-off %g h", alpha, share, rest.Hours()), func(w *world, _ *rand.Rand) router {
					n := len(w.providers)
					return &ewma{alpha: alpha, rest: rest, share: slices.Repeat([]float64{share}, n), latency: slices.Repeat([]float64{60}, n),
						failures: make([]int, n), until: make([]time.Duration, n)}
				}})
			}
		}
	}
	return all
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

// greedy chooses the best mean utility so far, and at random in a share of the cases.
type greedy struct {
	arms
	random  *rand.Rand
	epsilon float64
}

func (g *greedy) choose(_ time.Duration, left []*provider) *provider {
	if g.random.Float64() < g.epsilon {
		return left[g.random.IntN(len(left))]
	}
	return best(left, func(p *provider) float64 { return g.mean[p.n] })
}

// ucb is UCB1 (Auer, Cesa-Bianchi and Fischer 2002) on the utility, scaled to 0..1. Its authors have a width of √2.
type ucb struct {
	arms
	width float64
}

func (u *ucb) choose(_ time.Duration, left []*provider) *provider {
	const least, most = -70_000, 100_000 // range of a request's utility in msat
	return best(left, func(p *provider) float64 {
		if u.n[p.n] == 0 {
			return math.Inf(1)
		}
		return (u.mean[p.n]-least)/(most-least) + u.width*math.Sqrt(math.Log(float64(u.tries))/u.n[p.n])
	})
}

// thompson draws each provider's share of accepted deliveries from Beta(prior + won, 1 + lost) and chooses the highest
// utility with this share, the price and the mean latency. A provider without observations has a latency of one
// minute. With each request all earlier observations are multiplied by keeps.
type thompson struct {
	arms
	random       *rand.Rand
	prior, keeps float64
}

func (h *thompson) learn(t time.Duration, p *provider, o outcome) {
	if h.keeps < 1 && o.ending != full {
		for i := range h.n {
			h.n[i], h.won[i], h.latency[i] = h.n[i]*h.keeps, h.won[i]*h.keeps, h.latency[i]*h.keeps
		}
	}
	h.arms.learn(t, p, o)
}

func (h *thompson) choose(_ time.Duration, left []*provider) *provider {
	return best(left, func(p *provider) float64 {
		share := h.beta(h.prior+h.won[p.n], 1+h.n[p.n]-h.won[p.n])
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
// deliveries and of its latency, with the price. A provider that fails is not asked for a while, and for twice as long
// after each further failure, if another may be asked.
type ewma struct {
	alpha          float64
	rest           time.Duration
	share, latency []float64 // latencies in seconds
	failures       []int     // in a row
	until          []time.Duration
}

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
		e.until[p.n] = t + e.rest<<min(e.failures[p.n], 10)
		e.failures[p.n]++
	}
	e.share[p.n] += e.alpha * (won - e.share[p.n])
	e.latency[p.n] += e.alpha * (o.after.Seconds() - e.latency[p.n])
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
