// Package lightningtest tests what every lightning.Wallet must do, with two wallets that can pay each other.
package lightningtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"guild"
	"guild/bolt11"
	"guild/internal/hand/lightning"
)

// The amounts of the invoices that the wallets make, in msat.
const (
	First  = guild.Msat(5_000) // by the payee
	Second = guild.Msat(6_000) // by the payee
	Back   = guild.Msat(4_000) // by the payer
)

// Rig is two wallets, and what a test must know about them.
type Rig struct {
	Payer, Payee lightning.Wallet
	Network      bolt11.Network

	Fails string // an invoice whose payment fails
	Stuck string // an invoice whose payment stays under way
	Free  func() // lets the payment of Stuck be made; nil if the wallets cannot

	// Orders returns how many times the payer's wallet was made to pay an invoice; nil if that is not known.
	Orders func(invoice string) int
	// Fixed says that the wallets show a balance that no payment changes.
	Fixed bool
	// Patience limits the wait for the answer to an order that is under way or was given before. Zero means 5 s.
	Patience time.Duration
}

// Test tests a rig's wallets.
func Test(t *testing.T, r Rig) {
	if r.Patience == 0 {
		r.Patience = 5 * time.Second
	}
	t.Run("answers", r.answers)
	t.Run("makes an invoice", r.makesInvoice)
	t.Run("pays once", r.paysOnce)
	t.Run("is paid", r.isPaid)
	t.Run("knows no other hash", r.knowsNoOther)
	t.Run("failure is final", r.failureIsFinal)
	t.Run("stays under way", r.staysUnderWay)
	t.Run("refuses bad invoices", r.refusesBadInvoices)
}

func (r Rig) answers(t *testing.T) {
	ctx := t.Context()
	for name, w := range r.wallets() {
		if err := w.Check(ctx); err != nil {
			t.Error(name, err)
		}
		info, err := w.Info(ctx)
		if err != nil {
			t.Error(name, err)
		}
		if network, err := lightning.ParseNetwork(info.Network); err != nil || network != r.Network {
			t.Error(name, info, err)
		}
		for range 2 {
			if network, err := w.Network(ctx); err != nil || network != r.Network {
				t.Error(name, network, err)
			}
		}
		if m, err := w.Balance(ctx); err != nil || m <= First {
			t.Errorf("%s: a balance of %s, %v", name, m, err)
		}
	}
}

func (r Rig) wallets() map[string]lightning.Wallet {
	return map[string]lightning.Wallet{"payer": r.Payer, "payee": r.Payee}
}

