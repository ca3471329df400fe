package pay

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild"
)

// Open is money that is locked or being paid.
type Open struct {
	ID     nostr.ID     // of the attempt, or of the request to us
	Job    guild.JobID  // of the attempt
	Party  nostr.PubKey // who gets it, or who locked it
	Amount uint64       // in the unit
	Unit   string
	Mint   string
	State  string    // in a few words
	Until  time.Time // the locktime of ecash
	Waits  bool      // for a person
}

// Paying lists the money that is locked for our attempts, or that waits for the owner, ordered by job.
func (p *Pay) Paying() (all []Open) {
	for _, one := range p.fold.open() {
		if o, ok := p.openOf(one); ok {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b Open) int {
		return cmp.Or(slices.Compare(a.Job[:], b.Job[:]), slices.Compare(a.ID[:], b.ID[:]))
	})
	return all
}

// PayingFor returns the money for one attempt, as Paying lists it.
func (p *Pay) PayingFor(attempt nostr.ID) (o Open, ok bool) {
	one, known := p.fold.payment(attempt)
	if !known {
		return o, false
	}
	return p.openOf(one)
}

// openOf shows the money for an attempt, unless none is locked and none waits for the owner.
func (p *Pay) openOf(one payment) (o Open, ok bool) {
	o = Open{ID: one.Attempt, Job: one.Job, Party: one.Provider.PubKey, Amount: one.price(), Unit: one.Order.Unit}
	state := p.waiting(one)
	switch {
	case state != "":
		o.State, o.Waits = state, true
		return o, true
	case one.Reserved != nil:
		o.Amount, o.Unit, o.Mint, o.State = one.Reserved.Amount, one.Reserved.Unit, one.Reserved.Mint, p.stateOf(one)
		if o.Waits = o.State == waits; o.Waits {
			o.State += one.claimed()
		}
		if one.Order.How == escrow {
			o.Until = p.locktime(one)
		}
		return o, true
	case one.billed() && one.Over && one.Voting:
		o.State, o.Until, o.Amount = votes, one.expiry(), whole(one.Order.Unit, one.Price)
		return o, true
	}
	return o, false
}

// States of a payment that is not decided by the verdict.
const (
	waits = "waits for you"
	votes = "waits for the other deliveries"
)

// stateOf says where a payment is.
func (p *Pay) stateOf(one payment) string {
	switch {
	case one.Preimage != "", one.Mined != "", one.Order.How == prepaid && one.Released != nil:
		return "paid"
	case one.Reserved.Invoice != "" && !one.Holds, one.Order.How == prepaid, one.Order.How == onchain:
		return "being paid"
	case one.Released != nil && one.contestable() && one.Ruled == nil:
		if one.Disputed != "" {
			return "before the judge"
		}
		return fmt.Sprintf("%d %s released", one.Released.Amount, one.Reserved.Unit)
	case one.Released != nil && one.Released.Amount == 0 && one.Returned:
		return "taken back"
	case one.Released != nil && one.Released.Amount == 0:
		return "coming back"
	case one.Released != nil:
		return "released"
	case one.Decided != nil:
		return "decided"
	case one.Over && one.Verdict != nil:
		if _, _, wait := p.payout(one, one.agreed()); wait {
			return waits
		}
		if one.Voting {
			return votes
		}
		return "judged"
	case one.Sent, one.Holds && one.Held:
		return "held"
	}
	return "reserved"
}

// Owed lists what customers have locked for requests to us, and we do not have yet, ordered by request.
func (p *Pay) Owed() (all []Open) {
	for _, one := range p.fold.locks() {
		if o, ok := p.arrives(one); ok {
			all = append(all, o)
			continue
		}
		o := Open{ID: one.Request, Party: one.Customer, State: "held"}
		switch {
		case one.Ahead && one.Paid:
			continue
		case one.Accepted != nil:
			o.Amount, o.Unit, o.Mint = one.Accepted.Amount, one.Offered.Unit, one.Offered.Mint
			if one.Accepted.Locktime > 0 {
				o.Until = time.Unix(one.Accepted.Locktime, 0)
			}
		case one.holds() && one.Arrived > 0 && !one.Settled:
			o.Amount, o.Unit, o.Until = whole("sat", one.Arrived), "sat", one.locktime()
		default:
			continue
		}
		switch {
		case one.Ahead:
			o.State = "paid"
		case one.Disputed && (one.Released == nil || !one.Released.Ruled):
			o.State = "before the judge"
		case one.Released != nil && one.Done && one.Arbiter != nil && one.Released.Amount < one.Accepted.Amount && !one.Released.Ruled:
			o.State = fmt.Sprintf("%d %s released", one.Released.Amount, o.Unit)
		case one.Released != nil:
			o.State = "released"
		case one.Done:
			o.State = "delivered"
		}
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b Open) int { return slices.Compare(a.ID[:], b.ID[:]) })
	return all
}

// Busy reports whether the money for an attempt of ours is about to move: it is locked, or the attempt has ended and the
// provider was not told yet what it gets. What waits for a person, or to be taken back, is not.
func (p *Pay) Busy(attempt nostr.ID) bool {
	one, ok := p.fold.payment(attempt)
	switch {
	case !ok || p.waiting(one) != "":
		return false
	case one.Reserved == nil:
		return one.Over && one.Held
	}
	if one.Holds { // the provider may take it later
		return !one.Over || p.stateOf(one) == "judged" || one.Decided != nil && one.Released == nil && !one.Returned
	}
	return !one.Over || one.Order.How != escrow || p.stateOf(one) == "judged" || one.Decided != nil && (one.Released == nil || one.Released.Amount > 0 && !one.Noted && !one.contestable())
}

// contestable reports whether an arbiter may still give the provider more than we did.
func (one payment) contestable() bool {
	return one.Order.Arbiter != nil && one.Released.Amount < one.Reserved.Amount
}

// Idle reports whether no money is about to move for attempts that have ended.
func (p *Pay) Idle() bool {
	for _, one := range p.fold.open() {
		if one.Over && p.Busy(one.Attempt) {
			return false
		}
	}
	return true
}
