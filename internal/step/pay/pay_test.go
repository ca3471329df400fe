package pay

import (
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/dm"
	"guild/internal/hand/key"
	"guild/internal/journal/fact"
	"guild/oa"
)

var usual = fact.Settlement{How: escrow, Unit: "test", Most: 600, Mixed: 40}

func TestVerdictsPay(t *testing.T) {
	for name, c := range map[string]struct {
		outcome  guild.Outcome
		strength guild.Strength
		paid     int64
	}{
		"strong":     {guild.Success, guild.Strong, 500},
		"mixed":      {guild.Success, guild.Mixed, 200},
		"unverified": {guild.Success, guild.Unverified, 0},
		"failure":    {guild.Failure, guild.Strong, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, usual, 500)
			w.pump()
			if !w.provider.Funded(attempt) {
				t.Fatal("the provider does not begin")
			}
			w.want(9500, 500, 0)
			w.judged(c.outcome, c.strength)
			w.pump()
			w.want(10_000-c.paid, 0, c.paid)
			w.over()
			released, refunded := facts[fact.AttemptReleased](w, w.customer), facts[fact.AttemptRefunded](w, w.customer)
			if len(released)+len(refunded) != 1 || (len(released) == 1) != (c.paid > 0) {
				t.Errorf("%d released, %d refunded", len(released), len(refunded))
			}
		})
	}
}

func TestRefusedQuotes(t *testing.T) {
	for name, c := range map[string]struct {
		price  uint64
		most   uint64
		frozen bool
		reason string
	}{
		"over the bid":      {601, 600, false, "the order bids 600"},
		"not enough money":  {20_000, 30_000, false, "not enough money"},
		"overflow":          {1 << 62, 1 << 63, false, "too large"},
		"too many coins":    {1<<40 - 1, 1 << 50, false, "fit into a message"},
		"a frozen wallet":   {500, 600, true, "frozen"},
		"a price of nobody": {0, 600, false, "names no amount"},
	} {
		t.Run(name, func(t *testing.T) {
			o := usual
			o.Most = c.most
			if name == "overflow" {
				o.Mixed = 0
			}
			w := newWorld(t, o, c.price)
			w.ok(w.customer.Freeze(t.Context(), c.frozen))
			w.pump()
			refused := facts[fact.AttemptRefused](w, w.customer)
			if len(refused) != 1 || !strings.Contains(refused[0].Reason, c.reason) {
				t.Errorf("%+v", refused)
			}
			w.want(10_000, 0, 0)
			if o := w.customer.fold.open(); len(o) > 0 {
				t.Errorf("not forgotten: %+v", o)
			}
		})
	}
}

func TestLargestLockFitsIntoAMessage(t *testing.T) {
	o := usual
	o.Most, o.Mixed = 1<<28, 0
	w := newWorld(t, o, 1<<28-1) // 28 coins
	_, _, err := w.customer.wallet.Fund(t.Context(), w.asset, 1<<28)
	w.ok(err)
	w.pump()
	if len(facts[fact.LockAccepted](w, w.provider)) != 1 {
		t.Errorf("%+v", facts[fact.AttemptRefused](w, w.customer))
	}
}

func TestBothSilent(t *testing.T) {
	w := newWorld(t, usual, 500)
	w.pump()
	w.provider.deaf, w.customer.deaf = true, true
	w.ends(fact.AttemptExpired{Attempt: attempt, Silent: true})
	w.pump()
	w.later(25 * time.Hour)
	w.want(9500, 500, 0) // not before the locktime
	w.later(2 * time.Hour)
	w.want(10_000, 0, 0)
	w.later(listening)
	if len(facts[fact.LockExpired](w, w.provider)) != 1 || len(facts[fact.AttemptRefunded](w, w.customer)) != 1 {
		t.Error("one of them did not notice")
	}
	w.over()
}

func TestCustomerWithholdsTheRelease(t *testing.T) {
	w := newWorld(t, usual, 500)
	w.pump()
	w.provider.deaf = true
	w.judged(guild.Success, guild.Strong)
	w.pump()
	w.later(30 * time.Hour)
	if len(facts[fact.LockExpired](w, w.provider)) != 0 {
		t.Error("a release that is heard late would be lost")
	}
	w.later(listening)
	if len(facts[fact.LockExpired](w, w.provider)) != 1 {
		t.Error("the provider did not note it")
	}
}

