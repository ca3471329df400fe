// Package wallet is the node's ecash and its ledger. Each transaction with a mint is an operation: it is planned under the guard
// of all money before the mint hears of it, its secrets are derived from the wallet's seed, and it is repeated, with the same
// outputs, until the mint has done it or says that it never will. So a crash loses no money, and the journal has no ecash that
// anybody else could spend. The package owns the facts ecash.*, ledger.corrected
// and mint.added. It decides about no payment.
package wallet

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"guild/cashu"
	"guild/internal/hand/mint"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// Kinds of operations, and of payments by the owner's Lightning wallet.
const (
	Issue   = "issue"   // a paid quote becomes ecash
	Receive = "receive" // a token of somebody else's
	Send    = "send"    // a token for somebody else
	Lock    = "lock"    // for an attempt
	Claim   = "claim"   // what a customer released to us
	Refund  = "refund"  // what we had locked
	Restore = "restore" // what the seed is worth at a mint, after a loss of the journal
	Pay     = "pay"     // an invoice of a provider, over Lightning
	Earn    = "earn"    // our invoice was paid
)

// Config configures the wallet.
type Config struct {
	Journal *journal.Journal
	Seed    Seed
	Mint    func(url string) (*mint.Mint, error) // the client of a mint; it is kept
}

// Wallet is the wallet.
type Wallet struct {
	c    Config
	fold *Fold

	mu    sync.Mutex
	mints map[string]*mint.Mint
	fresh map[string]bool // operations that no mint has heard of, since this process has just planned them
}

// New returns the wallet on its fold.
func New(c Config, f *Fold) *Wallet {
	return &Wallet{c: c, fold: f, mints: map[string]*mint.Mint{}, fresh: map[string]bool{}}
}

// Seed returns the wallet's seed.
func (w *Wallet) Seed() Seed { return w.c.Seed }

// Fold returns the wallet's state.
func (w *Wallet) Fold() *Fold { return w.fold }

// Mint returns the client of a mint.
func (w *Wallet) Mint(url string) (*mint.Mint, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m, ok := w.mints[url]; ok {
		return m, nil
	}
	m, err := w.c.Mint(url)
	if err == nil {
		w.mints[url] = m
	}
	return m, err
}

// Terms are the present conditions of a mint.
type Terms struct {
	Asset  Asset
	Keyset cashu.Keyset // for outputs
	fees   map[string]uint64
}

// Terms asks a mint for its keysets.
func (w *Wallet) Terms(ctx context.Context, a Asset) (t Terms, err error) {
	m, err := w.Mint(a.Mint)
	if err != nil {
		return t, err
	}
	all, err := m.Keysets(ctx)
	if err != nil {
		return t, err
	}
	t = Terms{Asset: a, fees: map[string]uint64{}}
	for _, k := range all {
		t.fees[k.ID] = k.Fee
	}
	active, err := m.Active(ctx, a.Unit)
	t.Keyset = active.Keyset
	return t, err
}

// Knows reports whether the mint lists a keyset.
func (t Terms) Knows(keyset string) bool { _, ok := t.fees[keyset]; return ok }

// fee returns what the mint takes for inputs of these keysets.
func (t Terms) fee(keysets []string) (uint64, error) {
	proofs := make([]cashu.Proof, len(keysets))
	for i, id := range keysets {
		proofs[i].Keyset = id
	}
	return cashu.Fee(proofs, func(id string) (uint64, bool) { fee, ok := t.fees[id]; return fee, ok })
}

