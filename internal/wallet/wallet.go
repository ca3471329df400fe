// Package wallet is the node's ecash and its ledger. Each transaction with a mint is an operation: it is planned under the guard
// of all money before the mint hears of it, its secrets are derived from the wallet's seed, and it is repeated, with the same
// outputs, until the mint has done it or says that it never will. So a crash loses no money, and the journal has no ecash that
// anybody else could spend. The package owns the facts ecash.* and mint.added. It decides about no payment.
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

// Proof returns ecash of ours, without a witness. It includes the blinding factor.
func (w *Wallet) Proof(ref fact.Coin) (cashu.Proof, error) {
	c, ok := w.fold.coin(ref)
	if !ok {
		return cashu.Proof{}, fmt.Errorf("ecash %s is not ours any more", name(ref))
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
	case final && errors.Is(err, mint.ErrUnpaid) && now.Sub(time.UnixMilli(op.At)) < unpaid:
		return nil, fmt.Errorf("%w: %w", due.ErrLater, failed.reason)
	case final && len(failed.lost) == 0 && errors.Is(err, mint.ErrInactive):
		return w.again(ctx, op)
	case final:
		return w.end(op, fact.EcashFailed{Op: op.Op, Reason: failed.Error(), Lost: failed.lost}), nil
	case err != nil:
		return nil, fmt.Errorf("%s %d %s at %s: %w", op.Kind, op.Amount, op.Unit, op.Mint, err)
	}
	return w.end(op, done), nil
}

// end returns the decision that an operation has ended.
func (w *Wallet) end(op operation, with fact.Fact) due.Decision {
	return func(tx *journal.Tx) error {
		if w.fold.Open(op.Op) {
			tx.Append(with)
		}
		return nil
	}
}

