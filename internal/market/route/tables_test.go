package route

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/policy"
)

// Section 4.1.1: trust 40 %, cost 25 %, latency 20 %, load 10 %, exploration 5 %.
func TestSelectionCriteria(t *testing.T) {
	s := newMarket(t, true).settings
	refs := references{cost: 1000, latency: 2000, total: 8}
	for _, c := range []struct {
		name  string
		facts Facts
		want  fact.Terms // weighed
		score guild.Trust
	}{
		// trust 0.8·0.40 = 0.32; cost 500 of twice 1000 leaves 0.75·0.25 = 0.1875; latency 1000 of 4000 leaves 0.75·0.20 = 0.15;
		// load 2 of 4 slots and 2 of 8 requests leave 1 - (0.5+0.25)/2 = 0.625·0.10 = 0.0625; 5 samples of 10 leave 0.5·0.05 = 0.025.
		{"a service that was met", Facts{Offer: guild.Offer{Price: 900, Slots: 4}, Trust: 800_000, Met: true, Waiting: 1, Queue: 1, Recent: 2,
			Measured: Measured{Cost: 500, Latency: 1000, Samples: 5}}, fact.Terms{Trust: 320_000, Cost: 187_500, Latency: 150_000, Load: 62_500, Exploration: 25_000}, 745_000},
		// unknown service: 0.3·0.40 = 0.12; half of cost and latency, 0.125 and 0.1; no load; all of exploration.
		{"an unknown service", Facts{}, fact.Terms{Trust: 120_000, Cost: 125_000, Latency: 100_000, Load: 100_000, Exploration: 50_000}, 495_000},
		// 2500 is beyond twice the reference cost, 4000 ms is twice the median, and no slot is free.
		{"the worst", Facts{Offer: guild.Offer{Price: 2500, Slots: 2}, Met: true, Trust: 300_000, Waiting: 5, Recent: 8,
			Measured: Measured{Latency: 4000, Samples: 10}}, fact.Terms{Trust: 120_000}, 120_000},
		{"the best there can be", Facts{Met: true, Trust: 900_000, Free: true, Measured: Measured{Latency: 1, Samples: 10}},
			fact.Terms{Trust: 360_000, Cost: 250_000, Latency: 199_950, Load: 100_000}, 909_950},
	} {
		got, score := s.weigh(s.terms(&c.facts, &refs))
		if got != c.want || score != c.score {
			t.Errorf("%s: %+v, %d, want %+v, %d", c.name, got, score, c.want, c.score)
		}
	}
}

// Sections 3.2.2 and 3.3.1: below 75 % of the median is FAST; SLOW is above 150 %.
func TestPerformanceTiers(t *testing.T) {
	r := references{latency: 1000}
	for latency, want := range map[int64]guild.Speed{0: guild.Steady, 1: guild.Fast, 749: guild.Fast, 750: guild.Steady, 1500: guild.Steady, 1501: guild.Slow} {
		if got := r.performance(latency); got != want {
			t.Errorf("%d ms is %s, want %s", latency, got, want)
		}
	}
}

// Section 3.3.3, and the services outside its tiers.
func TestTiers(t *testing.T) {
	in := func(f Facts, s guild.ProviderState) Facts { f.Offer.State = s; return f }
	unconfirmed := func(f Facts) Facts { f.Offer.Confirmed = false; return f }
	provisional := func(f Facts) Facts { f.Offer.Provisional = true; return f }
	for _, c := range []struct {
		name      string
		facts     Facts
		threshold guild.Trust
		tier      int
		by        string
	}{
		{"0.8 and more", met(1, 800_000), 0, primary, ""},
		{"below 0.8", met(1, 799_999), 0, secondary, ""},
		{"0.5", met(1, 500_000), 0, secondary, ""},
		{"below 0.5", met(1, 499_999), 0, tertiary, ""},
		{"0.3", met(1, 300_000), 0, tertiary, ""},
		{"below 0.3", met(1, 299_999), 0, tiers, ByTrust},
		{"unverified", unmet(1), 0, tertiary, ""},
		{"below the task's own threshold", met(1, 849_999), 850_000, tertiary, ""},
		{"at the task's own threshold", met(1, 850_000), 850_000, primary, ""},
		{"at a lower own threshold", met(1, 400_000), 400_000, secondary, ""},
		{"warned keeps its place", in(met(1, 800_000), guild.Warned), 0, primary, ""},
		{"reduced keeps its place", in(met(1, 800_000), guild.Reduced), 0, primary, ""},
		{"on probation", in(met(1, 800_000), guild.Conditional), 0, tertiary, ""},
		{"provisional", provisional(met(1, 800_000)), 0, tertiary, ""},
		{"suspended", in(met(1, 800_000), guild.Suspended), 0, tiers, ByState},
		{"removed", in(met(1, 800_000), guild.Removed), 0, tiers, ByState},
		{"met, being benchmarked", in(met(1, 800_000), guild.Benchmarking), 0, tiers, ByAgain},
		{"unmet, being benchmarked", in(unmet(1), guild.Benchmarking), 0, tertiary, ""},
		{"unconfirmed", unconfirmed(unmet(1)), 0, tertiary, ""},
		{"unconfirmed, and proven", unconfirmed(met(1, 800_000)), 0, primary, ""},
	} {
		s := newMarket(t, true).settings
		s.Threshold = c.threshold
		if tier, by := s.place(&c.facts); tier != c.tier || by != c.by {
			t.Errorf("%s: tier %d, %q, want %d, %q", c.name, tier, by, c.tier, c.by)
		}
	}
}

