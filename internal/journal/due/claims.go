package due

import (
	"cmp"
	"slices"

	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// Claims is the fold of the open claims.
type Claims struct{ *fold.State[claims] }

type claims struct {
	Open    fold.Table[string, claim] `json:"open"`
	settled settled
	recent  recent
}

// recent holds the guards of the latest entries, at least 4,096 of them, for the runners of this process.
type recent struct {
	entries []entry
	before  uint64 // the last entry that is not in entries
}

type entry struct {
	seq   uint64
	guard fact.Subject
}

func (r *recent) add(e fact.Entry) {
	const many = 4096
	if len(r.entries) >= 2*many {
		r.before = r.entries[many-1].seq
		r.entries = append(make([]entry, 0, 2*many), r.entries[many:]...)
	}
	if len(r.entries) == 0 {
		r.before = e.Seq - 1 // those before it are in a snapshot
	}
	r.entries = append(r.entries, entry{e.Seq, e.Subject})
}

// settled holds the entries that settled the latest effects, at least 4,096 of them. Only the runners of this process read it,
// to find out what was settled since they last looked, so it is not part of a snapshot.
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
	Failed int    `json:"failed"` // earlier tries that failed
	Died   int    `json:"died"`   // earlier tries that ended with their process
	Node   string `json:"node"`
	Until  int64  `json:"until"`            // Unix ms
	Seq    uint64 `json:"seq"`              // entry of the last claim
	Parked string `json:"parked,omitempty"` // why it is not tried any more
}

// again counts the last try before the next one. It failed for a reason, or its process died and left none.
func (c claim) again(failed string) claim {
	switch {
	case c.Node == "": // there was no try
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
		s.recent.add(e)
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

// Parked returns the parked effects, each with the reason.
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

// settledAfter reports whether an entry after the given one has settled an effect.
func (c *Claims) settledAfter(key string, seen uint64) bool {
	return fold.Read(c.State, func(s *claims) bool { return s.settled.at(key) > seen })
}

func (c *Claims) get(key string) claim {
	return fold.Read(c.State, func(s *claims) claim { return s.Open.Of(key) })
}

// after returns the guards of the entries after a given one, and false if it does not know all of them.
func (c *Claims) after(seq uint64) (guards []fact.Subject, known bool) {
	c.View(func(s *claims) {
		known = seq >= s.recent.before
		from, _ := slices.BinarySearchFunc(s.recent.entries, seq+1, func(e entry, seq uint64) int { return cmp.Compare(e.seq, seq) })
		for _, e := range s.recent.entries[from:] {
			guards = append(guards, e.guard)
		}
	})
	return guards, known
}
