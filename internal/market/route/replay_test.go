package route

import (
	"testing"

	"pgregory.net/rapid"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/policy"
)

// past lets a market decide a number of jobs. Each ends a minute later with the score of the chosen service.
func past(t testing.TB, m *market, jobs int, score func(guild.Service) guild.Score) (history []Decision) {
	t.Helper()
	for n := range jobs {
		f, c, ok := m.asks(n, func(q *Query) { q.Decided = n })
		if !ok {
			t.Fatal("nobody")
		}
		at := m.now.UnixMilli() + int64(n)*60_000
		history = append(history, Decision{Job: jobOf(n), Turn: 1, Task: "python", At: at, Service: f.Offer.Service, Choice: fact.Choice(c),
			Routing: m.settings.Routing, Ended: at + 60_000, Score: score(f.Offer.Service), Cost: f.cost()})
	}
	return history
}

func good(guild.Service) guild.Score { return guild.Micro }

// Replaying with the same settings must change nothing: the record has everything that the decision used.
func TestReplaySameSettings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMarket(quiet{}, true)
		m.settings.Thompson = rapid.SampledFrom([]int{0, 9, Recent}).Draw(t, "sampled")
		for n := range rapid.IntRange(1, 8).Draw(t, "services") {
			f := anyFacts(t, n)
			f.Recent = 0
			m.services[service(n)] = f
		}
		m.settings.Epsilon, m.settings.EpsilonFloor = 0, 0
		var history []Decision
		for n := range 20 {
			if f, c, ok := m.asks(n, nil); ok {
				history = append(history, Decision{Job: jobOf(n), Task: "python", At: int64(n), Service: f.Offer.Service, Choice: fact.Choice(c),
					Routing: m.settings.Routing, Ended: int64(n + 1), Score: 500_000, Cost: 7})
			}
		}
		r := Replay(history, m.settings.Routing)
		if r.Changed != 0 || r.Cost != r.WouldCost || r.Score != r.Would || len(r.Decisions) != len(history) || !r.Exact {
			t.Fatalf("%d of %d changed, %v instead of %v", r.Changed, len(history), r.WouldCost, r.Cost)
		}
	})
}

// There are two services: one has more trust and costs 1800, the other has less and costs 600. By trust alone the first
// is chosen, by cost alone the second. The second did its four jobs well, the first did well in the first half of its
// own.
func TestReplayOtherWeights(t *testing.T) {
	dear, cheap := met(1, 900_000), met(2, 810_000)
	dear.Offer.Price, cheap.Offer.Price = 1800, 600
	m := newMarket(t, true, dear, cheap)
	m.settings.Epsilon, m.settings.EpsilonFloor = 0, 0
	m.settings.Weights = policy.Weights{Trust: 900_000, Cost: 25_000, Latency: 25_000, Load: 25_000, Exploration: 25_000}
	history := past(t, m, 10, func(guild.Service) guild.Score { return 500_000 })
	known := past(t, newMarket(t, true, cheap), 4, good)
	for i := range known {
		known[i].At -= 1_000_000 // these were earlier
		known[i].Ended -= 1_000_000
	}
	by := m.settings.Routing
	by.Weights = policy.Weights{Trust: 100_000, Cost: 800_000, Latency: 50_000, Load: 25_000, Exploration: 25_000}
	r := Replay(append(known, history...), by)
	// Ten of fourteen choose the cheap service instead: 14·600 instead of 4·600 + 10·1800.
	if r.Changed != 10 || r.Cost != 20_400 || r.WouldCost != 8_400 || !r.Exact || r.Ended != 14 {
		t.Errorf("%d changed, %d would have cost %d", r.Changed, r.Cost, r.WouldCost)
	}
	// The fifth decision knows four verdicts of 1, all on the cheap service: (4·1 + 3·1) / 7 = 1, of which 4/7 is certain.
	if got := r.Decisions[4].Then; got != (Expectation{guild.Micro, 4, 571_428}) {
		t.Errorf("then: %+v", got)
	}
	// Thirteen verdicts without its own: 4 of 1 and 9 of 0.5 have the mean 8.5/13 = 0.653846. (4 + 3·0.653846) / 7 =
	// 0.851648.
	if got := r.Decisions[4].Overall; got != (Expectation{851_648, 4, 571_428}) {
		t.Errorf("overall: %+v", got)
	}
	// The actual mean is (4 + 5)/14; the estimated one is (4 + 10·0.851648)/14.
	if r.Score != 642_857 || r.Would != 894_034 {
		t.Errorf("%d and %d", r.Score, r.Would)
	}
}

func TestReplayWithoutEpsilon(t *testing.T) {
	known, fresh := met(1, 900_000), met(2, 810_000)
	known.Offer.Price, fresh.Measured.Samples = 100, 0
	m := newMarket(t, true, known, fresh)
	m.settings.EpsilonHalf = 0
	history := past(t, m, 500, good)
	by := m.settings.Routing
	by.Epsilon, by.EpsilonFloor = 0, 0
	r := Replay(history, by)
	if r.DidBefore < 25 || r.Explored != 0 || r.Changed != r.DidBefore {
		t.Errorf("%d explored, then %d; %d changed", r.DidBefore, r.Explored, r.Changed)
	}
	for _, d := range r.Decisions {
		if d.Again.Service != service(1) {
			t.Fatalf("job %v goes to %v", d.Job, d.Again.Service)
		}
	}
	if again := Replay(history, m.settings.Routing); again.Changed != 0 || again.Explored != r.DidBefore {
		t.Errorf("with it: %d changed, %d explored", again.Changed, again.Explored)
	}
}

func TestReplayKeepsForeignDecisions(t *testing.T) {
	m := newMarket(t, true, met(1, 900_000), met(2, 850_000))
	history := past(t, m, 3, good)
	for i, rule := range []string{Named, Meeting, Offered} {
		history[i].Choice.Rule, history[i].Service = rule, service(2)
	}
	if r := Replay(history, m.settings.Routing); r.Kept != 3 || r.Changed != 0 || r.Ended != 0 || r.Cost != 0 {
		t.Errorf("%d kept, %d changed, %d ended for %d", r.Kept, r.Changed, r.Ended, r.Cost)
	}
	bad := past(t, m, 2, func(guild.Service) guild.Score { return 0 })
	bad[0].Choice.Rule = Meeting
	bad[1].Choice.Rule = Named
	own := past(t, m, 1, good)
	if r := Replay(append(own, bad...), m.settings.Routing); r.Ended != 1 || r.Score != guild.Micro || r.Cost != own[0].Cost {
		t.Errorf("%d ended with the mean score %d for %d, want the router's own only", r.Ended, r.Score, r.Cost)
	}
	if r := Replay([]Decision{{Task: "python"}}, m.settings.Routing); r.Kept != 1 || r.Changed != 0 || r.Ended != 0 {
		t.Errorf("from before choices were written down: %+v", r)
	}
}

func TestReplayZeroWeightIsInexact(t *testing.T) {
	m := newMarket(t, true, met(1, 900_000), met(2, 850_000))
	m.settings.Weights.Load = 0
	history := past(t, m, 3, good)
	if r := Replay(history, m.settings.Routing); !r.Exact {
		t.Error("what stays nothing is exact")
	}
	if r := Replay(history, policy.Specification().Routing); r.Exact {
		t.Error("the term is not known, and that is not said")
	}
}