// within fails unless k of n differs from a share by less than four standard deviations.
func within(t *testing.T, what string, k, n int, share float64) {
	t.Helper()
	mean, deviation := float64(n)*share, math.Sqrt(float64(n)*share*(1-share))
	if math.Abs(float64(k)-mean) > 4*deviation+0.5 {
		t.Errorf("%s: %d of %d, want %.0f ± %.0f", what, k, n, mean, 4*deviation)
	}
}

// Section 3.3.3: 70, 25 and 5 % of the decisions. The share of a missing tier goes to the next better one, or to the
// best.
func TestTierShares(t *testing.T) {
	const decisions = 10_000
	all := map[string][]Facts{"primary": {met(1, 900_000), met(2, 850_000)}, "secondary": {met(3, 700_000), met(4, 500_000)},
		"tertiary": {unmet(5), unmet(6), met(7, 400_000)}}
	for _, c := range []struct {
		there []string
		low   bool
		want  map[string]float64
	}{
		{[]string{"primary", "secondary", "tertiary"}, true, map[string]float64{"primary": 0.70, "secondary": 0.25, "tertiary": 0.05}},
		{[]string{"primary", "secondary", "tertiary"}, false, map[string]float64{"primary": 0.70, "secondary": 0.30}},
		{[]string{"primary", "secondary"}, true, map[string]float64{"primary": 0.70, "secondary": 0.30}},
		{[]string{"secondary", "tertiary"}, true, map[string]float64{"secondary": 0.95, "tertiary": 0.05}},
		{[]string{"primary", "tertiary"}, true, map[string]float64{"primary": 0.95, "tertiary": 0.05}},
		{[]string{"tertiary"}, true, map[string]float64{"tertiary": 1}},
	} {
		m := newMarket(t, true)
		for _, tier := range c.there {
			for _, f := range all[tier] {
				m.services[f.Offer.Service] = f
			}
		}
		got := map[string]int{}
		for n := range decisions {
			f, choice, ok := m.asks(n, func(q *Query) { q.Low, q.Decided = c.low, n })
			tier, _ := m.settings.place(&f)
			if !ok || m.settings.Tiers[tier].Name != choice.Tier {
				t.Fatalf("%v chosen, from tier %s", f.Offer.Service, choice.Tier)
			}
			got[choice.Tier]++
		}
		for tier, share := range c.want {
			within(t, fmt.Sprint(tier, " of ", c.there), got[tier], decisions, share)
		}
		if !c.low && got["tertiary"] > 0 {
			t.Errorf("%d decisions that matter are for those who are not trusted", got["tertiary"])
		}
	}
}

// ε starts at 0.1, is halved after each hundred decisions, and ends at 0.01.
func TestEpsilon(t *testing.T) {
	r := policy.Specification().Routing
	for decided, want := range map[int]guild.Trust{0: 100_000, 50: 75_000, 100: 50_000, 150: 37_500, 200: 25_000, 300: 12_500, 350: 10_000, 1_000_000: 10_000} {
		if got := Epsilon(r, decided); got != want {
			t.Errorf("after %d: %d, want %d", decided, got, want)
		}
	}
	if r.Epsilon = 0; Epsilon(r, 0) != 0 {
		t.Error("it explores although it must not")
	}
}

