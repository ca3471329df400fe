package pay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/wallet"
)

// prepaid is the settlement before the work, over Lightning or in ecash that is locked to the provider alone.
const prepaid = "prepaid"

// byInvoice reports whether a provider is paid over Lightning. If it takes ecash before the work, too, that is paid by a customer
// who has no Lightning wallet.
func (p *Pay) byInvoice(one payment) bool {
	switch {
	case !one.direct():
		return false
	case one.Reserved != nil:
		return one.Reserved.Invoice != ""
	}
	return one.Terms == "" || one.Order.How != prepaid || p.lightning() != nil
}

// inAdvance lists what is due for an attempt whose provider is paid ecash before the work.
//
// Nobody but the provider can spend that ecash, so it must not be made in vain, and once it is made it must be sent. The money is
// reserved, then the attempt knows of it, then the lock is planned. An attempt that ends before the plan costs nothing: what was
// reserved is free again. From the plan on the mint may have heard of it, so the lock is made, and sent, whatever has become of the
// attempt; its record waits for that. The provider takes it also when it has given up waiting.
func (p *Pay) inAdvance(one payment) []due.Work {
	id, job := one.Attempt.Hex(), fact.JobSubject(one.Job)
	if work, open := p.unreserved(one, p.reserve); open {
		return work
	}
	switch {
	case one.Lock == nil && one.Over:
		return []due.Work{due.Decide("do not pay "+id, fact.Ledger, time.Time{}, p.unplanned(one, errOver))}
	case !one.Held:
		return []due.Work{decide("hold money for "+id, job, func() bool {
			now, _ := p.fold.payment(one.Attempt)
			return now.Reserved != nil && !now.Held && !now.Over
		}, func() fact.Fact { return one.hold() })}
	case one.Lock == nil:
		return []due.Work{p.planLock(one)}
	case p.c.Wallet.Fold().Open(one.Reserved.Op):
		return nil // the mint has not locked it yet
	case !one.Sent:
		return []due.Work{p.sendLock(one)}
	case one.Over && !one.Noted:
		return []due.Work{p.note(one, fact.AttemptReleased{
			Attempt: one.Attempt, Amount: msats(one.Reserved.Unit, one.Reserved.Amount), Rule: one.by(fact.RulePrepaid), Proof: one.Released.Proof,
		})}
	}
	return nil
}

// unreserved lists what is due for a quote that is paid before the work while no money is reserved for it, and reports whether none is.
func (p *Pay) unreserved(one payment, reserve func(payment) due.Work) (work []due.Work, open bool) {
	switch {
	case one.Reserved == nil && one.Held:
		return []due.Work{p.nothingHeld(one)}, true
	case one.Refused != "":
		return p.refuse(one), true
	case one.Reserved == nil && one.Over:
		return nil, true
	case p.asks(one) > 0:
		return []due.Work{p.ask(one)}, true
	case one.Reserved == nil:
		return []due.Work{reserve(one)}, true
	}
	return nil, false
}

// waited is the time after a quote for which its provider surely waits to be paid: payIn of the step work, and some for the way.
const waited = 8 * time.Minute

// stale reports whether a provider may have given up waiting, so that what is locked to it alone would be lost.
func (one payment) stale(now time.Time) bool {
	return now.After(time.UnixMilli(one.QuotedAt).Add(waited)) || now.After(time.UnixMilli(one.Deadline))
}

var errStale = errors.New("it is too late: the provider may not wait for its money any more")

var errOver = errors.New("the attempt has ended")

// hold returns the fact that ecash is set aside for an attempt.
func (one payment) hold() fact.AttemptHeld {
	return fact.AttemptHeld{
		Attempt: one.Attempt, Rail: "cashu", Asset: assetID(*one.Reserved), Amount: msats(one.Reserved.Unit, one.Reserved.Amount), Quote: one.Quote,
		Ahead: one.Order.How == prepaid,
	}
}

// nothingHeld tells the attempt that no money is set aside for it any more.
func (p *Pay) nothingHeld(one payment) due.Work {
	return decide("nothing is held for "+one.Attempt.Hex(), fact.JobSubject(one.Job), func() bool {
		now, _ := p.fold.payment(one.Attempt)
		return now.Held && now.Reserved == nil
	}, func() fact.Fact { return fact.AttemptHeld{Attempt: one.Attempt} })
}

// unplanned returns the decision that reserved ecash, whose lock is not planned, is not paid.
func (p *Pay) unplanned(one payment, why error) due.Decision {
	return func(tx *journal.Tx) error {
		if now, ok := p.fold.payment(one.Attempt); ok && now.Reserved != nil && now.Lock == nil {
			tx.Append(fact.PaymentRefused{Attempt: one.Attempt, Reason: why.Error()})
		}
		return nil
	}
}

// planLock plans the ecash that is the provider's from then on.
func (p *Pay) planLock(one payment) due.Work {
	return due.Work{
		Key: "lock money for " + one.Attempt.Hex(), Guard: fact.Ledger, Free: true,
		Act: func(ctx context.Context) (due.Decision, error) {
			q, unit, err := readQuote(one.Terms, one.Attempt)
			if err != nil {
				return p.unplanned(one, err), nil
			}
			t, err := p.c.Wallet.Terms(ctx, wallet.Asset{Mint: one.Reserved.Mint, Unit: unit})
			if err != nil {
				return nil, fmt.Errorf("lock money for %.8s: %w", one.Attempt.Hex(), err)
			}
			return func(tx *journal.Tx) error {
				now, ok := p.fold.payment(one.Attempt)
				switch {
				case !ok || now.Reserved == nil || now.Lock != nil:
					return nil
				case now.Over:
					return p.unplanned(one, errOver)(tx)
				case p.fold.Frozen():
					return p.unplanned(one, errFrozen)(tx)
				case one.stale(tx.Now()):
					return p.unplanned(one, errStale)(tx)
				}
				op := one.Reserved.Op
				planned, err := p.c.Wallet.PlanSpend(op, t, one.Attempt.Hex(), &fact.EcashLock{Provider: q.key}, one.Reserved.Amount)
				if err == nil && planned.Fee > one.Reserved.Fee { // the budgets counted that
					err = tooDear(planned.Fee, one.Reserved.Amount, unit)
				}
				if err != nil {
					return p.unplanned(one, err)(tx)
				}
				tx.Append(planned)
				p.c.Wallet.Planned(op)
				return nil
			}, nil
		},
	}
}

// paid returns the fact that ecash which was sent is the provider's.
func (one payment) paid(coins []fact.Coin, proof string) fact.PaymentReleased {
	return fact.PaymentReleased{
		Attempt: one.Attempt, Mint: one.Reserved.Mint, Unit: one.Reserved.Unit, Amount: one.Reserved.Amount, Coins: coins, Proof: proof,
	}
}

// late is the time after the deadline of a request in which ecash that only we can spend is still taken, whatever became of the
// work: it was locked, and is of no other use.
const late = 24 * time.Hour

// unpaid waits for money for a request that is over, and for which nothing was paid. It is forgotten once it is too late.
// An invoice that could be paid instead expires before.
func (p *Pay) unpaid(one lock) due.Work {
	return due.Decide("the end of the time to pay for "+one.Request.Hex(), fact.Ledger, time.UnixMilli(one.Deadline).Add(late), func(tx *journal.Tx) error {
		if now, ok := p.fold.lock(one.Request); ok && now.Offered == nil {
			tx.Append(fact.LockExpired{Request: one.Request})
		}
		return nil
	})
}
