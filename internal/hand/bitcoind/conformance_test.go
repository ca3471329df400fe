package bitcoind

import (
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"guild/bitcoin"
)

// rig is two wallets on one chain, of which the payer has coins.
type rig struct {
	payer, payee *Wallet
	network      string

	mine   func(t *testing.T, blocks int)
	lock   func(t *testing.T, on bool) // locks the payer's wallet with its passphrase, or unlocks it
	before func(t *testing.T)          // marks the latest block
	reorg  func(t *testing.T)          // replaces the block after the marked one by two others
	again  func() *Wallet              // the payer's wallet for a new process
}

// conforms tests what a rig's wallets must do.
func (r rig) conforms(t *testing.T) {
	for name, w := range map[string]*Wallet{"payer": r.payer, "payee": r.payee} {
		if err := w.Check(t.Context()); err != nil {
			t.Fatal(name, err)
		}
		if n, err := w.Network(t.Context()); err != nil || n != r.network {
			t.Fatalf("%s is on %q: %v", name, n, err)
		}
	}
	t.Run("pays and proves", r.paysAndProves)
	t.Run("locks what it spends", r.locks)
	t.Run("refuses", r.refuses)
	t.Run("does not sign while it is locked", r.doesNotSign)
	t.Run("sees a reorg", r.seesReorg)
}

const price, mostFee = 50_000, 100_000 // sat

// orders makes an address of the payee's and the payer's order to pay it.
func (r rig) orders(t *testing.T) (address string, o Order) {
	t.Helper()
	address = r.payee.address(t)
	o, err := r.payer.Prepare(t.Context(), address, price, mostFee)
	if err != nil {
		t.Fatal(err)
	}
	return address, o
}