// A service without samples is explored twice as often as one with half the required samples; one with all of them
// never is.
func TestExploringPrefersFewSamples(t *testing.T) {
	const decisions = 20_000
	fresh, half, known := met(1, 810_000), met(2, 810_000), met(3, 900_000)
	fresh.Measured.Samples, half.Measured.Samples, known.Offer.Price = 0, 5, 100
	m := newMarket(t, true, fresh, half, known)
	explored, of := 0, map[guild.Service]int{}
	for n := range decisions {
		f, c, _ := m.asks(n, nil)
		if c.Rule == Explored {
			explored++
			of[f.Offer.Service]++
		} else if f.Offer.Service != known.Offer.Service {
			t.Fatalf("%v is chosen by rule %s", f.Offer.Service, c.Rule)
		}
	}
	within(t, "explored", explored, decisions, 0.1)
	within(t, "without a sample", of[fresh.Offer.Service], explored, 2.0/3)
	within(t, "with half of them", of[half.Offer.Service], explored, 1.0/3)
}

// Section 3.4.2: a reduced provider gets half of its work; a warned one gets all of it.
func TestReducedProviderGetsHalf(t *testing.T) {
	const decisions = 10_000
	for state, share := range map[guild.ProviderState]float64{guild.Active: 1, guild.Warned: 1, guild.Reduced: 0.5} {
		best, other := met(1, 900_000), met(2, 810_000)
		best.Offer.State = state
		m := newMarket(t, true, best, other)
		m.settings.Epsilon, m.settings.EpsilonFloor = 0, 0
		got := 0
		for n := range decisions {
			f, _, _ := m.asks(n, nil)
			got += count(f.Offer.Service == best.Offer.Service)
		}
		within(t, string(state), got, decisions, share)
	}
}

func TestReducedProviderAsLastResort(t *testing.T) {
	f := met(1, 900_000)
	f.Offer.State = guild.Reduced
	m, said := newMarket(t, true, f), 0
	for n := range 100 {
		_, c, ok := m.asks(n, nil)
		if !ok {
			t.Fatal("nobody is asked")
		}
		said += len(c.Relaxed)
	}
	if said < 30 || said > 70 {
		t.Errorf("%d times of 100 it is said that it was not its turn", said)
	}
}

func TestDecisionIsDeterministic(t *testing.T) {
	var all []Facts
	for n := range 50 {
		all = append(all, met(n, guild.Trust(300_000+n*12_000)))
	}
	a, b := newMarket(t, true, all...), newMarket(t, false, all...)
	for n := range 500 {
		x, cx, _ := a.asks(n, nil)
		y, cy, _ := b.asks(n, nil)
		if x.Offer.Service != y.Offer.Service || cx.Dice != cy.Dice || !slices.Equal(cx.Candidates, cy.Candidates) {
			t.Fatalf("job %d: %+v and %+v", n, cx, cy)
		}
	}
}

// Section 3.3.1: both indexes, and the fields of an entry.
func TestMatrixIndexes(t *testing.T) {
	slow, fast := met(1, 700_000), met(2, 900_000)
	slow.Measured.Latency, slow.Measured.Rate, slow.Measured.Rated = 9000, 800_000, true
	barred := met(4, 200_000)
	m := newMarket(t, true, slow, fast, met(3, 500_000), barred)
	got := m.Entries(m.scope("python"), 10)
	want := []struct {
		n     int
		tier  string
		speed guild.Speed
	}{{2, "primary", guild.Steady}, {3, "secondary", guild.Steady}, {1, "secondary", guild.Slow}, {4, "", guild.Steady}}
	if len(got) != len(want) {
		t.Fatalf("%d entries", len(got))
	}
	for i, w := range want {
		if e := got[i]; e.Offer.Service != service(w.n) || e.Tier != w.tier || e.Performance != w.speed || (e.Barred == "") != (w.tier != "") {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
	if got := m.Entries(m.scope("python"), 2); len(got) != 2 {
		t.Errorf("%d of at most 2", len(got))
	}
	m.Entries(m.scope("go"), 1)
	if got := m.Tasks(service(1).PubKey); !slices.Equal(got, []string{"go", "python"}) {
		t.Errorf("the tasks of one: %v", got)
	}
	if got := m.Tasks(service(9).PubKey); len(got) != 0 {
		t.Errorf("the tasks of nobody: %v", got)
	}
}

// Facts that depend on the time of day are read again when the hour changes, and only for services with such
// measurements.
func TestHourlyFactsReadAgain(t *testing.T) {
	f := met(1, 900_000)
	f.Measured.Hourly = true
	m := newMarket(t, true, f, met(2, 890_000), met(3, 880_000))
	m.asks(1, nil)
	m.reads = 0
	m.now = m.now.Add(time.Hour)
	m.Entries(m.scope("python"), 1)
	if m.reads != 1 {
		t.Errorf("%d services were read for the new hour, want the one that is another by the hour", m.reads)
	}
	m.Entries(m.scope("python"), 1)
	if m.reads != 1 {
		t.Errorf("they are read again in the same hour")
	}
}
