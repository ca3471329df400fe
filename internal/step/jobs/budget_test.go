package jobs

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/journal/fold/foldtest"
	"guild/internal/step/steptest"
)

func date(text string) time.Time {
	at, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		panic(err)
	}
	return at
}

func TestPeriodsAreUTC(t *testing.T) {
	for _, c := range []struct {
		at      string
		of      int
		from    string
		to      string
		elapsed guild.Trust
	}{
		{"2026-02-15 00:00", month, "2026-02-01 00:00", "2026-03-01 00:00", 500_000}, // 14 days of 28
		{"2026-02-15 12:00", day, "2026-02-15 00:00", "2026-02-16 00:00", 500_000},
		{"2026-12-31 23:59", month, "2026-12-01 00:00", "2027-01-01 00:00", 999_977}, // 44,639 minutes of 44,640
		{"2026-12-31 18:00", day, "2026-12-31 00:00", "2027-01-01 00:00", 750_000},
		{"2026-03-01 00:00", month, "2026-03-01 00:00", "2026-04-01 00:00", 0},
	} {
		at := date(c.at).In(time.FixedZone("", 5*3600))
		from, to := period(c.of, at)
		if !from.Equal(date(c.from)) || !to.Equal(date(c.to)) || elapsed(c.of, at) != c.elapsed {
			t.Errorf("%s: %s to %s, %d", c.at, from, to, elapsed(c.of, at))
		}
	}
}

// Section 4.1.4 of the partnership protocol: a task without budget left borrows from tasks that have spent less than their
// share of the time. Half of the month is over.
func TestBudgetsThatAreUnderspentLend(t *testing.T) {
	type loans = map[string]guild.Msat
	empty := Balance{Limit: 10_000, Spent: 10_000}
	docs := Balance{Limit: 8000, Spent: 1000}             // of 4000 that it should have spent: 3000 to spare
	tests := Balance{Limit: 4000, Reserved: 500}          // of 2000: 1500
	busy := Balance{Limit: 6000, Spent: 3000}             // of 3000: nothing
	lent := Balance{Limit: 8000, Spent: 1000, Lent: 2000} // 1000
	half := guild.Trust(500_000)
	for _, c := range []struct {
		what     string
		balances map[string]Balance
		amount   guild.Msat
		elapsed  guild.Trust
		want     loans
		granted  bool
	}{
		{"its own room is enough", map[string]Balance{"python": {Limit: 1000, Spent: 400, Reserved: 100}, "docs": docs}, 500, half, nil, true},
		{"what is short is lent", map[string]Balance{"python": {Limit: 1000, Spent: 400, Reserved: 100}, "docs": docs}, 1500, half, loans{"docs": 1000}, true},
		{"all of it", map[string]Balance{"python": empty, "docs": docs}, 3000, half, loans{"docs": 3000}, true},
		{"and no more than was left unspent", map[string]Balance{"python": empty, "docs": docs}, 3001, half, nil, false},
		{"the one with the most first", map[string]Balance{"python": empty, "docs": docs, "tests": tests, "busy": busy}, 4000, half, loans{"docs": 3000, "tests": 1000}, true},
		{"of two alike the first by name", map[string]Balance{"python": empty, "b": docs, "a": docs}, 1, half, loans{"a": 1}, true},
		{"together too little", map[string]Balance{"python": empty, "docs": docs, "tests": tests}, 4501, half, nil, false},
		{"what was lent is not lent again", map[string]Balance{"python": empty, "docs": lent}, 1000, half, loans{"docs": 1000}, true},
		{"not even a little of it", map[string]Balance{"python": empty, "docs": lent}, 1001, half, nil, false},
		{"what was lent is not spent either", map[string]Balance{"python": {Limit: 8000, Lent: 3000, Spent: 4000}}, 1001, half, nil, false},
		{"at the beginning nobody lends", map[string]Balance{"python": empty, "docs": {Limit: 8000}}, 1, 0, nil, false},
		{"who borrowed does not lend", map[string]Balance{"python": empty, "docs": {Limit: 1000, Borrowed: 500, Spent: 1500}}, 1, half, nil, false},
		{"what has no limit lends nothing", map[string]Balance{"python": empty, "docs": {}}, 1, half, nil, false},
		{"and needs nothing", map[string]Balance{"python": {Spent: 5000}}, 1 << 40, half, nil, true},
		{"a limit that was lowered is no debt", map[string]Balance{"python": {Limit: 1000, Spent: 9000}, "docs": docs}, 3000, half, loans{"docs": 3000}, true},
	} {
		got, granted := grant(c.balances, "python", c.amount, c.elapsed)
		if granted != c.granted || granted && !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, %t", c.what, got, granted)
		}
	}
}

