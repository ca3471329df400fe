package wallet

import (
	"context"
	"errors"
	"fmt"
	"slices"

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

// found is ecash that a mint has signed with a keyset for the wallet's seed, that is not spent, and that the ledger did not have
// when the mint was asked.
type found struct {
	Asset
	keyset string
	used   uint32 // the next counter of the ledger when the mint was asked
	next   uint32 // the counter after the last one that the mint knows

	coins []foundCoin
}

type foundCoin struct {
	output    fact.EcashOutput
	signature cashu.Signature
	key       cashu.Point
	y         cashu.Point // by which the mint knows it
}

// Restore asks a mint for ecash that was made with the wallet's seed and that the ledger does not have, as after a loss of the
// journal. It returns what was found, in the unit. A token that nobody has taken is found, too, if the ledger does not know of it.
// Locked ecash is not found: its secrets are derived from facts that are lost.
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
		err := w.scan(ctx, m, a, k.Keyset, 0, "", func(f found) error {
			var taken uint64
			whole := true
			err := w.c.Journal.Do(ctx, fact.Ledger, "", func(tx *journal.Tx) error {
				taken, whole = w.takeIn(tx, "", []found{f})
				return nil
			})
			if err == nil && !whole {
				err = errors.New("the wallet was used meanwhile: restore it again")
			}
			amount += taken
			return err
		})
		if err != nil {
			return amount, fmt.Errorf("restore from %s: %w", a.Mint, err)
		}
	}
	return amount, nil
}

// find returns what a mint has signed with the counters of an operation and those after them, for operations that the journal has
// lost. Its facts must fit in one entry, so much of it may be left to Restore.
func (w *Wallet) find(ctx context.Context, m *mint.Mint, op operation) (all []found, err error) {
	at := slices.IndexFunc(op.Outputs, func(out fact.EcashOutput) bool { return !out.Locked })
	if at < 0 {
		return nil, nil
	}
	k, err := m.Keyset(ctx, op.Keyset)
	if err != nil {
		return nil, err
	}
	const most = 3 * restoreBatch // coins
	coins := 0
	err = w.scan(ctx, m, op.asset(), k.Keyset, op.Outputs[at].Counter, op.Op, func(f found) error {
		if coins += len(f.coins); coins > most {
			f.coins = nil
		}
		all = append(all, f)
		return nil
	})
	return all, err
}

// scan calls keep with each part that a mint knows of the secrets of a keyset, from a counter on. What operations wait for is left
// to them, but for the operation apart.
func (w *Wallet) scan(ctx context.Context, m *mint.Mint, a Asset, k cashu.Keyset, first uint32, apart string,
	keep func(found) error) error {
	for gap, next := 0, first; gap < restoreGap; next += restoreBatch {
		f := found{Asset: a, keyset: k.ID}
		var has map[uint32]bool
		w.fold.View(func(s *state) { f.used, has = s.Counters.Of(k.ID), s.counters(k.ID, apart) })
		secrets := make([]string, restoreBatch)
		blinded := make([]cashu.Output, restoreBatch)
		for i := range blinded {
			secret, r, err := cashu.Derive(w.c.Seed, k.ID, next+uint32(i))
			if err != nil {
				return err
			}
			secrets[i], blinded[i].Keyset = secret, k.ID
			if blinded[i].B, err = cashu.Blind(secret, r); err != nil {
				return err
			}
		}
		known, err := m.Restore(ctx, blinded)
		if err != nil {
			return err
		}
		if len(known) == 0 {
			if next+restoreBatch > f.used { // before that, plans can have failed
				gap++
			}
			continue
		}
		gap = 0
		for i, out := range blinded {
			signature, ok := known[out.B]
			if !ok {
				continue
			}
			counter := next + uint32(i)
			f.next = counter + 1
			if !has[counter] {
				f.coins = append(f.coins, foundCoin{
					output:    fact.EcashOutput{Amount: signature.Amount, Counter: counter},
					signature: signature, key: k.Keys[signature.Amount], y: cashu.HashToCurve(secrets[i]),
				})
			}
		}
		if f.coins, err = unspent(ctx, m, f.coins); err != nil {
			return err
		}
		if err := keep(f); err != nil {
			return err
		}
	}
	return nil
}

// unspent returns the coins that the mint calls neither spent nor pending.
func unspent(ctx context.Context, m *mint.Mint, all []foundCoin) (left []foundCoin, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	ys := make([]cashu.Point, len(all))
	for i, c := range all {
		ys[i] = c.y
	}
	states, err := m.States(ctx, ys)
	for i, st := range states {
		if st.State == mint.Unspent {
			left = append(left, all[i])
		}
	}
	return left, err
}

// counters returns those of a keyset whose ecash the ledger has, or an operation other than apart waits for.
func (s *state) counters(keyset, apart string) map[uint32]bool {
	has := map[uint32]bool{}
	for _, c := range s.Coins.All() {
		if c.Keyset == keyset && c.Lock == nil {
			has[c.Counter] = true
		}
	}
	for _, op := range s.Ops.All() {
		for _, out := range op.Outputs {
			if op.Keyset == keyset && op.Op != apart && !out.Locked {
				has[out.Counter] = true
			}
		}
	}
	return has
}

// takeIn records what was found, as operations of their own, and returns its amount. It is called in a decision under the guard
// fact.Ledger. What may have been made, and spent, since the mint was asked is left out; whole reports whether nothing was.
func (w *Wallet) takeIn(tx *journal.Tx, apart string, all []found) (amount uint64, whole bool) {
	whole = true
	for _, f := range all {
		var used uint32
		var has map[uint32]bool
		w.fold.View(func(s *state) { used, has = s.Counters.Of(f.keyset), s.counters(f.keyset, apart) })
		planned := fact.EcashPlanned{Op: NewOp(), Kind: Restore, Mint: f.Mint, Unit: f.Unit, Keyset: f.keyset, Next: f.next}
		done := fact.EcashSettled{Op: planned.Op}
		for _, c := range f.coins {
			if has[c.output.Counter] || used != f.used && c.output.Counter >= f.used {
				whole = false
				continue
			}
			planned.Amount += c.output.Amount
			planned.Outputs = append(planned.Outputs, c.output)
			done.Signatures, done.Keys = append(done.Signatures, c.signature), append(done.Keys, c.key)
		}
		if len(planned.Outputs) > 0 || f.next > used {
			tx.Append(planned, done)
			amount += planned.Amount
		}
	}
	return amount, whole
}
