package work

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/fact"
	"guild/internal/fold"
	"guild/internal/policy"
)

// Customers is the other side of trust: what this node, as a provider, has seen of those who ask it. Payment is not
// among it as long as nothing can be paid.
type Customers struct {
	policy policy.Customers

	mu    sync.RWMutex
	state customers
}

type customers struct {
	Seen fold.Table[string, Standing] `json:"seen"` // by the customer's hex key
	Open fold.Table[string, string]   `json:"open"` // request → its customer, until nothing more can come of it
	Done []string                     `json:"done"` // of those, what was delivered, the oldest first
}

// maxDone is of how many delivered requests we still listen to what the customer says of them.
const maxDone = 4096

// Standing is what was seen of one customer. Counts that have grown old are halved together.
type Standing struct {
	Since     int64 `json:"since"` // Unix ms: the first request
	Last      int64 `json:"last"`  // Unix ms: the latest
	Asked     int   `json:"asked"`
	Delivered int   `json:"delivered"`
	Accepted  int   `json:"accepted"`  // deliveries that it told us it accepted
	Declined  int   `json:"declined"`  // and those that it told us it did not
	Withdrawn int   `json:"withdrawn"` // requests that it took back before they were done
	Disputed  int   `json:"disputed"`  // verdicts of its that we object to
}

// NewCustomers returns an empty fold.
func NewCustomers(p policy.Policy) *Customers { return &Customers{policy: p.Customers} }

// Name implements fold.Fold.
func (*Customers) Name() string { return "customers" }

// Version implements fold.Fold.
func (*Customers) Version() int { return 1 }

// Of returns what was seen of a customer; the zero value of one who never asked.
func (c *Customers) Of(p nostr.PubKey) Standing {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.state.Seen.Of(p.Hex())
}

// Score is how good a customer is, from 0 to guild.Micro; 0.5 for a stranger. Refused is how many of its requests were
// refused lately for asking too often, which no fact says.
func (c *Customers) Score(seen Standing, refused int) guild.Trust {
	p := c.policy
	good := p.Prior + seen.Delivered + p.Accepted*seen.Accepted
	bad := p.Prior + p.Withdrawn*seen.Withdrawn + p.Disputed*seen.Disputed
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
	c.mu.RLock()
	defer c.mu.RUnlock()
	all := make([]Known, 0, c.state.Seen.Len())
	for key, seen := range c.state.Seen.All() {
		all = append(all, Known{key, seen})
	}
	slices.SortFunc(all, func(a, b Known) int { return cmp.Or(cmp.Compare(b.Last, a.Last), cmp.Compare(a.PubKey, b.PubKey)) })
	return all
}

// Apply implements fold.Fold.
func (c *Customers) Apply(e fact.Entry) {
	if e.Subject.Noun() != "request" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range e.Facts {
		c.apply(f, e.At)
	}
}

func (c *Customers) apply(f fact.Fact, at int64) {
	switch f := f.(type) {
	case fact.RequestReceived:
		c.state.Open.Set(f.Request.Hex(), f.Customer.Hex())
		c.edit(f.Request, func(seen *Standing) {
			if seen.Asked >= c.policy.Remember && c.policy.Remember > 0 {
				seen.fade()
			}
			seen.Asked++
			seen.Since, seen.Last = cmp.Or(seen.Since, at), at
		})
	case fact.RequestFinished:
		if f.Ending == delivered {
			c.edit(f.Request, func(seen *Standing) { seen.Delivered++ })
			c.delivered(f.Request)
			return
		}
		c.state.Open.Delete(f.Request.Hex())
	case fact.RequestCancelled:
		c.edit(f.Request, func(seen *Standing) { seen.Withdrawn++ })
		c.state.Open.Delete(f.Request.Hex())
	case fact.RequestJudged:
		c.edit(f.Request, func(seen *Standing) {
			if f.Outcome == guild.Success {
				seen.Accepted++
			} else {
				seen.Declined++
			}
		})
	case fact.RequestObjected:
		if !f.Sent {
			c.edit(f.Request, func(seen *Standing) { seen.Disputed++ })
		}
	}
}

// delivered keeps a request open for what its customer will say of it, and lets the oldest go.
func (c *Customers) delivered(request nostr.ID) {
	if !c.state.Open.Has(request.Hex()) {
		return
	}
	if c.state.Done = append(c.state.Done, request.Hex()); len(c.state.Done) > maxDone {
		c.state.Open.Delete(c.state.Done[0])
		c.state.Done = c.state.Done[1:]
	}
}

// edit changes what was seen of the customer of a request.
func (c *Customers) edit(request nostr.ID, change func(*Standing)) {
	key, ok := c.state.Open.Get(request.Hex())
	if !ok {
		return
	}
	seen := c.state.Seen.Of(key)
	change(&seen)
	c.state.Seen.Set(key, seen)
}

// fade halves what was counted, so that the latest counts most.
func (s *Standing) fade() {
	for _, n := range []*int{&s.Asked, &s.Delivered, &s.Accepted, &s.Declined, &s.Withdrawn, &s.Disputed} {
		*n /= 2
	}
}

// Freeze implements fold.Fold.
func (c *Customers) Freeze() func() ([]byte, error) {
	c.mu.Lock()
	state := customers{c.state.Seen.Clone(), c.state.Open.Clone(), slices.Clone(c.state.Done)}
	c.mu.Unlock()
	return func() ([]byte, error) { return fold.Encode(state) }
}

// Restore implements fold.Fold.
func (c *Customers) Restore(b []byte) error {
	fresh := struct {
		Seen *fold.Table[string, Standing] `json:"seen"`
		Open *fold.Table[string, string]   `json:"open"`
		Done []string                      `json:"done"`
	}{}
	if err := fold.Decode(b, &fresh); err != nil {
		return fmt.Errorf("customers: %w", err)
	}
	if fresh.Seen == nil || fresh.Open == nil {
		return fmt.Errorf("customers: the snapshot is incomplete")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = customers{*fresh.Seen, *fresh.Open, fresh.Done}
	return nil
}
