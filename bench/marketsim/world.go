package main

import (
	"slices"
	"time"

	"guild"
)

// world is the market from the view of one router. The free slots of providers depend on that router's requests.
type world struct {
	*market
	taken   [][]time.Duration // by provider: times at which its used slots become free
	waiting [][]time.Duration // by provider: times at which its open requests are answered
	tally   tally

	last []time.Duration // by provider: when it was last asked; 0 if never
	gone []bool          // by provider: it has given up its key
}

func newWorld(m *market) *world {
	t := tally{Shares: map[character]int{}, LostBy: map[character]guild.Msat{}, Spells: map[character]spots{}, given: make([][]given, len(m.providers))}
	for _, p := range m.providers {
		t.given[p.n] = make([]given, len(p.bad))
	}
	return &world{market: m, taken: make([][]time.Duration, len(m.providers)), waiting: make([][]time.Duration, len(m.providers)), tally: t,
		last: make([]time.Duration, len(m.providers)), gone: make([]bool, len(m.providers))}
}

// free reports whether a provider has a free slot.
func (w *world) free(p *provider, t time.Duration) bool {
	w.taken[p.n] = slices.DeleteFunc(w.taken[p.n], func(until time.Duration) bool { return until <= t })
	return len(w.taken[p.n]) < p.slots
}

// ask asks a provider for a job or a benchmark. A provider at capacity refuses after one second.
func (w *world) ask(p *provider, job uint64, t time.Duration, benchmark bool) outcome {
	if w.left(p, t) {
		return outcome{silent, patience}
	}
	if p.at(t).silent < 1 && !w.free(p, t) {
		return outcome{full, time.Second}
	}
	o := w.outcome(p, job, t, benchmark)
	if o.ending != silent {
		w.taken[p.n] = append(w.taken[p.n], t+o.after+p.rest)
	}
	return o
}

// oracle returns the providers of some with a free slot and positive utility, the best first, at most tries.
func (w *world) oracle(t time.Duration, of []*provider) (best []*provider) {
	for _, p := range of {
		u := w.utility(p, t)
		if u <= 0 || !w.free(p, t) {
			continue
		}
		i, _ := slices.BinarySearchFunc(best, u, func(b *provider, u float64) int {
			if w.utility(b, t) > u {
				return -1
			}
			return 1
		})
		if i < tries {
			best = slices.Insert(best, i, p)
			best = best[:min(len(best), tries)]
		}
	}
	return best
}

// tally has the results of one router's choices. Money is in msat.
type tally struct {
	Jobs     int        `json:"jobs"`
	Accepted int        `json:"accepted"`
	Asked    int        `json:"asked"`    // requests except those that were refused for capacity
	Full     int        `json:"full"`     // requests that were refused for capacity
	Expected float64    `json:"expected"` // expected value of all requests
	Realised float64    `json:"realised"` // realised value of all requests
	Lost     guild.Msat `json:"lost"`     // prices of failed requests
	Benched  guild.Msat `json:"benched"`  // bids of benchmarks
	Runs     int        `json:"runs"`     // benchmarks
	Best     int        `json:"best"`     // jobs whose first provider had at least nine tenths of the best available utility
	Kept     int        `json:"kept"`     // times that a steady provider was excluded from all work

	Shares map[character]int        `json:"shares"`  // requests by character
	LostBy map[character]guild.Msat `json:"lost_by"` // Lost by character
	Spells map[character]spots      `json:"spells"`  // work of bad providers

	given [][]given // by provider and spell
}

// spots counts the jobs that bad providers of one character got until they were left alone. Spells without any job
// count only in Spells.
type spots struct {
	Spells    int           `json:"spells"`
	Given     int           `json:"given"`     // spells with at least one job
	Jobs      int           `json:"jobs"`      // over all spells
	Most      int           `json:"most"`      // in one spell
	Unnoticed int           `json:"unnoticed"` // of Given, spells with work until the end
	Back      int           `json:"back"`      // spells after which the provider got work again
	After     time.Duration `json:"after"`     // sum of the times from the end of the spell to that work
}

// given has the work that a provider got while it was bad.
type given struct {
	jobs    int           // until it was left alone
	last    time.Duration // time of the latest job
	noticed bool          // it was left alone
	back    time.Duration // time of its first job after the spell
}

// alone is the time without work after which a bad provider counts as noticed.
const alone = 2 * day

// asked counts one request for a job.
func (w *world) asked(p *provider, t time.Duration, o outcome) {
	if o.ending == full {
		w.tally.Full++
		w.tally.Expected -= cost(o.after)
		w.tally.Realised -= cost(o.after)
		return
	}
	w.tally.Asked++
	w.tally.Shares[p.character]++
	w.tally.Expected += w.utility(p, t)
	w.last[p.n] = t
	w.tally.Realised -= float64(p.price) + cost(o.after)
	if o.ending == accepted {
		w.tally.Accepted++
		w.tally.Realised += float64(worth)
	} else {
		w.lose(p)
	}
	w.notice(p, t)
}

// lose counts a price that was paid without result.
func (w *world) lose(p *provider) {
	w.tally.Lost += p.price
	w.tally.LostBy[p.character] += p.price
}

// notice records work for bad providers.
func (w *world) notice(p *provider, t time.Duration) {
	for n, bad := range p.bad {
		g := &w.tally.given[p.n][n]
		switch {
		case t < bad.from:
			return
		case t >= bad.to:
			if g.back == 0 {
				g.back = t
			}
			continue
		case g.jobs > 0 && t-g.last >= alone:
			g.noticed = true
		}
		if !g.noticed {
			g.jobs, g.last = g.jobs+1, t
		}
	}
}

// sum adds up the work of bad providers and returns the tally.
func (w *world) sum() tally {
	end := time.Duration(w.days) * day
	for _, p := range w.providers {
		s := w.tally.Spells[p.character]
		for n, g := range w.tally.given[p.n] {
			s.Spells++
			if g.jobs > 0 {
				s.Given, s.Jobs, s.Most = s.Given+1, s.Jobs+g.jobs, max(s.Most, g.jobs)
			}
			if to := p.bad[n].to; g.jobs > 0 && !g.noticed && to-g.last < min(alone, (to-p.bad[n].from)/2) {
				s.Unnoticed++
			}
			if g.back > 0 && p.bad[n].to < end {
				s.Back++
				s.After += g.back - p.bad[n].to
			}
		}
		if len(p.bad) > 0 {
			w.tally.Spells[p.character] = s
		}
	}
	return w.tally
}

// first counts whether the first provider of a job is nearly the best. Call it before the provider is asked.
func (w *world) first(p *provider, job uint64, t time.Duration) {
	best := w.oracle(t, w.doing(job, t))
	if len(best) > 0 && w.free(p, t) && w.utility(p, t) >= 0.9*w.utility(best[0], t) {
		w.tally.Best++
	}
}
