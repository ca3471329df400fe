package pay

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/bolt11"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/wallet"
	"guild/nip90"
	"guild/oa"
)

// Fold has the payments for attempts that are not over, as a customer, and the locks for requests, as a provider.
type Fold struct{ *fold.State[state] }

type state struct {
	Orders    fold.Table[guild.JobID, order]     `json:"orders"`    // open jobs with a settlement
	Payments  fold.Table[string, payment]        `json:"payments"`  // by attempt
	Locks     fold.Table[string, lock]           `json:"locks"`     // by request
	Invoices  fold.Table[string, string]         `json:"invoices"`  // by payment hash: the attempt for which it was paid, or was to be
	Hashes    fold.Table[string, string]         `json:"hashes"`    // that customers chose: the first request with it, for ever
	Addresses fold.Table[string, string]         `json:"addresses"` // of the chain: the attempt for which it was paid, or was to be
	Frozen    bool                               `json:"frozen"`
	Budgets   fold.Table[string, fact.BudgetSet] `json:"budgets"` // by scope
	Used      fold.Table[string, use]            `json:"used"`    // by scope, in Month
	Month     int64                              `json:"month"`   // Unix ms when the month of the latest payment began
	Cases     fold.Table[string, dispute]        `json:"cases"`   // on which we rule, by request
}

type order struct {
	fact.Settlement
	Task     string `json:"task"`
	Deadline int64  `json:"deadline"` // Unix ms
	Spent    uint64 `json:"spent"`    // locked or paid so far, in the unit; of Lightning in sat
	Closed   bool   `json:"closed,omitempty"`

	Vote     bool     `json:"vote,omitempty"`    // several deliveries must agree
	Choice   bool     `json:"choice,omitempty"`  // an opinion chooses one of several deliveries, or merges them
	Majority nostr.ID `json:"majority,omitzero"` // the attempt that the deliveries to the accepted job agree with
}

// payment has the state of the money for one attempt of ours.
type payment struct {
	Attempt  nostr.ID        `json:"attempt"`
	Job      guild.JobID     `json:"job"`
	Provider guild.Service   `json:"provider"`
	Task     string          `json:"task"`
	Order    fact.Settlement `json:"order"`
	Deadline int64           `json:"deadline"` // Unix ms
	Hold     *fact.Hold      `json:"hold,omitempty"`
	Holds    bool            `json:"holds,omitempty"` // Invoice is for the hash of Hold, and paid before the work

	Terms     string                `json:"terms,omitempty"`   // of the provider
	Invoice   string                `json:"invoice,omitempty"` // of the provider
	Price     guild.Msat            `json:"price,omitempty"`   // that it wants
	Bitcoin   string                `json:"bitcoin,omitempty"` // the URI of the provider, if it is paid on the chain
	Mined     string                `json:"mined,omitempty"`   // the transaction that has paid it
	Doubt     string                `json:"doubt,omitempty"`   // why the transaction may never pay it
	Quote     nostr.ID              `json:"quote"`             // its event
	QuotedAt  int64                 `json:"quoted_ms,omitempty"`
	Rates     *nip90.Rates          `json:"rates,omitempty"`    // of the quote; nil for a fixed price
	Usage     *nip90.Usage          `json:"usage,omitempty"`    // that the provider claims, as far as it can be
	Deferred  bool                  `json:"deferred,omitempty"` // the attempt knows that it waits for the owner
	Allowed   bool                  `json:"allowed,omitempty"`  // by the owner, before the work
	Refused   string                `json:"refused,omitempty"`
	Reserved  *fact.PaymentReserved `json:"reserved,omitempty"`
	At        int64                 `json:"at,omitempty"` // Unix ms when it was reserved
	Held      bool                  `json:"held,omitempty"`
	Lock      *fact.EcashLock       `json:"lock,omitempty"`  // of what is reserved, once it is planned
	Coins     []uint64              `json:"coins,omitempty"` // that it is planned in
	Sent      bool                  `json:"sent,omitempty"`
	Over      bool                  `json:"over,omitempty"`    // the attempt has ended
	Verdict   *guild.Verdict        `json:"verdict,omitempty"` // in short
	Approved  *fact.PaymentApproved `json:"approved,omitempty"`
	Decided   *fact.PaymentDecided  `json:"decided,omitempty"`
	Released  *fact.PaymentReleased `json:"released,omitempty"`
	Back      *fact.PaymentReturned `json:"back,omitempty"`
	Disputed  string                `json:"disputed,omitempty"` // why the provider has asked the arbiter
	Ruled     *fact.PaymentRuled    `json:"ruled,omitempty"`
	Refund    string                `json:"refund,omitempty"`    // the operation
	Refunding uint64                `json:"refunding,omitempty"` // what it takes back, in the unit
	Inputs    int                   `json:"inputs,omitempty"`    // how many coins that is
	Taken     bool                  `json:"taken,omitempty"`     // the mint says that others have spent them
	Returned  bool                  `json:"returned,omitempty"`  // that operation was done, or what was held over Lightning came back
	Voting    bool                  `json:"voting,omitempty"`    // nothing verified it, and others may agree
	Alone     bool                  `json:"alone,omitempty"`     // nothing verified it, and there was no other to choose from
	Agrees    nostr.ID              `json:"agrees,omitzero"`     // the delivery that it agrees with
	Preimage  string                `json:"preimage,omitempty"`  // of Invoice, which is paid
	Noted     bool                  `json:"noted,omitempty"`     // the attempt knows how it ended
	Failed    failures              `json:"failed,omitzero"`     // of operations for the refund
}

