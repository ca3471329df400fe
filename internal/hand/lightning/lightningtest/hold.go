package lightningtest

import (
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"guild"
	"guild/internal/hand/lightning"
)

// Held is the amount of the invoices whose payment is held, in msat.
const Held = guild.Msat(9_000)

// blocks for which the payments of the tests are held, at most.
const blocks = 300

// TestHold tests what wallets must do that can hold payments.
func TestHold(t *testing.T, r Rig) {
	if r.Patience == 0 {
		r.Patience = 5 * time.Second
	}
	t.Run("settles what it holds", r.settlesHeld)
	t.Run("cancels what it holds", r.cancelsHeld)
	t.Run("cancels before it is paid", r.cancelsOpen)
	t.Run("makes one hold for a hash", r.holdsOnce)
}

// hold describes a hold for a preimage that begins with a byte.
func hold(first byte) (preimage [32]byte, h lightning.Hold) {
	preimage = [32]byte{first, 99}
	return preimage, lightning.Hold{
		Hash: sha256.Sum256(preimage[:]), Amount: Held, Description: "held work", Expiry: time.Hour, Blocks: blocks,
	}
}

// held has a payment under way that the payee's wallet holds.
func (r Rig) held(t *testing.T, h lightning.Hold) lightning.Order {
	t.Helper()
	text, inv, err := r.Payee.MakeHold(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if inv.PaymentHash != h.Hash || inv.Amount != h.Amount || inv.Description != h.Description || inv.MinFinalCLTV < h.Blocks {
		t.Errorf("%+v", inv)
	}
	if seen := r.lookup(t, r.Payee, inv); seen.Outgoing || seen.Accepted || seen.Settled || seen.Failed {
		t.Errorf("before the payment: %+v", seen)
	}
	if err := r.Payee.Settle(t.Context(), [32]byte{77}); err == nil {
		t.Error("a preimage of no invoice settles something")
	}
	o := r.order(t, r.Payer, text)
	if p, err := r.unanswered(t, o); err == nil || lightning.IsRefused(err, lightning.Untried...) {
		t.Errorf("%+v, %v", p, err)
	}
	r.until(t, r.Payee, h.Hash, func(seen lightning.Transaction) bool { return seen.Accepted })
	if seen := r.lookup(t, r.Payee, inv); seen.Outgoing || !seen.Accepted || seen.Settled || seen.Failed || seen.Preimage != [32]byte{} {
		t.Errorf("held: %+v", seen)
	}
	if seen := r.lookup(t, r.Payer, inv); !seen.Outgoing || seen.Accepted || seen.Settled || seen.Failed || seen.Preimage != [32]byte{} {
		t.Errorf("under way: %+v", seen)
	}
	return o
}

// until waits until a wallet says something of a hash.
func (r Rig) until(t *testing.T, w lightning.Wallet, hash guild.Hash, is func(lightning.Transaction) bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		seen, err := w.Lookup(t.Context(), hash)
		if err == nil && is(seen) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("it stays so: %+v, %v", seen, err)
		}
	}
}

func (r Rig) settlesHeld(t *testing.T) {
	preimage, h := hold(1)
	o := r.held(t, h)
	for range 2 { // the second time as after a crash
		if err := r.Payee.Settle(t.Context(), preimage); err != nil {
			t.Fatal(err)
		}
	}
	r.until(t, r.Payee, h.Hash, func(seen lightning.Transaction) bool { return seen.Settled && !seen.Accepted })
	r.until(t, r.Payer, h.Hash, func(seen lightning.Transaction) bool { return seen.Settled && seen.Preimage == preimage })
	if p, err := r.unanswered(t, o); err == nil && p.Preimage != preimage {
		t.Errorf("%+v", p)
	}
	if err := r.Payee.Cancel(t.Context(), h.Hash); err == nil {
		t.Error("what is settled can be canceled")
	}
}

func (r Rig) cancelsHeld(t *testing.T) {
	preimage, h := hold(2)
	o := r.held(t, h)
	for range 2 {
		if err := r.Payee.Cancel(t.Context(), h.Hash); err != nil {
			t.Fatal(err)
		}
	}
	r.until(t, r.Payer, h.Hash, func(seen lightning.Transaction) bool { return seen.Failed && !seen.Settled })
	if err := r.Payee.Settle(t.Context(), preimage); err == nil {
		t.Error("what was canceled can be settled")
	}
	if p, err := r.unanswered(t, o); err == nil {
		t.Errorf("it was paid again: %+v", p)
	}
}

func (r Rig) cancelsOpen(t *testing.T) {
	_, h := hold(3)
	text, _, err := r.Payee.MakeHold(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Payee.Cancel(t.Context(), guild.Hash{55}); err != nil {
		t.Error("an invoice of which it knows nothing:", err)
	}
	err = r.Payee.Cancel(t.Context(), h.Hash)
	if errors.Is(err, lightning.ErrOpen) { // this wallet cancels it when it is paid
		if p, err := r.unanswered(t, r.order(t, r.Payer, text)); err == nil {
			t.Errorf("it was paid: %+v", p)
		}
		r.until(t, r.Payee, h.Hash, func(seen lightning.Transaction) bool { return seen.Accepted })
		err = r.Payee.Cancel(t.Context(), h.Hash)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Payee.Cancel(t.Context(), h.Hash); err != nil {
		t.Error("once more:", err)
	}
	if p, err := r.unanswered(t, r.order(t, r.Payer, text)); err == nil {
		t.Errorf("it was paid: %+v", p)
	}
	r.until(t, r.Payer, h.Hash, func(seen lightning.Transaction) bool { return seen.Failed })
}

func (r Rig) holdsOnce(t *testing.T) {
	_, h := hold(4)
	first, _, err := r.Payee.MakeHold(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if again, _, err := r.Payee.MakeHold(t.Context(), h); err != nil || again != first {
		t.Errorf("%s, then %s: %v", first, again, err)
	}
	for name, change := range map[string]func(*lightning.Hold){
		"another description": func(h *lightning.Hold) { h.Description = "other work" },
		"another amount":      func(h *lightning.Hold) { h.Amount++ },
		"more blocks":         func(h *lightning.Hold) { h.Blocks++ },
	} {
		other := h
		change(&other)
		if text, _, err := r.Payee.MakeHold(t.Context(), other); err == nil {
			t.Errorf("%s: one hash has two invoices: %s", name, text)
		}
	}
}
