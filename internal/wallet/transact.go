package wallet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"guild/cashu"
	"guild/internal/hand/mint"
	"guild/internal/journal/fact"
)

// failedError says that the mint will never do an operation.
type failedError struct {
	reason error
	lost   []fact.Coin
	found  []found
	again  bool // it can do it with other outputs
}

func (e *failedError) Error() string { return e.reason.Error() }

func (e *failedError) Unwrap() error { return e.reason }

// transact asks the mint to do an operation. What it may have heard of before is first asked for.
//
// A journal can be older than what the mint has done, as after a restore from a backup or a repair. Then the counters of a plan
// were used before, by an operation that the journal has lost, and signatures on the outputs do not show that this one was done:
// see did.
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
		if done, _, ok, err := w.restored(ctx, m, op, fresh, blinded); ok || err != nil {
			return done, err
		}
	}
	inputs, err := w.inputs(op)
	if errors.Is(err, errGone) { // by a repair of the journal
		return done, &failedError{reason: err}
	}
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
	done, err = w.refused(ctx, m, op, fresh, blinded, err)
	if _, final := errors.AsType[*failedError](err); fresh && err != nil && !final {
		w.Planned(op.Op) // the mint has refused the only request there was
	}
	return done, err
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

// restored asks the mint whether it has done an operation before, and for the signatures that it made on the outputs in any case
// (NUT-09). The mint says the amounts of these: they can be those of another operation.
func (w *Wallet) restored(ctx context.Context, m *mint.Mint, op operation, fresh bool, blinded []cashu.Output) (
	done fact.EcashSettled, known map[cashu.Point]cashu.Signature, ok bool, err error) {
	blank := slices.Clone(blinded)
	for i := range blank {
		blank[i].Amount = 0
	}
	if known, err = m.Restore(ctx, blank); err != nil {
		return done, nil, false, err
	}
	if ok, err = w.did(ctx, m, op, fresh, blinded, known); !ok {
		return done, known, false, err
	}
	signatures := make([]cashu.Signature, len(blinded))
	for i, out := range blinded {
		signatures[i] = known[out.B]
	}
	done, err = w.settle(ctx, m, op, signatures)
	return done, known, err == nil, err
}

// did reports whether the mint has done this operation, by the signatures that it made on the outputs. It does all of an operation
// or nothing, so it has not if one is missing or for another amount, or if it has not taken what the operation gives.
//
// If all of that is as planned, an operation that the journal has lost can still have been the same. The secrets of a lock are
// those of one operation. Else only the process that has just planned an operation, and has sent it once, knows that it was not
// this one. Whoever cannot know that says yes: the money went the same way, and the books are right. But a token is shown once its
// operation is settled, so if one of its coins is spent, it was shown before, and must not be shown again.
func (w *Wallet) did(ctx context.Context, m *mint.Mint, op operation, fresh bool, blinded []cashu.Output,
	known map[cashu.Point]cashu.Signature) (bool, error) {
	for _, out := range blinded {
		if s, ok := known[out.B]; !ok || s.Amount != out.Amount {
			return false, nil
		}
	}
	if fresh && op.Kind != Lock {
		return false, nil
	}
	t, err := w.taken(ctx, m, op)
	if err != nil || t.spent < t.all || op.Kind != Send {
		return err == nil && t.spent == t.all, err
	}
	ys := make([]cashu.Point, len(blinded))
	for i, out := range op.Outputs {
		secret, _, err := w.c.Seed.secret(op.Keyset, op.Op, i, out.Counter, nil)
		if err != nil {
			return false, err
		}
		ys[i] = cashu.HashToCurve(secret)
	}
	states, err := m.States(ctx, ys)
	return err == nil && !slices.ContainsFunc(states, func(st mint.ProofState) bool { return st.State == mint.Spent }), err
}

// taken counts the inputs of an operation that the mint has spent, or its quote if that was issued.
type taken struct {
	all, spent int
	lost       []fact.Coin // of our inputs, those that are spent
}

// taken asks the mint for what it has of an operation. Inputs of ours that the journal has lost count as spent.
func (w *Wallet) taken(ctx context.Context, m *mint.Mint, op operation) (t taken, err error) {
	if op.Kind == Issue {
		q, err := m.QuoteState(ctx, mint.Quote{ID: op.Quote, Amount: op.Amount, Unit: op.Unit})
		t.all = 1
		if q.State == mint.Issued {
			t.spent = 1
		}
		return t, err
	}
	var proofs []cashu.Proof
	var coins []fact.Coin
	for _, ref := range op.Inputs {
		if p, err := w.Proof(ref); err == nil {
			proofs, coins = append(proofs, p), append(coins, ref)
		} else {
			t.spent++
		}
	}
	t.all = len(op.Inputs)
	if len(op.Sealed) > 0 {
		if proofs, err = w.c.Seed.open(op.Op, op.Sealed); err != nil {
			return t, err
		}
		t.all = len(proofs)
	}
	if len(proofs) == 0 {
		return t, nil
	}
	ys := make([]cashu.Point, len(proofs))
	for i, p := range proofs {
		ys[i] = cashu.HashToCurve(p.Secret)
	}
	states, err := m.States(ctx, ys)
	for i, st := range states {
		switch st.State {
		case mint.Pending:
			return t, errors.New("the mint has not decided about the inputs")
		case mint.Spent:
			t.spent++
			if i < len(coins) {
				t.lost = append(t.lost, coins[i])
			}
		}
	}
	return t, err
}

// refused finds out what became of an operation that the mint refused: it was done before, or it never will be, which is a
// *failedError that says what is lost. What the mint has signed for an operation that the journal has lost is ours. If it has taken
// nothing of this one, then this one can be done with other outputs; the request that it may have got before a restart cannot be any
// more, since an output of it is signed.
func (w *Wallet) refused(ctx context.Context, m *mint.Mint, op operation, fresh bool, blinded []cashu.Output, reason error) (
	done fact.EcashSettled, err error) {
	done, known, ok, err := w.restored(ctx, m, op, fresh, blinded)
	if ok || err != nil {
		return done, err
	}
	failed := &failedError{reason: reason}
	if op.Kind == Issue && len(known) == 0 { // it is often asked for until it is paid
		return done, failed
	}
	t, err := w.taken(ctx, m, op)
	if err != nil {
		return done, fmt.Errorf("%w: %w", reason, err)
	}
	failed.lost = t.lost
	if len(known) == 0 {
		return done, failed
	}
	failed.again = t.spent == 0
	for i, out := range blinded {
		if _, ok := known[out.B]; ok && op.Outputs[i].Locked { // the secrets of a lock stay the same
			failed.again = false
		}
	}
	failed.reason = fmt.Errorf("the mint has done more than the journal knows; what that left was taken in, so try again: %w", reason)
	failed.found, err = w.find(ctx, m, op)
	if err != nil {
		return done, err
	}
	return done, failed
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
