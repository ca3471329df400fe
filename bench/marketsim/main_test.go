package main

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"guild/internal/journal/journaltest"
	"guild/internal/policy"
)

func TestMain(m *testing.M) { journaltest.Main(m) }

// small returns a market that takes only seconds.
func small(seed uint64) *market { return newMarket(seed, 4, 30, 60) }

// plays runs one router alone on a market.
func plays(m *market, make func(*world) router) tally {
	w := newWorld(m)
	w.play(make(w))
	return w.sum()
}

// peerNamed runs a peer on a market.
func peerNamed(t *testing.T, m *market, name string) tally {
	t.Helper()
	for _, p := range peers {
		if p.name == name {
			return plays(m, func(w *world) router { return p.settings[0].make(w, m.random(name)) })
		}
	}
	t.Fatalf("nobody is called %s", name)
	return tally{}
}

// A market in which guild can hire nobody has a regret of zero, because every result is then empty.
func TestMarketWithoutWorkIsAnError(t *testing.T) {
	if err := (result{Contestant: "a", tally: tally{Jobs: 3}}).check(); err == nil {
		t.Error("no job was accepted, and that is a result")
	}
	p := policy.Default()
	dir := journaltest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		n, err := drive(t.Context(), newMarket(1, 1, 8, 12), p, dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		if own := n.sum(); own.Accepted < 6 || own.Expected <= 0 {
			t.Errorf("%d of %d jobs were accepted, with an expected value of %.0f msat", own.Accepted, own.Jobs, own.Expected)
		}
	})
}

