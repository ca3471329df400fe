package pay

import (
	"strings"
	"sync"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/wallet"
)

// TestMintsFeeCounts checks that the fee of a mint is within what the owner allows.
func TestMintsFeeCounts(t *testing.T) {
	for name, c := range map[string]struct {
		set     fact.BudgetSet
		because string // "" if it is paid
	}{
		"a job of the price":     {fact.BudgetSet{Unit: "test", Job: 500}, "501 test are over the budget of a job: 500"},
		"a day of the price":     {fact.BudgetSet{Unit: "test", Daily: 500}, "501 test are over the day's budget: 500"},
		"asked over the price":   {fact.BudgetSet{Unit: "test", AskOver: 500}, "500 test and the mint's fee of 1 are over 500"},
		"enough for the fee":     {fact.BudgetSet{Unit: "test", Job: 501, Daily: 501, AskOver: 501}, ""},
		"the task, of the price": {fact.BudgetSet{Unit: "test", Task: "python", Monthly: 500}, "501 test are over the month's budget for the task python"},
	} {
		t.Run(name, func(t *testing.T) {
			w := fundedWorld(t, usual, 500, nil, 10_000, 1000)
			w.ok(w.customer.SetBudget(t.Context(), c.set))
			w.pump()
			refused := facts[fact.PaymentRefused](w, w.customer)
			if c.because == "" {
				if used := w.customer.Budgets(); len(refused) > 0 || used[0].Today != 501 {
					t.Errorf("%+v, used %+v", refused, used)
				}
				return
			}
			if len(refused) != 1 || !strings.Contains(refused[0].Reason, c.because) {
				t.Errorf("%+v", refused)
			}
		})
	}
}

// TestDearMints has mints that take more than a tenth, of the customer or of the provider.
func TestDearMints(t *testing.T) {
	for name, c := range map[string]struct {
		price, funds uint64
		because      string // "" if it is paid
	}{
		"for the lock":   {10, 12, "the mint's fee of 2 test is over a tenth of 10"},
		"for the claim":  {20, 10_000, "the mint's fee of 6 test is over a tenth of 20"},
		"as much as one": {1, 10_000, ""},
		"a tenth":        {100, 10_000, ""},
	} {
		w := fundedWorld(t, usual, c.price, nil, c.funds, 1000)
		w.pump()
		refused := facts[fact.PaymentRefused](w, w.customer)
		if (len(refused) == 0) != (c.because == "") || c.because != "" && !strings.Contains(refused[0].Reason, c.because) {
			t.Errorf("%s: %+v", name, refused)
		}
		if w.provider.Funded(attempt) != (c.because == "") {
			t.Errorf("%s: the provider begins, or does not", name)
		}
	}
}

// TestDearLockIsRefused has a customer that locks in more coins than it is worth to claim.
func TestDearLockIsRefused(t *testing.T) {
	w := fundedWorld(t, usual, 100, nil, 10_000, 1000)
	one, _ := w.customer.fold.payment(attempt)
	q, unit, err := readQuote(one.Terms, attempt)
	w.ok(err)
	terms, err := w.customer.wallet.Terms(t.Context(), w.asset)
	w.ok(err)
	key, err := w.customer.seed.Key(wallet.PayerKey, attempt.Hex())
	w.ok(err)
	op := wallet.NewOp()
	lock := w.customer.locked(one, q, key.PubKey(), op)
	planned, err := w.customer.wallet.PlanSpend(op, terms, attempt.Hex(), &lock, 16, 16, 16, 16, 16, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2)
	w.ok(err)
	r := one.wants(unit, 100)
	r.Mint, r.Op = planned.Mint, op
	w.writes(w.customer, fact.Ledger, r, planned)
	w.pump()
	refused := facts[fact.LockRefused](w, w.provider)
	if len(refused) != 1 || !strings.Contains(refused[0].Reason, "the mint's fee of 15 test is over a tenth of 100") || w.provider.Funded(attempt) {
		t.Errorf("%+v", refused)
	}
}

