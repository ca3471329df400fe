package main

import (
	"slices"
	"time"

	"guild"
)

// world is the market as one router has it: which provider has room depends on whom it asked.
type world struct {
	*market
	taken   [][]time.Duration // by provider: when each slot that is taken is free again
	waiting [][]time.Duration // by provider: when each request that is not answered is
	tally   tally
}

func newWorld(m *market) *world {
	return &world{market: m, taken: make([][]time.Duration, len(m.providers)), waiting: make([][]time.Duration, len(m.providers)), tally: newTally(m)}
}

// free reports whether a provider has room.
func (w *world) free(p *provider, t time.Duration) bool {
	w.taken[p.n] = slices.DeleteFunc(w.taken[p.n], func(until time.Duration) bool { return until <= t })
	return len(w.taken[p.n]) < p.slots
}

// ask asks a provider for a job, or for a benchmark. One that has no room says so after a second.
func (w *world) ask(p *provider, job uint64, t time.Duration, benchmark bool) outcome {
	if p.at(t).silent < 1 && !w.free(p, t) {
		return outcome{full, time.Second}
	}
	o := w.outcome(p, job, t, benchmark)
	if o.ending != silent {
		w.taken[p.n] = append(w.taken[p.n], t+o.after+p.rest)
	}
	return o
}

// oracle lists the providers that have room, the best first, whom it is worth asking.
func (w *world) oracle(t time.Duration) (best []*provider) {
	for _, p := range w.providers {
		u := p.utility(t)
		if u <= 0 || !w.free(p, t) {
			continue
		}
		i, _ := slices.BinarySearchFunc(best, u, func(b *provider, u float64) int {
			if b.utility(t) > u {
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

// tally is what one router's choices came to. Money is in msat.
type tally struct {
	Jobs     int        `json:"jobs"`
	Accepted int        `json:"accepted"`
	Asked    int        `json:"asked"`    // requests, without those that found no room
	Full     int        `json:"full"`     // requests that found none
	Expected float64    `json:"expected"` // what the requests come to on average
	Realised float64    `json:"realised"` // what they came to
	Lost     guild.Msat `json:"lost"`     // prices of requests that came to nothing
	Benched  guild.Msat `json:"benched"`  // bids of benchmarks
	Runs     int        `json:"runs"`     // benchmarks
	Best     int        `json:"best"`     // jobs whose first provider was worth nine tenths of the best one with room, or more
	Kept     int        `json:"kept"`     // times that a steady provider was kept from all work

	Shares map[character]int        `json:"shares"`  // requests by character
	LostBy map[character]guild.Msat `json:"lost_by"` // Lost by character
	Spells map[character]spots      `json:"spells"`  // how long bad ones got work

	given [][]given // by provider and spell
}

// spots is how many jobs providers of a character got while they were bad, until they were left alone. Those that got
// none count in none of the sums.
type spots struct {
	Spells    int           `json:"spells"`
	Given     int           `json:"given"`     // of them, those in which there was any work for it
	Jobs      int           `json:"jobs"`      // in all of these
	Most      int           `json:"most"`      // in one of them
	Unnoticed int           `json:"unnoticed"` // of Given, those that went on to the end
	Back      int           `json:"back"`      // providers with work after their spell was over
	After     time.Duration `json:"after"`     // from its end, the sum
}

// given is the work that a provider got while it was bad.
type given struct {
	jobs    int           // until it was left alone
	last    time.Duration // when it got the latest of them
	noticed bool          // it was left alone
	back    time.Duration // when it got its next one after the spell
}

// alone is how long a provider must be without work for its being bad to count as noticed.
const alone = 2 * day

func newTally(m *market) tally {
	t := tally{Shares: map[character]int{}, LostBy: map[character]guild.Msat{}, Spells: map[character]spots{}, given: make([][]given, len(m.providers))}
	for _, p := range m.providers {
		t.given[p.n] = make([]given, len(p.bad))
	}
	return t
}

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
	w.tally.Expected += p.utility(t)
	w.tally.Realised -= float64(p.price) + cost(o.after)
	if o.ending == accepted {
		w.tally.Accepted++
		w.tally.Realised += float64(worth)
	} else {
		w.lose(p)
	}
	w.notice(p, t)
}

// lose counts a price that was spent for nothing.
func (w *world) lose(p *provider) {
	w.tally.Lost += p.price
	w.tally.LostBy[p.character] += p.price
}

// notice follows who is given work while it is bad.
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

// sum adds up how long bad providers got work.
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

// benched counts one benchmark.
func (w *world) benched(price guild.Msat) {
	w.tally.Runs++
	w.tally.Benched += price
}

// first counts whether the first provider of a job is nearly the best. It is called before it is asked.
func (w *world) first(p *provider, t time.Duration) {
	best := w.oracle(t)
	if len(best) > 0 && w.free(p, t) && p.utility(t) >= 0.9*best[0].utility(t) {
		w.tally.Best++
	}
}
