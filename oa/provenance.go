package oa

import (
	"cmp"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Rule says how much a part of a provenance is wanted.
type Rule string

// The rules.
const (
	Required    Rule = "required" // one that is missing is a violation, to be recorded; the result counts
	Recommended Rule = "recommended"
	Optional    Rule = "optional"
)

// The parts of a provenance that the rules of a description name (the OpenAgents surface, "Schema Structure").
const (
	ProvenanceModel    = "model"           // model_id, or the image of a sandbox run
	ProvenanceProvider = "provider_id"     // provider_pubkey
	ProvenanceTokens   = "token_counts"    // tokens
	ProvenanceSampling = "sampling_params" // sampling
)

// Lack is a part that a result's provenance should have and does not.
type Lack struct {
	Name string `json:"name"` // as ProvenanceModel
	Rule Rule   `json:"rule"` // Required, which is a violation, or Recommended
}

// String returns the name and how much it is wanted.
func (l Lack) String() string { return "provenance." + l.Name + " is missing, and " + string(l.Rule) }

// said is what of a result the rules look at.
type said struct {
	Provenance Extra `json:"provenance"`
	EnvInfo    struct {
		ImageDigest jsontext.Value `json:"image_digest"`
	} `json:"env_info"`
}

// Lacks lists what a result's provenance lacks, the required first. Whatever it lacks, the result counts: what is
// required is recorded as a violation. A result that is not JSON lacks everything.
func (s Schema) Lacks(result []byte) []Lack {
	var r said
	if canonical, err := canonicalPayload(result); err != nil || json.Unmarshal(canonical, &r) != nil {
		r = said{}
	}
	var lacks []Lack
	for _, name := range slices.Sorted(maps.Keys(s.Provenance)) {
		if rule := s.Provenance[name]; rule != Optional && !r.has(name) {
			lacks = append(lacks, Lack{name, rule})
		}
	}
	slices.SortStableFunc(lacks, func(a, b Lack) int { return -cmp.Compare(a.Rule, b.Rule) }) // required, recommended
	return lacks
}

func (r said) has(name string) bool {
	switch name {
	case ProvenanceModel:
		return isSaid(r.Provenance["model_id"]) || isSaid(r.Provenance[name]) || isSaid(r.EnvInfo.ImageDigest)
	case ProvenanceProvider:
		return isSaid(r.Provenance["provider_pubkey"]) || isSaid(r.Provenance[name])
	case ProvenanceTokens:
		return isSaid(r.Provenance["tokens"]) || isSaid(r.Provenance[name])
	case ProvenanceSampling:
		return isSaid(r.Provenance["sampling"]) || isSaid(r.Provenance[name])
	}
	return isSaid(r.Provenance[name])
}

// isSaid reports whether a value says anything.
func isSaid(v jsontext.Value) bool {
	return len(v) > 0 && !slices.Contains([]string{"null", `""`, "{}", "[]"}, string(v))
}
