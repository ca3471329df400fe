package pay

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"guild/cashu"
)

// shownEcash is the value of a receipt's payment proof: what was released, with the customer's signatures, or what was locked to the
// provider alone. Nobody can spend it without the provider's.
type shownEcash struct {
	Mint   string        `json:"mint"`
	Unit   string        `json:"unit"`
	Proofs []cashu.Proof `json:"proofs"`

	// Keysets are those of the proofs, with which the mint's signatures can be checked offline.
	Keysets []cashu.Keyset `json:"keysets,omitempty"`
}

// shown returns the value of a receipt's payment proof: ecash that nobody but the provider can spend.
func (p *Pay) shown(ctx context.Context, one payment, proofs []cashu.Proof) (string, error) {
	value := shownEcash{Mint: one.Reserved.Mint, Unit: one.Reserved.Unit, Proofs: proofs}
	value.Keysets = p.keysets(ctx, value.Mint, value.Proofs)
	b, err := json.Marshal(value, json.Deterministic(true))
	return string(b), err
}

// keysets returns those of some ecash, as far as the mint can be asked now: the money does not wait for what the proof can do
// without.
func (p *Pay) keysets(ctx context.Context, url string, proofs []cashu.Proof) (all []cashu.Keyset) {
	m, err := p.c.Wallet.Mint(url)
	if err != nil {
		return nil
	}
	for _, one := range proofs {
		if slices.ContainsFunc(all, func(k cashu.Keyset) bool { return k.ID == one.Keyset }) {
			continue
		}
		if k, err := m.Keyset(ctx, one.Keyset); err == nil {
			all = append(all, k.Keyset)
		}
	}
	return all
}

// refunded returns the value of a receipt's refund: the points by which the mint says that all the locked ecash is spent, and
// the witness of that (NUT-07).
func (p *Pay) refunded(one payment) (string, error) {
	value := spent{Mint: one.Reserved.Mint, Unit: one.Reserved.Unit, Amount: one.Reserved.Amount}
	var err error
	if value.Spent, err = p.c.Wallet.Spent(one.Reserved.Op, *one.Lock, len(one.Coins)); err != nil {
		return "", err
	}
	b, err := json.Marshal(value, json.Deterministic(true))
	return string(b), err
}

// spent is the value of a receipt's refund.
type spent struct {
	Mint   string   `json:"mint"`
	Unit   string   `json:"unit"`
	Amount uint64   `json:"amount"`
	Spent  []string `json:"spent"`
}

// joined returns the payment proof of coins that were released at two times.
func joined(first, second string) (string, error) {
	if first == "" {
		return second, nil
	}
	var a, b shownEcash
	if err := errors.Join(json.Unmarshal([]byte(first), &a), json.Unmarshal([]byte(second), &b)); err != nil {
		return "", fmt.Errorf("the payment proof: %w", err)
	}
	a.Proofs = append(a.Proofs, b.Proofs...)
	for _, k := range b.Keysets {
		if !a.has(k.ID) {
			a.Keysets = append(a.Keysets, k)
		}
	}
	text, err := json.Marshal(a, json.Deterministic(true))
	return string(text), err
}

// has reports whether a keyset is among those of the proof.
func (e shownEcash) has(id string) bool {
	for _, k := range e.Keysets {
		if k.ID == id {
			return true
		}
	}
	return false
}