// TestPayForConsensus has three deliver what nothing verifies, of whom two must agree.
func TestPayForConsensus(t *testing.T) {
	other := nostr.ID{99}
	closed := func(e guild.Ending) fact.Fact {
		return fact.JobClosed{Job: theJob, Ending: e, Chosen: nostr.ID{98}, Agrees: other}
	}
	agrees := func(with nostr.ID) fact.Fact { return fact.AttemptCompared{Attempt: attempt, With: with} }
	for name, c := range map[string]struct {
		then []fact.Fact
		paid int64
	}{
		"it agrees with the majority":                        {[]fact.Fact{agrees(other), closed(guild.JobAccepted)}, 500},
		"it is compared after the end":                       {[]fact.Fact{closed(guild.JobAccepted), agrees(other)}, 500},
		"it is against the majority":                         {[]fact.Fact{agrees(attempt), closed(guild.JobAccepted)}, 0},
		"it agrees with another, and that is not a majority": {[]fact.Fact{agrees(other), closed(guild.JobRejected)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := unverifiedWorld(t, guild.High, oa.MajorityVote)
			w.want(9500, 500, 0) // the others have not delivered
			for _, one := range c.then {
				w.writes(w.customer, fact.JobSubject(theJob), one)
				w.pump()
			}
			w.want(10_000-c.paid, 0, c.paid)
			w.over()
		})
	}
}

// unverifiedWorld has one of several providers deliver what nothing verifies.
func unverifiedWorld(t *testing.T, level guild.Criticality, compare oa.Adjudication) *world {
	t.Helper()
	w := newWorld(t, usual, 500)
	w.writes(w.customer, fact.JobSubject(theJob), fact.JobOpened{
		Job: theJob, Deadline: w.now.Add(time.Hour).UnixMilli(), Settle: &usual, Tries: 3, Criticality: level, Compare: string(compare),
	})
	w.pump()
	w.judged(guild.Success, guild.Unverified)
	w.pump()
	return w
}

func TestVoteEndsInQuarantine(t *testing.T) {
	w := unverifiedWorld(t, guild.High, oa.MajorityVote)
	state := func() string { return w.customer.Paying()[0].State }
	if state() != votes {
		t.Errorf("it %s", state())
	}
	w.writes(w.customer, fact.JobSubject(theJob), fact.JournalClosed{})
	if state() != "judged" {
		t.Errorf("it %s", state())
	}
}

// TestOnlyOneToChooseFrom has one deliver what nothing verifies, where an opinion was to choose between several.
func TestOnlyOneToChooseFrom(t *testing.T) {
	w := unverifiedWorld(t, guild.Medium, oa.JudgeModel)
	if all := w.customer.Paying(); len(all) != 1 || !all[0].Waits {
		t.Fatalf("%+v, want a payment that waits for a person", all)
	}
	w.ok(w.customer.Approve(t.Context(), attempt, 500))
	w.pump()
	w.want(9500, 0, 500)
	w.over()
}

// TestLimitOfOpinions checks that what no test decides strongly waits for a person above the owner's limit.
func TestLimitOfOpinions(t *testing.T) {
	opinion := &guild.Opinion{Adjudication: string(oa.JudgeModel)}
	for name, c := range map[string]struct {
		verdict guild.Verdict
		most    guild.Msat
		waits   bool
	}{
		"an opinion over it":   {guild.Verdict{Outcome: guild.Success, Opinion: opinion}, 499_999, true},
		"an opinion within it": {guild.Verdict{Outcome: guild.Success, Opinion: opinion}, 500_000, false},
		"without a limit":      {guild.Verdict{Outcome: guild.Success, Opinion: opinion}, 0, false},
		"weak and over it":     {guild.Verdict{Outcome: guild.Success, Strength: guild.Weak}, 499_999, true},
		"weak and within it":   {guild.Verdict{Outcome: guild.Success, Strength: guild.Weak}, 500_000, false},
		"strong":               {guild.Verdict{Outcome: guild.Success, Strength: guild.Strong}, 1, false},
		"ruled by a person":    {guild.Verdict{Outcome: guild.Success, Ruling: &guild.Ruling{By: "aa"}, Opinion: opinion}, 1, false},
	} {
		order := usual
		order.Weak = 600
		w := newWorld(t, order, 500)
		w.customer.c.Opinions = c.most
		w.pump()
		w.waiting = false
		w.writes(w.customer, fact.JobSubject(theJob), fact.AttemptJudged{Attempt: attempt, Verdict: c.verdict})
		w.pump()
		if all := w.customer.Paying(); (len(all) == 1 && all[0].Waits) != c.waits {
			t.Errorf("%s: %+v", name, all)
		}
		if c.waits {
			w.ok(w.customer.Approve(t.Context(), attempt, 500))
			w.pump()
		}
		w.want(9500, 0, 500)
	}
}