// reservations lists all reservations.
func (f *Fold) reservations() []turn {
	return fold.Read(f.State, func(s *state) (turns []turn) {
		for t := range s.Bids.All() {
			turns = append(turns, t)
		}
		return turns
	})
}

// Whatever is reserved and freed, no budget is overdrawn, and all tasks together spend no more than all budgets.
func TestAllBudgetsTogetherAreNeverOverspent(t *testing.T) {
	budgets := map[string]Budget{"a": {Daily: 1000, Monthly: 5000}, "b": {Daily: 500, Monthly: 2000}, "c": {Daily: 2000}, Others: {Monthly: 700}}
	rapid.Check(t, func(t *rapid.T) {
		j := New(Config{Budgets: budgets}, NewFold())
		now, seq := date("2026-02-10 06:00"), 0
		apply := func(f fact.Fact) {
			seq++
			j.fold.Apply(fact.Entry{Seq: uint64(seq), At: now.UnixMilli(), Subject: fact.BidSubject, Facts: []fact.Fact{f}})
		}
		for n := range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "minutes")) * time.Minute)
			switch open := j.fold.reservations(); {
			case len(open) > 0 && rapid.IntRange(0, 2).Draw(t, "free") == 0:
				one := open[0]
				r := fold.Read(j.fold.State, func(s *state) reservation { return s.Bids.Of(one) })
				apply(fact.BidFreed{Job: one.Job, Turn: one.N, Spent: r.Amount * guild.Msat(rapid.IntRange(0, 2).Draw(t, "spent")) / 2})
			default:
				task := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "task")
				amount := guild.Msat(rapid.IntRange(1, 900).Draw(t, "amount"))
				if a := j.allows(task, amount, now); a.until.IsZero() {
					apply(fact.BidReserved{Job: guild.JobID{1}, Turn: n + 1, Task: task, Amount: amount, At: now.UnixMilli(), Day: a.loans[day], Month: a.loans[month]})
				}
			}
			var all [periods]struct{ limit, used, lent, borrowed guild.Msat }
			for _, e := range j.Budget(now) {
				for of, p := range []Balance{e.Daily, e.Monthly} {
					if p.Limit == 0 {
						continue
					}
					if p.room() < 0 || p.Reserved < 0 || p.Spent < 0 || p.Lent < 0 || p.Borrowed < 0 {
						t.Fatalf("%s: %+v", e.Task, p)
					}
					all[of].limit += p.Limit
					all[of].used += p.Reserved + p.Spent
					all[of].lent += p.Lent
					all[of].borrowed += p.Borrowed
				}
			}
			for of, sum := range all {
				if sum.used > sum.limit || sum.lent != sum.borrowed {
					t.Fatalf("period %d: %+v", of, sum)
				}
			}
		}
		again := NewFold()
		if err := again.Restore([]byte(foldtest.Snapshot(t, j.fold))); err != nil || foldtest.Snapshot(t, again) != foldtest.Snapshot(t, j.fold) {
			t.Fatal("a snapshot has other budgets", err)
		}
	})
}

// spends begins a world with budgets in which alice is paid for her work.
func spends(t *testing.T, budgets map[string]Budget, offers ...guild.Offer) *world {
	t.Helper()
	w := newWorld(t, offers...)
	w.limits = Limits{AtOnce: 1000, PerMinute: 1000}
	w.configures = func(c *Config) { c.Budgets = budgets }
	w.restart()
	return w
}

