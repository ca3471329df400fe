package wallet

import (
	"context"
	"fmt"

	"guild/cashu"
	"guild/internal/hand/mint"
	"guild/internal/journal"
	"guild/internal/journal/fact"
)

// How far a restore looks ahead (NUT-13): so many secrets at a time, until so many times in a row the mint knows none.
const (
	restoreBatch = 100
	restoreGap   = 3
)

// Restore asks a mint for ecash that was made with the wallet's seed and of which the ledger knows nothing, as after a loss of
// the journal. It returns what was found, in the unit. Locked ecash is not found: its secrets are derived from facts that are
// lost.
func (w *Wallet) Restore(ctx context.Context, a Asset) (amount uint64, err error) {
	m, err := w.Mint(a.Mint)
	if err != nil {
		return 0, err
	}
	keysets, err := m.Keysets(ctx)
	if err != nil {
		return 0, fmt.Errorf("restore from %s: %w", a.Mint, err)
	}
	for _, k := range keysets {
		if k.Unit != a.Unit {
			continue
		}
		found, err := w.restoreKeyset(ctx, m, a, k.Keyset)
		if err != nil {
			return amount, fmt.Errorf("restore from %s: %w", a.Mint, err)
		}
		amount += found
	}
	return amount, nil
}

// restoreKeyset restores the ecash of one keyset, from the first counter on that the ledger has not used.
func (w *Wallet) restoreKeyset(ctx context.Context, m *mint.Mint, a Asset, k cashu.Keyset) (amount uint64, err error) {
	var next uint32
	w.fold.View(func(s *state) { next = s.Counters.Of(k.ID) })
	for gap := 0; gap < restoreGap; next += restoreBatch {
		blinded := make([]cashu.Output, restoreBatch)
		for i := range blinded {
			secret, r, err := cashu.Derive(w.c.Seed, k.ID, next+uint32(i))
			if err != nil {
				return amount, err
			}
			blinded[i].Keyset = k.ID
			if blinded[i].B, err = cashu.Blind(secret, r); err != nil {
				return amount, err
			}
		}
		known, err := m.Restore(ctx, blinded)
		if err != nil {
			return amount, err
		}
		if len(known) == 0 {
			gap++
			continue
		}
		gap = 0
		found, err := w.keep(ctx, m, a, k, next, blinded, known)
		if err != nil {
			return amount, err
		}
		amount += found
	}
	return amount, nil
}

// keep records the restored ecash that is not spent.
func (w *Wallet) keep(ctx context.Context, m *mint.Mint, a Asset, k cashu.Keyset, first uint32, blinded []cashu.Output,
	known map[cashu.Point]cashu.Signature) (amount uint64, err error) {
	planned := fact.EcashPlanned{Op: NewOp(), Kind: Restore, Mint: a.Mint, Unit: a.Unit, Keyset: k.ID}
	done := fact.EcashSettled{Op: planned.Op}
	var ys []cashu.Point
	for i, out := range blinded {
		signature, ok := known[out.B]
		key, has := k.Keys[signature.Amount]
		if !ok || !has {
			continue
		}
		secret, _, err := cashu.Derive(w.c.Seed, k.ID, first+uint32(i))
		if err != nil {
			return 0, err
		}
		ys = append(ys, cashu.HashToCurve(secret))
		planned.Next = first + uint32(i) + 1 // also if it is spent: a counter is used once
		planned.Outputs = append(planned.Outputs, fact.EcashOutput{Amount: signature.Amount, Counter: first + uint32(i)})
		done.Signatures, done.Keys = append(done.Signatures, signature), append(done.Keys, key)
	}
	states, err := m.States(ctx, ys)
	if err != nil {
		return 0, err
	}
	kept := 0
	for i, st := range states {
		if st.State != mint.Unspent {
			continue
		}
		planned.Outputs[kept], done.Signatures[kept], done.Keys[kept] = planned.Outputs[i], done.Signatures[i], done.Keys[i]
		amount += planned.Outputs[i].Amount
		kept++
	}
	planned.Outputs, done.Signatures, done.Keys, planned.Amount = planned.Outputs[:kept], done.Signatures[:kept], done.Keys[:kept], amount
	return amount, w.c.Journal.Do(ctx, fact.Ledger, "", func(tx *journal.Tx) error {
		var used uint32
		w.fold.View(func(s *state) { used = s.Counters.Of(k.ID) })
		if used > first {
			return fmt.Errorf("the wallet was used meanwhile: restore it again")
		}
		tx.Append(planned, done)
		return nil
	})
}
