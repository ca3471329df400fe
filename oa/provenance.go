package oa

import (
	"cmp"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Rule tells how necessary a part of a provenance is.
type Rule string

// The rules.
const (
	Required    Rule = "required" // if missing, a violation is recorded; the result is still accepted
	Recommended Rule = "recommended"
	Optional    Rule = "optional"
)

// Parts of a provenance that the rules of a description name (the OpenAgents surface, "Schema Structure").
const (
	ProvenanceModel    = "model"           // model_id, or the image of a sandbox run
	ProvenanceProvider = "provider_id"     // provider_pubkey
	ProvenanceTokens   = "token_counts"    // tokens
	ProvenanceSampling = "sampling_params" // sampling
)

// Lack is a missing part of a result's provenance.
type Lack struct {
	Name string `json:"name"` // such as ProvenanceModel
	Rule Rule   `json:"rule"` // Required, a violation, or Recommended
}

// String returns the name and the rule.
func (l Lack) String() string { return "provenance." + l.Name + " is missing, and " + string(l.Rule) }

// said has the parts of a result that the rules are about.
type said struct {
	Provenance Extra `json:"provenance"`
	EnvInfo    struct {
		ImageDigest jsontext.Value `json:"image_digest"`
	} `json:"env_info"`
}

// Lacks lists the missing parts of a result's provenance, the required ones first. The result is accepted in any case;
// a missing required part is recorded as a violation. A result that is not JSON lacks every part.
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

// isSaid reports whether a value is present and not empty.
func isSaid(v jsontext.Value) bool {
	return len(v) > 0 && !slices.Contains([]string{"null", `""`, "{}", "[]"}, string(v))
}