// again returns the decision to repeat an operation with another keyset, since the mint does not sign with that of the plan any
// more. It must not have signed: it was asked.
func (w *Wallet) again(ctx context.Context, op operation) (due.Decision, error) {
	t, err := w.Terms(ctx, op.asset())
	if err != nil {
		return nil, err
	}
	if t.Keyset.ID == op.Keyset {
		return nil, fmt.Errorf("the mint at %s does not sign with keyset %s, and says that it is active", op.Mint, op.Keyset)
	}
	return func(tx *journal.Tx) error {
		if !w.fold.Open(op.Op) {
			return nil
		}
		planned := op.EcashPlanned
		planned.Keyset, planned.Outputs = t.Keyset.ID, slices.Clone(op.Outputs)
		next := fold.Read(w.fold.State, func(s *state) uint32 { return s.Counters.Of(t.Keyset.ID) })
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

// failedError says that the mint will never do an operation.
type failedError struct {
	reason error
	lost   []fact.Coin
}

func (e *failedError) Error() string { return e.reason.Error() }

func (e *failedError) Unwrap() error { return e.reason }

// transact asks the mint to do an operation. What it may have heard of before is first asked for.
func (w *Wallet) transact(ctx context.Context, op operation, fresh bool) (done fact.EcashSettled, err error) {
	m, err := w.Mint(op.Mint)
	if err != nil {
		return done, err
	}
	blinded, err := w.blind(op)
	if err != nil {
		return done, err
	}
	if !fresh {
		if done, ok, err := w.restore(ctx, m, op, blinded); ok || err != nil {
			return done, err
		}
	}
	inputs, err := w.inputs(op)
	if err != nil {
		return done, err
	}
	var signatures []cashu.Signature
	if op.Kind == Issue {
		signatures, err = m.Issue(ctx, mint.Quote{ID: op.Quote, Amount: op.Amount, Unit: op.Unit}, blinded, "")
	} else {
		signatures, err = swap(ctx, m, inputs, blinded)
	}
	if err == nil {
		return w.settle(ctx, m, op, signatures)
	}
	if refusal, answered := errors.AsType[*mint.Error](err); !answered || !refusal.Final() {
		return done, err
	}
	done, ok, restoring := w.restore(ctx, m, op, blinded)
	if ok || restoring != nil {
		return done, restoring
	}
	return done, w.refused(ctx, m, op, inputs, err)
}

// swap has the mint swap the outputs in the order of their amounts (NUT-03), by which it does not see which of them are change.
func swap(ctx context.Context, m *mint.Mint, inputs []cashu.Proof, outputs []cashu.Output) ([]cashu.Signature, error) {
	order := make([]int, len(outputs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(outputs[a].Amount, outputs[b].Amount), slices.Compare(outputs[a].B[:], outputs[b].B[:]))
	})
	sorted := make([]cashu.Output, len(outputs))
	for i, at := range order {
		sorted[i] = outputs[at]
	}
	signed, err := m.Swap(ctx, inputs, sorted)
	if err != nil {
		return nil, err
	}
	signatures := make([]cashu.Signature, len(outputs))
	for i, at := range order {
		signatures[at] = signed[i]
	}
	return signatures, nil
}

// refused returns a *failedError if the mint refused an operation for good, and which inputs are lost.
func (w *Wallet) refused(ctx context.Context, m *mint.Mint, op operation, inputs []cashu.Proof, reason error) error {
	if len(inputs) == 0 {
		return &failedError{reason: reason}
	}
	ys := make([]cashu.Point, len(inputs))
	for i, p := range inputs {
		ys[i] = cashu.HashToCurve(p.Secret)
	}
	states, err := m.States(ctx, ys)
	if err != nil {
		return err
	}
	failed := &failedError{reason: reason}
	for i, st := range states {
		switch {
		case st.State == mint.Pending:
			return reason
		case st.State == mint.Spent && i < len(op.Inputs):
			failed.lost = append(failed.lost, op.Inputs[i])
		}
	}
	return failed
}

// blind makes the outputs of an operation.
func (w *Wallet) blind(op operation) (all []cashu.Output, err error) {
	for i, out := range op.Outputs {
		secret, r, err := w.c.Seed.secret(op.Keyset, op.Op, i, out.Counter, lockOf(op, out))
		if err != nil {
			return nil, err
		}
		b, err := cashu.Blind(secret, r)
		if err != nil {
			return nil, err
		}
		all = append(all, cashu.Output{Amount: out.Amount, Keyset: op.Keyset, B: b})
	}
	return all, nil
}

func lockOf(op operation, out fact.EcashOutput) *fact.EcashLock {
	if out.Locked {
		return op.Lock
	}
	return nil
}

// inputs returns the inputs of an operation with their witnesses.
func (w *Wallet) inputs(op operation) (all []cashu.Proof, err error) {
	if len(op.Sealed) > 0 {
		return w.c.Seed.open(op.Op, op.Sealed)
	}
	for i, ref := range op.Inputs {
		p, err := w.Proof(ref)
		if err != nil {
			return nil, err
		}
		if op.Kind == Refund {
			var witness cashu.Witness
			if i < len(op.Cosigned) {
				witness.Signatures = append(witness.Signatures, op.Cosigned[i])
			}
			key, err := w.c.Seed.Key(PayerKey, op.About)
			if err != nil {
				return nil, err
			}
			if err := witness.Sign(key, p.Secret); err != nil {
				return nil, err
			}
			p.Witness = witness.Text()
		}
		all = append(all, p)
	}
	return all, nil
}

// Purposes of keys, for Seed.Key.
const (
	PayerKey = "payer" // of the customer, by the attempt
	PayeeKey = "payee" // of the provider, by the request

	ArbiterKey = "arbiter" // of the arbiter, by nothing: it is announced
)

// restore asks the mint whether it has done an operation before (NUT-09).
func (w *Wallet) restore(ctx context.Context, m *mint.Mint, op operation, blinded []cashu.Output) (done fact.EcashSettled, ok bool, err error) {
	known, err := m.Restore(ctx, blinded)
	if err != nil || len(known) < len(blinded) {
		return done, false, err
	}
	signatures := make([]cashu.Signature, len(blinded))
	for i, out := range blinded {
		signatures[i] = known[out.B]
	}
	done, err = w.settle(ctx, m, op, signatures)
	return done, err == nil, err
}

// settle returns the fact that an operation was done.
func (w *Wallet) settle(ctx context.Context, m *mint.Mint, op operation, signatures []cashu.Signature) (fact.EcashSettled, error) {
	done := fact.EcashSettled{Op: op.Op, Signatures: signatures}
	for _, s := range signatures {
		keyset, err := m.Keyset(ctx, s.Keyset)
		if err != nil {
			return done, err
		}
		key, ok := keyset.Keys[s.Amount]
		if !ok {
			return done, fmt.Errorf("keyset %s has no key for %d", s.Keyset, s.Amount)
		}
		done.Keys = append(done.Keys, key)
	}
	return done, nil
}