// envelope returns the budget of a task.
func (w *world) envelope(task string) Envelope {
	w.Helper()
	for _, e := range w.Budget(time.Now()) {
		if e.Task == task {
			return e
		}
	}
	w.Fatalf("no budget for %s", task)
	return Envelope{}
}

func TestBidIsReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := spends(t, map[string]Budget{"python": {Daily: 1000, Monthly: 5000}}, alice.offers(0))
		first, second, third := w.opens(Order{Bid: 400}), w.opens(Order{Bid: 400}), w.opens(Order{Bid: 400})
		w.wants(first, guild.Requested)
		w.wants(second, guild.Requested)
		w.wants(third) // it waits: 800 of 1000 are bid
		if e := w.envelope("python"); e.Daily != (Balance{Limit: 1000, Reserved: 800}) || e.Monthly != (Balance{Limit: 5000, Reserved: 800}) {
			t.Errorf("%+v", e)
		}
		w.delivers(alice, w.attempt(first).ID, []byte("the work"))
		w.wants(third)
		w.judges(first, guild.Success)
		w.wants(third) // what is spent is spent
		w.delivers(alice, w.attempt(second).ID, []byte("the work"))
		w.judges(second, guild.Failure)
		w.wants(third, guild.Requested)
		if e := w.envelope("python"); e.Daily != (Balance{Limit: 1000, Spent: 400, Reserved: 400}) {
			t.Errorf("%+v", e)
		}
		w.delivers(alice, w.attempt(third).ID, []byte("the work"))
		w.judges(third, guild.Success)
		w.restart()
		if e := w.envelope("python"); e.Daily != (Balance{Limit: 1000, Spent: 800}) || e.Monthly != (Balance{Limit: 5000, Spent: 800}) {
			t.Errorf("after a restart %+v", e)
		}
		w.pass(24 * time.Hour)
		if e := w.envelope("python"); e.Daily != (Balance{Limit: 1000}) || e.Monthly != (Balance{Limit: 5000, Spent: 800}) {
			t.Errorf("the day after %+v", e)
		}
	})
}

func TestHopelessJobEndsAtOnce(t *testing.T) {
	const more = "bid less, or raise it under [budget] in the configuration"
	for _, c := range []struct {
		what   string
		budget Budget
		order  Order
		after  time.Duration
		ending guild.Ending
		reason string
	}{
		{"more than any day allows", Budget{Daily: 500}, Order{Bid: 501, Timeout: 48 * time.Hour}, 0, guild.JobUnclaimed,
			"501 msat must be bid, and the budget for python never allows more than 500 msat a day, with all that other tasks could lend; " + more},
		{"or any month", Budget{Daily: 1000, Monthly: 500}, Order{Bid: 501}, 0, guild.JobUnclaimed,
			"501 msat must be bid, and the budget for python never allows more than 500 msat a month, with all that other tasks could lend; " + more},
		{"or for those who must agree", Budget{Daily: 199}, Order{Bid: 100, Criticality: guild.High}, 0, guild.JobUnclaimed,
			"200 msat must be bid, and the budget for python never allows more than 199 msat a day, with all that other tasks could lend; " + more},
		{"of a bid that is computed, once it is", Budget{Daily: 500}, Order{Urgency: "urgent", Timeout: 48 * time.Hour}, 10 * time.Second, guild.JobUnclaimed,
			"1500 msat must be bid, and the budget for python never allows more than 500 msat a day, with all that other tasks could lend; " + more},
		{"an open one asks nobody for offers", Budget{Daily: 500}, Order{Bid: 501, Open: true, Timeout: 48 * time.Hour}, 0, guild.JobUnclaimed,
			"501 msat must be bid, and the budget for python never allows more than 500 msat a day, with all that other tasks could lend; " + more},
		{"what is free needs none", Budget{Daily: 500}, Order{Free: true}, 10 * time.Second, guild.Open, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := spends(t, map[string]Budget{"python": c.budget}, alice.offers(0), bob.offers(0), carol.offers(0))
			for _, p := range []person{alice, bob, carol} {
				w.trust[p.service()] = 900_000
			}
			id := w.opens(c.order)
			w.pass(c.after)
			if job := w.ends(id, c.ending); job.Reason != c.reason {
				t.Errorf("%s: %q", c.what, job.Reason)
			}
			if n := len(w.fold.reservations()); n != 0 && c.ending != guild.Open {
				t.Errorf("%s: %d reservations stay", c.what, n)
			}
			if n := len(steptest.Facts[fact.JobSolicited](w)); n > 0 {
				t.Errorf("%s: %d requests for offers", c.what, n)
			}
		})
	}
}

