package wallet

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/journal/journaltest"
)

// saved copies the wallet's journal, and returns the function that puts the copy back, as a restore from a backup does.
func (w *world) saved() (back func()) {
	w.Helper()
	w.close()
	dir := journaltest.Dir(w.T) + "/copy"
	w.ok(os.CopyFS(dir, os.DirFS(w.dir)))
	w.open()
	return func() {
		w.Helper()
		w.close()
		w.ok(os.RemoveAll(w.dir))
		w.ok(os.CopyFS(w.dir, os.DirFS(dir)))
		w.open()
	}
}

// sends returns the token of an amount, which must be sent.
func (w *world) sends(b *bank, amount uint64) string {
	w.Helper()
	op, err := w.Send(w.Context(), b.asset, amount)
	w.ok(err)
	w.ok(w.settle())
	w.ok(w.Wait(w.Context(), op))
	t, err := w.Token(op, "")
	w.ok(err)
	text, err := t.V4()
	w.ok(err)
	return text
}

// takes receives a token.
func (w *world) takes(text string) {
	w.Helper()
	planned, err := w.Receive(w.Context(), text)
	w.ok(err)
	w.ok(w.settle())
	w.ok(w.Wait(w.Context(), planned.Op))
}

func TestNoQuoteIsLostToAnOlderJournal(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		b, w := newBank(t, 0), newWorld(t)
		w.funded(b, 32)
		back := w.saved()
		w.funded(b, 32)
		back()
		op, _, err := w.Fund(t.Context(), b.asset, 32) // with the counters of the one before
		w.ok(err)
		if restarted {
			w.open()
		}
		w.ok(w.settle())
		w.ok(w.Wait(t.Context(), op))
		w.want(b, map[string]int64{Free: 96, Outside: -96})
	}
}

func TestNoTokenIsShownTwice(t *testing.T) {
	b, w, other := newBank(t, 0), newWorld(t), newWorld(t)
	other.ok(other.AddMint(t.Context(), b.asset))
	back := w.saved()
	w.funded(b, 8)
	first := w.sends(b, 8)
	other.takes(first)
	back()
	w.funded(b, 8)
	second := w.sends(b, 8)
	if first == second {
		t.Fatal("the spent token is shown again")
	}
	other.takes(second)
	w.want(b, map[string]int64{Free: 0, Sent: 8})
}

func TestSendThatWasSentBefore(t *testing.T) {
	for _, c := range []struct {
		name         string
		taken, tried bool
		free         int64
	}{
		{name: "the token is not taken", free: 8},
		{name: "the token is taken", taken: true},
		{name: "the token is taken, and the mint was away", taken: true, tried: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, w, other := newBank(t, 0), newWorld(t), newWorld(t)
			other.ok(other.AddMint(t.Context(), b.asset))
			w.funded(b, 8)
			back := w.saved()
			if first := w.sends(b, 8); c.taken {
				other.takes(first)
			}
			back()
			op, err := w.Send(t.Context(), b.asset, 8) // the same coin for the same outputs
			w.ok(err)
			if c.tried {
				w.line.cut = func(_ int, path string) (bool, bool) { return path == "swap", false }
				if err := w.settle(); !errors.Is(err, errCut) {
					t.Error(err)
				}
				w.line.cut = nil
			}
			w.ok(w.settle())
			if w.Wait(t.Context(), op) == nil {
				t.Error("the token is shown again")
			}
			w.want(b, map[string]int64{Free: c.free, Sent: 0, Lost: 8})
		})
	}
}

func TestOlderJournalIsNotStuck(t *testing.T) {
	b, w, other := newBank(t, 0), newWorld(t), newWorld(t)
	other.ok(other.AddMint(t.Context(), b.asset))
	w.funded(b, 300)
	back := w.saved()
	other.takes(w.sends(b, 40))
	back()
	op, err := w.Send(t.Context(), b.asset, 20) // from the same coin, with the same counters
	w.ok(err)
	w.ok(w.settle())
	if w.Wait(t.Context(), op) == nil {
		t.Error("one coin was spent twice")
	}
	w.want(b, map[string]int64{Free: 260})
	w.sends(b, 20)
	w.want(b, map[string]int64{Free: 240, Sent: 20})
	w.open()
	w.want(b, map[string]int64{Free: 240, Sent: 20})
}

