package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/bitcoin"
	"guild/bolt11"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/nip90"
)

// payIn is the time that a customer has to lock or pay the price.
const payIn = 10 * time.Minute

// wantsMoney reports whether a service waits for its price to be locked or paid.
func (w *Work) wantsMoney(s Service) bool {
	return s.Price > 0 && w.c.Money != nil && w.c.Money.Takes(s.Unit)
}

// warnUnpayable warns of services with a price that nobody can pay: each request to them is refused.
func (w *Work) warnUnpayable() {
	for _, d := range w.order {
		s := w.services[d]
		if s.Price == 0 || w.wantsMoney(s) {
			continue
		}
		add := "guild wallet add mint URL --unit " + s.Unit
		if s.inBitcoin() {
			add += ", or guild wallet add nwc, lnd or bitcoind"
		}
		w.c.Log.Warn("nobody can pay the price of a service, and it is done for nobody", "service", d, "price", s.amount(), "add", add)
	}
}

// awaitsMoney reports whether a request waits for its price to be locked or paid.
func (w *Work) awaitsMoney(r request) bool {
	s, offered := w.services[r.Service]
	return offered && w.wantsMoney(s) && !w.c.Money.Funded(r.ID)
}

// inBitcoin reports whether the price is in bitcoin, so that it can be written in millisatoshis.
func (s Service) inBitcoin() bool { return s.Unit == "sat" || s.Unit == "msat" }

// amount returns the price for a person, such as "500 test".
func (s Service) amount() string {
	if s.Rates != nil {
		return s.metered()
	}
	return fmt.Sprintf("%d %s", s.units(), s.Unit)
}

// units returns the price in whole units, rounded up.
func (s Service) units() uint64 {
	if s.Unit == "msat" {
		return uint64(s.Price)
	}
	return (uint64(s.Price) + 999) / 1000
}

// priced returns the feedback that names the price.
func (s Service) priced(text string) nip90.Feedback {
	f := nip90.Feedback{Status: nip90.PaymentRequired, Text: text, Rates: s.Rates}
	if s.inBitcoin() {
		f.Amount = s.Price
	}
	if text == "" && (s.Rates != nil || !s.inBitcoin()) {
		f.Text = s.amount()
	}
	return f
}

// quote asks the customer of a request to lock or pay the price, and gives up if it does not.
func (w *Work) quote(s Service, r request) []due.Work {
	if r.Quoted == nil {
		return []due.Work{w.ask(s, r), w.late(r)}
	}
	var all []due.Work
	e := r.Quoted.Answer
	if !r.Asked {
		all = append(all, due.Work{
			Key: due.Publishing(e.ID), Guard: fact.RequestSubject(r.ID), Tries: 8,
			Act: func(ctx context.Context) (due.Decision, error) {
				return func(*journal.Tx) error { return nil }, w.publish(ctx, e, append([]string{r.Received.From}, r.Received.Relays...), 45*time.Second)
			},
		})
	}
	return append(all, due.Work{
		Key: "unpaid " + r.ID.Hex(), Guard: fact.RequestSubject(r.ID), Free: true, Ready: time.UnixMilli(r.Quoted.Until),
		Act: func(ctx context.Context) (due.Decision, error) {
			const why = "its price was not paid or locked in time"
			f, err := w.end(ctx, fact.RequestFinished{Request: r.ID, Ending: unpaid, Reason: why}, failure(*r.Received, why))
			return w.record(f, fact.EffectSettled{Effect: doing(r.ID)}), err
		},
	})
}

// heldBy returns the payment hash of an invoice if the customer chose it, so that its payment is held, and the zero hash if not.
func heldBy(invoice string, chosen guild.Hash) (hold guild.Hash) {
	if inv, err := bolt11.Decode(invoice); err == nil && inv.PaymentHash == chosen {
		hold = chosen
	}
	return hold
}

// ask signs the quote for a request.
func (w *Work) ask(s Service, r request) due.Work {
	return due.Work{
		Key: "quote " + r.ID.Hex(), Guard: fact.RequestSubject(r.ID), Free: true,
		Act: func(ctx context.Context) (due.Decision, error) {
			deadline := time.UnixMilli(r.Received.Deadline)
			until := w.c.Now().Add(payIn)
			if deadline.Before(until) {
				until = deadline
			}
			if r.Received.Onchain {
				return w.askOnchain(ctx, s, r)
			}
			asking := *r.Received
			ahead := asking.Prepaid || w.paysAhead(s, r.Customer)
			if a := asking.Arbiter; a != nil && (ahead || !slices.Contains(s.Terms.Judges, a.PubKey)) {
				asking.Arbiter = nil
			}
			terms, invoice, err := w.c.Money.Quote(ctx, asking, until, s.units(), s.Unit, ahead)
			if err != nil {
				return w.fail(ctx, r, guild.Cut(err.Error(), maxText), "this provider cannot be paid at present")
			}
			feedback := s.priced("")
			feedback.Terms, feedback.Invoice = terms, invoice
			if invoice != "" && s.Unit == "sat" { // the invoice is over whole units
				feedback.Amount = guild.Msat(s.units()) * 1000
			}
			hold := heldBy(invoice, r.Received.Hold)
			if hold != (guild.Hash{}) {
				feedback.Extra = nostr.Tags{nip90.Hold(hold)}
			}
			return w.asked(ctx, r, feedback, fact.RequestQuoted{
				Request: r.ID, Customer: r.Customer, Deadline: r.Received.Deadline, Terms: terms, Invoice: invoice, Hold: hold,
				Until: until.UnixMilli(), Metered: s.Rates != nil, Arbiter: asking.Arbiter,
			})
		},
	}
}

// askOnchain quotes a payment on the Bitcoin chain. Its confirmations take as long as they take, so we wait until the deadline.
func (w *Work) askOnchain(ctx context.Context, s Service, r request) (due.Decision, error) {
	uri, err := w.c.Money.Address(ctx, r.ID, time.UnixMilli(r.Received.Deadline), s.units(), s.Unit)
	if err != nil {
		told := "this provider cannot be paid on the chain at present"
		if short, ok := errors.AsType[*guild.DropError](err); ok {
			told = guild.Cut(short.Detail, maxText)
		}
		return w.fail(ctx, r, guild.Cut(err.Error(), maxText), told)
	}
	u, err := bitcoin.ParseURI(uri)
	if err != nil {
		return nil, err
	}
	feedback := s.priced("")
	feedback.Amount, feedback.Extra = guild.Msat(u.Satoshis)*1000, nostr.Tags{nip90.Bitcoin(uri)}
	return w.asked(ctx, r, feedback, fact.RequestQuoted{
		Request: r.ID, Customer: r.Customer, Deadline: r.Received.Deadline, Bitcoin: uri, Until: r.Received.Deadline, Metered: s.Rates != nil,
	})
}

// asked returns the decision that a request is quoted, with the signed feedback.
func (w *Work) asked(ctx context.Context, r request, feedback nip90.Feedback, quoted fact.RequestQuoted) (due.Decision, error) {
	e, err := w.sign(ctx, answer{to: *r.Received, feedback: feedback})
	quoted.Answer = e
	return func(tx *journal.Tx) error {
		now, ok := w.fold.request(r.ID)
		if !ok || now.Quoted != nil || now.Ending != "" || now.Withdrew {
			return nil
		}
		tx.Append(quoted)
		due.Claim(tx, due.Publishing(e.ID), w.c.Node)
		return nil
	}, err
}
