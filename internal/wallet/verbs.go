package wallet

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/cashu"
	"guild/cashu/token"
	"guild/internal/hand/mint"
	"guild/internal/journal"
	"guild/internal/journal/fact"
)

// ErrNoMint means that no mint in the wallet does.
var ErrNoMint = errors.New("no such mint in the wallet")

// AddMint has ecash of a mint used from now on. The mint is asked whether it has the unit.
func (w *Wallet) AddMint(ctx context.Context, a Asset) error {
	a.Mint = strings.TrimRight(a.Mint, "/") // one mint has one name
	if _, err := w.Terms(ctx, a); err != nil {
		return fmt.Errorf("add the mint %s: %w", a.Mint, err)
	}
	return w.c.Journal.Do(ctx, fact.Ledger, "", func(tx *journal.Tx) error {
		if !slices.Contains(w.fold.Mints(), a) {
			tx.Append(fact.MintAdded{Mint: a.Mint, Unit: a.Unit})
		}
		return nil
	})
}

// AssetOf returns the asset of a unit: at a mint, or if that is empty at the only mint of the unit.
func (w *Wallet) AssetOf(unit, mintURL string) (Asset, error) {
	var all []Asset
	mintURL = strings.TrimRight(mintURL, "/")
	for _, a := range w.fold.Mints() {
		if a.Unit == unit && (mintURL == "" || a.Mint == mintURL) {
			all = append(all, a)
		}
	}
	switch len(all) {
	case 1:
		return all[0], nil
	case 0:
		return Asset{}, fmt.Errorf("%q: %w: add it with guild wallet add mint URL", unit, ErrNoMint)
	}
	return Asset{}, fmt.Errorf("%d mints have the unit %q: name one with --mint: %w", len(all), unit, ErrNoMint)
}

// Fund asks a mint for a quote. If the mint issues without payment, as that of play money does, the ecash is on its way when
// Fund returns, and invoice is empty; else it comes once invoice is paid, which the mint is asked about for a day.
func (w *Wallet) Fund(ctx context.Context, a Asset, amount uint64) (op, invoice string, err error) {
	if amount == 0 {
		return "", "", errNothing
	}
	m, err := w.Mint(a.Mint)
	if err != nil {
		return "", "", err
	}
	t, err := w.Terms(ctx, a)
	if err != nil {
		return "", "", err
	}
	q, err := m.Quote(ctx, amount, a.Unit, cashu.Point{})
	if err != nil {
		return "", "", fmt.Errorf("ask %s for %d %s: %w", a.Mint, amount, a.Unit, err)
	}
	if q.State != mint.Paid {
		invoice = q.Request
	}
	op = NewOp()
	err = w.c.Journal.Do(ctx, fact.Ledger, "", func(tx *journal.Tx) error {
		planned := fact.EcashPlanned{Op: op, Kind: Issue, Mint: a.Mint, Unit: a.Unit, Keyset: t.Keyset.ID, Amount: amount, Quote: q.ID}
		w.fold.View(func(s *state) { planned.Outputs = outputs(s, t.Keyset.ID, amount) })
		tx.Append(planned)
		w.Planned(op)
		return nil
	})
	if invoice != "" {
		return "", invoice, err // there is nothing to wait for yet
	}
	return op, "", err
}

// Receive makes the ecash of a token ours. It is on its way when Receive returns the plan, which has the mint's fee.
func (w *Wallet) Receive(ctx context.Context, text string) (planned fact.EcashPlanned, err error) {
	t, err := token.Parse(text)
	if err != nil {
		return planned, err
	}
	a, err := w.AssetOf(t.Unit, t.Mint)
	if err != nil {
		return planned, err
	}
	terms, err := w.Terms(ctx, a)
	if err != nil {
		return planned, err
	}
	for i, p := range t.Proofs {
		for id := range terms.fees {
			if len(p.Keyset) == 16 && len(id) > 16 && id[:16] == p.Keyset { // a version 4 token has only the beginning
				t.Proofs[i].Keyset = id
			}
		}
	}
	op := NewOp()
	err = w.c.Journal.Do(ctx, fact.Ledger, "", func(tx *journal.Tx) error {
		if planned, err = w.PlanTake(op, Receive, terms, "", t.Proofs); err != nil {
			return err
		}
		tx.Append(planned)
		w.Planned(op)
		return nil
	})
	return planned, err
}

// Send takes an amount from the wallet for a token, which Token returns once the mint has made it.
func (w *Wallet) Send(ctx context.Context, a Asset, amount uint64) (op string, err error) {
	terms, err := w.Terms(ctx, a)
	if err != nil {
		return "", err
	}
	op = NewOp()
	return op, w.c.Journal.Do(ctx, fact.Ledger, "", func(tx *journal.Tx) error {
		planned, err := w.PlanSpend(op, terms, "", nil, amount)
		if err == nil {
			tx.Append(planned)
			w.Planned(op)
		}
		return err
	})
}

// Token returns the token that an operation of the kind Send made.
func (w *Wallet) Token(op string, memo string) (token.Token, error) {
	coins, _ := w.fold.Outputs(op)
	t := token.Token{Memo: memo}
	for _, ref := range coins {
		c, ok := w.fold.coin(ref)
		if !ok || !c.Sent {
			continue
		}
		p, err := w.proof(ref, c)
		if err != nil {
			return t, err
		}
		t.Mint, t.Unit = c.Mint, c.Unit
		t.Proofs = append(t.Proofs, p)
	}
	if len(t.Proofs) == 0 {
		return t, fmt.Errorf("operation %s made no token", op)
	}
	return t, nil
}

