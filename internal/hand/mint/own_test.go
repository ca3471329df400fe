package mint

import (
	"context"
	"errors"
	"testing"
	"time"

	"guild/cashu"
	"guild/internal/hand/mintd"
)

// own runs guild's mint, and returns a client of it and its active keyset.
func own(t *testing.T) (*Mint, Keyset) {
	t.Helper()
	d, err := mintd.Open(t.TempDir(), mintd.Options{Now: time.Now, Faucet: 100, Fee: 100})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	m := clientOf(t, d.Handler())
	k, err := m.Active(context.Background(), mintd.Unit)
	if err != nil {
		t.Fatal(err)
	}
	return m, k
}

func TestOwnMint(t *testing.T) {
	m, k := own(t)
	ctx, owner := context.Background(), cashu.RandomScalar()
	q, err := m.Quote(ctx, 64, mintd.Unit, owner.PubKey())
	if err == nil {
		q, err = m.QuoteState(ctx, q)
	}
	if err != nil || q.State != Paid {
		t.Fatal(q, err)
	}
	coins := []coin{newCoin(k, "a", 64)}
	var w cashu.Witness
	if err := w.Sign(owner, cashu.QuoteMessage(q.ID, outputsOf(coins))); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Issue(ctx, q, outputsOf(coins), ""); err == nil {
		t.Error("signed for somebody else")
	}
	signatures, err := m.Issue(ctx, q, outputsOf(coins), w.Signatures[0])
	if err != nil {
		t.Fatal(err)
	}
	inputs := proofsOf(t, k, coins, signatures)

	bill, err := m.Quote(ctx, 200, mintd.Unit, cashu.Point{}) // more than it gives away
	if err != nil || bill.State != Unpaid {
		t.Fatal(bill, err)
	}
	if _, err := m.Issue(ctx, bill, []cashu.Output{newCoin(k, "b", 128).Output}, ""); !errors.Is(err, ErrUnpaid) {
		t.Error(err)
	}
	change := func() (coins []coin) {
		for _, amount := range cashu.Split(63) { // 1 is the fee
			coins = append(coins, newCoin(k, rand(), amount))
		}
		return coins
	}
	coins = change()
	if signatures, err = m.Swap(ctx, inputs, outputsOf(coins)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Swap(ctx, inputs, outputsOf(change())); !errors.Is(err, ErrSpent) {
		t.Error(err)
	}
	restored, err := m.Restore(ctx, append(outputsOf(coins), newCoin(k, "j", 0).Output))
	if err != nil || len(restored) != len(coins) || restored[coins[5].B].C != signatures[5].C {
		t.Error(restored, err)
	}
	states, err := m.States(ctx, []cashu.Point{cashu.HashToCurve("a"), cashu.HashToCurve(coins[0].secret)})
	if err != nil || states[0].State != Spent || states[1].State != Unspent {
		t.Error(states, err)
	}
}

func TestOwnMintMelts(t *testing.T) {
	m, k := own(t)
	ctx := context.Background()
	var inputs []cashu.Proof
	for _, secret := range []string{"a", "b", "c", "d"} {
		inputs = append(inputs, issued(t, m, k, newCoin(k, secret, 64))...)
	}
	bill, err := m.Quote(ctx, 200, mintd.Unit, cashu.Point{})
	if err != nil {
		t.Fatal(err)
	}
	q, err := m.MeltQuote(ctx, bill.Request, mintd.Unit)
	if err != nil || q.Amount != 200 {
		t.Fatal(q, err)
	}
	var blanks []cashu.Output
	for range 8 {
		blanks = append(blanks, newCoin(k, rand(), 0).Output)
	}
	paid, change, err := m.Melt(ctx, q, inputs, blanks)
	if err != nil || paid.State != Paid || paid.Preimage == "" {
		t.Fatal(paid, err)
	}
	sum := uint64(0)
	for _, s := range change {
		sum += s.Amount
	}
	if sum != 4*64-200-1 { // 1 is the fee of the inputs
		t.Error("change:", sum)
	}
	if restored, err := m.Restore(ctx, blanks); err != nil || len(restored) != len(change) {
		t.Error(restored, err)
	}
	if bill, err = m.QuoteState(ctx, bill); err != nil || bill.State != Paid {
		t.Error(bill, err)
	}
	if _, err = m.MeltState(ctx, paid); err != nil {
		t.Error(err)
	}
}
