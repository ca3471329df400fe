package pay

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/bolt11"
	"guild/internal/hand/lightning"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
)

// payWithin is the time in which the owner's wallet must begin to pay an invoice.
const payWithin = 5 * time.Minute

var errNoLightning = errors.New("no Lightning wallet is connected (guild wallet add nwc or lnd)")

// lightning returns the owner's wallet, or nil.
func (p *Pay) lightning() lightning.Wallet {
	if p.c.Lightning == nil {
		return nil
	}
	return p.c.Lightning()
}

// pay pays at once, or as the verdict says.
func (p invoices) pay(one payment, now time.Time) []due.Work {
	id, job := one.Attempt.Hex(), fact.JobSubject(one.Job)
	switch {
	case one.stalled() && now.Before(one.expiry()):
		return []due.Work{due.Decide("the expiry of the invoice for "+id, fact.Ledger, one.expiry(), func(tx *journal.Tx) error {
			if now, ok := p.fold.payment(one.Attempt); ok && now.stalled() {
				tx.Append(fact.PaymentDecided{Attempt: one.Attempt, Rule: ruleForgotten})
			}
			return nil
		})}
	case one.Reserved == nil && one.Held && (one.Refused != "" || one.Decided != nil && one.Decided.Amount == 0):
		return []due.Work{p.nothingHeld(one)}
	case one.Refused != "":
		return p.refuse(one)
	case one.billed():
		return p.settleBill(one)
	case one.Reserved == nil && one.Over && one.Order.How != postpaid:
		return nil
	case p.asks(one) > 0:
		return []due.Work{p.ask(one)}
	case one.Reserved == nil:
		return []due.Work{p.reserveInvoice(one)}
	case !one.Held && one.Over: // the order was not sent yet
		return []due.Work{due.Decide("do not pay "+id, fact.Ledger, time.Time{}, func(tx *journal.Tx) error {
			if now, ok := p.fold.payment(one.Attempt); ok && !now.Held && now.Reserved != nil {
				tx.Append(fact.InvoiceUnpaid{Attempt: one.Attempt, Reason: "the attempt has ended", Msat: one.Reserved.Msat})
			}
			return nil
		})}
	case !one.Held:
		held := fact.AttemptHeld{
			Attempt: one.Attempt, Rail: "lightning", Asset: "BTC_LN", Amount: one.Reserved.Msat, Quote: one.Quote, Invoice: one.Invoice,
		}
		return []due.Work{decide("hold money for "+id, job, func() bool { now, _ := p.fold.payment(one.Attempt); return !now.Held },
			func() fact.Fact { return held })}
	case one.Holds:
		return p.held(one, now)
	case one.Preimage == "":
		return []due.Work{p.payInvoice(one)}
	case one.Over && !one.Noted:
		rule := fact.RulePrepaid
		if one.Decided != nil {
			rule = one.Decided.Rule
		}
		return []due.Work{p.note(one, fact.AttemptReleased{Attempt: one.Attempt, Amount: one.Reserved.Msat, Rule: one.by(rule), Proof: one.Preimage})}
	}
	return nil
}

// stalled reports whether an invoice is due after the work and could not be paid, so that a person must see to it.
func (one payment) stalled() bool {
	return one.Order.How == postpaid && one.Held && one.Reserved == nil && one.Refused != "" && (one.Decided == nil || one.Decided.Amount > 0)
}

// uncertain reports whether the wallet was ordered to pay, does not say what it did, and pays no more. What is held is under way until
// long after the locktime.
func (one payment) uncertain(now time.Time) bool {
	if one.Reserved == nil || one.Reserved.Order == nil || one.Preimage != "" {
		return false
	}
	if one.Holds {
		return !one.Returned && now.After(Locktime(time.UnixMilli(one.Deadline)).Add(unknownAfter))
	}
	return orderOf(*one.Reserved).Expired(now)
}

