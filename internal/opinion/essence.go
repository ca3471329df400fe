package opinion

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"guild"
	"guild/canon"
	"guild/oa"
)

// maxRanked is the longest ranking that is read.
const maxRanked = 1000

// ranked is one place in a ranking.
type ranked struct {
	Rank int    `json:"rank"` // from 1
	ID   string `json:"id"`
}

// ranking reads the order of a ranking's ids. Places that are missing or taken twice, and an id that comes twice,
// make it none.
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

// essence is the canonical hash of what results must agree in.
func essence(task string, result json.RawMessage) (guild.Hash, error) {
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
	delete(members, "provenance") // who made it, and when
	return canon.HashValue(members)
}

// sameEssence reports whether two results say the same. One that cannot be understood agrees with nobody.
func sameEssence(task string, a, b json.RawMessage) bool {
	one, err := essence(task, a)
	if err != nil {
		return false
	}
	other, err := essence(task, b)
	return err == nil && one == other
}
