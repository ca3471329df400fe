package work

import (
	"cmp"
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/policy"
)

// Customers is the fold of what this node, as a provider, has seen of its customers.
type Customers struct {
	*fold.State[customers]
	policy policy.Customers
}

type customers struct {
	Seen fold.Table[string, Standing] `json:"seen"` // by the customer's hex key
	Open fold.Table[string, string]   `json:"open"` // request → its customer, until nothing more can happen to it
	Done []string                     `json:"done"` // those of Open that were delivered, the oldest first
}

// maxDone is the number of delivered requests, the latest, on which a verdict of the customer still counts.
const maxDone = 4096

// Standing counts what one customer did. All counts are halved together when there are many (policy.Customers.Remember).
type Standing struct {
	Since     int64 `json:"since"` // Unix ms: the first request
	Last      int64 `json:"last"`  // Unix ms: the latest
	Asked     int   `json:"asked"`
	Delivered int   `json:"delivered"`
	Accepted  int   `json:"accepted"`  // deliveries with a verdict of success
	Declined  int   `json:"declined"`  // deliveries with another verdict
	Withdrawn int   `json:"withdrawn"` // requests that it withdrew before they were done, but not before they were paid
	Disputed  int   `json:"disputed"`  // verdicts that we object to
	Paid      int   `json:"paid"`      // invoices paid, and ecash of which we got something
	Unpaid    int   `json:"unpaid"`    // locks that it left to their locktime although we had delivered
}

// NewCustomers returns an empty fold.
func NewCustomers(p policy.Policy) *Customers {
	return &Customers{fold.NewState[customers]("customers", 3), p.Customers}
}

// Of returns the counts of a customer, the zero value if it never asked.
func (c *Customers) Of(p nostr.PubKey) Standing {
	return fold.Read(c.State, func(s *customers) Standing { return s.Seen.Of(p.Hex()) })
}

// Score computes the score of a customer, from 0 to guild.Micro; 0.5 for a stranger. A price that it withheld counts as a verdict
// that we object to. The number of its requests that were
// refused lately for asking too often is an argument, because refusals are not recorded.
func (c *Customers) Score(seen Standing, refused int) guild.Trust {
	p := c.policy
	good := p.Prior + seen.Delivered + p.Accepted*seen.Accepted + seen.Paid
	bad := p.Prior + p.Withdrawn*seen.Withdrawn + p.Disputed*(seen.Disputed+seen.Unpaid)
	if p.Spam > 0 {
		bad += refused / p.Spam
	}
	if good+bad == 0 {
		return guild.Micro / 2
	}
	return guild.Trust(int64(good) * guild.Micro / int64(good+bad))
}

// Known is one customer with its key.
type Known struct {
	PubKey string `json:"pubkey"` // hex
	Standing
}

// All lists the customers, the latest first.
func (c *Customers) All() []Known {
	all := []Known{}
	c.View(func(s *customers) {
		for key, seen := range s.Seen.All() {
			all = append(all, Known{key, seen})
		}
	})
	slices.SortFunc(all, func(a, b Known) int { return cmp.Or(cmp.Compare(b.Last, a.Last), cmp.Compare(a.PubKey, b.PubKey)) })
	return all
}

// Apply implements fold.Fold.
func (c *Customers) Apply(e fact.Entry) {
	if e.Subject.Noun() != "request" && e.Subject != fact.Ledger {
		return
	}
	c.Change(func(s *customers) {
		for _, f := range e.Facts {
			s.apply(f, e.At, c.policy.Remember)
		}
	})
}

// apply takes one fact. A customer's counts are halved before its request after the first remember ones is counted.
func (s *customers) apply(f fact.Fact, at int64, remember int) {
	switch f := f.(type) {
	case fact.RequestReceived:
		s.Open.Set(f.Request.Hex(), f.Customer.Hex())
		s.edit(f.Request, func(seen *Standing) {
			if seen.Asked >= remember && remember > 0 {
				seen.fade()
			}
			seen.Asked++
			seen.Since, seen.Last = cmp.Or(seen.Since, at), at
		})
	case fact.RequestFinished:
		if f.Ending == delivered {
			s.edit(f.Request, func(seen *Standing) { seen.Delivered++ })
			s.delivered(f.Request)
			return
		}
		s.Open.Delete(f.Request.Hex())
	case fact.RequestCancelled:
		if !f.Unpaid {
			s.edit(f.Request, func(seen *Standing) { seen.Withdrawn++ })
		}
		s.Open.Delete(f.Request.Hex())
	case fact.RequestJudged:
		s.edit(f.Request, func(seen *Standing) {
			if f.Outcome == guild.Success {
				seen.Accepted++
			} else {
				seen.Declined++
			}
		})
	case fact.RequestObjected:
		if !f.Sent {
			s.edit(f.Request, func(seen *Standing) { seen.Disputed++ })
		}
	case fact.InvoiceSettled:
		s.edit(f.Request, func(seen *Standing) { seen.Paid++ })
	case fact.CoinsReceived:
		if f.Exact {
			s.edit(f.Request, func(seen *Standing) { seen.Paid++ })
		}
	case fact.LockReleased:
		if f.Amount > 0 && f.Preimage == "" { // with one it counts when the invoice is settled
			s.edit(f.Request, func(seen *Standing) { seen.Paid++ })
		}
	case fact.LockExpired:
		s.edit(f.Request, func(seen *Standing) { seen.Unpaid++ })
	}
}

// delivered keeps a request open for its customer's verdict, and drops the oldest beyond maxDone.
func (s *customers) delivered(request nostr.ID) {
	if !s.Open.Has(request.Hex()) {
		return
	}
	s.Done = append(s.Done, request.Hex())
	if len(s.Done) > maxDone {
		s.Open.Delete(s.Done[0])
		s.Done = s.Done[1:]
	}
}

// edit changes the counts of the customer of a request.
func (s *customers) edit(request nostr.ID, change func(*Standing)) {
	key, ok := s.Open.Get(request.Hex())
	if !ok {
		return
	}
	seen := s.Seen.Of(key)
	change(&seen)
	s.Seen.Set(key, seen)
}

// fade halves all counts, so that later requests count more.
func (s *Standing) fade() {
	for _, n := range []*int{&s.Asked, &s.Delivered, &s.Accepted, &s.Declined, &s.Withdrawn, &s.Disputed, &s.Paid, &s.Unpaid} {
		*n /= 2
	}
}