func TestUsedCountersAreLeftBehind(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		b, w := newBank(t, 0), newWorld(t)
		w.funded(b, 64)
		back := w.saved()
		w.funded(b, 40)
		back()
		op, err := w.Send(t.Context(), b.asset, 20) // its outputs are signed, some for other amounts; the input is there
		w.ok(err)
		if restarted {
			w.open()
		}
		w.ok(w.settle())
		w.ok(w.Wait(t.Context(), op))
		w.want(b, map[string]int64{Free: 84, Sent: 20, Outside: -104, Lost: 0})

		back()
		lock := lockBetween(t, w.Wallet, w.Wallet, b.now.Add(time.Hour))
		w.plan(w.PlanSpend("01", w.terms(b), "attempt", lock, 10)) // its input is spent
		w.ok(w.settle())
		if w.Fold().Open("01") {
			t.Error("a lock is stuck")
		}
		w.plan(w.PlanSpend("02", w.terms(b), "attempt", lock, 10))
		w.ok(w.settle())
		w.ok(w.Wait(t.Context(), "02"))
		w.want(b, map[string]int64{Held: 10, Free: 94})
	}
}

func TestLockWithUsedCounters(t *testing.T) {
	b, w := newBank(t, 0), newWorld(t)
	w.funded(b, 64)
	back := w.saved()
	w.funded(b, 40)
	back()
	lock := lockBetween(t, w.Wallet, w.Wallet, b.now.Add(time.Hour))
	w.plan(w.PlanSpend("01", w.terms(b), "attempt", lock, 10)) // its change has the counters
	w.ok(w.settle())
	w.ok(w.Wait(t.Context(), "01"))
	w.want(b, map[string]int64{Held: 10, Free: 94, Lost: 0})
}

func TestRestoreBehindAPlan(t *testing.T) {
	b, old := newBank(t, 0), newWorld(t)
	for range 5 {
		old.funded(b, 20)
	}
	w := newWorld(t)
	w.seed = old.seed
	w.open()
	w.ok(w.AddMint(t.Context(), b.asset))
	_, _, err := w.Fund(t.Context(), b.asset, 7) // 3 of the 10 counters
	w.ok(err)
	found, err := w.Restore(t.Context(), b.asset)
	w.ok(err)
	if found == 0 {
		t.Error("nothing was found behind the plan")
	}
	w.ok(w.settle())
	w.want(b, map[string]int64{Free: 107})
	if found, err := w.Restore(t.Context(), b.asset); found != 0 || err != nil {
		t.Errorf("%d were found twice, %v", found, err)
	}
	before := w.journal.Last()
	_, err = w.Restore(t.Context(), b.asset)
	w.ok(err)
	if w.journal.Last() != before {
		t.Error("a restore that finds nothing was recorded")
	}
}

func TestPendingCoinsAreFoundLater(t *testing.T) {
	b, old := newBank(t, 0), newWorld(t)
	old.funded(b, 8)
	w := newWorld(t)
	w.seed = old.seed
	w.open()
	w.ok(w.AddMint(t.Context(), b.asset))
	w.line.changes = func(path string, r *http.Response) {
		if path == "checkstate" {
			body, err := io.ReadAll(r.Body)
			w.ok(err)
			body = bytes.ReplaceAll(body, []byte("UNSPENT"), []byte("PENDING"))
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
	}
	if found, err := w.Restore(t.Context(), b.asset); found != 0 || err != nil {
		t.Errorf("found %d, %v", found, err)
	}
	w.line.changes = nil
	if found, err := w.Restore(t.Context(), b.asset); found != 8 || err != nil {
		t.Errorf("found %d, %v", found, err)
	}
	w.want(b, map[string]int64{Free: 8})
}

func TestOperationWithoutItsInputEnds(t *testing.T) {
	b, w := newBank(t, 0), newWorld(t)
	w.funded(b, 8)
	planned := fact.EcashPlanned{Op: "01", Kind: Send, Mint: b.asset.Mint, Unit: b.asset.Unit, Keyset: w.terms(b).Keyset.ID, Amount: 8,
		Inputs: []fact.Coin{{Op: "gone"}}, Outputs: []fact.EcashOutput{{Amount: 8, Counter: 9}}}
	w.ok(w.journal.Do(t.Context(), fact.Ledger, "", func(tx *journal.Tx) error { tx.Append(planned); return nil }))
	w.ok(w.settle())
	if w.Fold().reason("01") == "" {
		t.Error("it is tried for ever, after a repair that lost what it spends")
	}
	w.want(b, map[string]int64{Free: 8})
}