// make has a wallet make an invoice.
func (r Rig) make(t *testing.T, w lightning.Wallet, amount guild.Msat) (string, bolt11.Invoice) {
	t.Helper()
	text, inv, err := w.MakeInvoice(t.Context(), amount, "work", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return text, inv
}

func (r Rig) makesInvoice(t *testing.T) {
	text, inv := r.make(t, r.Payee, First)
	again, err := bolt11.Decode(text)
	if err != nil || again.PaymentHash != inv.PaymentHash || inv.Network != r.Network || inv.Amount != First || inv.Description != "work" {
		t.Errorf("%+v, %v", inv, err)
	}
	if lasts := inv.Expiry; lasts != 0 && lasts != time.Hour {
		t.Error("it lasts", lasts)
	}
	seen := r.lookup(t, r.Payee, inv)
	if seen.Outgoing || seen.Settled || seen.Failed || seen.Amount != First || seen.Preimage != [32]byte{} {
		t.Errorf("%+v", seen)
	}
}

func (r Rig) lookup(t *testing.T, w lightning.Wallet, inv bolt11.Invoice) lightning.Transaction {
	t.Helper()
	seen, err := w.Lookup(t.Context(), inv.PaymentHash)
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// order makes an order to pay an invoice.
func (r Rig) order(t *testing.T, w lightning.Wallet, invoice string) lightning.Order {
	t.Helper()
	o, err := w.Prepare(t.Context(), invoice, time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// unanswered gives an order that may get no answer.
func (r Rig) unanswered(t *testing.T, o lightning.Order) (lightning.Payment, error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), r.Patience, lightning.ErrNoAnswer)
	defer cancel()
	return r.Payer.Pay(ctx, o)
}

func (r Rig) balance(t *testing.T) guild.Msat {
	t.Helper()
	m, err := r.Payer.Balance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (r Rig) paysOnce(t *testing.T) {
	text, inv := r.make(t, r.Payee, First)
	before := r.balance(t)
	o := r.order(t, r.Payer, text)
	for name, w := range r.wallets() {
		if made, err := w.Made(t.Context(), o); err != nil || made != (w == r.Payer) {
			t.Error(name, "made it:", made, err)
		}
	}
	if _, err := r.Payee.Pay(t.Context(), o); err == nil {
		t.Error("an order to another wallet is carried out")
	}
	p, err := r.Payer.Pay(t.Context(), o)
	if err != nil || guild.Hash(sha256.Sum256(p.Preimage[:])) != inv.PaymentHash {
		t.Fatalf("%+v, %v", p, err)
	}
	spent := r.balance(t)
	if !r.Fixed && before-spent != First+p.Fees {
		t.Errorf("%s were spent, with fees of %s", before-spent, p.Fees)
	}
	if again, err := r.unanswered(t, o); err == nil && again != p {
		t.Errorf("%+v, then %+v", p, again)
	}
	seen := r.lookup(t, r.Payer, inv)
	if !seen.Outgoing || !seen.Settled || seen.Failed || seen.Amount != First || seen.Preimage != p.Preimage || seen.Fees != p.Fees {
		t.Errorf("the payer's: %+v", seen)
	}
	if seen := r.lookup(t, r.Payee, inv); seen.Outgoing || !seen.Settled || seen.Failed || seen.Amount != First {
		t.Errorf("the payee's: %+v", seen)
	}

	other, _ := r.make(t, r.Payee, Second) // what was ordered before this has arrived by then
	if _, err := r.Payer.Pay(t.Context(), r.order(t, r.Payer, other)); err != nil {
		t.Fatal(err)
	}
	if n := r.ordered(text); n != 1 {
		t.Errorf("it was paid %d times", n)
	}
	if after := r.balance(t); !r.Fixed && spent-after < Second {
		t.Errorf("%s were spent on the second", spent-after)
	}
}

// ordered returns how many times the payer's wallet was made to pay an invoice: once if that is not known.
func (r Rig) ordered(invoice string) int {
	if r.Orders == nil {
		return 1
	}
	return r.Orders(invoice)
}

// isPaid is the other direction.
func (r Rig) isPaid(t *testing.T) {
	text, inv := r.make(t, r.Payer, Back)
	before := r.balance(t)
	if _, err := r.Payee.Pay(t.Context(), r.order(t, r.Payee, text)); err != nil {
		t.Fatal(err)
	}
	if seen := r.lookup(t, r.Payer, inv); seen.Outgoing || !seen.Settled || seen.Failed {
		t.Errorf("%+v", seen)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for !r.Fixed && r.balance(t)-before != Back { // the channel may follow the payment
		if ctx.Err() != nil {
			t.Fatalf("%s came in", r.balance(t)-before)
		}
	}
}

func (r Rig) knowsNoOther(t *testing.T) {
	for name, w := range r.wallets() {
		if seen, err := w.Lookup(t.Context(), guild.Hash{2}); !lightning.IsRefused(err, lightning.NotFound) {
			t.Errorf("%s: %+v, %v", name, seen, err)
		}
	}
}

func (r Rig) failureIsFinal(t *testing.T) {
	before := r.balance(t)
	inv, err := bolt11.Decode(r.Fails)
	if err != nil {
		t.Fatal(err)
	}
	o := r.order(t, r.Payer, r.Fails)
	if p, err := r.Payer.Pay(t.Context(), o); err == nil {
		t.Errorf("%+v", p)
	}
	for range 2 {
		if seen := r.lookup(t, r.Payer, inv); !seen.Outgoing || seen.Settled || !seen.Failed || seen.Preimage != [32]byte{} {
			t.Errorf("%+v", seen)
		}
		if p, err := r.unanswered(t, o); err == nil {
			t.Errorf("again: %+v", p)
		}
	}
	if n := r.ordered(r.Fails); n != 1 {
		t.Errorf("it was tried %d times", n)
	}
	if after := r.balance(t); after != before {
		t.Errorf("%s were spent", before-after)
	}
}

func (r Rig) staysUnderWay(t *testing.T) {
	inv, err := bolt11.Decode(r.Stuck)
	if err != nil {
		t.Fatal(err)
	}
	o := r.order(t, r.Payer, r.Stuck)
	for range 2 {
		if p, err := r.unanswered(t, o); err == nil || lightning.IsRefused(err, lightning.Untried...) {
			t.Errorf("%+v, %v", p, err)
		}
		if seen := r.lookup(t, r.Payer, inv); !seen.Outgoing || seen.Settled || seen.Failed || seen.Preimage != [32]byte{} {
			t.Errorf("%+v", seen)
		}
	}
	if n := r.ordered(r.Stuck); n != 1 {
		t.Errorf("it was tried %d times", n)
	}
	if r.Free == nil {
		return
	}
	r.Free()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		seen, err := r.Payer.Lookup(ctx, inv.PaymentHash)
		if err != nil {
			t.Fatal(err)
		}
		if seen.Settled && seen.Preimage != [32]byte{} {
			break
		}
	}
	if p, err := r.Payer.Pay(t.Context(), o); err != nil || guild.Hash(sha256.Sum256(p.Preimage[:])) != inv.PaymentHash {
		t.Errorf("%+v, %v", p, err)
	}
}

func (r Rig) refusesBadInvoices(t *testing.T) {
	const none = "lnbcrt1"
	if o, err := r.Payer.Prepare(t.Context(), none, time.Time{}); !errors.Is(err, bolt11.ErrInvalid) {
		t.Error(o, err)
	}
}
