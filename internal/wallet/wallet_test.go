package wallet

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"guild/cashu"
	"guild/internal/hand/mint"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold/foldtest"
)

func TestOperations(t *testing.T) {
	for _, fee := range []uint64{0, 100} {
		b := newBank(t, fee)
		customer, provider := newWorld(t), newWorld(t)
		customer.funded(b, 1000)
		provider.ok(provider.AddMint(t.Context(), Asset{b.asset.Mint + "/", b.asset.Unit}))
		customer.want(b, map[string]int64{Free: 1000, Outside: -1000})

		op, err := customer.Send(t.Context(), b.asset, 300)
		customer.ok(err)
		customer.ok(customer.settle())
		given, err := customer.Token(op, "hello")
		customer.ok(err)
		text, err := given.V4()
		customer.ok(err)
		fees := customer.account(b, Fees)
		customer.want(b, map[string]int64{Sent: 300, Free: 700 - fees})

		var planned fact.EcashPlanned
		for range 2 { // the second time it is spent
			planned, err = provider.Receive(t.Context(), text)
			provider.ok(err)
			provider.ok(provider.settle())
		}
		if err := provider.Wait(t.Context(), planned.Op); err == nil {
			t.Error("a token was received twice")
		}
		if fee > 0 && planned.Fee == 0 {
			t.Error("the receiver does not learn of the mint's fee")
		}
		provider.want(b, map[string]int64{Outside: -300, Free: 300 - int64(planned.Fee), Fees: int64(planned.Fee)})

		lock := lockBetween(t, customer.Wallet, provider.Wallet, b.now.Add(time.Hour))
		customer.plan(customer.PlanSpend("01", customer.terms(b), "attempt", lock, 100, 50))
		customer.ok(customer.settle())
		customer.want(b, map[string]int64{Held: 150})

		coins, amounts := customer.Fold().Outputs("01")
		if sum, _ := cashu.Sum(amounts[:3]...); sum != 100 {
			t.Errorf("the first part of the lock is %v", amounts)
		}
		both := customer.locked("01", customer.key(PayerKey), provider.key(PayeeKey))
		provider.plan(provider.PlanTake("02", Claim, provider.terms(b), "attempt", both[:3]))
		provider.ok(provider.settle())
		if earned := provider.account(b, Earned); earned != -100 {
			t.Errorf("earned %d", earned)
		}
		customer.ok(customer.journal.Do(t.Context(), fact.Ledger, "", func(tx *journal.Tx) error {
			tx.Append(fact.PaymentReleased{Mint: b.asset.Mint, Unit: b.asset.Unit, Amount: 100, Coins: coins[:3]})
			return nil
		}))
		customer.want(b, map[string]int64{Held: 50, Paid: 100})

		var cosigned []string
		for _, p := range customer.locked("01") {
			var w cashu.Witness
			provider.ok(w.Sign(provider.key(PayeeKey), p.Secret))
			cosigned = append(cosigned, w.Signatures...)
		}
		rest, _ := customer.Fold().Outputs("01")
		customer.plan(customer.PlanRefund("03", customer.terms(b), "attempt", rest[:1], nil)) // too early without the provider
		customer.ok(customer.settle())
		if customer.Fold().reason("03") == "" {
			t.Error("refunded before the locktime")
		}
		customer.plan(customer.PlanRefund("04", customer.terms(b), "attempt", rest[:1], cosigned[:1]))
		customer.ok(customer.settle())
		b.now = b.now.Add(2 * time.Hour)
		customer.plan(customer.PlanRefund("05", customer.terms(b), "attempt", rest[1:], nil))
		customer.ok(customer.settle())
		customer.want(b, map[string]int64{Held: 0, Paid: 100, Free: 600 - customer.account(b, Fees)})
		provider.agrees()

		for _, w := range []*world{customer, provider} {
			f := NewFold()
			w.ok(f.Restore([]byte(foldtest.Snapshot(t, w.Fold()))))
			w.ok(f.Check())
			before := foldtest.Snapshot(t, w.Fold())
			if foldtest.Snapshot(t, f) != before {
				t.Error("the snapshot is another state")
			}
			w.open() // from its snapshots
			if foldtest.Snapshot(t, w.Fold()) != before {
				t.Error("the restart is another state")
			}
			w.agrees()
		}
	}
}

