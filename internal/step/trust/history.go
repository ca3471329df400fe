package trust

import (
	"slices"

	"guild"
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
	return slices.Clone(f.rowOf(task, s).Past)
}