// A day has 500, of which 400 are spent.
func TestJobWaitsForBudget(t *testing.T) {
	for _, c := range []struct {
		what    string
		timeout time.Duration
		after   time.Duration
		ending  guild.Ending
	}{
		{"tomorrow is too late", 23 * time.Hour, 10 * time.Second, guild.JobUnclaimed},
		{"it waits for tomorrow", 48 * time.Hour, 23 * time.Hour, guild.Open},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := spends(t, map[string]Budget{"python": {Daily: 500}}, alice.offers(0))
			first := w.opens(Order{Bid: 400})
			w.delivers(alice, w.attempt(first).ID, []byte("the work"))
			w.judges(first, guild.Success)
			id := w.opens(Order{Bid: 101, Timeout: c.timeout})
			w.pass(c.after)
			const why = "the budget for python is spent until 2000-01-02 00:00 UTC: 500 msat a day; raise it under [budget] in the configuration"
			waits := ""
			if c.ending == guild.Open {
				waits = why
			}
			if job := w.ends(id, c.ending); waits == "" && job.Reason != why || w.Waits(id) != waits {
				t.Errorf("%s: %q, and it waits: %q", c.what, job.Reason, w.Waits(id))
			}
		})
	}
}

// Loans count: a day has 500,000 for python and 1,000,000 for docs, of which nothing is spent.
func TestBidWaitsForLoan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := spends(t, map[string]Budget{"python": {Daily: 500_000}, "docs": {Daily: 1_000_000}}, alice.offers(0))
		id := w.opens(Order{Bid: 1_000_000, Timeout: 24 * time.Hour})
		if want := "the budget for python is too little, with what other tasks lend, until 2000-01-01 12:00 UTC"; !strings.HasPrefix(w.Waits(id), want) {
			t.Error(w.Waits(id))
		}
		w.pass(12*time.Hour - time.Second)
		w.wants(id)
		w.pass(time.Second) // half of the day is over: docs should have spent 500,000
		w.wants(id, guild.Requested)
		never := w.opens(Order{Bid: 1_500_001, Timeout: 24 * time.Hour})
		w.ends(never, guild.JobUnclaimed)
	})
}

func TestWaitForLoanEndsAtDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := spends(t, map[string]Budget{"python": {Daily: 500}}, alice.offers(0))
		w.opens(Order{Bid: 400})
		id := w.opens(Order{Bid: 400, Timeout: time.Minute})
		w.pass(time.Minute)
		if job := w.ends(id, guild.JobUnclaimed); !strings.HasPrefix(job.Reason, "the budget for python is spent, or bid for other jobs, until 2000-01-02 00:00 UTC") {
			t.Error(job.Reason)
		}
	})
}

func TestTomorrowsBudgetIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := spends(t, map[string]Budget{"python": {Daily: 500}}, alice.offers(0))
		first := w.opens(Order{Bid: 400})
		w.delivers(alice, w.attempt(first).ID, []byte("the work"))
		w.judges(first, guild.Success)
		second := w.opens(Order{Bid: 400, Timeout: 48 * time.Hour})
		w.pass(23 * time.Hour)
		w.wants(second)
		w.pass(time.Hour)
		w.wants(second, guild.Requested)
	})
}