// lock is the money that a customer locks for a request to us.
type lock struct {
	Request  nostr.ID           `json:"request"`
	Customer nostr.PubKey       `json:"customer"`
	Terms    string             `json:"terms"`
	Ahead    bool               `json:"ahead,omitempty"` // by Terms, all of it is ours at once
	Deadline int64              `json:"deadline"`        // of the work, Unix ms
	Invoice  string             `json:"invoice,omitempty"`
	Hold     guild.Hash         `json:"hold,omitzero"`      // of Invoice, if the customer chose it
	Arrived  guild.Msat         `json:"arrived,omitempty"`  // that the owner's wallet holds or has held for it
	Settled  bool               `json:"settled,omitempty"`  // the invoice, or what Bitcoin asks for
	Bitcoin  string             `json:"bitcoin,omitempty"`  // the URI, if it is paid on the chain
	Received []output           `json:"received,omitempty"` // at its address
	Claimed  *output            `json:"claimed,omitempty"`  // for which we work
	Offered  *fact.LockOffered  `json:"offered,omitempty"`
	Accepted *fact.LockAccepted `json:"accepted,omitempty"`
	Tries    int                `json:"tries,omitempty"` // that were refused
	Released *fact.LockReleased `json:"released,omitempty"`
	At       int64              `json:"at,omitempty"`       // Unix ms of the release
	Arbiter  *nip90.Arbiter     `json:"arbiter,omitempty"`  // of Terms
	Disputed bool               `json:"disputed,omitempty"` // the arbiter was asked
	Told     bool               `json:"told,omitempty"`     // the customer has said what it releases
	Returned bool               `json:"returned,omitempty"`
	Claim    string             `json:"claim,omitempty"` // the operation
	Failed   failures           `json:"failed,omitzero"` // of claims
	Done     bool               `json:"done,omitempty"`  // we have delivered
	Over     bool               `json:"over,omitempty"`  // we do nothing more for the request
	Paid     bool               `json:"paid,omitempty"`  // the claim was done
}

// failures are the refusals of a mint in a row.
type failures struct {
	Times int   `json:"times"`
	At    int64 `json:"at"` // Unix ms of the latest
}

// and returns the failures with another one.
func (f failures) and(at int64) failures { return failures{f.Times + 1, at} }

// again returns when the mint is asked again: a minute after its first refusal, and later each time, up to an hour.
func (f failures) again() time.Time {
	if f.Times == 0 {
		return time.Time{}
	}
	return time.UnixMilli(f.At).Add(min(time.Minute<<min(f.Times-1, 6), time.Hour))
}

// NewFold returns an empty fold.
func NewFold() *Fold { return &Fold{fold.NewState[state]("pay", 11)} }

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	if noun := e.Subject.Noun(); noun != "job" && noun != "request" && e.Subject != fact.Ledger {
		return
	}
	f.Change(func(s *state) {
		for _, one := range e.Facts {
			if _, ok := one.(fact.JournalClosed); ok {
				s.abandon(e.Subject)
			}
			s.applyToPayment(one, e.At)
			s.applyToLock(one, e.At)
			s.applyToCoins(one, e.At)
			s.applyToDispute(one, e.At)
		}
	})
}