func TestNoVerdictUntilTheLocktime(t *testing.T) {
	w := newWorld(t, usual, 500)
	w.pump()
	w.waiting = false // it is delivered, and a person does not rule
	w.later(30 * time.Hour)
	w.want(10_000, 0, 0)
	if len(facts[fact.AttemptRefunded](w, w.customer)) != 0 {
		t.Error("an attempt that goes on was refunded")
	}
	w.ends(fact.AttemptCancelled{Attempt: attempt})
	w.writes(w.provider, fact.RequestSubject(attempt), fact.RequestFinished{Request: attempt, Ending: "failed"})
	w.later(listening)
	w.over()
}

// A customer could else take its money back while the provider works for it.
func TestEmptyReleaseReturnsNothingDuringTheWork(t *testing.T) {
	w := newWorld(t, usual, 500)
	w.pump()
	w.ends(fact.AttemptCancelled{Attempt: attempt})
	w.pump()
	if len(facts[fact.LockReleased](w, w.provider)) != 1 || len(facts[fact.LockReturned](w, w.provider)) != 0 {
		t.Error("the money was signed back before the work was over")
	}
	w.want(9500, 500, 0)
	w.writes(w.provider, fact.RequestSubject(attempt), fact.RequestCancelled{Request: attempt})
	w.pump()
	w.want(10_000, 0, 0)
}

func TestCancelledAfterTheLockWasSent(t *testing.T) {
	w := newWorld(t, usual, 500)
	w.pump()
	w.writes(w.provider, fact.RequestSubject(attempt), fact.RequestCancelled{Request: attempt})
	w.ends(fact.AttemptCancelled{Attempt: attempt})
	w.pump()
	w.want(10_000, 0, 0)
	w.over()
}

func TestExpiredAfterTheReserve(t *testing.T) {
	w := newWorld(t, usual, 500)
	for len(facts[fact.PaymentReserved](w, w.customer)) == 0 {
		w.step(w.customer)
	}
	w.ends(fact.AttemptExpired{Attempt: attempt})
	w.pump()
	w.later(27 * time.Hour)
	w.want(10_000, 0, 0)
	if len(facts[fact.LockOffered](w, w.provider)) != 0 {
		t.Error("money was sent for an attempt that had ended")
	}
}

func TestWeakWaitsForAPerson(t *testing.T) {
	w := newWorld(t, usual, 500)
	w.pump()
	if w.customer.Approve(t.Context(), attempt, 500) == nil {
		t.Error("approved before there was a delivery")
	}
	w.judged(guild.Success, guild.Weak)
	w.pump()
	w.want(9500, 500, 0)
	for _, bad := range []uint64{501, 1 << 63} {
		if w.customer.Approve(t.Context(), attempt, bad) == nil {
			t.Errorf("%d of 500 was approved", bad)
		}
	}
	w.ok(w.customer.Approve(t.Context(), attempt, 200))
	w.pump()
	w.want(9800, 0, 200)
	w.over()
}

func TestForgottenPerson(t *testing.T) {
	w := newWorld(t, usual, 500)
	w.pump()
	w.judged(guild.Success, guild.Weak)
	w.later(27 * time.Hour)
	w.want(10_000, 0, 0)
}

// rewritten changes the signatures in a message of a type.
func rewritten(w *world, of string, by func(s *dm.Signatures)) {
	w.change = func(_ *party, m *dm.Message) {
		s, err := dm.DecodeSignatures(m.Content, of)
		if err != nil {
			return
		}
		by(&s)
		m.Content, err = s.Encode()
		w.ok(err)
	}
}

func TestForgedMessages(t *testing.T) {
	for name, c := range map[string]struct {
		of string
		by func(w *world, s *dm.Signatures)
	}{
		"a forged signature": {dm.TypeRelease, func(_ *world, s *dm.Signatures) {
			for y := range s.Signatures {
				s.Signatures[y] = strings.Repeat("ab", 64)
				return
			}
		}},
		"for another request": {dm.TypeRelease, func(_ *world, s *dm.Signatures) { s.Request[0]++ }},
		"of another coin": {dm.TypeRelease, func(_ *world, s *dm.Signatures) {
			for y, signature := range s.Signatures {
				delete(s.Signatures, y)
				s.Signatures["02"+strings.Repeat("11", 32)] = signature
				return
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, usual, 500)
			w.pump()
			rewritten(w, c.of, func(s *dm.Signatures) { c.by(w, s) })
			w.judged(guild.Success, guild.Strong)
			w.pump()
			if len(facts[fact.LockReleased](w, w.provider)) != 0 {
				t.Error("it was taken")
			}
			w.provider.deaf = false
		})
	}
}