// receives waits until the payee's wallet has a payment with some confirmations, at most a minute.
func (r rig) receives(t *testing.T, address string, is func(Payment) bool) Payment {
	t.Helper()
	var all []Payment
	var err error
	for range 120 {
		if all, err = r.payee.Received(t.Context(), address); err == nil && len(all) == 1 && is(all[0]) {
			return all[0]
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
	t.Fatalf("received %+v: %v", all, err)
	return Payment{}
}

// sent waits until the payer's wallet sees some confirmations of an order, at most a minute.
func (r rig) sent(t *testing.T, o Order, confirmations int) (p Payment) {
	t.Helper()
	var known bool
	var err error
	for range 120 {
		if p, known, err = r.payer.Sent(t.Context(), o); err == nil && known && p.Confirmations == confirmations {
			return p
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
	t.Fatalf("the payer sees %+v: %v %v", p, known, err)
	return p
}

func confirmed(n int) func(Payment) bool { return func(p Payment) bool { return p.Confirmations == n } }

func (r rig) sends(t *testing.T, w *Wallet, o Order) {
	t.Helper()
	if err := w.Send(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func (r rig) paysAndProves(t *testing.T) {
	address, o := r.orders(t)
	other, err := r.payee.Address(t.Context(), "guild request")
	if err != nil || other == address {
		t.Fatal("the second address is the first", err)
	}
	if got, err := r.payee.Received(t.Context(), address); err != nil || len(got) > 0 {
		t.Fatalf("received %+v before it was sent: %v", got, err)
	}
	if _, known, err := r.payer.Sent(t.Context(), o); err != nil || known {
		t.Fatalf("known before it was sent: %v %v", known, err)
	}
	r.sends(t, r.payer, o)
	r.sends(t, r.again(), o) // as after a crash
	got := r.receives(t, address, confirmed(0))
	if got.ID != o.ID || got.N != o.N || got.Satoshis != price || got.Block != "" {
		t.Fatalf("received %+v for %+v", got, o)
	}
	r.mine(t, 1)
	r.receives(t, address, confirmed(1))
	r.sends(t, r.payer, o)
	r.mine(t, 2)
	got = r.receives(t, address, confirmed(3))
	raw, err := hex.DecodeString(got.Raw)
	if err != nil {
		t.Fatal(err)
	}
	paid, err := bitcoin.ParseTransaction(raw)
	if err != nil {
		t.Fatal(err)
	}
	in, err := r.payee.Included(t.Context(), paid, got.Block)
	if err != nil {
		t.Fatal(err)
	}
	if p := r.sent(t, o, 3); p.Block != got.Block {
		t.Errorf("the payer sees %+v", p)
	}
	if block, err := in.Check(paid); err != nil || block != got.Block {
		t.Errorf("it is in the block %s instead of %s: %v", block, got.Block, err)
	}
	if nothing, err := r.payee.Received(t.Context(), other); err != nil || len(nothing) > 0 {
		t.Errorf("the other address received %+v: %v", nothing, err)
	}
}

func (r rig) locks(t *testing.T) {
	before, err := r.payer.Balance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first, a := r.orders(t)
	second, b := r.orders(t)
	spent := map[bitcoin.Outpoint]bool{}
	for _, o := range []Order{a, b} {
		raw, _ := hex.DecodeString(o.Raw)
		paid, err := bitcoin.ParseTransaction(raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range paid.Inputs {
			if spent[in] {
				t.Errorf("%+v is spent twice", in)
			}
			spent[in] = true
		}
	}
	_, unsent := r.orders(t)
	locked, err := r.payer.Balance(t.Context())
	if err == nil {
		err = r.payer.Release(t.Context(), unsent)
	}
	if err != nil {
		t.Fatal(err)
	}
	if after, err := r.payer.Balance(t.Context()); err != nil || after <= locked {
		t.Errorf("it can spend %d, after %d with what is not sent: %v", after, locked, err)
	}
	if after, err := r.payer.Balance(t.Context()); err != nil || after >= before {
		t.Errorf("it can spend %d after %d: %v", after, before, err)
	}
	r.sends(t, r.payer, a)
	r.sends(t, r.payer, b)
	r.mine(t, 1)
	r.receives(t, first, confirmed(1))
	r.receives(t, second, confirmed(1))
}

func (r rig) refuses(t *testing.T) {
	address := r.payee.address(t)
	if _, err := r.payer.Prepare(t.Context(), address, Dust-1, mostFee); err == nil {
		t.Error("it pays dust")
	}
	if _, err := r.payer.Prepare(t.Context(), address, price, 1); !errors.Is(err, ErrFee) {
		t.Error("a fee over the limit:", err)
	}
	if _, err := r.payer.Prepare(t.Context(), address, bitcoin.MaxSatoshis, mostFee); !errors.Is(err, ErrFunds) {
		t.Error("more than it has:", err)
	}
	if _, err := r.payer.Prepare(t.Context(), "1BoatSLRHtKNngkdXEeobR76b53LETtpyT", price, mostFee); err == nil {
		t.Error("it pays to an address that no quote has")
	}
}

func (r rig) doesNotSign(t *testing.T) {
	address := r.payee.address(t)
	before, err := r.payer.Balance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.lock(t, true)
	if _, err := r.payer.Prepare(t.Context(), address, price, mostFee); !errors.Is(err, ErrUnsigned) {
		t.Error("a locked wallet:", err)
	}
	r.lock(t, false)
	if after, err := r.payer.Balance(t.Context()); err != nil || after != before {
		t.Errorf("it can spend %d after %d: %v", after, before, err)
	}
}

func (r rig) seesReorg(t *testing.T) {
	r.before(t)
	address, o := r.orders(t)
	r.sends(t, r.payer, o)
	r.receives(t, address, confirmed(0))
	r.mine(t, 1)
	lost := r.receives(t, address, confirmed(1))
	r.reorg(t)
	r.receives(t, address, func(p Payment) bool { return p.Confirmations == 0 && p.Block == "" })
	r.sends(t, r.payer, o)
	r.mine(t, 1)
	if got := r.receives(t, address, confirmed(1)); got.Block == lost.Block {
		t.Error("it is in the block that was replaced")
	}
}
