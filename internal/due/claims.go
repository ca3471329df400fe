package due

import (
	"fmt"
	"sync"

	"guild/internal/fact"
	"guild/internal/fold"
)

// Claims is the fold of all open claims.
type Claims struct {
	mu      sync.RWMutex
	open    fold.Table[string, claim]
	settled settled
}

// settled are the entries that settled the latest effects, some thousand at the least. Only runners of this process ask
// for them, about what changed since they looked, so no snapshot holds them.
type settled struct {
	young, old map[string]uint64
}

func (s *settled) add(effect string, seq uint64) {
	const many = 4096
	if s.young == nil || len(s.young) >= many {
		s.young, s.old = map[string]uint64{}, s.young
	}
	s.young[effect] = seq
}

func (s *settled) at(effect string) uint64 { return max(s.young[effect], s.old[effect]) }

type claim struct {
	Failed int    `json:"failed"` // tries before this one that failed
	Died   int    `json:"died"`   // tries before this one that ended with their process
	Node   string `json:"node"`
	Until  int64  `json:"until"`            // Unix ms
	Seq    uint64 `json:"seq"`              // entry of the latest claim
	Parked string `json:"parked,omitempty"` // why nobody tries any more
}

// again counts the try before the next one: it failed for a reason, or nobody lived to give one.
func (c claim) again(failed string) claim {
	switch {
	case c.Node == "": // there was none
	case failed != "":
		c.Failed++
	default:
		c.Died++
	}
	return c
}

// NewClaims returns an empty fold.
func NewClaims() *Claims { return &Claims{} }

// Name implements fold.Fold.
func (*Claims) Name() string { return "due" }

// Version implements fold.Fold.
func (*Claims) Version() int { return 2 }

// Apply implements fold.Fold.
func (c *Claims) Apply(e fact.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range e.Facts {
		switch f := f.(type) {
		case fact.EffectClaimed:
			now := c.open.Of(f.Effect).again(f.Failed)
			now.Node, now.Until, now.Seq = f.Node, f.Until, e.Seq
			c.open.Set(f.Effect, now)
		case fact.EffectRenewed:
			if now := c.open.Of(f.Effect); now.Node == f.Node {
				now.Until = f.Until
				c.open.Set(f.Effect, now)
			}
		case fact.EffectSettled:
			c.open.Delete(f.Effect)
			c.settled.add(f.Effect, e.Seq)
		case fact.EffectParked:
			now := c.open.Of(f.Effect)
			now.Parked = f.Reason
			c.open.Set(f.Effect, now)
		}
	}
}

// Freeze implements fold.Fold.
func (c *Claims) Freeze() func() ([]byte, error) {
	c.mu.Lock()
	open := c.open.Clone()
	c.mu.Unlock()
	return func() ([]byte, error) { return fold.Encode(open) }
}

// Restore implements fold.Fold.
func (c *Claims) Restore(b []byte) error {
	var open fold.Table[string, claim]
	if err := fold.Decode(b, &open); err != nil {
		return fmt.Errorf("claims: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = open
	return nil
}

// Parked lists the effects that nobody tries any more, each with the reason.
func (c *Claims) Parked() map[string]string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	parked := map[string]string{}
	for key, claim := range c.open.All() {
		if claim.Parked != "" {
			parked[key] = claim.Parked
		}
	}
	return parked
}

// settledAfter says whether an effect was settled by an entry after the given one.
func (c *Claims) settledAfter(key string, seen uint64) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.settled.at(key) > seen
}

func (c *Claims) get(key string) claim {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.open.Of(key)
}
