package due

import (
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// Claims is the fold of all open claims.
type Claims struct{ *fold.State[claims] }

type claims struct {
	Open    fold.Table[string, claim] `json:"open"`
	settled settled
}

// settled holds the entries that settled the latest effects, at least four thousand of them. Only the runners of this
// process ask for them, about what changed since they looked, so they are not part of a snapshot.
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
func NewClaims() *Claims { return &Claims{fold.NewState[claims]("due", 3)} }

// Apply implements fold.Fold.
func (c *Claims) Apply(e fact.Entry) {
	c.Change(func(s *claims) {
		for _, f := range e.Facts {
			s.apply(f, e.Seq)
		}
	})
}

func (s *claims) apply(f fact.Fact, seq uint64) {
	switch f := f.(type) {
	case fact.EffectClaimed:
		now := s.Open.Of(f.Effect).again(f.Failed)
		now.Node, now.Until, now.Seq = f.Node, f.Until, seq
		s.Open.Set(f.Effect, now)
	case fact.EffectRenewed:
		if now := s.Open.Of(f.Effect); now.Node == f.Node {
			now.Until = f.Until
			s.Open.Set(f.Effect, now)
		}
	case fact.EffectSettled:
		s.Open.Delete(f.Effect)
		s.settled.add(f.Effect, seq)
	case fact.EffectParked:
		now := s.Open.Of(f.Effect)
		now.Parked = f.Reason
		s.Open.Set(f.Effect, now)
	}
}

// Parked returns the reasons of the effects that are no longer tried, by effect.
func (c *Claims) Parked() map[string]string {
	parked := map[string]string{}
	c.View(func(s *claims) {
		for key, claim := range s.Open.All() {
			if claim.Parked != "" {
				parked[key] = claim.Parked
			}
		}
	})
	return parked
}

// settledAfter reports whether an effect was settled by an entry after the given one.
func (c *Claims) settledAfter(key string, seen uint64) bool {
	return fold.Read(c.State, func(s *claims) bool { return s.settled.at(key) > seen })
}

func (c *Claims) get(key string) claim {
	return fold.Read(c.State, func(s *claims) claim { return s.Open.Of(key) })
}
