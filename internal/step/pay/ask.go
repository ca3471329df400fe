package pay

import (
	"fmt"
	"time"

	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
)

// asking is the time that the owner has to allow a price. A provider waits for its money for 10 minutes after its quote, and its
// invoice expires 2 minutes before.
const asking = 7 * time.Minute

// settling is the time that must be left of an invoice once it is allowed.
const settling = 30 * time.Second

// price returns what the provider of an attempt asks for, in the unit of the order, or 0 if its terms cannot be read.
func (one payment) price() uint64 {
	if one.direct() || one.Bitcoin != "" {
		return whole(one.Order.Unit, one.Price)
	}
	q, _, err := readQuote(one.Terms, one.Attempt)
	if err != nil {
		return 0
	}
	return q.amount
}

// wants returns what budgets look at in a payment for an attempt.
func (one payment) wants(unit string, amount uint64) fact.PaymentReserved {
	return fact.PaymentReserved{Attempt: one.Attempt, Job: one.Job, Provider: one.Provider.PubKey, Task: one.Task, Unit: unit, Amount: amount}
}

// limit returns the smallest limit over which the owner is asked, of those that a payment is over, or 0.
func (s *state) limit(r fact.PaymentReserved) (least uint64) {
	for _, scope := range scopes(r) {
		if most := s.Budgets.Of(scope).AskOver; most > 0 && taken(r) > most && (least == 0 || most < least) {
			least = most
		}
	}
	return least
}

// asks returns the limit that a price is over, so that nothing is locked or paid before the owner allows it, or 0. The owner is
// not asked about what would be refused anyway. A bill after the work is asked about when it is reserved.
func (p *Pay) asks(one payment) (limit uint64) {
	if one.Terms == "" && one.Invoice == "" && one.Bitcoin == "" || one.Order.How == postpaid || one.Reserved != nil || one.Refused != "" || one.Allowed || one.Over {
		return 0
	}
	now, rail := p.c.Now(), p.railOf(one)
	p.fold.View(func(s *state) {
		r, err := rail.inspect(s, one, now)
		least := r
		least.Fee = 0
		if err == nil && s.within(least, now.UnixMilli()) == nil {
			limit = s.limit(r)
		}
	})
	return limit
}

// answered returns when it is too late to allow a price.
func (one payment) answered() time.Time {
	until := time.UnixMilli(one.QuotedAt).Add(asking)
	if end := one.expiry().Add(-settling); one.direct() && end.Before(until) {
		return end
	}
	return until
}

// ask tells the attempt that it waits for the owner, and then refuses the price if nobody allows it in time.
func (p *Pay) ask(one payment) due.Work {
	if !one.Deferred {
		return decide("ask the owner about "+one.Attempt.Hex(), fact.JobSubject(one.Job), func() bool {
			now, ok := p.fold.payment(one.Attempt)
			return ok && !now.Deferred && p.asks(now) > 0
		}, func() fact.Fact {
			return fact.AttemptDeferred{Attempt: one.Attempt, Amount: one.price(), Unit: one.Order.Unit, Until: one.answered().UnixMilli()}
		})
	}
	return due.Decide("the end of the owner's time for "+one.Attempt.Hex(), fact.Ledger, one.answered(), func(tx *journal.Tx) error {
		if now, ok := p.fold.payment(one.Attempt); !ok || now.Allowed {
			return nil
		}
		return p.refused(one, fmt.Errorf("nobody allowed %d %s in time (guild wallet approve)", one.price(), one.Order.Unit))(tx)
	})
}

// by returns the rule of a receipt, which names the person who allowed the price beside the one by which it was paid.
func (one payment) by(rule string) string {
	if !one.Allowed || rule == rulePerson {
		return rule
	}
	return rule + fact.RuleAllowed
}

// allow is a person's decision about a price, before the work.
func (one payment) allow(tx *journal.Tx, amount uint64) error {
	switch price := one.price(); amount {
	case 0:
		tx.Append(fact.PaymentRefused{Attempt: one.Attempt, Reason: "the owner does not allow it"})
	case price:
		tx.Append(fact.PaymentAllowed{Attempt: one.Attempt, Amount: amount})
	default:
		return fmt.Errorf("approve the payment for %.8s: the price is %d %s: allow it whole, or 0", one.Attempt.Hex(), price, one.Order.Unit)
	}
	return nil
}
