package pay

import (
	"fmt"
	"time"

	"guild/bolt11"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
)

// rail is a way for money from a customer to a provider: ecash, Lightning or the chain. Nothing is paid that was not inspected and
// then reserved in the journal, together with what is sent; that is sent again and again, and stays reserved until it is known what
// became of it. What a receipt proves about it without either party, the package verify checks.
type rail interface {
	// inspect returns what a quote would take from the owner, with the highest fee, or why it is not paid. It asks nobody.
	inspect(s *state, one payment, now time.Time) (fact.PaymentReserved, error)
	// pay lists what is due for the money of one attempt: one thing after the other.
	pay(one payment, now time.Time) []due.Work
	// approve is a person's decision about money that waits for one: how much of it the provider gets, in the unit.
	approve(tx *journal.Tx, one payment, amount uint64) error
	// waits says what a person must see to, or "".
	waits(one payment, now time.Time) string
	// receive lists what is due for what a customer pays for a request to us.
	receive(one lock) []due.Work
}

// The rails.
type (
	ecash    struct{ *Pay } // of mints (Cashu)
	invoices struct{ *Pay } // over Lightning
	chain    struct{ *Pay } // of Bitcoin
)

// railOf returns the rail by which the provider of an attempt is paid.
func (p *Pay) railOf(one payment) rail {
	switch {
	case one.Order.How == onchain:
		return chain{p}
	case p.byInvoice(one):
		return invoices{p}
	}
	return ecash{p}
}

// railsTo returns the rails by which a customer may pay for a request to us.
func (p *Pay) railsTo(one lock) []rail {
	if one.Bitcoin != "" {
		return []rail{chain{p}}
	}
	return []rail{invoices{p}, ecash{p}}
}

func (p ecash) inspect(s *state, one payment, _ time.Time) (fact.PaymentReserved, error) {
	q, unit, err := readQuote(one.Terms, one.Attempt)
	if err == nil {
		err = q.check(one, unit, p.mints(q, unit), s.Frozen)
	}
	return one.wants(unit, q.amount), err
}

func (invoices) inspect(s *state, one payment, now time.Time) (fact.PaymentReserved, error) {
	inv, _ := bolt11.Decode(one.Invoice) // inspectInvoice has the error
	_, err := s.inspectInvoice(one, inv.Network, now)
	return one.wants("sat", whole("sat", one.Price)), err
}

func (chain) inspect(s *state, one payment, now time.Time) (fact.PaymentReserved, error) {
	u, err := s.inspectCoins(one, "", now)
	r := one.wants("sat", whole("sat", one.Price))
	r.Fee = uint64(mostFee(u.Satoshis))
	return r, err
}

// waiting says what a person must see to for a payment, or "".
func (p *Pay) waiting(one payment) string {
	if limit := p.asks(one); limit > 0 {
		return fmt.Sprintf("%s: over %d %s", waits, limit, one.Order.Unit)
	}
	return p.railOf(one).waits(one, p.c.Now())
}

func (ecash) waits(payment, time.Time) string { return "" } // it is a state of its own, as long as it is locked

func (p invoices) waits(one payment, now time.Time) string {
	switch {
	case one.uncertain(now):
		return waits + ": the wallet does not say whether it has paid"
	case one.stalled():
		return waits + ": " + one.Refused
	case one.billed() && one.Over && !one.Voting && len(p.settleBill(one)) == 0:
		return waits
	}
	return ""
}

func (chain) waits(one payment, _ time.Time) string {
	if one.Doubt == "" {
		return ""
	}
	return waits + ": " + one.Doubt
}
