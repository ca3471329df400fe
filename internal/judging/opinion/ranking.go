package opinion

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// maxRanked limits the length of a ranking.
const maxRanked = 1000

// ranked is one entry of a ranking.
type ranked struct {
	Rank int    `json:"rank"` // from 1
	ID   string `json:"id"`
}

// ranking returns the ids of a ranking in order. A missing or repeated rank, or a repeated id, is an error.
func ranking(result json.RawMessage) ([]string, error) {
	var r struct {
		TopK []ranked `json:"topk"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return nil, fmt.Errorf("ranking: %w", err)
	}
	if len(r.TopK) == 0 || len(r.TopK) > maxRanked {
		return nil, fmt.Errorf("ranking: %d places, want 1 to %d", len(r.TopK), maxRanked)
	}
	slices.SortFunc(r.TopK, func(a, b ranked) int { return cmp.Compare(a.Rank, b.Rank) })
	seen := map[string]bool{}
	ids := make([]string, 0, len(r.TopK))
	for i, place := range r.TopK {
		if place.Rank != i+1 || place.ID == "" || seen[place.ID] {
			return nil, errors.New("ranking: the places are not 1, 2, 3 and so on, each with an id of its own")
		}
		seen[place.ID] = true
		ids = append(ids, place.ID)
	}
	return ids, nil
}