func TestNothingIsNoOperation(t *testing.T) {
	b, w := newBank(t, 0), newWorld(t)
	w.funded(b, 10)
	if _, _, err := w.Fund(t.Context(), b.asset, 0); !errors.Is(err, errNothing) {
		t.Error(err)
	}
	if _, err := w.Send(t.Context(), b.asset, 0); !errors.Is(err, errNothing) {
		t.Error(err)
	}
	if _, err := w.Send(t.Context(), b.asset, 1<<63); !errors.Is(err, cashu.ErrOverflow) {
		t.Error(err)
	}
	if _, err := w.Send(t.Context(), b.asset, 11); !errors.Is(err, ErrShort) {
		t.Error(err)
	}
	if _, _, err := w.Fund(t.Context(), b.asset, 1<<63); err == nil {
		t.Error("2^63 were issued")
	}
}

func TestNoCoinTwice(t *testing.T) {
	b, w := newBank(t, 0), newWorld(t)
	for range 10 {
		w.funded(b, 15)
	}
	var sends sync.WaitGroup
	var mu sync.Mutex
	spent, planned := map[fact.Coin]bool{}, 0
	for range 100 {
		sends.Go(func() {
			op, err := w.Send(t.Context(), b.asset, 5)
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, ErrShort) {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			planned++
			w.Fold().View(func(s *state) {
				for _, in := range s.Ops.Of(op).Inputs {
					if spent[in] {
						t.Errorf("%s twice", name(in))
					}
					spent[in] = true
				}
			})
		})
	}
	sends.Wait()
	w.ok(w.settle())
	if planned == 0 || planned > 30 {
		t.Errorf("%d sends of 5 out of 150", planned)
	}
	w.want(b, map[string]int64{Sent: int64(5 * planned), Free: int64(150 - 5*planned)})
}

func TestRotation(t *testing.T) {
	b, w := newBank(t, 0), newWorld(t)
	w.funded(b, 100)
	op, _, err := w.Fund(t.Context(), b.asset, 50)
	w.ok(err)
	send, err := w.Send(t.Context(), b.asset, 30)
	w.ok(err)
	lock := lockBetween(t, w.Wallet, w.Wallet, b.now.Add(time.Hour))
	w.plan(w.PlanSpend("01", w.terms(b), "attempt", lock, 3))
	b.rotate(t, 1) // between the plan and the mint
	w.ok(w.settle())
	for _, op := range []string{op, send, "01"} {
		w.ok(w.Wait(t.Context(), op))
	}
	w.want(b, map[string]int64{Free: 117, Sent: 30, Held: 3})
}

// answers has the mint answer something else than it would to the first of these requests.
func answers(l *line, to string, status int) {
	done := false
	l.changes = func(path string, r *http.Response) {
		if path == to && !done {
			done = true
			r.StatusCode = status
		}
	}
}

func TestErrorsAfterTheMintDidIt(t *testing.T) {
	for _, status := range []int{400, 429, 500, 502, 503, 504} {
		b, w := newBank(t, 0), newWorld(t)
		w.funded(b, 100)
		answers(w.line, "swap", status)
		op, err := w.Send(t.Context(), b.asset, 30)
		w.ok(err)
		_ = w.settle()
		w.ok(w.settle())
		w.ok(w.Wait(t.Context(), op))
		w.want(b, map[string]int64{Free: 70, Sent: 30, Lost: 0})
	}
}

func TestChangeIsNotTold(t *testing.T) {
	b, w := newBank(t, 0), newWorld(t)
	w.funded(b, 64)
	var amounts []uint64
	w.line.sends = func(path string, sent []byte) {
		var swap struct{ Outputs []cashu.Output }
		if path == "swap" {
			w.ok(json.Unmarshal(sent, &swap))
			for _, o := range swap.Outputs {
				amounts = append(amounts, o.Amount)
			}
		}
	}
	_, err := w.Send(t.Context(), b.asset, 20) // 4 and 16; the change is 4, 8 and 32
	w.ok(err)
	w.ok(w.settle())
	if len(amounts) != 5 || !slices.IsSorted(amounts) {
		t.Errorf("the mint got %v", amounts)
	}
	w.want(b, map[string]int64{Free: 44, Sent: 20})
}

