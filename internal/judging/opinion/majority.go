package opinion

import (
	"context"
	"encoding/json"
	"fmt"

	"guild"
	"guild/canon"
	"guild/oa"
)

// Majority chooses by the results alone: those that agree form a group, and a group with more than half of all results,
// and at least two, is chosen.
type Majority struct {
	// Same reports whether two results agree. Nil compares the order of rankings, and for anything else the canonical JSON
	// without the member provenance.
	Same func(a, b json.RawMessage) bool
}

// Best implements Opinion. It asks no model.
func (m Majority) Best(ctx context.Context, q Question) (Choice, error) {
	if err := q.Check(); err != nil {
		return Choice{}, err
	}
	if err := ctx.Err(); err != nil {
		return Choice{}, fmt.Errorf("opinion: %w", err)
	}
	same := m.Same
	if same == nil {
		same = func(a, b json.RawMessage) bool { return agree(q.Task, a, b) }
	}
	var parties [][]int
	for i, r := range q.Results {
		// A result is compared with the first of a group only. Agreement within a tolerance need not be transitive, and a
		// fixed reference keeps a group from drifting.
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
	c.Reason = fmt.Sprintf("%d of %d results agree", c.Agreeing, c.Voters)
	return c, nil
}

// agree reports whether two results have the same contentHash. An unreadable result agrees with none.
func agree(task string, a, b json.RawMessage) bool {
	one, err := contentHash(task, a)
	if err != nil {
		return false
	}
	other, err := contentHash(task, b)
	return err == nil && one == other
}

// contentHash returns the canonical hash of the part of a result that must agree.
func contentHash(task string, result json.RawMessage) (guild.Hash, error) {
	if task == oa.RetrievalRerank {
		ids, err := ranking(result)
		if err != nil {
			return guild.Hash{}, err
		}
		return canon.HashValue(ids)
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(result, &members) != nil {
		return canon.Hash(result)
	}
	delete(members, "provenance") // differs between providers in any case
	return canon.HashValue(members)
}
