package opinion

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"guild"
	"guild/canon"
	"guild/oa"
)

// maxMerged limits the entries of one list in a merged result.
const maxMerged = 1000

// ErrNoMerge is the error of merging results of a type that Merges does not accept.
var ErrNoMerge = errors.New("results of this type cannot be merged")

// Merges reports whether results of a job type can be merged.
func Merges(task string) bool { return task == oa.RetrievalRerank || task == oa.CodeChunkAnalysis }

// Merge makes one result from several. The choice lists the results that were used, which are the readable ones.
func Merge(q Question) (json.RawMessage, Choice, error) {
	if err := q.Check(); err != nil {
		return nil, Choice{}, err
	}
	var merged any
	var used []int
	switch q.Task {
	case oa.RetrievalRerank:
		merged, used = mergeRankings(q)
	case oa.CodeChunkAnalysis:
		merged, used = mergeAnalyses(q)
	default:
		return nil, Choice{}, fmt.Errorf("merge %q: %w", q.Task, ErrNoMerge)
	}
	c := Choice{
		Best: used, Voters: len(q.Results), Agreeing: len(used),
		Reason: fmt.Sprintf("%d of %d results were merged", len(used), len(q.Results)),
	}
	if len(used) == 0 {
		return nil, c, nil
	}
	raw, err := json.Marshal(merged)
	return raw, c, err
}

// place is an entry of a merged ranking.
type place struct {
	Rank  int         `json:"rank"`
	ID    string      `json:"id"`
	Score json.Number `json:"score"` // fraction of the possible points, with three digits
}

// mergeRankings computes a Borda count: the first of k places is worth k points, the last one 1. It omits a ranking
// with an id that is not one of the request's candidates. Ties are ordered by id.
//
// Only ranks count, not the scores in the results, because a provider can choose any score.
func mergeRankings(q Question) (merged any, used []int) {
	var request struct {
		Candidates []struct {
			ID string `json:"id"`
		} `json:"candidates"`
		K *int `json:"k"`
	}
	if json.Unmarshal(q.Request, &request) != nil {
		return nil, nil
	}
	k := 10
	if request.K != nil {
		k = min(max(*request.K, 1), maxRanked)
	}
	points := map[string]int{}
	for _, c := range request.Candidates {
		points[c.ID] = 0
	}
	for i, result := range q.Results {
		ids, err := ranking(result)
		if err != nil || slices.ContainsFunc(ids, func(id string) bool { _, there := points[id]; return !there }) {
			continue
		}
		used = append(used, i)
		for at, id := range ids[:min(len(ids), k)] {
			points[id] += k - at
		}
	}
	order := slices.SortedFunc(maps.Keys(points), func(a, b string) int {
		return cmp.Or(cmp.Compare(points[b], points[a]), cmp.Compare(a, b))
	})
	topk := []place{}
	for at, id := range order[:min(len(order), k)] {
		if points[id] == 0 {
			continue
		}
		n := points[id] * 1000 / (k * len(used))
		topk = append(topk, place{Rank: at + 1, ID: id, Score: json.Number(fmt.Sprintf("%d.%03d", n/1000, n%1000))})
	}
	return map[string]any{"topk": topk}, used
}

// analysis has the members of a code_chunk_analysis result that are merged.
type analysis struct {
	Summary    string            `json:"summary"`
	Symbols    []json.RawMessage `json:"symbols"`
	Faults     []json.RawMessage `json:"suspected_faults"`
	Probes     []json.RawMessage `json:"recommended_next_probes"`
	Confidence json.Number       `json:"confidence"`
}

// mergeAnalyses returns the first summary, the lowest confidence, and the entries of all results without duplicates,
// limited as the request asks.
func mergeAnalyses(q Question) (merged any, used []int) {
	var request struct {
		Most struct {
			Symbols *int `json:"max_symbols"`
			Faults  *int `json:"max_faults"`
			Probes  *int `json:"max_next_probes"`
		} `json:"output_constraints"`
	}
	_ = json.Unmarshal(q.Request, &request) // a request that cannot be read sets no limits
	var sum analysis
	lowest := 1.0
	for i, result := range q.Results {
		var a analysis
		confidence, err := 0.0, json.Unmarshal(result, &a)
		if err == nil {
			confidence, err = a.Confidence.Float64()
		}
		if err != nil || a.Summary == "" || confidence < 0 || confidence > 1 {
			continue
		}
		used = append(used, i)
		sum.Summary = cmp.Or(sum.Summary, a.Summary)
		if confidence <= lowest {
			lowest, sum.Confidence = confidence, a.Confidence
		}
		sum.Symbols = append(sum.Symbols, a.Symbols...)
		sum.Faults = append(sum.Faults, a.Faults...)
		sum.Probes = append(sum.Probes, a.Probes...)
	}
	most := request.Most
	sum.Symbols = once(sum.Symbols, most.Symbols)
	sum.Faults = once(sum.Faults, most.Faults)
	sum.Probes = once(sum.Probes, most.Probes)
	return sum, used
}

// once drops duplicate entries, and those beyond the wanted number.
func once(entries []json.RawMessage, wanted *int) []json.RawMessage {
	most := maxMerged
	if wanted != nil {
		most = min(max(*wanted, 0), most)
	}
	seen := map[guild.Hash]bool{}
	kept := []json.RawMessage{}
	for _, e := range entries {
		h, err := canon.Hash(e)
		if err == nil && !seen[h] && len(kept) < most {
			seen[h] = true
			kept = append(kept, e)
		}
	}
	return kept
}
