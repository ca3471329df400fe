package route

import (
	"math"
	"testing"

	"guild"
	"guild/internal/policy"
)

// A share drawn from what is known of a service has the mean and the variance of Beta(1 + won, 1 + lost).
func TestSampleIsBetaDistributed(t *testing.T) {
	const draws = 20_000
	for _, c := range []struct{ won, lost, limit int }{{0, 0, Recent}, {1, 0, Recent}, {0, 3, Recent}, {19, 1, Recent}, {60, 3, Recent}, {400, 100, 50}} {
		a, b := float64(1+c.won), float64(1+c.lost)
		if c.won+c.lost > c.limit {
			a, b = 1+float64(c.limit*c.won/(c.won+c.lost)), 1+float64(c.limit*c.lost/(c.won+c.lost))
		}
		sum, squares := 0.0, 0.0
		for n := range draws {
			x := float64(sample(drawOf(throw(jobOf(n), 0).Faces), service(1), c.won, c.lost, c.limit)) / guild.Micro
			sum, squares = sum+x, squares+x*x
		}
		mean, variance := sum/draws, squares/draws-sum/draws*sum/draws
		wantMean, wantVariance := a/(a+b), a*b/((a+b)*(a+b)*(a+b+1))
		if math.Abs(mean-wantMean) > 4*math.Sqrt(wantVariance/draws) || math.Abs(variance/wantVariance-1) > 0.06 {
			t.Errorf("%d and %d: mean %.4f and variance %.5f, want %.4f and %.5f", c.won, c.lost, mean, variance, wantMean, wantVariance)
		}
	}
}

// Each job draws other shares, and each service of one job its own.
func TestSamplesDiffer(t *testing.T) {
	seen := map[guild.Trust]bool{}
	for n := range 50 {
		for of := range 10 {
			seen[sample(drawOf(throw(jobOf(n), 0).Faces), service(of), 3, 1, Recent)] = true
		}
	}
	if len(seen) < 499 {
		t.Errorf("%d different shares among 500", len(seen))
	}
}

// sampling lets a market choose by Thompson sampling with nothing else in the score.
func sampling(m *market) {
	m.settings.Thompson, m.settings.Weights = Recent, policy.Weights{Trust: guild.Micro}
	m.settings.Share, m.settings.Providers = guild.Micro, 1
}

func withRecord(f Facts, won, lost int) Facts {
	f.Measured.Won, f.Measured.Lost, f.Measured.Samples = won, lost, won+lost
	return f
}

// share returns the share of 300 jobs that a service gets.
func share(m *market, of int) float64 {
	got := 0
	for n := range 300 {
		if f, _, ok := m.asks(n, nil); ok && f.Offer.Service == service(of) {
			got++
		}
	}
	return float64(got) / 300
}

func TestSamplingAsksStrangersByWhatIsKnownOfOthers(t *testing.T) {
	m := newMarket(t, true, withRecord(met(1, 900_000), 30, 1), unmet(2))
	sampling(m)
	if got := share(m, 2); got < 0.02 || got > 0.4 {
		t.Errorf("a stranger among good ones gets %.2f of the jobs", got)
	}
	for n := range 40 {
		m.sets(withRecord(unmet(100+n), 0, 1)) // a flood of keys that never answer
	}
	if got := share(m, 2); got > 0.01 {
		t.Errorf("a stranger among silent ones gets %.2f of the jobs", got)
	}
}

// asking returns a service with another price.
func asking(f Facts, price guild.Msat) Facts {
	f.Offer.Price = price
	return f
}

func TestStrangersByPrice(t *testing.T) {
	m := newMarket(t, true, asking(withRecord(met(1, 900_000), 30, 1), 25_000), asking(unmet(2), 24_000), asking(unmet(3), 3_000))
	sampling(m)
	for n := range 30 {
		m.sets(asking(withRecord(unmet(100+n), 0, 1), guild.Msat(2_000+100*n))) // cheap ones, which fail
	}
	for n := range 8 {
		m.sets(asking(withRecord(met(200+n, 900_000), 3, 0), guild.Msat(22_000+500*n)))
	}
	dear, cheap := share(m, 2), share(m, 3)
	if dear < 0.02 || cheap > 0.01 {
		t.Errorf("a stranger with the price of good ones gets %.2f of the jobs, one with the price of those that fail %.2f", dear, cheap)
	}
}

func TestNearestPrices(t *testing.T) {
	r := references{cost: 40, asked: []priced{{cost: 10, known: 3}, {cost: 20, known: 4, sound: 2}, {cost: 40, known: 2, sound: 2}, {cost: 50, known: 9, sound: 9}}}
	for _, c := range []struct {
		cost         int64
		known, sound int
	}{
		{10, 9, 4},   // seven have 10 or 20, and 40 is the next price
		{0, 9, 4},    // below all
		{30, 15, 13}, // six have 20 or 40; 10 and 50 are as near, and the dearer one counts
		{50, 9, 9},   // enough have this price
		{900, 9, 9},  // above all
	} {
		if known, sound := r.nearest(c.cost); known != c.known || sound != c.sound {
			t.Errorf("at %d msat %d of %d, want %d of %d", c.cost, sound, known, c.sound, c.known)
		}
	}
	few := references{asked: []priced{{cost: 10, known: 1}, {cost: 20, known: 2, sound: 1}}}
	if known, sound := few.nearest(15); known != 3 || sound != 1 {
		t.Errorf("all of a few are %d of %d, want 1 of 3", sound, known)
	}
}

func TestSamplingGivesImportantJobsToNoStranger(t *testing.T) {
	m := newMarket(t, true, withRecord(met(1, 900_000), 1, 3), unmet(2))
	sampling(m)
	for n := range 100 {
		f, c, ok := m.asks(n, func(q *Query) { q.Low = false })
		if !ok || f.Offer.Service != service(1) || c.Rule != Sampled {
			t.Fatalf("job %d goes to %v by the rule %s", n, f.Offer.Service, c.Rule)
		}
	}
}

func TestSamplingWaitsForWhoIsBetterThanAStranger(t *testing.T) {
	good := withRecord(met(1, 900_000), 40, 0)
	good.Offer.Slots, good.Given = 1, 1
	m := newMarket(t, true, good, withRecord(unmet(2), 0, 6))
	sampling(m)
	if waiting := share(m, 1); waiting < 0.99 {
		t.Errorf("%.2f of the jobs wait for a full provider, beside one that never answers", waiting)
	}
	m.sets(withRecord(met(3, 900_000), 10, 4))
	if got := share(m, 3); got < 0.99 {
		t.Errorf("%.2f of the jobs go to a known provider with a free slot", got)
	}
}
