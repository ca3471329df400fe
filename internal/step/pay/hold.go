package pay

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"guild"
	"guild/bolt11"
	"guild/cashu/token"
	"guild/internal/hand/dm"
	"guild/internal/hand/lightning"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/wallet"
)

// Rules of what is held over Lightning, beside those of the verdict.
const (
	ruleTaken   = "held.taken"   // without our release
	ruleUntaken = "held.untaken" // it was released, and the provider did not take it
	ruleBack    = "held.back"    // it came back before the provider could be told
)

// The time for which a payment is held is counted in blocks, with a margin for fast ones.
const (
	block      = 10 * time.Minute
	mostBlocks = 2016 // wallets pay nothing that may be held for longer
	clockDrift = time.Hour
)

// holdBegins is the time in which the owner's wallet should have begun to pay. It answers only when the payment is not held any more.
const holdBegins = 20 * time.Second

// unknownAfter is the time after the locktime at which no payment can be held any more, however long its way is.
const unknownAfter = mostBlocks * block

// holdBlocks returns the number of blocks for which a payment is held, so that it is still there at the locktime of work with a
// deadline.
func holdBlocks(now, deadline time.Time) uint64 {
	n := uint64((max(0, Locktime(deadline).Sub(now)) + block - 1) / block)
	return n + (n+2)/3
}

// NewHold returns a new payment hash for a request, so that its provider can be paid from escrow over Lightning; nil without a wallet,
// or for a unit that is not of bitcoin.
func (p *Pay) NewHold(unit string) *fact.Hold {
	if p.lightning() == nil || !inBitcoin(unit) {
		return nil
	}
	h := &fact.Hold{Nonce: wallet.NewOp()}
	h.Hash = hashOf(p.c.Wallet.Seed().Preimage(h.Nonce))
	return h
}

func hashOf(preimage [32]byte) guild.Hash { return guild.Sum(preimage[:]) }

// Locks reports whether the wallet has a mint that a provider's terms name, so that ecash can be locked as they ask.
func (p *Pay) Locks(terms string) bool {
	r, err := token.ParseRequest(terms)
	return err == nil && len(p.mints(quote{mints: r.Mints}, r.Unit)) > 0
}

// preimage returns the preimage for an attempt. It fails if the wallet has other words than when the request was made.
func (p *Pay) preimage(one payment) (preimage [32]byte, err error) {
	preimage = p.c.Wallet.Seed().Preimage(one.Hold.Nonce)
	if hashOf(preimage) != one.Hold.Hash {
		err = errors.New("the wallet's words are not those of the request, so that its payment could never be released")
	}
	return preimage, err
}

// checkHold returns why an invoice is not paid whose payment would be held, or nil.
func (one payment) checkHold(inv bolt11.Invoice, now time.Time) error {
	most := min(mostBlocks, holdBlocks(now.Add(-clockDrift), time.UnixMilli(one.Deadline)))
	switch {
	case inv.PaymentHash != one.Hold.Hash:
		return errors.New("its invoice is not for the payment hash of the request: its wallet cannot hold a payment until the verdict, " +
			"or it wants to be paid before the work (--settle prepaid)")
	case inv.MinFinalCLTV > most:
		return fmt.Errorf("wants the payment held for %d blocks, and at most %d are needed until %s", inv.MinFinalCLTV, most, until(one))
	}
	return nil
}

// until names the locktime of a payment that is held.
func until(one payment) string {
	return Locktime(time.UnixMilli(one.Deadline)).UTC().Format(time.RFC3339)
}

// held lists what is due for an attempt whose provider's wallet holds the payment. What became of that, our wallet says.
func (p *Pay) held(one payment, now time.Time) []due.Work {
	switch {
	case one.Preimage != "" || one.Returned:
		if !one.Over || one.Noted {
			return nil // the attempt learns of it when it ends
		}
		return []due.Work{p.note(one, one.outcome())}
	case one.Decided == nil && !one.Over: // no verdict until the locktime pays nothing
		return []due.Work{p.payInvoice(one), due.Decide("the locktime of "+one.Attempt.Hex(), fact.Ledger, p.locktime(one), p.decided(one, 0, ruleForgotten))}
	case one.Decided == nil:
		return append(p.settle(one, now), p.payInvoice(one))
	case one.Released == nil:
		return []due.Work{p.releaseHold(one), p.payInvoice(one)}
	}
	return []due.Work{p.payInvoice(one)}
}