// NewOp returns the id of a new operation.
func NewOp() string {
	b := make([]byte, 16)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// outputs returns ecash of ours worth an amount, with the next counters of a keyset.
func outputs(s *state, keyset string, amount uint64) (all []fact.EcashOutput) {
	next := s.Counters.Of(keyset)
	for i, part := range cashu.Split(amount) {
		all = append(all, fact.EcashOutput{Amount: part, Counter: next + uint32(i)})
	}
	return all
}

// errNothing means that an operation would make no ecash.
var errNothing = errors.New("the amount is 0")

// PlanSpend returns the operation that takes an amount from the free ecash. It becomes ecash that is locked, in parts each of
// which can be released by itself, or if lock is nil a token for somebody else. It is called in a decision under the guard
// fact.Ledger.
func (w *Wallet) PlanSpend(op string, t Terms, about string, lock *fact.EcashLock, parts ...uint64) (fact.EcashPlanned, error) {
	amount, err := cashu.Sum(parts...)
	if err == nil && amount == 0 {
		err = errNothing
	}
	if err != nil {
		return fact.EcashPlanned{}, err
	}
	planned := fact.EcashPlanned{Op: op, Kind: Send, Mint: t.Asset.Mint, Unit: t.Asset.Unit, Keyset: t.Keyset.ID, Amount: amount, About: about, Lock: lock}
	w.fold.View(func(s *state) {
		var sum uint64
		if planned.Inputs, sum, planned.Fee, err = s.spend(t.Asset, amount, t.fee); err != nil {
			return
		}
		mine := outputs(s, t.Keyset.ID, sum-amount-planned.Fee)
		if lock == nil {
			// The counters of both go on from one another.
			given := outputs(s, t.Keyset.ID, amount)
			for i := range mine {
				mine[i].Counter += uint32(len(given))
			}
			planned.Outputs = append(given, mine...)
			return
		}
		planned.Kind = Lock
		for _, part := range parts {
			for _, one := range cashu.Split(part) {
				planned.Outputs = append(planned.Outputs, fact.EcashOutput{Amount: one, Locked: true})
			}
		}
		planned.Outputs = append(planned.Outputs, mine...)
	})
	return planned, err
}

// PlanTake returns the operation that makes ecash of others ours: of the kind Claim or Receive. It is called in a decision
// under the guard fact.Ledger.
func (w *Wallet) PlanTake(op, kind string, t Terms, about string, proofs []cashu.Proof) (planned fact.EcashPlanned, err error) {
	amount, err := cashu.Worth(proofs)
	if err != nil {
		return planned, err
	}
	fee, err := cashu.Fee(proofs, func(id string) (uint64, bool) { fee, ok := t.fees[id]; return fee, ok })
	switch {
	case err != nil:
		return planned, err
	case fee >= amount:
		return planned, fmt.Errorf("the fee of %d %s takes all of %d", fee, t.Asset.Unit, amount)
	}
	planned = fact.EcashPlanned{Op: op, Kind: kind, Mint: t.Asset.Mint, Unit: t.Asset.Unit, Keyset: t.Keyset.ID, Amount: amount, Fee: fee, About: about}
	planned.Outputs = fold.Read(w.fold.State, func(s *state) []fact.EcashOutput { return outputs(s, t.Keyset.ID, amount-fee) })
	planned.Sealed, err = w.c.Seed.seal(op, proofs)
	return planned, err
}

// PlanRefund returns the operation that makes locked ecash free again. cosigned has the provider's signature for each coin, and
// is nil after the locktime. It is called in a decision under the guard fact.Ledger.
func (w *Wallet) PlanRefund(op string, t Terms, about string, coins []fact.Coin, cosigned []string) (planned fact.EcashPlanned, err error) {
	w.fold.View(func(s *state) {
		var amount, fee uint64
		var keysets []string
		for _, ref := range coins {
			c, ok := s.Coins.Get(name(ref))
			if !ok || c.In != "" || c.Lock == nil {
				err = fmt.Errorf("ecash %s is not locked by us", name(ref))
				return
			}
			keysets, amount = append(keysets, c.Keyset), amount+c.Amount
		}
		if fee, err = t.fee(keysets); err == nil && fee >= amount {
			err = fmt.Errorf("the fee of %d %s takes all of %d", fee, t.Asset.Unit, amount)
		}
		planned = fact.EcashPlanned{
			Op: op, Kind: Refund, Mint: t.Asset.Mint, Unit: t.Asset.Unit, Keyset: t.Keyset.ID, Amount: amount, Fee: fee, About: about,
			Inputs: coins, Cosigned: cosigned,
		}
		if err == nil {
			planned.Outputs = outputs(s, t.Keyset.ID, amount-fee)
		}
	})
	return planned, err
}

// Planned tells the wallet that this process has recorded a plan, so that the first try need not ask for an earlier one. A
// plan of which it was not told is repeated more carefully.
func (w *Wallet) Planned(op string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fresh[op] = true
}

// errGone means that the ledger has no such ecash.
var errGone = errors.New("it is not ours any more")

// Proof returns ecash of ours, without a witness. It includes the blinding factor.
func (w *Wallet) Proof(ref fact.Coin) (cashu.Proof, error) {
	c, ok := w.fold.coin(ref)
	if !ok {
		return cashu.Proof{}, fmt.Errorf("ecash %s: %w", name(ref), errGone)
	}
	return w.proof(ref, c)
}

func (w *Wallet) proof(ref fact.Coin, c coin) (cashu.Proof, error) {
	secret, r, err := w.c.Seed.secret(c.Keyset, ref.Op, ref.N, c.Counter, c.Lock)
	if err != nil {
		return cashu.Proof{}, err
	}
	p := cashu.Proof{Amount: c.Amount, Keyset: c.Keyset, Secret: secret}
	if p.C, err = cashu.Unblind(c.C.C, r, c.Key); err != nil {
		return cashu.Proof{}, err
	}
	if c.C.DLEQ != nil {
		p.DLEQ = &cashu.DLEQ{E: c.C.DLEQ.E, S: c.C.DLEQ.S, R: &r}
	}
	return p, nil
}

func (f *Fold) coin(ref fact.Coin) (c coin, ok bool) {
	f.View(func(s *state) { c, ok = s.Coins.Get(name(ref)) })
	return c, ok
}

// maxGiven limits the coins of a lock or a token: each of its three parts has at most one for each bit of its amount.
const maxGiven = 3 * 64

// Outputs returns the locked or given coins that a finished operation made and that are still there, with their amounts.
func (f *Fold) Outputs(op string) (coins []fact.Coin, amounts []uint64) {
	f.View(func(s *state) {
		for n := range maxGiven { // those of the lock or token come first
			ref := fact.Coin{Op: op, N: n}
			if c, ok := s.Coins.Get(name(ref)); ok && (c.Lock != nil || c.Sent) {
				coins, amounts = append(coins, ref), append(amounts, c.Amount)
			}
		}
	})
	return coins, amounts
}

// Spent returns the points by which a mint knows the n first coins of a lock, also once they are spent.
func (w *Wallet) Spent(op string, lock fact.EcashLock, n int) (ys []string, err error) {
	for n := range n {
		secret, err := w.c.Seed.condition(op, n, lock).Secret()
		if err != nil {
			return nil, err
		}
		ys = append(ys, cashu.HashToCurve(secret).String())
	}
	return ys, nil
}

// Open reports whether the mint has not answered an operation.
func (f *Fold) Open(op string) bool {
	return fold.Read(f.State, func(s *state) bool { return s.Ops.Has(op) })
}

// Due lists the operations that the mint has not done yet. It implements due.Source.
func (w *Wallet) Due(now time.Time) (work []due.Work) {
	var open []operation
	w.fold.View(func(s *state) {
		for _, op := range s.Ops.All() {
			open = append(open, op)
		}
	})
	slices.SortFunc(open, func(a, b operation) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Op, b.Op)) })
	for _, op := range open {
		work = append(work, due.Work{
			Key: "ecash " + op.Op, Guard: fact.Ledger, Free: true, Class: op.Mint,
			Act: func(ctx context.Context) (due.Decision, error) { return w.do(ctx, op, now) },
		})
	}
	return work
}