// Wait returns when the mint has done an operation. The error says why it will not.
func (w *Wallet) Wait(ctx context.Context, op string) error {
	changed, stop := w.c.Journal.Changed()
	defer stop()
	for {
		if !w.fold.Open(op) {
			if reason := w.fold.reason(op); reason != "" {
				return errors.New(reason)
			}
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the mint has not answered yet; it is asked again: %w", ctx.Err())
		}
	}
}

// grantWait limits how long Grant waits for the mint.
const grantWait = 10 * time.Second

// Grant gives a new wallet its first play money: an amount of an asset of which it never had anything.
func (w *Wallet) Grant(ctx context.Context, a Asset, amount uint64) error {
	ctx, cancel := context.WithTimeout(ctx, grantWait)
	defer cancel()
	if err := w.AddMint(ctx, a); err != nil {
		return err
	}
	had := false
	w.fold.View(func(s *state) {
		had = len(s.Books.Of(bookOf(a))) > 0
		for _, op := range s.Ops.All() {
			had = had || op.asset() == a
		}
	})
	if had {
		return nil
	}
	_, invoice, err := w.Fund(ctx, a, amount)
	if invoice != "" {
		return fmt.Errorf("%s gives nothing away", a.Mint)
	}
	return err
}

// Movement is an operation of the wallet, or a payment by the owner's Lightning wallet, whose Op is the attempt or the request.
type Movement struct {
	fact.EcashPlanned
	At     int64  // Unix ms
	State  string // open, done or failed
	Reason string // of a failure
}

// History yields all operations and payments, the oldest first.
func (w *Wallet) History(ctx context.Context) iter.Seq2[Movement, error] {
	return func(yield func(Movement, error) bool) {
		var all []Movement
		at := map[string]int{}
		for e, err := range w.c.Journal.Of(ctx, fact.Ledger) {
			if err != nil {
				yield(Movement{}, err)
				return
			}
			for _, one := range e.Facts {
				switch one := one.(type) {
				case fact.EcashPlanned:
					if i, ok := at[one.Op]; ok { // planned again for another keyset
						all[i].EcashPlanned = one
						continue
					}
					at[one.Op] = len(all)
					all = append(all, Movement{EcashPlanned: one, At: e.At, State: "open"})
				case fact.EcashSettled:
					if i, ok := at[one.Op]; ok {
						all[i].State = "done"
					}
				case fact.EcashFailed:
					if i, ok := at[one.Op]; ok {
						all[i].State, all[i].Reason = "failed", one.Reason
					}
				case fact.PaymentReserved:
					if one.Invoice != "" {
						at[one.Attempt.Hex()] = len(all)
						all = append(all, Movement{EcashPlanned: paid(Pay, one.Attempt, one.Msat), At: e.At, State: "open"})
					}
					if one.Bitcoin != "" {
						at[one.Attempt.Hex()] = len(all)
						all = append(all, Movement{EcashPlanned: onchain(Pay, one.Attempt, one.Amount-one.Fee, one.Fee), At: e.At, State: "open"})
					}
				case fact.PaymentMined:
					if i, ok := at[one.Attempt.Hex()]; ok {
						all[i].State = "done"
					}
				case fact.CoinsUnpaid:
					if i, ok := at[one.Attempt.Hex()]; ok {
						all[i].State, all[i].Reason = "failed", one.Reason
					}
				case fact.CoinsReceived:
					at[one.TxID+one.Request.Hex()+strconv.Itoa(one.N)] = len(all)
					all = append(all, Movement{EcashPlanned: onchain(Earn, one.Request, one.Amount, 0), At: e.At, State: "done"})
				case fact.CoinsLost:
					if i, ok := at[one.TxID+one.Request.Hex()+strconv.Itoa(one.N)]; ok {
						all[i].State, all[i].Reason = "failed", "its block is not in the chain any more"
					}
				case fact.InvoicePaid:
					if i, ok := at[one.Attempt.Hex()]; ok {
						all[i].State, all[i].Fee = "done", uint64(one.Fees)
					}
				case fact.InvoiceUnpaid:
					if i, ok := at[one.Attempt.Hex()]; ok {
						all[i].State, all[i].Reason = "failed", one.Reason
					}
				case fact.InvoiceSettled:
					all = append(all, Movement{EcashPlanned: paid(Earn, one.Request, one.Msat), At: e.At, State: "done"})
				}
			}
		}
		for _, m := range all {
			if !yield(m, nil) {
				return
			}
		}
	}
}

// onchain describes a payment on the chain for an attempt or a request, in sat.
func onchain(kind string, about nostr.ID, amount, fee uint64) fact.EcashPlanned {
	return fact.EcashPlanned{Op: about.Hex(), Kind: kind, Mint: Chain.Mint, Unit: Chain.Unit, Amount: amount, Fee: fee, About: about.Hex()}
}

// paid describes a payment over Lightning for an attempt or a request.
func paid(kind string, about nostr.ID, amount guild.Msat) fact.EcashPlanned {
	return fact.EcashPlanned{Op: about.Hex(), Kind: kind, Mint: Lightning.Mint, Unit: Lightning.Unit, Amount: uint64(amount), About: about.Hex()}
}
