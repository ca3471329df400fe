package jobs

import (
	"slices"
	"strconv"
	"testing"
	"testing/synctest"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/policy"
	"guild/nip90"
)

// dealt returns a market in which so many of the latest bids, at the amount, were enough, and so many were not.
func dealt(taken, refused int, amount guild.Msat) market {
	m := market{Bids: policy.Specification().Bids}
	for range taken {
		m.deals = append(m.deals, deal{Amount: amount, Taken: true})
	}
	for range refused {
		m.deals = append(m.deals, deal{Amount: amount})
	}
	return m
}

// The formula of section 4.1.4 of the partnership protocol, worked out by hand.
func TestBidFactors(t *testing.T) {
	quiet := dealt(0, 0, 0)
	for _, c := range []struct {
		market  market
		base    guild.Msat
		urgency string
		target  guild.Trust
		want    guild.Msat
	}{
		{quiet, 1000, "", 0, 1000},
		{quiet, 1000, "normal", 0, 1000},                           // × 1.0
		{quiet, 1000, "urgent", 0, 1500},                           // × 1.5
		{quiet, 1000, "critical", 0, 2000},                         // × 2.0
		{quiet, 1000, "normal", 800_000, 1300},                     // × (1.0 + 0.8 − 0.5)
		{quiet, 1000, "normal", 900_000, 1400},                     // × (1.0 + 0.9 − 0.5)
		{quiet, 1000, "normal", 500_000, 1000},                     // average quality has no premium
		{quiet, 1000, "normal", 300_000, 1000},                     // and what is below it takes nothing away
		{quiet, 1000, "urgent", 800_000, 1950},                     // 1000 × 1.5 × 1.3
		{dealt(50, 0, 1), 1000, "normal", 0, 500},                  // × 0.5
		{dealt(0, 50, 1), 1000, "normal", 0, 2000},                 // × 2.0
		{dealt(50, 0, 1), 1000, "critical", 900_000, 1400},         // 1000 × 2.0 × 1.4 × 0.5
		{dealt(19, 1, 1), 700, "urgent", 650_000, 906},             // 700 × 1.5 × 1.15 × 0.75 = 905.625
		{quiet, 1, "urgent", 0, 2},                                 // 1.5: half up
		{quiet, 333, "urgent", 0, 500},                             // 499.5
		{quiet, 3, "normal", 600_000, 3},                           // 3.3
		{dealt(50, 0, 1), 1, "normal", 0, 1},                       // 0.5
		{dealt(50, 0, 1), 3, "urgent", 0, 2},                       // 2.25, and rounded once: 4.5 would be 5, and 2.5 then 3
		{quiet, 0, "critical", 900_000, 0},                         // nothing stays nothing
		{dealt(0, 50, 1), mostBid, "critical", 900_000, mostBid},   // × 5.6
		{dealt(0, 50, 1), mostBid - 1, "normal", 0, mostBid},       // × 2
		{quiet, mostBid, "normal", 0, mostBid},                     // × 1
		{dealt(50, 0, 1), mostBid, "normal", 0, (mostBid + 1) / 2}, // × 0.5
	} {
		if got := c.market.bid(c.base, c.urgency, c.target); got != c.want {
			t.Errorf("%s, %q, target %s, %d deals: %s, want %s", c.base, c.urgency, c.target, len(c.market.deals), got, c.want)
		}
	}
}

func TestMarketAdjustment(t *testing.T) {
	for _, c := range []struct {
		taken, refused int
		want           guild.Trust
	}{
		{0, 0, 1_000_000}, {9, 0, 1_000_000}, {0, 9, 1_000_000}, // too few to say
		{10, 0, 500_000},                                         // all
		{19, 1, 750_000},                                         // 95 %: half the way from 90 to 100
		{49, 1, 600_000},                                         // 98 %: 1 − 0.5 × 0.8
		{9, 1, 1_000_000}, {45, 5, 1_000_000}, {5, 5, 1_000_000}, // from 50 to 90 %
		{20, 30, 1_200_000}, // 40 %: 1 + (0.5 − 0.4) / 0.5
		{5, 15, 1_500_000},  // 25 %: half the way from 50 to 0
		{0, 10, 2_000_000},  // none
	} {
		if got := dealt(c.taken, c.refused, 1).adjustment(); got != c.want {
			t.Errorf("%d taken, %d refused: %d, want %d", c.taken, c.refused, got, c.want)
		}
	}
}