// orderOf returns the order to the owner's wallet. Orders of earlier versions are requests of NIP-47: a tag says when they expire.
func orderOf(r fact.PaymentReserved) lightning.Order {
	o := lightning.Order{Content: r.Order}
	if r.Ends > 0 {
		o.Expires = time.UnixMilli(r.Ends)
		return o
	}
	var e nostr.Event
	if json.Unmarshal(r.Order, &e) != nil {
		return o
	}
	tag := e.Tags.Find("expiration")
	if len(tag) < 2 {
		return o
	}
	if at, err := strconv.ParseInt(tag[1], 10, 64); err == nil {
		o.Expires = time.Unix(at, 0)
	}
	return o
}

// approve decides about an invoice: that it is paid, that nothing is, or that the wallet has not paid it.
func (p invoices) approve(tx *journal.Tx, one payment, amount uint64) error {
	agreed := whole(one.Order.Unit, one.Price)
	switch {
	case one.Holds && !one.uncertain(tx.Now()):
		return p.approveHold(tx, one, amount)
	case one.uncertain(tx.Now()) && amount != 0:
		return fmt.Errorf("approve the payment for %.8s: the wallet was ordered to pay it; 0 says that it did not", one.Attempt.Hex())
	case one.uncertain(tx.Now()):
		tx.Append(fact.InvoiceUnpaid{Attempt: one.Attempt, Reason: "the owner says that the wallet did not pay it", Msat: one.Reserved.Msat})
	case !one.Over || !one.billed() && !one.stalled():
		return fmt.Errorf("approve the payment for %.8s: %w", one.Attempt.Hex(), ErrNoPayment)
	case amount != 0 && amount != agreed:
		return fmt.Errorf("approve the payment for %.8s: an invoice is paid whole: %d %s, or nothing", one.Attempt.Hex(), agreed, one.Order.Unit)
	case amount == 0 && one.stalled():
		tx.Append(fact.PaymentDecided{Attempt: one.Attempt, Rule: rulePerson})
	default:
		tx.Append(fact.PaymentApproved{Attempt: one.Attempt, Amount: amount})
	}
	return nil
}

// expiry returns when the provider's invoice expires; long ago if it cannot be read.
func (one payment) expiry() time.Time { return lightning.Ends(one.Invoice) }

// billed reports whether the provider has delivered with an invoice, and it is not decided whether that is paid.
func (one payment) billed() bool {
	return one.Order.How == postpaid && one.Held && one.Reserved == nil && one.Decided == nil && one.Refused == ""
}

// settleBill decides whether an invoice is paid after the work. What no whole invoice can pay is for a person.
func (p *Pay) settleBill(one payment) []due.Work {
	if !one.Over {
		return nil
	}
	agreed := whole(one.Order.Unit, one.Price)
	amount, rule, wait := p.payout(one, agreed)
	switch {
	case one.Approved != nil:
		amount, rule = one.Approved.Amount, rulePerson
	case wait, one.Voting, one.Verdict == nil:
		return nil
	}
	return []due.Work{due.Decide("decide the payment for "+one.Attempt.Hex(), fact.Ledger, time.Time{}, p.decided(one, amount, rule))}
}