func TestErrorsOnTheWayFreeNothing(t *testing.T) {
	b, w := newBank(t, 0), newWorld(t)
	w.funded(b, 100)
	op, err := w.Send(t.Context(), b.asset, 30)
	w.ok(err)
	w.line.cut = func(_ int, path string) (bool, bool) { return path == "swap", false }
	if err := w.settle(); !errors.Is(err, errCut) || !w.Fold().Open(op) {
		t.Errorf("%v: the plan must stay", err)
	}
	w.line.cut = nil
	w.ok(w.settle())
	w.want(b, map[string]int64{Free: 70, Sent: 30})
}

func TestMintThatConceals(t *testing.T) {
	b, w := newBank(t, 0), newWorld(t)
	w.funded(b, 100)
	_, err := w.Send(t.Context(), b.asset, 30)
	w.ok(err)
	w.line.cut = func(_ int, path string) (bool, bool) { return false, path == "swap" }
	_ = w.settle()
	w.line.cut = nil
	w.line.changes = func(path string, r *http.Response) {
		if path == "restore" {
			r.Body.Close()
			r.Body = io.NopCloser(strings.NewReader(`{"outputs":[],"signatures":[]}`))
		}
	}
	w.ok(w.settle())
	lost := w.account(b, Lost)
	if lost == 0 {
		t.Error("the loss is not in the ledger")
	}
	w.want(b, map[string]int64{Free: 100 - lost, Sent: 0})
}

func TestPartOfATokenIsSpent(t *testing.T) {
	b, giver, one, two := newBank(t, 0), newWorld(t), newWorld(t), newWorld(t)
	giver.funded(b, 100)
	op, err := giver.Send(t.Context(), b.asset, 7)
	giver.ok(err)
	giver.ok(giver.settle())
	all, err := giver.Token(op, "")
	giver.ok(err)
	var planned fact.EcashPlanned
	for i, w := range []*world{one, two} {
		w.ok(w.AddMint(t.Context(), b.asset))
		given := all
		if i == 0 {
			given.Proofs = all.Proofs[:1]
		}
		text, err := given.V4()
		w.ok(err)
		planned, err = w.Receive(t.Context(), text)
		w.ok(err)
		w.ok(w.settle())
	}
	if err := two.Wait(t.Context(), planned.Op); err == nil {
		t.Error("a token was received of which a part is spent")
	}
	two.want(b, map[string]int64{Free: 0, Lost: 0})
	one.want(b, map[string]int64{Free: int64(all.Proofs[0].Amount)})
}

func TestUnpaidQuote(t *testing.T) {
	b, w := newBank(t, 0), newWorld(t)
	w.funded(b, 1)
	_, invoice, err := w.Fund(t.Context(), b.asset, 1<<20+1) // beyond what the mint gives away
	w.ok(err)
	if invoice == "" {
		t.Fatal("no invoice")
	}
	if err := w.settle(); !errors.Is(err, due.ErrLater) || !errors.Is(err, mint.ErrUnpaid) {
		t.Error(err)
	}
	if len(w.Due(w.now)) != 1 {
		t.Error("the quote is forgotten before it is paid")
	}
	w.now = w.now.Add(unpaid + time.Minute)
	w.ok(w.settle())
	if len(w.Due(w.now)) != 0 {
		t.Error("the quote is asked for for ever")
	}
}

func TestSealedInputs(t *testing.T) {
	seed := Seed("seed")
	one, err := seed.seal("op", []cashu.Proof{{Amount: 1, C: cashu.HashToCurve("a")}})
	if err != nil {
		t.Fatal(err)
	}
	two, _ := seed.seal("op", []cashu.Proof{{Amount: 2, C: cashu.HashToCurve("a")}})
	if string(one[:24]) == string(two[:24]) {
		t.Error("one nonce for two texts")
	}
	if back, err := seed.open("op", one); err != nil || len(back) != 1 || back[0].Amount != 1 {
		t.Errorf("%v, %v", back, err)
	}
	for _, bad := range [][]byte{nil, one[:20], append([]byte{1}, one...)} {
		if _, err := seed.open("op", bad); err == nil {
			t.Errorf("%x was opened", bad)
		}
	}
	if _, err := seed.open("other", one); err == nil {
		t.Error("opened as the inputs of another operation")
	}
}
