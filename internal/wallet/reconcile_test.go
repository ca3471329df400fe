package wallet

import (
	"testing"
	"time"

	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold/foldtest"
	"guild/internal/journal/journaltest"
)

// corrects has the wallet book what differs, and returns what was left.
func (w *world) corrects() []Difference {
	w.Helper()
	r, err := w.Reconcile(w.Context())
	w.ok(err)
	left, err := w.Correct(w.Context(), r)
	w.ok(err)
	return left
}

func TestBooksAfterAHole(t *testing.T) {
	b, w := newBank(t, 0), newWorld(t)
	w.funded(b, 1000)
	lock := lockBetween(t, w.Wallet, w.Wallet, b.now.Add(time.Hour))
	w.plan(w.PlanSpend("01", w.terms(b), "attempt", lock, 300))
	lost := w.journal.Last()
	w.ok(w.settle())
	coins, _ := w.Fold().Outputs("01")
	w.ok(w.journal.Do(t.Context(), fact.Ledger, "", func(tx *journal.Tx) error {
		tx.Append(fact.PaymentReleased{Mint: b.asset.Mint, Unit: b.asset.Unit, Amount: 300, Coins: coins})
		return nil
	}))

	w.close()
	journaltest.Lose(t, w.dir, lost)
	_, err := journal.Repair(t.Context(), journal.Options{Dir: w.dir, Now: time.Now, NoSync: true})
	w.ok(err)
	f := NewFold()
	w.journal = journaltest.Reopen(t, w.dir, f)
	w.fold, w.c.Journal = f, w.journal
	w.ok(w.journal.Release(t.Context(), fact.Ledger))

	r, err := w.Reconcile(t.Context())
	w.ok(err)
	if len(r.Differences) == 0 || len(r.Imbalances) != 1 || r.Imbalances[0].Account != Held || r.Imbalances[0].Ledger != -300 {
		t.Fatalf("the hole is not seen: %+v", r)
	}
	if found, err := w.Restore(t.Context(), b.asset); err != nil || found == 0 {
		t.Errorf("the change of the lost entry was not found: %d, %v", found, err)
	}
	if left := w.corrects(); len(left) > 0 {
		t.Errorf("%+v is left", left)
	}
	w.checked()
	w.want(b, map[string]int64{Free: 700, Held: 0, Corrected: -300})
	before := w.journal.Last()
	w.corrects()
	if w.journal.Last() != before {
		t.Error("it is corrected twice")
	}
	w.open()
	w.want(b, map[string]int64{Free: 700, Held: 0, Corrected: -300})
	again := NewFold()
	w.ok(again.Restore([]byte(foldtest.Snapshot(t, w.Fold()))))
	w.ok(again.Check())
}

func TestUndecidedEcashIsNotWrittenOff(t *testing.T) {
	b, w, provider := newBank(t, 0), newWorld(t), newWorld(t)
	w.funded(b, 100)
	provider.ok(provider.AddMint(t.Context(), b.asset))
	until := time.Now().Add(time.Hour)
	w.plan(w.PlanSpend("01", w.terms(b), "attempt", lockBetween(t, w.Wallet, provider.Wallet, until), 64))
	w.ok(w.settle())
	both := w.locked("01", w.key(PayerKey), provider.key(PayeeKey))
	provider.plan(provider.PlanTake("02", Claim, provider.terms(b), "attempt", both))
	provider.ok(provider.settle())
	if left := w.corrects(); len(left) != 1 || !left[0].Held {
		t.Errorf("left %+v", left)
	}
	if held := w.account(b, Held); held != 64 {
		t.Errorf("%d are held: a payment that is not over was written off", held)
	}
}

func TestNothingIsHeldBelowZero(t *testing.T) {
	w := newWorld(t)
	w.ok(w.journal.Do(t.Context(), fact.Ledger, "", func(tx *journal.Tx) error {
		tx.Append(fact.InvoicePaid{Msat: 5000}) // what reserved it is lost
		return nil
	}))
	if w.Fold().Check() == nil {
		t.Error("less than nothing is held, and nothing is said")
	}
	w.corrects()
	w.checked()
}