// outcome returns the fact about a payment that is not held any more: the provider has taken it, or it came back.
func (one payment) outcome() fact.Fact {
	released := one.Decided != nil && one.Decided.Amount > 0
	switch {
	case one.Preimage != "" && released:
		return fact.AttemptReleased{Attempt: one.Attempt, Amount: one.Reserved.Msat, Rule: one.by(one.Decided.Rule), Proof: one.Preimage}
	case one.Preimage != "":
		return fact.AttemptReleased{Attempt: one.Attempt, Amount: one.Reserved.Msat, Rule: ruleTaken, Proof: one.Preimage}
	case released && one.Released == nil:
		return fact.AttemptRefunded{Attempt: one.Attempt, Rule: ruleBack, Proof: one.Reserved.Invoice}
	case released:
		return fact.AttemptRefunded{Attempt: one.Attempt, Rule: ruleUntaken, Proof: one.Reserved.Invoice}
	}
	return fact.AttemptRefunded{Attempt: one.Attempt, Rule: one.Decided.Rule, Proof: one.Reserved.Invoice}
}

// unheld notes that the wallet did not pay an invoice, or has its money back.
func (s *state) unheld(p *payment, reason string) {
	if !p.Holds || p.Decided == nil || p.Reserved == nil {
		s.forget(p, reason)
		return
	}
	if p.Released == nil || p.Released.Amount > 0 { // else it was free when the provider was told
		s.free(*p.Reserved, p.Reserved.Amount, p.At)
	}
	p.Returned = true
}

// releaseHold tells the provider the preimage, by which it takes the payment, or that it gets nothing and why.
func (p *Pay) releaseHold(one payment) due.Work {
	released := fact.PaymentReleased{Attempt: one.Attempt, Unit: one.Reserved.Unit}
	if one.Decided.Amount > 0 {
		released.Amount = one.Reserved.Amount
	}
	told := func(tx *journal.Tx) {
		if now, ok := p.fold.payment(one.Attempt); ok && now.Released == nil && !now.Returned {
			tx.Append(released)
		}
	}
	return due.Work{
		Key: "release the payment for " + one.Attempt.Hex(), Guard: fact.Ledger, Tries: mostTries,
		Act: func(ctx context.Context) (due.Decision, error) {
			m := dm.Signatures{Type: dm.TypeRelease, Request: one.Attempt, Amount: one.Decided.Amount, Reason: one.why()}
			if one.Decided.Amount > 0 {
				preimage, err := p.preimage(one)
				if err != nil {
					return nil, fmt.Errorf("release the payment for %.8s: %w", one.Attempt.Hex(), err)
				}
				m.Preimage = hex.EncodeToString(preimage[:])
			}
			content, err := m.Encode()
			if err == nil {
				err = p.send(ctx, one.Provider.PubKey, "Payment released", content)
			}
			if err != nil {
				return nil, fmt.Errorf("release the payment for %.8s: %w", one.Attempt.Hex(), err)
			}
			return func(tx *journal.Tx) error { told(tx); return nil }, nil
		},
		Park: func(tx *journal.Tx, _ string) { // what nobody gets need not be told: it comes back when the blocks are over
			if one.Decided.Amount == 0 {
				told(tx)
			}
		},
	}
}

// approveHold is a person's decision about a payment that is held and waits for one.
func (p *Pay) approveHold(tx *journal.Tx, one payment, amount uint64) error {
	id, agreed := one.Attempt.Hex(), one.agreed()
	switch {
	case one.Reserved == nil || !one.Over:
		return fmt.Errorf("approve the payment for %.8s: %w", id, ErrNoPayment)
	case !tx.Now().Before(p.locktime(one)):
		return fmt.Errorf("approve the payment for %.8s: its locktime is over, so it comes back", id)
	case one.Decided != nil:
		return fmt.Errorf("approve the payment for %.8s: it is decided: %d %s", id, one.Decided.Amount, one.Order.Unit)
	case amount != 0 && amount != agreed:
		return fmt.Errorf("approve the payment for %.8s: what is held is paid whole: %d %s, or nothing", id, agreed, one.Order.Unit)
	}
	tx.Append(fact.PaymentApproved{Attempt: one.Attempt, Amount: amount})
	return nil
}

// begin gives the order to the wallet. A payment that is to be held is under way if there is no answer soon.
func (t transfer) begin(ctx context.Context, ln lightning.Wallet, sent lightning.Order) (paid *lightning.Payment, failed string, err error) {
	if t.held {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, holdBegins, lightning.ErrUnderWay)
		defer cancel()
	}
	payment, err := ln.Pay(ctx, sent)
	switch {
	case err == nil:
		return &payment, "", nil
	case t.fresh && lightning.IsRefused(err, lightning.Untried...):
		return nil, err.Error(), nil
	case t.held && errors.Is(err, lightning.ErrUnderWay):
		return nil, "", nil
	}
	return nil, "", err
}
