package variables

import (
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/policy"
)

// does has a result for a task accepted.
func (m *market) does(task string, bid guild.Msat) {
	m.Helper()
	id := m.asks(1, fact.JobOpened{Task: task, Bid: bid})
	m.append(fact.AttemptDelivered{Attempt: id}, fact.AttemptJudged{Attempt: id, Verdict: guild.Verdict{Outcome: guild.Success, Score: 900_000}})
}

func (m *market) budgetsAre(want map[string]guild.Msat) {
	m.Helper()
	for key, w := range want {
		if got := m.Budget(key); got != w {
			m.Errorf("%s has %s beside what is configured, want %s", key, got, w)
		}
	}
}

// sumsToNothing checks that a rule only shifted money.
func (m *market) sumsToNothing(rule string) {
	m.Helper()
	var sum int64
	for _, c := range m.changes(fact.CostBudget) {
		if c.Rule == rule {
			to, _ := fact.ParseNumber(c.To)
			from, _ := fact.ParseNumber(c.From)
			sum += to - from
		}
	}
	if sum != 0 {
		m.Errorf("%s made %d msat", rule, sum)
	}
}

func TestExperimentBudget(t *testing.T) {
	for _, c := range []struct {
		name       string
		free, paid int
		want       guild.Msat
	}{
		{"nine of nine: too few to say", 9, 0, 0},
		{"five of ten", 5, 5, 20_000}, // 20 % of 100,000
		{"five of eleven: less than half", 5, 6, 0},
		{"all of twenty: once", 20, 0, 20_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMarket(t, Config{Budgets: map[string]guild.Msat{"go": 100_000, "python": 50_000}})
				for range c.paid {
					m.does("go", 1000)
				}
				for range c.free {
					m.does("go", 0)
				}
				m.settle()
				m.settle()
				m.budgetsAre(map[string]guild.Msat{"go": -c.want, BudgetExperimental: c.want, "python": 0})
				m.sumsToNothing(ruleFree)
			})
		})
	}
}

func TestFreeWorkOfWeek(t *testing.T) {
	for age, want := range map[time.Duration]guild.Msat{7*24*time.Hour - time.Minute: 20_000, 7 * 24 * time.Hour: 0} {
		l := newLedger(t, map[string]guild.Msat{"go": 100_000})
		l.does("go", 10)
		l.now = l.now.Add(age)
		l.considers()
		l.budgetsAre(map[string]guild.Msat{"go": -want, BudgetExperimental: want})
	}
}

func TestReserveBudget(t *testing.T) {
	for _, c := range []struct {
		name      string
		job       fact.JobOpened
		providers int
		want      guild.Msat
	}{
		{"critical work and two good providers", fact.JobOpened{Class: "critical-path"}, 2, 15_000}, // 30 % of 50,000
		{"financial work", fact.JobOpened{Class: "financial"}, 0, 15_000},
		{"a job that many must agree on", fact.JobOpened{Criticality: guild.High}, 2, 15_000},
		{"three good providers", fact.JobOpened{Class: "critical-path"}, 3, 0},
		{"ordinary work", fact.JobOpened{Class: "background"}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				trusted := func(task string, from guild.Trust) int {
					if task != "go" || from != 800_000 {
						t.Errorf("who is trusted with %s by %s?", task, from)
					}
					return c.providers
				}
				m := newMarket(t, Config{Budgets: map[string]guild.Msat{"go": 100_000, "python": 50_000}, Trusted: trusted})
				c.job.Task = "go"
				m.asks(1, c.job)
				m.settle()
				m.asks(1, c.job)
				m.settle()
				m.budgetsAre(map[string]guild.Msat{"go": 0, "python": -c.want, BudgetReserve: c.want})
				m.sumsToNothing(ruleScarce)
			})
		})
	}
}

// ledger is the fold and its rules without a journal, so that months pass at once.
type ledger struct {
	*testing.T
	*Fold
	step *Variables
	now  time.Time
}

func newLedger(t *testing.T, budgets map[string]guild.Msat) *ledger {
	t.Helper()
	v := NewFold(policy.Specification())
	step, err := New(Config{Budgets: budgets}, v)
	if err != nil {
		t.Fatal(err)
	}
	return &ledger{t, v, step, time.Date(2026, 1, 15, 0, 0, 0, 0, time.UTC)}
}

func (l *ledger) append(facts ...fact.Fact) {
	l.Apply(fact.Entry{Seq: l.inside().Seq + 1, At: l.now.UnixMilli(), Facts: facts})
}

func (l *ledger) spends(task string, reserved, spent guild.Msat) {
	job := guild.JobID{byte(l.inside().Seq)}
	l.append(fact.BidReserved{Job: job, Turn: 1, Task: task, Amount: reserved, At: l.now.UnixMilli()}, fact.BidFreed{Job: job, Turn: 1, Spent: spent})
}

// does has n results for a task accepted that cost nothing.
func (l *ledger) does(task string, n int) {
	for range n {
		id, job := nostr.ID{byte(l.inside().Seq)}, guild.JobID{byte(l.inside().Seq)}
		l.append(fact.JobOpened{Job: job, Task: task}, fact.AttemptPlanned{Attempt: id, Job: job},
			fact.AttemptJudged{Attempt: id, Verdict: guild.Verdict{Outcome: guild.Success}})
	}
}

// considers applies the decisions of the rules, and returns their number.
func (l *ledger) considers() int {
	state := l.Copy()
	changes := l.step.budgets(&state, l.now.UnixMilli())
	for _, c := range changes {
		c.Name, c.Through = fact.CostBudget, state.Seq
		l.append(c)
	}
	return len(changes)
}

