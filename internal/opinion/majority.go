package opinion

import (
	"context"
	"encoding/json"
	"fmt"
)

// Majority lets the results vote for themselves: those that say the same are one party, and one with more than
// half of all results, and at least two, is right. Whoever pays for redundancy pays for that.
type Majority struct {
	// Same reports whether two results say the same. Nil compares the canonical hashes of their essence: of a
	// ranking its order, of anything else all but who made it, and when.
	Same func(a, b json.RawMessage) bool
}

// Best implements Opinion. It asks nobody.
func (m Majority) Best(ctx context.Context, q Question) (Choice, error) {
	if err := q.Check(); err != nil {
		return Choice{}, err
	}
	if err := ctx.Err(); err != nil {
		return Choice{}, fmt.Errorf("opinion: %w", err)
	}
	same := m.Same
	if same == nil {
		same = func(a, b json.RawMessage) bool { return sameEssence(q.Task, a, b) }
	}
	var parties [][]int
	for i, r := range q.Results {
		joined := false
		for p := range parties {
			if same(q.Results[parties[p][0]], r) {
				parties[p], joined = append(parties[p], i), true
				break
			}
		}
		if !joined {
			parties = append(parties, []int{i})
		}
	}
	c := Choice{Voters: len(q.Results)}
	for _, p := range parties {
		c.Agreeing = max(c.Agreeing, len(p))
		if len(p) >= 2 && 2*len(p) > len(q.Results) {
			c.Best = p
		}
	}
	c.Reason = fmt.Sprintf("%d of %d results say the same", c.Agreeing, c.Voters)
	return c, nil
}
