package trust

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"guild"
	"guild/internal/fact"
	"guild/internal/journal"
)

// maxPast is how many changes of one standing the fold keeps.
const maxPast = 64

// Past is one change of a standing, as far as later ones depend on it. The rest of it is in the journal, in the entry
// Seq: the reason, the arithmetic, the attempt and its job, the policy.
type Past struct {
	Seq        uint64      `json:"seq"`
	At         int64       `json:"at"` // Unix ms: of the evidence, which may be older than the entry
	From       guild.Trust `json:"from"`
	To         guild.Trust `json:"to"`
	Rule       string      `json:"rule,omitempty"`
	Pattern    string      `json:"pattern,omitempty"` // "" where there was no evidence, or it was judged again
	First      bool        `json:"first,omitempty"`   // nothing was there before
	Confidence guild.Trust `json:"confidence,omitempty"`
	Held       guild.Trust `json:"held,omitempty"` // of a decrease, that the limit of the day kept back
}

// by is how far a change moved trust; to found it, or to end it, is no move.
func (p Past) by() guild.Trust {
	if p.First || p.To == 0 {
		return 0
	}
	return p.To - p.From
}

// History lists the latest changes of trust in a service for a task, the oldest first, 64 at most.
func (f *Fold) History(task string, s guild.Service) []Past {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return slices.Clone(f.state.Table.Of(key(task, s)).Past)
}

// Told is one change as the journal has it.
type Told struct {
	Seq uint64 `json:"seq"`
	At  int64  `json:"at"` // Unix ms
	fact.TrustChanged
}

// Story yields all changes of trust in a service for a task, the oldest first, as far as they are not archived. It reads
// the entries of that task only. After an error there are no more.
func Story(ctx context.Context, j *journal.Journal, task string, s guild.Service) iter.Seq2[Told, error] {
	return func(yield func(Told, error) bool) {
		for e, err := range j.Of(ctx, fact.TrustSubject(task)) {
			if err != nil {
				yield(Told{}, fmt.Errorf("history of trust in %.8s for %q: %w", s.PubKey.Hex(), task, err))
				return
			}
			for _, one := range e.Facts {
				c, ok := one.(fact.TrustChanged)
				if ok && c.Service == s && !yield(Told{e.Seq, e.At, c}, nil) {
					return
				}
			}
		}
	}
}