// inspectInvoice returns what an attempt's invoice asks for, or why it is not paid. It is for our own open request, by the
// provider that was asked: the quote is that provider's answer.
func (s *state) inspectInvoice(one payment, network bolt11.Network, now time.Time) (bolt11.Invoice, error) {
	inv, err := bolt11.Decode(one.Invoice)
	if err != nil {
		return inv, fmt.Errorf("its invoice: %w", err)
	}
	used, ours := s.Invoices.Of(inv.PaymentHash.Hex()), s.Hashes.Of(inv.PaymentHash.Hex())
	switch {
	case s.Frozen:
		err = errFrozen
	case !one.Order.InBitcoin():
		err = fmt.Errorf("wants bitcoin, and the order is in %q", one.Order.Unit)
	case inv.Network != network:
		err = fmt.Errorf("its invoice is for the network %q, and the wallet is on %q", inv.Network, network)
	case inv.Amount == 0:
		err = errors.New("its invoice names no amount")
	case inv.Amount != one.Price:
		err = fmt.Errorf("its invoice is over %s, and it wants %s", inv.Amount, one.Price)
	case inv.Amount > msats(one.Order.Unit, one.Order.Most):
		err = fmt.Errorf("wants %s, and the order bids %d %s", inv.Amount, one.Order.Most, one.Order.Unit)
	case inv.Expired(now):
		err = errors.New("its invoice has expired")
	case used != "" && used != one.Attempt.Hex():
		err = fmt.Errorf("its invoice was already used, for the attempt %.8s", used)
	case ours != "":
		err = fmt.Errorf("its invoice is for the payment hash of the request %.8s to us", ours)
	case one.Holds:
		err = one.checkHold(inv, now)
	}
	return inv, err
}

// reserveInvoice decides whether an invoice is paid, and keeps the order to the wallet before it is sent.
func (p *Pay) reserveInvoice(one payment) due.Work {
	return due.Work{
		Key: "reserve money for " + one.Attempt.Hex(), Guard: fact.Ledger, Free: true,
		Act: func(ctx context.Context) (due.Decision, error) {
			ln := p.lightning()
			if ln == nil {
				return p.refused(one, errNoLightning), nil
			}
			network, err := ln.Network(ctx)
			if err != nil {
				return nil, err
			}
			var inv bolt11.Invoice
			p.fold.View(func(s *state) { inv, err = s.inspectInvoice(one, network, p.c.Now()) })
			if err == nil && one.Holds {
				_, err = p.preimage(one)
			}
			if err != nil {
				return p.refused(one, err), nil
			}
			expires := p.c.Now().Add(payWithin)
			if end := inv.Created.Add(inv.Expiry); inv.Expiry > 0 && end.Before(expires) {
				expires = end
			}
			order, err := ln.Prepare(ctx, one.Invoice, expires)
			if err != nil {
				return nil, err
			}
			return p.reservedInvoice(one, network, inv.Amount, order), nil
		},
	}
}

// reservedInvoice returns the decision that sets the money for an invoice aside.
func (p *Pay) reservedInvoice(one payment, network bolt11.Network, amount guild.Msat, order lightning.Order) due.Decision {
	return func(tx *journal.Tx) error {
		now, ok := p.fold.payment(one.Attempt)
		if !ok || now.Reserved != nil || now.Refused != "" || now.Over && now.Order.How != postpaid || p.asks(now) > 0 {
			return nil
		}
		reserved := fact.PaymentReserved{
			Attempt: one.Attempt, Job: one.Job, Provider: one.Provider.PubKey, Task: one.Task, Unit: "sat",
			Amount: whole("sat", amount), Invoice: one.Invoice, Order: order.Content, Ends: order.Expires.UnixMilli(), Msat: amount,
		}
		var err error
		p.fold.View(func(s *state) {
			if _, err = s.inspectInvoice(one, network, tx.Now()); err == nil {
				err = s.within(reserved, tx.Now().UnixMilli())
			}
			if limit := s.limit(reserved); err == nil && now.Order.How == postpaid && now.Approved == nil && limit > 0 {
				err = fmt.Errorf("%d sat are over %d (guild wallet budget)", reserved.Amount, limit)
			}
		})
		if err != nil {
			return p.refused(one, err)(tx)
		}
		tx.Append(reserved)
		p.fresh.Store(one.Attempt, true)
		return nil
	}
}

// whole returns an amount in a unit of bitcoin, rounded up.
func whole(unit string, amount guild.Msat) uint64 {
	if unit == "msat" {
		return uint64(amount)
	}
	return uint64(amount+999) / 1000
}