func TestForeignersCannotSpeak(t *testing.T) {
	w := newWorld(t, usual, 500)
	var seen []dm.Message
	w.change = func(_ *party, m *dm.Message) { seen = append(seen, *m) }
	w.pump()
	lock := seen[0]
	for name, m := range map[string]dm.Message{
		"a second payment":        lock,
		"a payment of a stranger": {From: w.provider.pubkey, ID: lock.ID, Content: lock.Content},
	} {
		if w.provider.TakeLock(t.Context(), m) == nil {
			t.Errorf("%s was taken", name)
		}
	}
	early, err := dm.Signatures{Type: dm.TypeReturn, Request: attempt}.Encode()
	w.ok(err)
	if w.customer.TakeReturn(t.Context(), dm.Message{From: w.provider.pubkey, Content: early}) == nil {
		t.Error("a return before the verdict was taken")
	}
	w.judged(guild.Success, guild.Strong)
	w.pump()
	w.want(9500, 0, 500)
	for _, m := range seen {
		if w.provider.takes(t.Context(), m) == nil || w.customer.takes(t.Context(), m) == nil {
			t.Errorf("a message was taken twice: %.60s", m.Content)
		}
	}
	w.want(9500, 0, 500)
}

func TestClaimedTooLate(t *testing.T) {
	for _, part := range []int{1, 100} { // coins that the customer takes, against the rules
		w := newWorld(t, usual, 500)
		w.pump()
		w.judged(guild.Success, guild.Strong)
		for len(facts[fact.PaymentReleased](w, w.customer)) == 0 {
			w.step(w.customer)
		}
		for len(w.provider.inbox) > 0 {
			w.step(w.provider)
		}
		w.now = w.now.Add(30 * time.Hour) // the provider was away
		lost := w.steals(part)
		w.pump()
		for range 10 {
			w.later(time.Hour)
		}
		if n := len(facts[fact.EcashFailed](w, w.provider)); n == 0 || n > 3 {
			t.Errorf("%d refusals", n)
		}
		if got := len(facts[fact.LockLost](w, w.provider)) == 1; got != (lost == 500) {
			t.Errorf("lock.lost is %v with %d lost", got, lost)
		}
		if l := w.provider.fold.locks(); len(l) > 0 {
			t.Errorf("not over: %+v", l)
		}
		for _, b := range w.provider.wallet.Fold().Balances() {
			if b.Accounts["wallet"] != int64(500-lost) {
				t.Errorf("the provider has %+v, want %d", b.Accounts, 500-lost)
			}
		}
	}
}

func TestBudgets(t *testing.T) {
	for name, c := range map[string]struct {
		set    []fact.BudgetSet
		reason string // "" if it is paid
	}{
		"a job":            {[]fact.BudgetSet{{Unit: "test", Job: 499}}, "the budget of a job: 499"},
		"a day":            {[]fact.BudgetSet{{Unit: "test", Daily: 499}}, "the day's budget: 499"},
		"a month":          {[]fact.BudgetSet{{Unit: "test", Monthly: 499}}, "the month's budget: 499"},
		"a task":           {[]fact.BudgetSet{{Unit: "test", Daily: 900}, {Unit: "test", Task: "python", Daily: 499}}, "for the task python"},
		"a provider":       {[]fact.BudgetSet{{Unit: "test", Provider: key.NewSecret(nostr.SecretKey{31: 2}).PubKey(), Monthly: 499}}, "for the provider npub1"},
		"another task":     {[]fact.BudgetSet{{Unit: "test", Task: "go", Daily: 499}}, ""},
		"another provider": {[]fact.BudgetSet{{Unit: "test", Provider: key.NewSecret(nostr.SecretKey{31: 9}).PubKey(), Daily: 499}}, ""},
		"another unit":     {[]fact.BudgetSet{{Unit: "sat", Daily: 499}}, ""},
		"just enough":      {[]fact.BudgetSet{{Unit: "test", Job: 500, Daily: 500, Monthly: 500}, {Unit: "test", Task: "python", Daily: 500}}, ""},
		"a removed one":    {[]fact.BudgetSet{{Unit: "test", Daily: 499}, {Unit: "test"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := changedWorld(t, usual, 500, func(w *world, _ *fact.AttemptQuoted) {
				for _, b := range c.set {
					w.ok(w.customer.SetBudget(w.Context(), b))
				}
			})
			w.pump()
			refused := facts[fact.PaymentRefused](w, w.customer)
			if c.reason == "" && len(refused) > 0 || c.reason != "" && (len(refused) != 1 || !strings.Contains(refused[0].Reason, c.reason)) {
				t.Errorf("refused: %+v, want %q", refused, c.reason)
			}
			if c.reason != "" {
				return
			}
			w.judged(guild.Success, guild.Mixed) // pays 200, and the rest is free again
			w.pump()
			for _, b := range w.customer.Budgets() {
				want := uint64(200)
				if strings.HasPrefix(name, "another") {
					want = 0
				}
				if b.Today != want || b.Month != want {
					t.Errorf("used of %+v", b)
				}
			}
		})
	}
}
