package nwc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/bolt11"
	"guild/internal/hand/lightning"
)

// The requests for hold invoices, which few wallets know.
const (
	makeHold   = "make_hold_invoice"
	settleHold = "settle_hold_invoice"
	cancelHold = "cancel_hold_invoice"
)

// MakeHold has the wallet make an invoice whose payment it holds. A wallet may know the hash from before: if it has the same invoice,
// that is returned.
func (w *Wallet) MakeHold(ctx context.Context, h lightning.Hold) (string, bolt11.Invoice, error) {
	info, err := w.Info(ctx)
	if err != nil {
		return "", bolt11.Invoice{}, err
	}
	for _, method := range []string{makeHold, settleHold, cancelHold} { // what cannot be settled or canceled must not be made
		if !slices.Contains(info.Methods, method) {
			return "", bolt11.Invoice{}, &lightning.RefusedError{
				Method: makeHold, Code: lightning.NotImplemented, Message: "it does not allow this connection to call " + method,
			}
		}
	}
	params := struct {
		Hash        string     `json:"payment_hash"`
		Amount      guild.Msat `json:"amount"`
		Description string     `json:"description,omitempty"`
		Expiry      int64      `json:"expiry,omitzero"`
		Blocks      uint64     `json:"min_cltv_expiry_delta,omitzero"`
	}{Hash: h.Hash.Hex(), Amount: h.Amount, Description: h.Description, Expiry: int64(h.Expiry / time.Second), Blocks: h.Blocks}
	var wire transaction
	if err := w.call(ctx, makeHold, params, &wire); err != nil {
		if lightning.IsRefused(err, lightning.Unable...) {
			return "", bolt11.Invoice{}, err
		}
		known, seen, unknown := w.lookup(ctx, h.Hash)
		if unknown != nil || seen.Outgoing || known.Invoice == "" {
			return "", bolt11.Invoice{}, err
		}
		wire = known
	}
	inv, err := h.Parse(wire.Invoice)
	if err != nil {
		return "", bolt11.Invoice{}, wrap(makeHold, err)
	}
	return wire.Invoice, inv, nil
}

// Settle has the wallet take a payment that it holds (settle_hold_invoice).
func (w *Wallet) Settle(ctx context.Context, preimage [32]byte) error {
	params := struct {
		Preimage string `json:"preimage"`
	}{hex.EncodeToString(preimage[:])}
	var ignored jsontext.Value
	err := w.call(ctx, settleHold, params, &ignored)
	return lightning.Already(ctx, w, sha256.Sum256(preimage[:]), err, func(t lightning.Transaction) bool { return t.Settled })
}

// Cancel has the wallet give back a payment that it holds (cancel_hold_invoice).
func (w *Wallet) Cancel(ctx context.Context, hash guild.Hash) error {
	var ignored jsontext.Value
	err := w.call(ctx, cancelHold, hashParams{hash.Hex()}, &ignored)
	return lightning.Cancelled(err, w.config.Now(), func() (lightning.Transaction, time.Time, error) {
		wire, t, err := w.lookup(ctx, hash)
		return t, wire.ends(), err
	})
}