// payInvoice has the owner's wallet pay, once: it is asked first what it knows of the invoice, since this may be another process
// than the one that sent the order. Only what the wallet surely did not pay, and will not, is free again.
func (p *Pay) payInvoice(one payment) due.Work {
	return due.Work{
		Key: "pay the invoice for " + one.Attempt.Hex(), Guard: fact.Ledger, Free: true, Ready: p.pace.next(one.Attempt),
		Act: func(ctx context.Context) (due.Decision, error) {
			_, fresh := p.fresh.LoadAndDelete(one.Attempt)
			p.pace.asked(one.Attempt, p.c.Now())
			ln := p.lightning()
			if ln == nil {
				return nil, fmt.Errorf("pay the invoice for %.8s: %w", one.Attempt.Hex(), errNoLightning)
			}
			t := transfer{PaymentReserved: *one.Reserved, fresh: fresh}
			if one.Holds {
				t.held, t.ends = true, Locktime(time.UnixMilli(one.Deadline)).Add(unknownAfter)
				if preimage, err := p.preimage(one); err == nil && one.Released != nil && one.Released.Amount > 0 {
					t.released = preimage
				}
			}
			t.wanted = (!one.Over && one.Decided == nil || one.Order.How == postpaid) && !p.fold.Frozen()
			paid, failed, err := t.resolve(ctx, ln, p.c.Now())
			if err != nil {
				return nil, fmt.Errorf("pay the invoice for %.8s: %w", one.Attempt.Hex(), err)
			}
			return func(tx *journal.Tx) error {
				now, ok := p.fold.payment(one.Attempt)
				switch {
				case !ok || now.Reserved == nil || now.Preimage != "" || now.Returned:
				case paid != nil:
					tx.Append(fact.InvoicePaid{
						Attempt: one.Attempt, Preimage: hex.EncodeToString(paid.Preimage[:]), Msat: one.Reserved.Msat, Fees: paid.Fees,
					})
				case failed != "":
					tx.Append(fact.InvoiceUnpaid{Attempt: one.Attempt, Reason: guild.Cut(failed, 500), Msat: one.Reserved.Msat})
				}
				return nil
			}, nil
		},
	}
}

// transfer is the payment of an invoice by the owner's wallet.
type transfer struct {
	fact.PaymentReserved
	fresh  bool // nobody can have sent the order before
	wanted bool // it may be sent now
	held   bool // the payee's wallet holds it

	ends     time.Time // after it nothing is held any more
	released [32]byte  // the preimage of what is held, once the payee has it
}

// resolve finds out what became of a payment, and has it made if the wallet knows nothing of it. Without paid, failed and an error it
// is under way, or the order may still reach the wallet. It fails only if the wallet refuses the very first order without a try, or
// says that it failed, or knows nothing of it when order and invoice have expired and nothing can be held any more.
func (t transfer) resolve(ctx context.Context, ln lightning.Wallet, now time.Time) (paid *lightning.Payment, failed string, err error) {
	inv, err := bolt11.Decode(t.Invoice)
	if err != nil {
		return nil, "", err
	}
	sent := orderOf(t.PaymentReserved)
	made, err := ln.Made(ctx, sent)
	if err != nil {
		return nil, "", err
	}
	if !made {
		return nil, "", errOtherWallet
	}
	seen, err := ln.Lookup(ctx, inv.PaymentHash)
	unknown := lightning.IsRefused(err, lightning.NotFound)
	switch {
	case unknown && sent.Expired(now) && inv.Expired(now.Add(-time.Minute)) && now.After(t.ends):
		return nil, "the wallet did not pay it in time", nil
	case unknown && (!t.wanted || sent.Expired(now)):
		return nil, "", nil
	case unknown:
	case err != nil:
		return nil, "", err
	case !seen.Outgoing: // payer and payee have one wallet: it is not known which half this is
		if sent.Expired(now) || !t.wanted {
			return nil, "", nil
		}
	case seen.Preimage != [32]byte{}:
		return &lightning.Payment{Preimage: seen.Preimage, Fees: seen.Fees}, "", nil
	case seen.Settled && t.released != [32]byte{}: // some wallets keep the preimage to themselves
		return &lightning.Payment{Preimage: t.released, Fees: seen.Fees}, "", nil
	case seen.Failed:
		return nil, "the payment failed, the wallet says", nil
	default:
		return nil, "", nil
	}
	return t.begin(ctx, ln, sent)
}