// abandon ends the votes of a job that was closed in quarantine.
func (s *state) abandon(guard fact.Subject) {
	job, err := guild.ParseJobID(strings.TrimPrefix(string(guard), "job."))
	o, ok := s.Orders.Get(job)
	if err != nil || !ok {
		return
	}
	o.Closed, o.Majority = true, nostr.ZeroID
	s.Orders.Set(job, o)
	s.countAll(job)
	s.tidyOrder(job)
}

// edit changes the payment for an attempt, if there is one.
func (s *state) edit(attempt nostr.ID, by func(*payment)) {
	p, ok := s.Payments.Get(attempt.Hex())
	if !ok {
		return
	}
	by(&p)
	s.Payments.Set(attempt.Hex(), p)
}

func (s *state) applyToPayment(one fact.Fact, at int64) {
	switch one := one.(type) {
	case fact.JobOpened:
		if one.Settle != nil {
			s.Orders.Set(one.Job, order{
				Settlement: *one.Settle, Task: one.Task, Deadline: one.Deadline,
				Vote: oa.Adjudication(one.Compare).Quorum(one.Criticality) > 1, Choice: oa.Adjudication(one.Compare).Together(),
			})
		}
	case fact.JobClosed:
		if o, ok := s.Orders.Get(one.Job); ok {
			o.Closed = true
			if one.Ending == guild.JobAccepted {
				o.Majority = cmp.Or(one.Agrees, one.Chosen)
			}
			s.Orders.Set(one.Job, o)
			s.countAll(one.Job)
			s.tidyOrder(one.Job)
		}
	case fact.AttemptPlanned:
		if o, ok := s.Orders.Get(one.Job); ok {
			s.Payments.Set(one.Attempt.Hex(), payment{
				Attempt: one.Attempt, Job: one.Job, Provider: one.Provider, Task: o.Task, Order: o.Settlement, Deadline: o.Deadline,
				Hold: one.Hold,
			})
		}
	case fact.AttemptQuoted:
		s.edit(one.Attempt, func(p *payment) {
			if p.Order.How != postpaid && p.Order.How != onchain && p.Terms == "" && p.Invoice == "" {
				p.Terms, p.Invoice, p.Price, p.Quote, p.QuotedAt = one.Terms, one.Invoice, one.Amount, one.Event, at
				p.Holds = one.Hold && p.Hold != nil && p.Order.How == escrow
				if p.Order.How == escrow && !p.Holds { // what is not locked in coins is paid whole
					p.Rates = one.Rates
				}
			}
		})
	case fact.AttemptDelivered:
		s.edit(one.Attempt, func(p *payment) {
			p.Usage = p.claims(one.Usage, at)
			if one.Bill != nil && p.Order.How == postpaid && p.Invoice == "" {
				p.Invoice, p.Price, p.Held = one.Bill.Invoice, one.Bill.Amount, true
			}
		})
	case fact.AttemptDeferred:
		s.edit(one.Attempt, func(p *payment) { p.Deferred = true })
	case fact.AttemptHeld:
		s.edit(one.Attempt, func(p *payment) { p.Held = one.Amount > 0 })
		s.tidy(one.Attempt)
	case fact.AttemptJudged:
		s.edit(one.Attempt, func(p *payment) {
			v := one.Verdict
			p.Over, p.Verdict = true, inShort(v)
			o, unsure := s.Orders.Of(p.Job), v.Outcome == guild.Success && !v.Counts() && v.Opinion == nil
			p.Voting, p.Alone = o.Vote && unsure, o.Choice && unsure
		})
		s.count(s.Payments.Of(one.Attempt.Hex()))
		s.tidy(one.Attempt)
	case fact.AttemptCompared:
		s.edit(one.Attempt, func(p *payment) { p.Agrees = one.With })
		s.count(s.Payments.Of(one.Attempt.Hex()))
	case fact.AttemptRefused:
		s.ended(one.Attempt)
	case fact.AttemptExpired:
		s.ended(one.Attempt)
	case fact.AttemptCancelled:
		s.ended(one.Attempt)
	case fact.AttemptParked:
		s.ended(one.Attempt)
	case fact.AttemptReleased:
		s.edit(one.Attempt, func(p *payment) { p.Noted = true })
		s.tidy(one.Attempt)
	case fact.AttemptRefunded:
		s.edit(one.Attempt, func(p *payment) { p.Noted = true })
		s.tidy(one.Attempt)
	case fact.PaymentReserved:
		s.edit(one.Attempt, func(p *payment) { p.Reserved, p.At = &one, at })
		s.reserve(one, at)
		if inv, err := bolt11.Decode(one.Invoice); err == nil {
			s.Invoices.Set(inv.PaymentHash.Hex(), one.Attempt.Hex())
		}
	case fact.InvoicePaid:
		s.edit(one.Attempt, func(p *payment) { p.Preimage = one.Preimage })
	case fact.InvoiceUnpaid:
		s.edit(one.Attempt, func(p *payment) { s.unheld(p, one.Reason) })
		s.tidy(one.Attempt)
	case fact.PaymentRefused:
		s.edit(one.Attempt, func(p *payment) { s.forget(p, one.Reason) })
		s.tidy(one.Attempt)
	case fact.PaymentAllowed:
		s.edit(one.Attempt, func(p *payment) { p.Allowed = true })
	case fact.PaymentSent:
		s.edit(one.Attempt, func(p *payment) { p.Sent = true })
	case fact.PaymentApproved:
		s.edit(one.Attempt, func(p *payment) {
			p.Approved = &one
			if p.Order.How == postpaid {
				p.Refused = "" // it is tried again
			}
		})
	case fact.PaymentDecided:
		s.edit(one.Attempt, func(p *payment) { p.Decided = &one })
		s.tidy(one.Attempt)
	case fact.PaymentReleased:
		s.edit(one.Attempt, func(p *payment) { s.release(p, one) })
		s.tidy(one.Attempt)
	case fact.PaymentReturned:
		s.edit(one.Attempt, func(p *payment) { p.Back = &one })
	case fact.EcashPlanned:
		switch one.Kind {
		case wallet.Lock:
			s.change(one.About, func(p *payment) {
				p.Lock = one.Lock
				for _, o := range one.Outputs {
					if o.Locked {
						p.Coins = append(p.Coins, o.Amount)
					}
				}
			})
		case wallet.Refund:
			s.change(one.About, func(p *payment) { p.Refund, p.Refunding, p.Inputs = one.Op, one.Amount, len(one.Inputs) })
		}
	case fact.EcashSettled:
		s.edit(s.paymentOf(one.Op), func(p *payment) {
			p.Returned = p.Refund == one.Op
			if p.Returned && p.Order.Arbiter != nil && p.Reserved != nil {
				s.free(*p.Reserved, p.Refunding, p.At)
			}
		})
		s.tidy(s.paymentOf(one.Op))
	case fact.EcashFailed:
		of := s.paymentOf(one.Op)
		s.edit(of, func(p *payment) {
			if p.Refund == one.Op {
				p.Refund, p.Failed, p.Taken = "", p.Failed.and(at), len(one.Lost) > 0 && len(one.Lost) == p.Inputs
			} else {
				s.forget(p, one.Reason)
			}
		})
		s.tidy(of)
	case fact.BudgetSet:
		if one.Job == 0 && one.Daily == 0 && one.Monthly == 0 && one.AskOver == 0 {
			s.Budgets.Delete(scope(one))
		} else {
			s.Budgets.Set(scope(one), one)
		}
	case fact.WalletFrozen:
		s.Frozen = one.Frozen
	}
}