func TestBudgetLoansAndVariable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := spends(t, map[string]Budget{"python": {Monthly: 1000}, "docs": {Monthly: 3100}}, alice.offers(0))
		w.pass(10*24*time.Hour + time.Minute) // of 31: docs should have spent 1000 and a little
		first := w.opens(Order{Bid: 1000})
		w.wants(first, guild.Requested)
		second := w.opens(Order{Bid: 900})
		w.wants(second, guild.Requested)
		if p, d := w.envelope("python").Monthly, w.envelope("docs").Monthly; p != (Balance{Limit: 1000, Reserved: 1900, Borrowed: 900}) || d != (Balance{Limit: 3100, Lent: 900}) {
			t.Errorf("python %+v, docs %+v", p, d)
		}
		third := w.opens(Order{Bid: 200, Timeout: time.Minute})
		w.wants(third)
		w.delivers(alice, w.attempt(second).ID, []byte("the work"))
		w.judges(second, guild.Failure) // what was lent goes back
		w.wants(third, guild.Requested)
		if p, d := w.envelope("python").Monthly, w.envelope("docs").Monthly; p != (Balance{Limit: 1000, Reserved: 1200, Borrowed: 200}) || d != (Balance{Limit: 3100, Lent: 200}) {
			t.Errorf("then python %+v, docs %+v", p, d)
		}

		w.configures = func(c *Config) {
			c.Budgets = map[string]Budget{"python": {Monthly: 1000}}
			c.Variables = variables{budget: map[string]guild.Msat{"python": 700}}
		}
		w.restart()
		fourth := w.opens(Order{Bid: 700})
		w.wants(fourth, guild.Requested) // 1000 + 700 + 200 borrowed, of which 1200 are reserved
		fifth := w.opens(Order{Bid: 1, Timeout: time.Minute})
		w.wants(fifth)
	})
}