func TestBaseCostIsMedian(t *testing.T) {
	at := func(amounts ...guild.Msat) (deals []deal) {
		for _, a := range amounts {
			deals = append(deals, deal{Amount: a, Taken: true})
		}
		return deals
	}
	for _, c := range []struct {
		what  string
		deals []deal
		want  guild.Msat
	}{
		{"no history: what the provider asks for", nil, 700},
		{"one", at(900), 900},
		{"the one in the middle", at(100, 5000, 300), 300},
		{"of two in the middle the lower", at(100, 400, 300, 9000), 300},
		{"refused ones do not count", append(at(900), deal{Amount: 1}, deal{Amount: 2}, deal{Amount: 3}), 900},
		{"only refused ones: as without history", []deal{{Amount: 1}}, 700},
		{"without the urgency that raised it", []deal{{1500, true, "urgent", 0, 0}}, 1000},        // 1500 / 1.5
		{"without the premium that raised it", []deal{{1300, true, "", 800_000, 0}}, 1000},        // 1300 / 1.3
		{"without both, rounded half up", []deal{{1000, true, "critical", 900_000, 0}}, 357},      // 1000 / 2.8 = 357.14
		{"an average job's is as it is", []deal{{1000, true, "normal", 500_000, 0}}, 1000},        //
		{"a quote of all that an urgent job bids", []deal{{1500, true, "urgent", 0, 1500}}, 1000}, // as if nothing was said: 1500 / 1.5
		{"nearly all of it", []deal{{1500, true, "urgent", 0, 1499}}, 1000},                       // the same
		{"less than it is worth to others", []deal{{1500, true, "urgent", 0, 800}}, 800},          // what the work costs
		{"as much as there is", []deal{{mostBid, true, "", 0, 0}}, mostBid},                       //
	} {
		m := market{policy.Specification().Bids, c.deals}
		if got := m.base(700, 50); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	if got := dealt(0, 0, 0).base(0, 50); got != 50 {
		t.Errorf("without a price: %s, want what is configured", got)
	}
}

// bidFor opens a job and returns the bid of its fact and of its request.
func (w *world) bidFor(o Order) (planned, inside guild.Msat, outside nostr.Tag) {
	w.Helper()
	a := w.attempt(w.opens(o))
	r, sent := w.asked(alice)
	return a.Bid, r.Bid, sent.Tags.Find("bid")
}

func TestWhatAJobBids(t *testing.T) {
	budget := map[string]Budget{"python": {Daily: 100_000}}
	for _, c := range []struct {
		what    string
		price   guild.Msat
		budgets map[string]Budget
		order   Order
		want    guild.Msat
	}{
		{"nobody asks for anything: it stays free", 0, nil, Order{}, 0},
		{"and urgency does not change that", 0, nil, Order{Urgency: "critical"}, 0},
		{"what is said to be free is", 700, budget, Order{Free: true}, 0},
		{"without history what the provider announces", 700, nil, Order{}, 700},
		{"by how urgent it is", 700, nil, Order{Urgency: "urgent"}, 1050},
		{"and by the quality that is wanted", 700, nil, Order{Urgency: "urgent", Target: 700_000}, 1260}, // 700 × 1.5 × 1.2
		{"what the customer names is the limit", 700, nil, Order{Bid: 800, Urgency: "urgent"}, 800},
		{"what is computed stays below its limit", 700, nil, Order{Most: 800, Urgency: "urgent"}, 800},
		{"who has a budget bids what the policy says", 0, budget, Order{}, 1000},
		{"or what is configured for the task", 0, map[string]Budget{"python": {Base: 40}}, Order{}, 40},
		{"or for all", 0, map[string]Budget{Others: {Base: 30}}, Order{}, 30},
		{"and for others that does not count", 0, map[string]Budget{"docs": {Base: 30}}, Order{}, 0},
		{"a benchmark bids what it was given", 700, budget, Order{Meeting: &fact.Benchmark{Meeting: "m"}}, 0},
	} {
		for _, sealed := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				offer := alice.offers(c.price)
				offer.Encrypts = sealed
				w := newWorld(t, offer)
				w.configures = func(into *Config) { into.Budgets = c.budgets }
				w.restart()
				var tag nostr.Tag
				if c.want > 0 {
					tag = nostr.Tag{"bid", strconv.FormatInt(int64(c.want), 10)}
				}
				planned, inside, outside := w.bidFor(c.order)
				if planned != c.want || inside != c.want || !slices.Equal(outside, tag) {
					t.Errorf("%s: planned %s, the request %s and %v, want %s", c.what, planned, inside, outside, c.want)
				}
			})
		}
	}
}

func TestWhoAsksMoreThanTheLimitIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(700), bob.offers(300))
		id := w.opens(Order{Most: 500})
		if a := w.attempt(id); a.Provider != bob.service() || a.Bid != 300 {
			t.Errorf("%s was asked for %s", a.Provider, a.Bid)
		}
	})
}

func TestOpenJobBidsTheOffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1))
		id := w.opens(Order{Open: true, Urgency: "critical"})
		job, _ := w.fold.Job(id)
		if tag := job.Solicited.Request.Tags.Find("bid"); tag != nil {
			t.Errorf("everybody is told %v", tag)
		}
		w.says(alice, offers(job.Solicited.Request.ID, 77))
		w.pass(w.c.Patience.Offers)
		if a := w.attempt(id); a.Bid != 77 {
			t.Errorf("it bids %s", a.Bid)
		}
	})
}

func TestDealsAreRecorded(t *testing.T) {
	quote := func(amount guild.Msat) nip90.Feedback {
		return nip90.Feedback{Customer: customer.key, Status: nip90.PaymentRequired, Amount: amount}
	}
	low := nip90.Feedback{Customer: customer.key, Status: nip90.Error, Text: "too low", Amount: 900}
	for _, c := range []struct {
		what    string
		order   Order
		says    *nip90.Feedback
		outcome guild.Outcome
		want    []deal
	}{
		{"work that is accepted accepts the bid", Order{}, nil, guild.Success, []deal{{700, true, "", 0, 0}}},
		{"with what it was raised by", Order{Urgency: "urgent", Target: 700_000}, nil, guild.Success, []deal{{1260, true, "urgent", 700_000, 0}}},
		{"work that is rejected says nothing", Order{}, nil, guild.Failure, nil},
		{"nor does a limit that a customer names", Order{Bid: 5000}, nil, guild.Success, nil},
		{"nor does a quote, to which nothing was delivered", Order{}, new(quote(1)), "", nil},
		{"also within a limit", Order{Bid: 5000}, new(quote(650)), "", nil},
		{"one beyond a bid refuses it", Order{}, new(quote(701)), "", []deal{{Amount: 700}}},
		{"one beyond a limit does not", Order{Bid: 800}, new(quote(801)), "", nil},
		{"who names a least bid refuses it", Order{}, &low, "", []deal{{Amount: 700}}},
		{"one who is paid enough refuses for something else", Order{Urgency: "critical"}, &low, "", nil},
		{"what was free says nothing", Order{Free: true}, new(quote(1)), "", nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, alice.offers(700))
			id := w.opens(c.order)
			request := w.attempt(id).ID
			if c.says != nil {
				c.says.Request = request
				w.says(alice, c.says.Event())
			} else {
				w.delivers(alice, request, []byte("the work"))
				w.judges(id, c.outcome)
				w.append(id, fact.AttemptRecorded{Attempt: request})
				w.append(id, fact.AttemptDisputed{Attempt: request})
				w.judges(id, guild.Success)
			}
			if got := w.fold.dealsFor("python"); !slices.Equal(got, c.want) {
				t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
			}
		})
	}
}