// inShort returns what of a verdict decides the payout, without words, which a shredding would have to erase.
func inShort(v guild.Verdict) *guild.Verdict {
	short := &guild.Verdict{Outcome: v.Outcome, Strength: v.Strength}
	if v.Ruling != nil {
		ruling := *v.Ruling
		ruling.Note = ""
		short.Ruling = &ruling
	}
	if v.Opinion != nil {
		opinion := *v.Opinion
		opinion.Reason = ""
		short.Opinion = &opinion
	}
	return short
}

// countAll counts for all deliveries to a job.
func (s *state) countAll(job guild.JobID) {
	var of []payment
	for _, p := range s.Payments.All() {
		if p.Job == job {
			of = append(of, p)
		}
	}
	for _, p := range of {
		s.count(p)
	}
}

// count ends the vote on a delivery once its job is closed: it has the consensus if it agrees with the majority.
func (s *state) count(p payment) {
	o := s.Orders.Of(p.Job)
	if !p.Voting || !o.Closed || o.Majority != nostr.ZeroID && p.Agrees == nostr.ZeroID {
		return
	}
	s.edit(p.Attempt, func(p *payment) {
		p.Voting = false
		if o.Majority != nostr.ZeroID && p.Agrees == o.Majority {
			v := *p.Verdict
			v.Opinion = &guild.Opinion{Adjudication: string(oa.MajorityVote)}
			p.Verdict = &v
		}
	})
}