// unpaid limits the time in which a mint is asked for the ecash of a quote that is not paid. Invoices are valid for less.
const unpaid = 24 * time.Hour

// do has the mint do an operation, and returns the decision that records it. An error means that the outcome is unknown.
func (w *Wallet) do(ctx context.Context, op operation, now time.Time) (due.Decision, error) {
	w.mu.Lock()
	fresh := w.fresh[op.Op]
	delete(w.fresh, op.Op)
	w.mu.Unlock()
	done, err := w.transact(ctx, op, fresh)
	failed, final := errors.AsType[*failedError](err)
	switch {
	case final && failed.again:
		return w.again(ctx, op, failed.found)
	case final && errors.Is(err, mint.ErrUnpaid) && now.Sub(time.UnixMilli(op.At)) < unpaid:
		return nil, fmt.Errorf("%w: %w", due.ErrLater, failed.reason)
	case final && len(failed.lost) == 0 && errors.Is(err, mint.ErrInactive):
		return w.again(ctx, op, nil)
	case final:
		return w.end(op, fact.EcashFailed{Op: op.Op, Reason: failed.Error(), Lost: failed.lost}, failed.found...), nil
	case err != nil:
		return nil, fmt.Errorf("%s %d %s at %s: %w", op.Kind, op.Amount, op.Unit, op.Mint, err)
	}
	return w.end(op, done), nil
}

// end returns the decision that an operation has ended, and takes in what was found.
func (w *Wallet) end(op operation, with fact.Fact, all ...found) due.Decision {
	return func(tx *journal.Tx) error {
		if w.fold.Open(op.Op) {
			w.takeIn(tx, op.Op, all)
			tx.Append(with)
		}
		return nil
	}
}

// again returns the decision to repeat an operation with other outputs, since the mint does not sign with the keyset of the plan
// any more, or has signed its outputs for an operation that the journal has lost: that was found. It must not have done this one:
// it was asked.
func (w *Wallet) again(ctx context.Context, op operation, all []found) (due.Decision, error) {
	t, err := w.Terms(ctx, op.asset())
	if err != nil {
		return nil, err
	}
	if len(all) == 0 && t.Keyset.ID == op.Keyset {
		return nil, fmt.Errorf("the mint at %s does not sign with keyset %s, and says that it is active", op.Mint, op.Keyset)
	}
	return func(tx *journal.Tx) error {
		if !w.fold.Open(op.Op) {
			return nil
		}
		planned := op.EcashPlanned
		planned.Keyset, planned.Outputs = t.Keyset.ID, slices.Clone(op.Outputs)
		w.takeIn(tx, op.Op, all)
		next := fold.Read(w.fold.State, func(s *state) uint32 { return s.Counters.Of(t.Keyset.ID) })
		for _, f := range all {
			if f.keyset == t.Keyset.ID {
				next = max(next, f.next)
			}
		}
		for i, out := range planned.Outputs {
			if !out.Locked {
				planned.Outputs[i].Counter = next
				next++
			}
		}
		tx.Append(planned)
		return nil
	}, nil
}

// Purposes of keys, for Seed.Key.
const (
	PayerKey = "payer" // of the customer, by the attempt
	PayeeKey = "payee" // of the provider, by the request

	ArbiterKey = "arbiter" // of the arbiter, by nothing: it is announced
)