func TestGuildDoesBetterThanChance(t *testing.T) {
	for _, name := range policy.Names() {
		p, err := policy.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		m := small(1)
		dir := journaltest.Dir(t)
		synctest.Test(t, func(t *testing.T) {
			n, err := drive(t.Context(), m, p, dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			own := n.sum()
			random, best := peerNamed(t, m, "random"), plays(m, func(w *world) router { return knowing{w} })
			if own.Jobs != len(m.jobs) || own.Accepted < own.Jobs*9/10 {
				t.Errorf("%s: %d of %d jobs were accepted, and there were %d", name, own.Accepted, own.Jobs, len(m.jobs))
			}
			// A second request also counts with its expected value, so in a small market a few failures can give more than the
			// oracle expected.
			if regret, of := best.Expected-own.Expected, best.Expected-random.Expected; regret < -of/10 || regret > of/2 {
				t.Errorf("%s: the regret is %.0f msat, and that of chance %.0f", name, regret, of)
			}
			if own.Lost >= random.Lost {
				t.Errorf("%s: %d msat were lost, and %d by chance", name, own.Lost, random.Lost)
			}
			if own.Runs == 0 || own.Benched == 0 {
				t.Errorf("%s: %d benchmarks cost %d msat", name, own.Runs, own.Benched)
			}
			if name == policy.Measured && own.Kept > 0 {
				t.Errorf("%s: a steady provider was kept from work %d times", name, own.Kept)
			}
		})
	}
}

func TestTheOracleIsTheBest(t *testing.T) {
	for seed := range uint64(5) {
		m := small(seed)
		best := plays(m, func(w *world) router { return knowing{w} })
		if best.Best != best.Jobs {
			t.Errorf("seed %d: %d of %d jobs went to the best", seed, best.Best, best.Jobs)
		}
		for _, p := range peers {
			if other := peerNamed(t, m, p.name); other.Expected >= best.Expected || other.Jobs != best.Jobs {
				t.Errorf("seed %d: %s comes to %.0f msat with %d jobs, and the oracle to %.0f with %d", seed, p.name, other.Expected, other.Jobs,
					best.Expected, best.Jobs)
			}
		}
	}
}

// Drawn outcomes must agree with the expected values.
func TestOutcomesMatchAverages(t *testing.T) {
	m := newMarket(7, 60, 200, 1)
	for _, p := range m.providers {
		const n = 4000
		sum := 0.0
		for job := range uint64(n) {
			o := m.outcome(p, job, 0, false)
			sum -= float64(p.price) + cost(o.after)
			if o.ending == accepted {
				sum += float64(worth)
			}
		}
		if got, want := sum/n, p.utility(0); math.Abs(got-want) > 3_500 {
			t.Errorf("%s: %.0f msat on average, want %.0f", p.character, got, want)
		}
	}
}

func TestOutcomesAreReproducible(t *testing.T) {
	a, b := small(3), small(3)
	for i, p := range a.providers {
		for job := range uint64(20) {
			if x, y := a.outcome(p, job, day, false), b.outcome(b.providers[i], job, day, false); x != y {
				t.Fatalf("%s %d, job %d: %v and %v", p.character, i, job, x, y)
			}
		}
	}
}

func TestMarketCast(t *testing.T) {
	m := newMarket(1, 60, 200, 100)
	count := map[character]int{}
	for _, p := range m.providers {
		count[p.character]++
		for _, s := range p.bad {
			if s.from >= s.to || p.badAt(s.from) < 0 || p.badAt(s.to) >= 0 {
				t.Errorf("%s is bad from %s to %s", p.character, s.from, s.to)
			}
		}
	}
	for _, c := range cast {
		if count[c.character] != c.of {
			t.Errorf("%d are %s, want %d", count[c.character], c.character, c.of)
		}
	}
	if len(m.jobs) != 6000 || m.jobs[0] < 0 || m.jobs[5999] >= 60*day {
		t.Errorf("%d jobs from %s to %s", len(m.jobs), m.jobs[0], m.jobs[len(m.jobs)-1])
	}
}

// A provider turns bad on the second day and gets work at the given hours.
func TestBadProviderSpells(t *testing.T) {
	for _, c := range []struct {
		name  string
		hours []int
		want  spots
	}{
		{"never asked", nil, spots{Spells: 1}},
		{"only while it was good", []int{1, 23}, spots{Spells: 1}},
		{"left alone after two", []int{23, 24, 30}, spots{Spells: 1, Given: 1, Jobs: 2, Most: 2}},
		{"what it gets after two days does not count", []int{24, 25, 24 + 49}, spots{Spells: 1, Given: 1, Jobs: 2, Most: 2}},
		{"it gets work to the end", []int{30, 77, 124, 171, 218}, spots{Spells: 1, Given: 1, Jobs: 5, Most: 5, Unnoticed: 1}},
		{"and again when it is good again", []int{30, 250}, spots{Spells: 1, Given: 1, Jobs: 1, Most: 1, Back: 1, After: 10 * time.Hour}},
	} {
		p := &provider{character: degrading, conditions: []condition{{accept: 1}}}
		p.worsen(day, 10*day, condition{})
		w := newWorld(&market{days: 20, providers: []*provider{p}})
		for _, h := range c.hours {
			w.asked(p, time.Duration(h)*time.Hour, outcome{failed, time.Minute})
		}
		if got := w.sum().Spells[degrading]; got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestReportClaims(t *testing.T) {
	o := options{seed: 1, seeds: 2, days: 4, providers: 30, jobs: 60}
	results, err := o.race(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []result{{Contestant: "a", Seed: 1}, {Contestant: "a", Seed: 2}} {
		r.Guild, r.tally = true, plays(small(r.Seed), func(w *world) router { return knowing{w} })
		results = append(results, r)
	}
	o.policies = []string{"a"}
	r := newReport(o, results)
	for _, c := range r.Claims[:2] {
		if c.Holds != 2 || c.Of != 2 {
			t.Errorf("%s of what knows everything: %d of %d", c.Says, c.Holds, c.Of)
		}
	}
	var out bytes.Buffer
	if err := r.writeTable(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"guild a", "Thompson", "seeds 1 to 2", "2 of 2 seeds"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}