// forget frees the money that was reserved for a payment, which is not made.
func (s *state) forget(p *payment, reason string) {
	if p.Reserved != nil { // not after a repair that lost the entry with it
		s.free(*p.Reserved, taken(*p.Reserved), p.At)
	}
	p.Refused, p.Reserved, p.Lock, p.Coins = reason, nil, nil, nil
}

func opOf(p payment) string {
	if p.Reserved == nil {
		return ""
	}
	return p.Reserved.Op
}

// paymentOf returns the attempt that an operation locks or takes back money for, or the zero ID.
func (s *state) paymentOf(op string) (attempt nostr.ID) {
	for _, p := range s.Payments.All() {
		if op != "" && (p.Refund == op || opOf(p) == op) {
			return p.Attempt
		}
	}
	return attempt
}

// change is edit by the attempt in hex.
func (s *state) change(attempt string, by func(*payment)) {
	if id, err := nostr.IDFromHex(attempt); err == nil {
		s.edit(id, by)
	}
}

// ended notes the end of an attempt without a verdict. It is forgotten if no money is locked for it.
func (s *state) ended(attempt nostr.ID) {
	s.edit(attempt, func(p *payment) { p.Over = true })
	s.tidy(attempt)
}

// tidy forgets a payment that is over: nothing was reserved, or all of it has come to its end.
func (s *state) tidy(attempt nostr.ID) {
	p := s.Payments.Of(attempt.Hex())
	switch {
	case !p.Over:
	case p.Reserved == nil && !p.Held, p.Noted && (p.Preimage != "" || p.Mined != "" || p.Holds), p.Noted && p.Released != nil && (p.Reserved == nil || p.Returned || p.Taken || p.Released.Amount == p.Reserved.Amount):
		s.Payments.Delete(attempt.Hex())
		s.tidyOrder(p.Job)
	}
}

// tidyOrder forgets the order of a closed job, once no payment of it is open.
func (s *state) tidyOrder(job guild.JobID) {
	if !s.Orders.Of(job).Closed {
		return
	}
	for _, p := range s.Payments.All() {
		if p.Job == job {
			return
		}
	}
	s.Orders.Delete(job)
}

// open lists the payments that are not over.
func (f *Fold) open() (all []payment) {
	f.View(func(s *state) {
		for _, p := range s.Payments.All() {
			all = append(all, p)
		}
	})
	return all
}

func (f *Fold) payment(attempt nostr.ID) (p payment, ok bool) {
	f.View(func(s *state) { p, ok = s.Payments.Get(attempt.Hex()) })
	return p, ok
}

// Frozen reports whether the owner has stopped all paying.
func (f *Fold) Frozen() bool { return fold.Read(f.State, func(s *state) bool { return s.Frozen }) }

// Ordered reports whether the owner's Lightning wallet is about to pay an invoice, or waits for one of its own to be paid.
func (f *Fold) Ordered() bool {
	return slices.ContainsFunc(f.open(), func(p payment) bool { return p.Reserved != nil && p.Reserved.Invoice != "" && p.Preimage == "" }) ||
		slices.ContainsFunc(f.locks(), func(l lock) bool { return l.Invoice != "" && !l.Settled })
}

// editLock changes the lock for a request, if there is one.
func (s *state) editLock(request nostr.ID, by func(*lock)) {
	l, ok := s.Locks.Get(request.Hex())
	if !ok {
		return
	}
	by(&l)
	s.Locks.Set(request.Hex(), l)
}

