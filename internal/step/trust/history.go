package trust

import (
	"slices"

	"guild"
)

// maxPast limits the changes of one standing that the fold keeps.
const maxPast = 64

// Past is one change of a standing, reduced to what later changes depend on. The journal's entry Seq has the rest: the
// reason, the arithmetic, the attempt and its job, the policy.
type Past struct {
	Seq        uint64      `json:"seq"`
	At         int64       `json:"at"` // Unix ms of the evidence, which may be older than the entry
	From       guild.Trust `json:"from"`
	To         guild.Trust `json:"to"`
	Rule       string      `json:"rule,omitempty"`
	Pattern    string      `json:"pattern,omitempty"` // "" if there was no evidence, or it was judged again
	First      bool        `json:"first,omitempty"`   // there was no trust before
	Confidence guild.Trust `json:"confidence,omitempty"`
	Held       guild.Trust `json:"held,omitempty"` // the part of a decrease that the daily limit prevented
}

// by returns how far a change moved trust. A first trust and the end of trust count as 0.
func (p Past) by() guild.Trust {
	if p.First || p.To == 0 {
		return 0
	}
	return p.To - p.From
}

// History lists the latest changes of trust in a service for a task, the oldest first, at most 64.
func (f *Fold) History(task string, s guild.Service) []Past {
	return slices.Clone(f.rowOf(task, s).Past)
}
