package due

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"

	"guild/internal/fact"
)

// Claims is the fold of all open claims.
type Claims struct {
	mu   sync.RWMutex
	open map[string]claim
}

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
func NewClaims() *Claims { return &Claims{open: map[string]claim{}} }

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
			now := c.open[f.Effect].again(f.Failed)
			now.Node, now.Until, now.Seq = f.Node, f.Until, e.Seq
			c.open[f.Effect] = now
		case fact.EffectRenewed:
			if now := c.open[f.Effect]; now.Node == f.Node {
				now.Until = f.Until
				c.open[f.Effect] = now
			}
		case fact.EffectSettled:
			delete(c.open, f.Effect)
		case fact.EffectParked:
			now := c.open[f.Effect]
			now.Parked = f.Reason
			c.open[f.Effect] = now
		}
	}
}

// Snapshot implements fold.Fold.
func (c *Claims) Snapshot() ([]byte, error) {
	c.mu.RLock()
	open := maps.Clone(c.open)
	c.mu.RUnlock()
	return json.Marshal(open)
}

// Restore implements fold.Fold.
func (c *Claims) Restore(b []byte) error {
	var open map[string]claim
	if err := json.Unmarshal(b, &open); err != nil {
		return fmt.Errorf("claims: %w", err)
	}
	if open == nil {
		return errors.New("claims: the snapshot is empty")
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
	for key, claim := range c.open {
		if claim.Parked != "" {
			parked[key] = claim.Parked
		}
	}
	return parked
}

func (c *Claims) get(key string) claim {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.open[key]
}
