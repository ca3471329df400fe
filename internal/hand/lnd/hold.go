package lnd

import (
	"context"
	"crypto/sha256"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/bolt11"
	"guild/internal/hand/lightning"
)

// MakeHold makes an invoice whose payment is held. lnd has one invoice for a hash: if there is one, and it is the same, that is
// returned.
func (w *Wallet) MakeHold(ctx context.Context, h lightning.Hold) (string, bolt11.Invoice, error) {
	params := struct {
		Hash    []byte     `json:"hash"`
		Memo    string     `json:"memo"`
		Amount  guild.Msat `json:"value_msat,string"`
		Expiry  int64      `json:"expiry,string,omitzero"` // seconds
		Blocks  uint64     `json:"cltv_expiry,string,omitzero"`
		Private bool       `json:"private"`
	}{Hash: h.Hash[:], Memo: h.Description, Amount: h.Amount, Expiry: int64(h.Expiry / time.Second), Blocks: h.Blocks, Private: true}
	var wire struct {
		Invoice string `json:"payment_request"`
	}
	err := w.call(ctx, http.MethodPost, pathHold, params, &wire)
	if err != nil {
		if lightning.IsRefused(err, lightning.Unable...) {
			return "", bolt11.Invoice{}, err
		}
		text, _, unknown := w.invoice(ctx, h.Hash)
		if unknown != nil {
			return "", bolt11.Invoice{}, err
		}
		wire.Invoice = text
	}
	inv, err := h.Parse(wire.Invoice)
	if err != nil {
		return "", bolt11.Invoice{}, wrap(pathHold, err)
	}
	return wire.Invoice, inv, nil
}

// Settle takes a payment that is held. lnd refuses to take one twice.
func (w *Wallet) Settle(ctx context.Context, preimage [32]byte) error {
	var ignored jsontext.Value
	err := w.call(ctx, http.MethodPost, pathSettle, map[string][]byte{"preimage": preimage[:]}, &ignored)
	return lightning.Already(ctx, w, sha256.Sum256(preimage[:]), err, func(t lightning.Transaction) bool { return t.Settled })
}

// Cancel gives back a payment that is held.
func (w *Wallet) Cancel(ctx context.Context, hash guild.Hash) error {
	var ignored jsontext.Value
	err := w.call(ctx, http.MethodPost, pathCancel, map[string][]byte{"payment_hash": hash[:]}, &ignored)
	return lightning.Cancelled(err, w.config.Now(), func() (lightning.Transaction, time.Time, error) {
		text, t, err := w.invoice(ctx, hash)
		return t, lightning.Ends(text), err
	})
}