// The quote for accepted work counts as its cost, whoever named the bid.
func TestQuoteCountsWithAcceptedDelivery(t *testing.T) {
	for _, c := range []struct {
		what    string
		opened  fact.JobOpened
		quote   guild.Msat
		outcome guild.Outcome
		want    []deal
	}{
		{"of a computed bid, with what raised that", fact.JobOpened{Unbid: true, Urgency: "urgent"}, 1050, guild.Success, []deal{{1050, true, "urgent", 0, 1050}}},
		{"of a limit, as it is", fact.JobOpened{Bid: 1050, Urgency: "urgent"}, 650, guild.Success, []deal{{650, true, "", 0, 0}}},
		{"work that is rejected accepts nothing", fact.JobOpened{Unbid: true}, 1, guild.Failure, nil},
	} {
		f := NewFold()
		job, attempt := guild.JobID{1}, nostr.ID{1}
		c.opened.Job, c.opened.Task = job, "python"
		for _, facts := range [][]fact.Fact{
			{c.opened, fact.AttemptPlanned{Attempt: attempt, Job: job, Provider: alice.service(), Bid: 1050}, fact.AttemptRequested{Attempt: attempt}},
			{fact.AttemptQuoted{Attempt: attempt, Amount: c.quote}},
			{fact.AttemptDelivered{Attempt: attempt}},
		} {
			f.Apply(fact.Entry{Subject: fact.JobSubject(job), Facts: facts})
			if got := f.dealsFor("python"); got != nil {
				t.Errorf("%s: before the verdict %+v", c.what, got)
			}
		}
		f.Apply(fact.Entry{Subject: fact.JobSubject(job), Facts: []fact.Fact{
			fact.AttemptJudged{Attempt: attempt, Verdict: guild.Verdict{Outcome: c.outcome, Score: guild.Micro}}}})
		if got := f.dealsFor("python"); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
}

func TestTheLatestFiftyBidsAreRemembered(t *testing.T) {
	f := NewFold()
	for n := range byte(60) {
		job, attempt := guild.JobID{n + 1}, nostr.ID{n + 1}
		f.Apply(fact.Entry{Subject: fact.JobSubject(job), Facts: []fact.Fact{
			fact.JobOpened{Job: job, Task: "python", Unbid: true},
			fact.AttemptPlanned{Attempt: attempt, Job: job, Provider: alice.service(), Bid: 100 + guild.Msat(n)},
			fact.AttemptRequested{Attempt: attempt},
			fact.AttemptQuoted{Attempt: attempt, Amount: 1000},
		}})
	}
	deals := f.dealsFor("python")
	if len(deals) != 50 || deals[0].Amount != 110 || deals[49].Amount != 159 {
		t.Errorf("%d, %+v", len(deals), deals)
	}
	if n := len(f.dealsFor("docs")); n != 0 {
		t.Errorf("%d for another task", n)
	}
}

func TestTheNextBidFollowsFromHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(700))
		w.limits = Limits{PerMinute: 1000}
		w.restart()
		var bids []guild.Msat
		for range 12 {
			id := w.opens(Order{})
			bids = append(bids, w.attempt(id).Bid)
			w.delivers(alice, w.attempt(id).ID, []byte("the work"))
			w.judges(id, guild.Success)
		}
		want := []guild.Msat{700, 700, 700, 700, 700, 700, 700, 700, 700, 700, 350, 350} // all of ten are taken: half
		if !slices.Equal(bids, want) {
			t.Errorf("%v, want %v", bids, want)
		}
	})
}

func TestOrderWithWrongWorthIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1))
		for _, o := range []Order{
			{Class: "benchmark"}, {Class: "Financial"}, {Urgency: "soon"}, {Bid: -1}, {Bid: mostBid + 1}, {Free: true, Bid: 1},
			{Target: -1}, {Target: guild.Micro + 1}, {Most: -1}, {Most: 1, Bid: 1}, {Most: 1, Free: true},
		} {
			o.Task, o.Kind, o.Bundle = "python", 5000, []byte("the task")
			if _, err := w.Open(t.Context(), o); err == nil {
				t.Errorf("%+v was opened", o)
			}
		}
		for _, class := range guild.Classes() {
			id := w.opens(Order{Class: class, Urgency: "urgent", Target: 900_000})
			if job, _ := w.fold.Job(id); job.Class != class || job.Urgency != "urgent" || job.Target != 900_000 || !job.Unbid {
				t.Errorf("%+v", job.JobOpened)
			}
		}
	})
}