// errOtherWallet means that the wallet which was ordered to pay is not connected.
var errOtherWallet = errors.New("another wallet was ordered to pay it: connect that again, or say what it did (guild wallet approve)")

// invoice has the owner's wallet make the invoice for a request to us.
func (p *Pay) invoice(ctx context.Context, request nostr.ID, until time.Time, amount guild.Msat) (string, error) {
	text, _, err := p.lightning().MakeInvoice(ctx, amount, described(request), max(time.Second, until.Sub(p.c.Now())))
	return text, err
}

// described returns the description of the invoice for a request.
func described(request nostr.ID) string { return "guild request " + request.Hex() }

// settled asks the owner's wallet whether a customer has paid the invoice for a request. Nothing else says so: anybody can write
// that something was paid. Of an invoice for the customer's payment hash it says that the payment is held. After we gave up it is still
// asked about an ordinary invoice until that has expired, so that late money is booked.
func (p *Pay) settled(one lock) due.Work {
	return due.Work{
		Key: "ask whether the invoice is paid for " + one.Request.Hex(), Guard: fact.Ledger, Free: true, Ready: p.pace.next(one.Request),
		Act: func(ctx context.Context) (due.Decision, error) {
			p.pace.asked(one.Request, p.c.Now())
			ln := p.lightning()
			if ln == nil {
				return nil, fmt.Errorf("ask whether the invoice is paid for %.8s: %w", one.Request.Hex(), errNoLightning)
			}
			inv, err := bolt11.Decode(one.Invoice)
			if err != nil {
				return nil, err
			}
			t, err := ln.Lookup(ctx, inv.PaymentHash)
			if err != nil && !lightning.IsRefused(err, lightning.NotFound) {
				return nil, fmt.Errorf("ask whether the invoice is paid for %.8s: %w", one.Request.Hex(), err)
			}
			paid := err == nil && t.Settled && !t.Outgoing
			held := err == nil && t.Accepted && !t.Outgoing && one.holds()
			return func(tx *journal.Tx) error {
				now, ok := p.fold.lock(one.Request)
				switch {
				case !ok || now.Settled:
				case paid && !one.holds(): // the preimage of a payment that is held comes with its release
					tx.Append(fact.InvoiceSettled{Request: one.Request, Msat: inv.Amount})
				case held && now.Arrived == 0:
					tx.Append(fact.InvoiceHeld{Request: one.Request, Msat: inv.Amount})
				case one.holds():
				case now.Over && inv.Expired(tx.Now().Add(-invoiceEnds)):
					tx.Append(fact.LockExpired{Request: one.Request})
				}
				return nil
			}, nil
		},
	}
}

// pace spaces questions to the owner's wallet about one payment: the longer it takes, the more rarely it is asked.
type pace struct {
	mu  sync.Mutex
	all map[nostr.ID]questions
}

// questions has the times of the first and the last question about a payment.
type questions struct{ first, last time.Time }

// asked notes a question, and forgets payments that were not asked about for a long time: they are over.
func (p *pace) asked(id nostr.ID, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.all, func(_ nostr.ID, q questions) bool { return now.Sub(q.last) > time.Hour })
	if p.all == nil {
		p.all = map[nostr.ID]questions{}
	}
	q, known := p.all[id]
	if !known {
		q.first = now
	}
	q.last = now
	p.all[id] = q
}

// next returns when the next question may be asked: after a tenth of the time that it has taken, from 2 s to a minute.
func (p *pace) next(id nostr.ID) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	q, known := p.all[id]
	if !known {
		return time.Time{}
	}
	return q.last.Add(min(max(q.last.Sub(q.first)/10, 2*time.Second), time.Minute))
}