func (l *ledger) budgetsAre(want map[string]guild.Msat) {
	l.Helper()
	for key, w := range want {
		if got := l.Budget(key); got != w {
			l.Errorf("%s: %s has %s beside what is configured, want %s", l.now.Month(), key, got, w)
		}
	}
}

func TestRollover(t *testing.T) {
	l := newLedger(t, map[string]guild.Msat{"go": 100_000, "python": 10_000, "rust": 1_000})
	if l.considers(); l.Budget(BudgetContingency) != 0 {
		t.Error("there is something left of a month before the first bid")
	}
	l.spends("go", 80_000, 60_000) // 40,000 are left: 20,000 are carried over, half of them to the contingency
	l.spends("python", 10_000, 10_000)
	l.spends("rust", 3_000, 3_000) // more than the budget
	if n := l.considers(); n != 0 {
		t.Errorf("%d changes before the month ends", n)
	}
	l.now = l.now.AddDate(0, 1, 0)
	l.considers()
	l.budgetsAre(map[string]guild.Msat{"go": 10_000, "python": 0, "rust": 0, BudgetContingency: 10_000})
	if n := l.considers(); n != 0 {
		t.Errorf("the month ends again: %d changes", n)
	}
	l.spends("go", 70_000, 70_000) // 40,000 of 110,000 are left again
	l.spends("python", 10_000, 10_000)
	l.spends("rust", 500, 500) // 500 are left: 250 are carried over
	l.now = l.now.AddDate(0, 1, 0)
	l.considers()
	l.budgetsAre(map[string]guild.Msat{"go": 10_000, "python": 0, "rust": 125, BudgetContingency: 10_125})
	l.now = l.now.AddDate(0, 1, 0) // a month without bids
	for range 10 {
		l.considers()
		l.now = l.now.AddDate(0, 1, 0)
	}
	if got := l.Budget("go"); got > 100_000/3+1 || got < 100_000/3-10 {
		t.Errorf("%s pile up, want a third of a month: a quarter of it, and of that a quarter, …", got)
	}
}

func TestShiftEndsWithMonth(t *testing.T) {
	l := newLedger(t, map[string]guild.Msat{"go": 100_000})
	l.does("go", 10)
	l.considers()
	l.budgetsAre(map[string]guild.Msat{"go": -20_000, BudgetExperimental: 20_000})
	l.spends("go", 80_000, 80_000)
	l.now = l.now.AddDate(0, 1, 0)
	l.considers()
	l.budgetsAre(map[string]guild.Msat{"go": 0, BudgetExperimental: 0, BudgetContingency: 0})
}

func TestOneShiftPerMonth(t *testing.T) {
	l := newLedger(t, map[string]guild.Msat{"go": 100_000})
	l.now = time.Date(2026, 1, 30, 0, 0, 0, 0, time.UTC)
	l.spends("go", 80_000, 80_000)
	l.does("go", 10)
	l.considers()
	l.does("go", 9)
	l.considers()
	l.budgetsAre(map[string]guild.Msat{"go": -20_000, BudgetExperimental: 20_000})
	l.does("go", 1)
	if n := l.considers(); n != 0 {
		t.Errorf("%d changes: the month has had its shift", n)
	}
	l.now = l.now.AddDate(0, 0, 3) // February 2, and the work of January is not a week old
	l.considers()
	l.budgetsAre(map[string]guild.Msat{"go": 0, BudgetExperimental: 0})
	l.considers() // ten results of January came after the shift
	l.budgetsAre(map[string]guild.Msat{"go": -20_000, BudgetExperimental: 20_000})
	l.now = l.now.AddDate(0, 1, 0)
	l.considers()
	l.does("go", 9)
	if n := l.considers(); n != 0 {
		t.Errorf("%d changes by nine results", n)
	}

	l = newLedger(t, map[string]guild.Msat{"go": 100_000})
	l.now = time.Date(2026, 1, 30, 0, 0, 0, 0, time.UTC)
	l.spends("go", 80_000, 80_000)
	l.does("go", 10)
	l.considers()
	l.now = l.now.AddDate(0, 0, 3)
	l.considers()
	l.does("go", 9)
	l.considers()
	l.budgetsAre(map[string]guild.Msat{"go": 0, BudgetExperimental: 0}) // results that counted in January do not count again
}

func TestMonthEndsWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(31*24*time.Hour - time.Hour) // it is January 31, 2000, 23:00
		m := newMarket(t, Config{Budgets: map[string]guild.Msat{"go": 100_000}})
		m.append(fact.BidReserved{Job: guild.JobID{1}, Turn: 1, Task: "go", Amount: 60_000, At: time.Now().UnixMilli()})
		time.Sleep(time.Hour - time.Second)
		synctest.Wait()
		m.budgetsAre(map[string]guild.Msat{"go": 0, BudgetContingency: 0})
		time.Sleep(2 * pause)
		synctest.Wait()
		m.budgetsAre(map[string]guild.Msat{"go": 10_000, BudgetContingency: 10_000})
	})
}

func TestUnconfiguredBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(t, Config{})
		for range 20 {
			m.does("go", 0)
		}
		m.settle()
		if got := m.changes(fact.CostBudget); len(got) != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestPortion(t *testing.T) {
	for _, c := range []struct {
		amount guild.Msat
		share  guild.Trust
		want   guild.Msat
	}{
		{100_000, 200_000, 20_000}, {999, 300_000, 299}, {0, 500_000, 0},
		{2_100_000_000_000_000_000, 500_000, 1_050_000_000_000_000_000}, // all bitcoin that there can be
	} {
		if got := portion(c.amount, c.share); got != c.want {
			t.Errorf("%s of %d is %d, want %d", c.share, c.amount, got, c.want)
		}
	}
}