func (s *state) applyToLock(one fact.Fact, at int64) {
	switch one := one.(type) {
	case fact.RequestQuoted:
		if one.Hold != (guild.Hash{}) {
			if first := s.Hashes.Of(one.Hold.Hex()); first != "" && first != one.Request.Hex() { // one payment is for one request
				one.Hold, one.Invoice = guild.Hash{}, ""
			} else {
				s.Hashes.Set(one.Hold.Hex(), one.Request.Hex())
			}
		}
		asked, _, err := readQuote(one.Terms, one.Request)
		s.Locks.Set(one.Request.Hex(), lock{
			Request: one.Request, Customer: one.Customer, Terms: one.Terms, Ahead: err == nil && asked.alone, Deadline: one.Deadline,
			Invoice: one.Invoice, Hold: one.Hold, Bitcoin: one.Bitcoin, Arbiter: one.Arbiter,
		})
	case fact.RequestFinished:
		s.editLock(one.Request, func(l *lock) { l.Over, l.Done = true, one.Ending == "delivered" })
		s.tidyLock(one.Request)
	case fact.RequestCancelled:
		s.editLock(one.Request, func(l *lock) { l.Over = true })
		s.tidyLock(one.Request)
	case fact.InvoiceHeld:
		s.editLock(one.Request, func(l *lock) { l.Arrived = one.Msat })
	case fact.InvoiceCancelled:
		s.editLock(one.Request, func(l *lock) { l.Invoice, l.Hold, l.Arrived = "", guild.Hash{}, 0 })
		s.tidyLock(one.Request)
	case fact.InvoiceSettled:
		s.editLock(one.Request, func(l *lock) { l.Settled = true })
		s.tidyLock(one.Request)
	case fact.LockOffered:
		s.editLock(one.Request, func(l *lock) { l.Offered = &one })
	case fact.LockAccepted:
		s.editLock(one.Request, func(l *lock) { l.Accepted = &one })
	case fact.LockRefused:
		s.editLock(one.Request, func(l *lock) { l.Offered, l.Tries = nil, l.Tries+1 })
		s.tidyLock(one.Request)
	case fact.LockReleased:
		s.editLock(one.Request, func(l *lock) { l.release(one, at) })
	case fact.LockReturned:
		s.editLock(one.Request, func(l *lock) { l.Returned = true })
		s.tidyLock(one.Request)
	case fact.LockExpired:
		if l := s.Locks.Of(one.Request.Hex()); l.Ahead && l.Invoice != "" {
			l.Invoice = ""
			s.Locks.Set(one.Request.Hex(), l)
			return
		}
		s.Locks.Delete(one.Request.Hex())
	case fact.LockLost:
		s.Locks.Delete(one.Request.Hex())
	case fact.EcashPlanned:
		if one.Kind == wallet.Claim {
			s.changeLock(one.About, func(l *lock) { l.Claim = one.Op })
		}
	case fact.EcashSettled:
		s.editLock(s.lockOf(one.Op), func(l *lock) { l.Paid = true })
		s.tidyLock(s.lockOf(one.Op))
	case fact.EcashFailed:
		s.editLock(s.lockOf(one.Op), func(l *lock) { l.Claim, l.Failed = "", l.Failed.and(at) })
	}
}

// lockOf returns the request whose money an operation claims, or the zero ID.
func (s *state) lockOf(op string) (request nostr.ID) {
	for _, l := range s.Locks.All() {
		if op != "" && l.Claim == op {
			return l.Request
		}
	}
	return request
}

func (s *state) changeLock(request string, by func(*lock)) {
	if id, err := nostr.IDFromHex(request); err == nil {
		s.editLock(id, by)
	}
}

// tidyLock forgets a lock that is over.
func (s *state) tidyLock(request nostr.ID) {
	l, ok := s.Locks.Get(request.Hex())
	if !ok || l.Bitcoin != "" {
		return
	}
	all := l.Released != nil && l.Accepted != nil && l.Released.Amount == l.Accepted.Amount
	none := l.Released != nil && l.Released.Amount == 0
	unpaid := l.Over && l.Accepted == nil && l.Offered == nil
	switch {
	case unpaid && l.Ahead && !l.Settled && !l.Done: // it is taken late, too
	case unpaid && (l.Invoice == "" || l.Settled), none && l.Accepted == nil && l.Invoice == "",
		l.Over && all && l.Paid, none && l.Returned, l.Returned && l.Paid:
		s.Locks.Delete(request.Hex())
	}
}

// locks lists the locks that are not over.
func (f *Fold) locks() (all []lock) {
	f.View(func(s *state) {
		for _, l := range s.Locks.All() {
			all = append(all, l)
		}
	})
	return all
}

func (f *Fold) lock(request nostr.ID) (l lock, ok bool) {
	f.View(func(s *state) { l, ok = s.Locks.Get(request.Hex()) })
	return l, ok
}

// Funded reports whether a customer has locked or paid what we asked for, or its payment is held.
func (f *Fold) Funded(request nostr.ID) bool {
	l, ok := f.lock(request)
	return ok && (l.Accepted != nil || l.Settled || l.Arrived > 0)
}