// A hundred jobs of two nodes on one journal bid at the same time for a budget that is enough for ten.
func TestConcurrentBidsKeepBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := spends(t, map[string]Budget{"python": {Daily: 1000, Monthly: 1000}}, alice.offers(0))
		w.Stop()
		nodes := []*Jobs{w.Jobs, New(w.c, w.fold)}
		var deciding sync.WaitGroup
		for n := range 100 {
			id, err := w.Open(t.Context(), Order{Task: "python", Kind: 5000, Bundle: fmt.Append(nil, n), Bid: 100})
			if err != nil {
				t.Fatal(err)
			}
			job, _ := w.fold.Job(id)
			deciding.Go(func() {
				work := nodes[n%2].reserve(job, 100)
				decide, err := work.Act(t.Context())
				if err == nil {
					err = w.Journal.Do(t.Context(), work.Guard, "", decide)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		deciding.Wait()
		if e := w.envelope("python"); len(w.fold.reservations()) != 10 || e.Daily.Reserved != 1000 {
			t.Errorf("%d reservations, %+v", len(w.fold.reservations()), e)
		}
		w.restart()
		w.pass(time.Minute)
		if n := len(steptest.Facts[fact.AttemptPlanned](w)); n != 10 {
			t.Errorf("%d were asked", n)
		}
	})
}

// A job of three that borrows, in a process that may die after any fact: nothing stays reserved, and the accepted bids
// are spent.
func TestKillWhileBidding(t *testing.T) {
	budgets := map[string]Budget{"python": {Daily: 150}, "docs": {Daily: 10_000}}
	order := Order{ID: guild.JobID{7}, Criticality: guild.High, Bid: 100}
	begin := func(t *testing.T) (*world, []person) {
		w, people := trusted(t, 5)
		w.configures = func(c *Config) { c.Budgets = budgets }
		w.restart()
		return w, people
	}
	live := func(t *testing.T) []fact.Entry {
		time.Sleep(12 * time.Hour)
		w, people := begin(t)
		w.opens(order)
		w.votes(order.ID, people, "-ba")
		w.votes(order.ID, people, "b")
		w.pass(time.Minute)
		w.ends(order.ID, guild.JobAccepted)
		if e := w.envelope("python"); e.Daily != (Balance{Limit: 150, Spent: 300, Borrowed: 150}) {
			t.Errorf("%+v", e)
		}
		return w.Entries()
	}
	steptest.KillAtEachEntry(t, 1, live, func(t *testing.T, left, _ []fact.Entry) {
		time.Sleep(12 * time.Hour)
		w, people := begin(t)
		w.revive(left, people)
		w.goOn(order.ID, people)
		w.wantsBalance(order.ID)
	})
}

// wantsBalance checks that every bid of a job was reserved once and freed once, and that the accepted ones are spent.
func (w *world) wantsBalance(id guild.JobID) {
	w.Helper()
	job := w.ends(id, guild.JobAccepted)
	spent := guild.Msat(100 * len(job.successes()))
	if e := w.envelope("python"); e.Daily.Spent != spent || e.Daily.Reserved != 0 || e.Daily.Borrowed != spent-150 || len(w.fold.reservations()) != 0 {
		w.Errorf("%+v, want %s spent", e.Daily, spent)
	}
	if lent := w.envelope("docs").Daily.Lent; lent != spent-150 {
		w.Errorf("docs lent %s", lent)
	}
	seen := map[string]int{}
	for _, f := range steptest.Facts[fact.BidReserved](w) {
		seen[fmt.Sprint("reserved ", f.Turn)]++
	}
	for _, f := range steptest.Facts[fact.BidFreed](w) {
		seen[fmt.Sprint("freed ", f.Turn)]++
	}
	for what, times := range seen {
		if times != 1 {
			w.Errorf("%s %d times", what, times)
		}
	}
	for n, a := range job.Attempts {
		if a.Bid != 100 || seen[fmt.Sprint("freed ", n+1)] != 1 {
			w.Errorf("attempt %d bids %s", n+1, a.Bid)
		}
	}
}

func TestSmallReservationIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := spends(t, map[string]Budget{"python": {Daily: 10_000}}, alice.offers(100))
		w.Stop()
		id, err := w.Open(t.Context(), Order{Task: "python", Kind: 5000, Bundle: []byte("the task")})
		if err != nil {
			t.Fatal(err)
		}
		job, _ := w.fold.Job(id)
		w.Act(w.reserve(job, 100))
		w.offers = []guild.Offer{bob.offers(300)}
		w.restart()
		if a := w.attempt(id); a.Provider != bob.service() || a.Bid != 300 {
			t.Errorf("%v bids %s", a.Provider, a.Bid)
		}
		if e := w.envelope("python"); e.Daily.Reserved != 300 {
			t.Errorf("%+v", e)
		}
	})
}

func TestCancelFreesBid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := spends(t, map[string]Budget{"python": {Daily: 10_000}}, alice.offers(0))
		w.Stop()
		id, err := w.Open(t.Context(), Order{Task: "python", Kind: 5000, Bundle: []byte("the task"), Bid: 100})
		if err != nil {
			t.Fatal(err)
		}
		job, _ := w.fold.Job(id)
		w.Act(w.reserve(job, 100))
		w.Act(w.reserve(job, 100)) // decided once more, nothing comes of it
		if err := w.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		w.restart()
		if e := w.envelope("python"); e.Daily != (Balance{Limit: 10_000}) || len(steptest.Facts[fact.BidReserved](w)) != 1 {
			t.Errorf("%+v", e)
		}
	})
}

func TestWithoutBudgetsNothingIsReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := spends(t, map[string]Budget{"docs": {Daily: 1}}, alice.offers(0))
		w.wants(w.opens(Order{Bid: 1_000_000}), guild.Requested)
		for _, e := range w.Entries() {
			if strings.HasPrefix(string(e.Subject), "bid.") {
				t.Errorf("%v", e.Facts)
			}
		}
	})
}
