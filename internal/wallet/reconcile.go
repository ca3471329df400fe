package wallet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"guild/cashu"
	"guild/internal/hand/mint"
	"guild/internal/journal"
	"guild/internal/journal/fact"
)

// Difference is ecash of which the mint says something else than the wallet.
type Difference struct {
	Asset
	Amount uint64
	State  string // what the mint says
	Held   bool   // it is locked for an attempt

	coin fact.Coin
}

// Imbalance is an account of which the ledger says something else than the ecash is worth, as after a repair of the journal that
// lost entries. What is paid over Lightning or on the chain is no ecash, but less than nothing cannot be held for it.
type Imbalance struct {
	Asset
	Account       string // Free or Held
	Ledger, Coins int64
}

func (i Imbalance) Error() string {
	return fmt.Sprintf("%s at %s: the ecash is worth %d in the account %s, and the ledger has %d", i.Unit, i.Mint, i.Coins, i.Account, i.Ledger)
}

// Imbalances returns all of the ledger, ordered as Balances.
func (f *Fold) Imbalances() (all []Imbalance) {
	for _, b := range f.Balances() {
		worth := map[string]int64{Free: 0, Held: max(0, b.Accounts[Held])}
		if b.Asset != Lightning && b.Asset != Chain {
			worth = f.worth(b.Asset)
		}
		for _, account := range []string{Free, Held} {
			if worth[account] != b.Accounts[account] {
				all = append(all, Imbalance{Asset: b.Asset, Account: account, Ledger: b.Accounts[account], Coins: worth[account]})
			}
		}
	}
	return all
}

// worth returns what the coins of an asset are worth, by account.
func (f *Fold) worth(a Asset) map[string]int64 {
	worth := map[string]int64{}
	f.View(func(s *state) {
		for _, c := range s.Coins.All() {
			switch {
			case c.Asset != a || c.Sent:
			case c.Lock != nil:
				worth[Held] += int64(c.Amount)
			default:
				worth[Free] += int64(c.Amount)
			}
		}
	})
	return worth
}

// Check returns an error if the ledger is not balanced, or the coins are not worth what it says.
func (f *Fold) Check() error {
	var errs []error
	for _, b := range f.Balances() {
		var sum int64
		for _, amount := range b.Accounts {
			sum += amount
		}
		if sum != 0 {
			errs = append(errs, fmt.Errorf("%s at %s: the accounts add up to %d, not 0", b.Unit, b.Mint, sum))
		}
	}
	for _, one := range f.Imbalances() {
		errs = append(errs, one)
	}
	return errors.Join(errs...)
}

// Reconciled has the differences between the ledger and the mints.
type Reconciled struct {
	Coins       int // that the mints were asked about
	Differences []Difference
	Imbalances  []Imbalance
}

// Reconcile asks the mints about all ecash of the wallet, and compares the ledger with it. Tokens that were given away may be spent.
func (w *Wallet) Reconcile(ctx context.Context) (r Reconciled, err error) {
	r.Imbalances = w.fold.Imbalances()
	all := map[Asset][]fact.Coin{}
	w.fold.View(func(s *state) {
		for n, c := range s.Coins.All() {
			if ref, err := parseName(n); err == nil && c.In == "" {
				all[c.Asset] = append(all[c.Asset], ref)
			}
		}
	})
	for a, coins := range all {
		m, err := w.Mint(a.Mint)
		if err != nil {
			return r, err
		}
		for part := range slices.Chunk(coins, 100) {
			ys := make([]cashu.Point, len(part))
			for i, ref := range part {
				p, err := w.Proof(ref)
				if err != nil {
					return r, err
				}
				ys[i] = cashu.HashToCurve(p.Secret)
			}
			states, err := m.States(ctx, ys)
			if err != nil {
				return r, fmt.Errorf("ask %s: %w", a.Mint, err)
			}
			for i, st := range states {
				r.Coins++
				c, ok := w.fold.coin(part[i])
				if ok && !c.Sent && c.In == "" && st.State != mint.Unspent {
					r.Differences = append(r.Differences,
						Difference{Asset: a, Amount: c.Amount, State: string(st.State), Held: c.Lock != nil, coin: part[i]})
				}
			}
		}
	}
	return r, nil
}

// undecided is the time after a locktime in which a payment can still find out what became of its ecash.
const undecided = 24 * time.Hour

// Correct books what Reconcile found: ecash that is spent is lost, and an account has what its ecash is worth. It returns what it
// left: ecash that is pending, or whose payment is not over. What has changed meanwhile is no difference any more.
func (w *Wallet) Correct(ctx context.Context, r Reconciled) (left []Difference, err error) {
	const most = 1000 // coins, which fit in an entry
	for part := range slices.Chunk(r.Differences, most) {
		var lost []fact.Coin
		var rest []Difference
		err := w.c.Journal.Do(ctx, fact.Ledger, "", func(tx *journal.Tx) error {
			lost, rest = nil, nil
			for _, d := range part {
				c, ok := w.fold.coin(d.coin)
				over := c.Lock == nil || c.Lock.Locktime > 0 && tx.Now().After(time.Unix(c.Lock.Locktime, 0).Add(undecided))
				switch {
				case !ok || c.In != "":
				case d.State == string(mint.Spent) && over:
					lost = append(lost, d.coin)
				default:
					rest = append(rest, d)
				}
			}
			if len(lost) > 0 {
				tx.Append(fact.EcashLost{Coins: lost})
			}
			return nil
		})
		if err != nil {
			return left, err
		}
		left = append(left, rest...)
	}
	if len(r.Imbalances) == 0 {
		return left, nil
	}
	return left, w.c.Journal.Do(ctx, fact.Ledger, "", func(tx *journal.Tx) error {
		for _, one := range w.fold.Imbalances() {
			if slices.Contains(r.Imbalances, one) {
				tx.Append(fact.LedgerCorrected{Mint: one.Mint, Unit: one.Unit, Account: one.Account, Amount: one.Coins - one.Ledger})
			}
		}
		return nil
	})
}