// TestNewBudgetKnowsTheUse checks that a budget which is set later counts what was used before, and that what comes back does not free
// what others use.
func TestNewBudgetKnowsTheUse(t *testing.T) {
	p, now := nostr.PubKey{5}, time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	r := func(amount uint64) fact.PaymentReserved {
		return fact.PaymentReserved{Unit: "test", Task: "python", Provider: p, Amount: amount}
	}
	for name, b := range map[string]fact.BudgetSet{"a task": {Unit: "test", Task: "python", Daily: 600}, "a provider": {Unit: "test", Provider: p, Daily: 600}} {
		NewFold().Change(func(s *state) {
			s.reserve(r(500), now.UnixMilli())
			s.Budgets.Set(scope(b), b)
			if s.within(r(100), now.UnixMilli()) != nil || s.within(r(101), now.UnixMilli()) == nil {
				t.Errorf("%s: %+v are used", name, s.Used.Of(scope(b)))
			}
			s.reserve(r(100), now.UnixMilli())
			s.free(r(500), 500, now.UnixMilli())
			if s.within(r(500), now.UnixMilli()) != nil || s.within(r(501), now.UnixMilli()) == nil {
				t.Errorf("%s: %+v are used after what came back", name, s.Used.Of(scope(b)))
			}
			s.reserve(fact.PaymentReserved{Unit: "test", Task: "go", Amount: 1}, now.AddDate(0, 1, 0).UnixMilli())
			s.free(r(100), 100, now.UnixMilli())
			if s.Used.Has(scope(b)) {
				t.Errorf("%s: the use of a month ago is kept", name)
			}
		})
	}
}

// TestHundredHiresAtOnce has 100 attempts that want money at the same time, and a day's budget for 7 of them.
func TestHundredHiresAtOnce(t *testing.T) {
	const hires, price, enough = 100, 100, 7
	w := fundedWorld(t, usual, price, nil, 128, 0)
	for range 2 * enough { // there is money for more
		_, _, err := w.customer.wallet.Fund(t.Context(), w.asset, 128)
		w.ok(err)
	}
	w.ok(w.customer.SetBudget(t.Context(), fact.BudgetSet{Unit: "test", Daily: enough*price + price - 1}))
	deadline := w.now.Add(time.Hour)
	var attempts []nostr.ID
	var planned []fact.Fact
	for n := range hires {
		id := nostr.ID{1, byte(n)}
		terms, err := w.provider.terms(fact.RequestReceived{Request: id, Deadline: deadline.UnixMilli()}, price, "test", false)
		w.ok(err)
		planned = append(planned, fact.AttemptPlanned{Attempt: id, Job: theJob, Provider: guild.Service{PubKey: w.provider.pubkey}},
			fact.AttemptQuoted{Attempt: id, Terms: terms, Event: id})
		attempts = append(attempts, id)
	}
	w.pump() // what was funded comes, and the world's own attempt is paid
	w.writes(w.customer, fact.JobSubject(theJob), planned...)
	var all sync.WaitGroup
	for _, id := range attempts {
		one, _ := w.customer.fold.payment(id)
		work := w.customer.reserve(one)
		all.Go(func() {
			decide, err := work.Act(t.Context())
			if err == nil {
				err = w.customer.journal.Do(t.Context(), work.Guard, work.Key, func(tx *journal.Tx) error { return decide(tx) })
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	reserved, refused := facts[fact.PaymentReserved](w, w.customer), facts[fact.PaymentRefused](w, w.customer)
	if len(reserved) != enough || len(refused) != hires+1-enough {
		t.Errorf("%d reserved, %d refused", len(reserved), len(refused))
	}
	if b := w.customer.Budgets(); b[0].Today != enough*price {
		t.Errorf("%d are used", b[0].Today)
	}
	for _, r := range refused {
		if !strings.Contains(r.Reason, "over the day's budget") {
			t.Error(r.Reason)
		}
	}
}
