package oa

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild/canon"
)

// Side is one of the two documents of a job type.
type Side string

// The sides, by the names that a description gives them.
const (
	Inputs  Side = "inputs"  // the request's payload
	Outputs Side = "outputs" // the result
)

// Schema describes a job type (the OpenAgents surface, "Schema Structure", with what the package comment adds).
type Schema struct {
	ID               ID              `json:"schema_id"`
	Description      string          `json:"description,omitzero"`
	Inputs           Fields          `json:"inputs"`
	Outputs          Fields          `json:"outputs"`
	VerificationMode Mode            `json:"verification_mode"`
	HashRules        HashRules       `json:"hash_rules,omitzero"`
	Provenance       map[string]Rule `json:"provenance,omitempty"` // by ProvenanceModel and the like
	Extra            Extra           `json:",embed"`
}

// Fields are the members of an object, by name.
type Fields map[string]Field

// Field describes a value. The package comment says what each member means.
type Field struct {
	Type        string         `json:"type,omitzero"` // object, array, string, integer, number or boolean; any if empty
	Required    bool           `json:"required,omitzero"`
	Description string         `json:"description,omitzero"`
	Properties  Fields         `json:"properties,omitempty"`
	Values      *Field         `json:"values,omitzero"`
	Items       *Field         `json:"items,omitzero"`
	Enum        []string       `json:"enum,omitempty"`
	Minimum     Number         `json:"minimum,omitzero"`
	Maximum     Number         `json:"maximum,omitzero"`
	Default     jsontext.Value `json:"default,omitzero"`
	Format      string         `json:"format,omitzero"` // FormatSHA256, FormatFloat, or another that is not checked
	Extra       Extra          `json:",embed"`
}

// The formats that are checked.
const (
	FormatSHA256 = "sha256"
	FormatFloat  = "float"
)

// HashRules say how a result is hashed. There is one way.
type HashRules struct {
	Algorithm        string `json:"algorithm"`        // sha256
	Canonicalization string `json:"canonicalization"` // json_canonical: package canon
	Scope            string `json:"scope"`            // full_output
	Extra            Extra  `json:",embed"`
}

// IsZero reports whether nothing is said, which stands for the one way.
func (h HashRules) IsZero() bool {
	return h.Algorithm == "" && h.Canonicalization == "" && h.Scope == "" && len(h.Extra) == 0
}

// ParseSchema reads a description. What is wrong with it is ErrSchema and names the member.
func ParseSchema(text []byte) (Schema, error) {
	s, err := parseSchema(text)
	if err != nil {
		return Schema{}, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	return s, nil
}

func parseSchema(text []byte) (Schema, error) {
	if len(text) > MaxSchema {
		return Schema{}, fmt.Errorf("%d bytes: %w", len(text), ErrTooBig)
	}
	canonical, err := canon.Canonical(text)
	if err != nil {
		return Schema{}, err
	}
	var s Schema
	if err := json.Unmarshal(canonical, &s); err != nil {
		return Schema{}, err
	}
	return s, s.faults().err()
}

// faults is what is wrong with a description that has the right types.
func (s Schema) faults() (f Faults) {
	if s.ID == (ID{}) {
		f.add("schema_id", "is missing")
	}
	if s.Inputs == nil {
		f.add("inputs", "is missing")
	}
	if s.Outputs == nil {
		f.add("outputs", "is missing")
	}
	if s.VerificationMode != Objective && s.VerificationMode != Subjective {
		f.add("verification_mode", "is %.40q, want objective or subjective", s.VerificationMode)
	}
	if h := s.HashRules; !h.IsZero() {
		for _, rule := range [][3]string{
			{"algorithm", h.Algorithm, "sha256"}, {"canonicalization", h.Canonicalization, "json_canonical"}, {"scope", h.Scope, "full_output"},
		} {
			if rule[1] != rule[2] {
				f.add("hash_rules."+rule[0], "is %.40q, want %s", rule[1], rule[2])
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Provenance)) {
		if r := s.Provenance[name]; r != Required && r != Recommended && r != Optional {
			f.add(member("provenance", name), "is %.40q, want required, recommended or optional", r)
		}
	}
	s.Inputs.faults(string(Inputs), &f)
	s.Outputs.faults(string(Outputs), &f)
	return f
}

func (fs Fields) faults(path string, f *Faults) {
	for _, name := range slices.Sorted(maps.Keys(fs)) {
		fs[name].faults(member(path, name), f)
	}
}

// faults adds what is wrong with the description of one field.
func (d Field) faults(path string, f *Faults) {
	if !slices.Contains([]string{"", "object", "array", "string", "integer", "number", "boolean"}, d.Type) {
		f.add(path+".type", "is %.40q, which is no type", d.Type)
		return
	}
	for _, part := range []struct {
		name  string
		there bool
		types []string
	}{
		{"properties", d.Properties != nil, []string{"object"}},
		{"values", d.Values != nil, []string{"object"}},
		{"items", d.Items != nil, []string{"array"}},
		{"enum", d.Enum != nil, []string{"string"}},
		{"minimum", d.Minimum != "", []string{"integer", "number"}},
		{"maximum", d.Maximum != "", []string{"integer", "number"}},
	} {
		if part.there && !slices.Contains(part.types, d.Type) {
			f.add(path+"."+part.name, "is there, and the type is %q", d.Type)
		}
	}
	if d.Required && d.Default != nil {
		f.add(path+".default", "is there, and the field is required")
	}
	d.Properties.faults(path+".properties", f)
	if d.Values != nil {
		d.Values.faults(path+".values", f)
	}
	if d.Items != nil {
		d.Items.faults(path+".items", f)
	}
	if d.Default != nil && len(*f) == 0 {
		w := walk{fill: true, limit: MaxSchema}
		w.whole(d, func() string { return path + ".default" }, d.Default)
		*f = w.faults
	}
}

// root is one side as a field.
func (s Schema) root(side Side) Field {
	if side == Outputs {
		return Field{Type: "object", Required: true, Properties: s.Outputs}
	}
	return Field{Type: "object", Required: true, Properties: s.Inputs}
}

// Check says what is wrong with a payload, in any JSON form: Faults, or that it is no JSON at all.
func (s Schema) Check(side Side, payload []byte) error {
	_, err := s.walk(side, payload, walk{})
	return err
}

// Unknown are the paths of a payload's members that the description does not have, at most MaxFaults. They are no faults, and
// are kept; one may be a known name that is misspelt. There are none of what is no JSON.
func (s Schema) Unknown(side Side, payload []byte) (paths []string) {
	w := walk{unknown: func(path string) { paths = append(paths, path) }}
	s.walk(side, payload, w)
	return paths[:min(len(paths), MaxFaults)]
}

// Complete returns a payload with what its absent fields stand for filled in, and without those that are null, in its
// canonical form. The job hash is that of the payload as it was, not of this.
func (s Schema) Complete(side Side, payload []byte) (jsontext.Value, error) {
	return s.walk(side, payload, walk{fill: true})
}

func (s Schema) walk(side Side, payload []byte, w walk) (jsontext.Value, error) {
	canonical, err := canonicalPayload(payload)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", side, s.ID, err)
	}
	w.limit = 2 * MaxSize
	w.whole(s.root(side), func() string { return string(side) }, canonical)
	if err := w.faults.err(); err != nil {
		return nil, err
	}
	if !w.fill && !w.widen {
		return canonical, nil
	}
	return canon.Canonical(w.out)
}

// canonicalPayload is the canonical form of a payload within the limit.
func canonicalPayload(payload []byte) ([]byte, error) {
	if len(payload) > MaxSize {
		return nil, fmt.Errorf("%d bytes: %w", len(payload), ErrTooBig)
	}
	return canon.Canonical(payload)
}

// Encode writes the description, laid out for people. It ends with a newline.
func (s Schema) Encode() ([]byte, error) {
	b, err := json.Marshal(s, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("description of %s: %w", s.ID, err)
	}
	return append(b, '\n'), nil
}

// DefaultVerification is what an absent verification of a request stands for. That of an embedding depends on whether
// the request is pinned, and this is what it is then.
func (s Schema) DefaultVerification() Verification {
	v := Verification{Mode: s.VerificationMode, Redundancy: 1, Adjudication: NoAdjudication}
	if said := s.Inputs["verification"].Default; said != nil && json.Unmarshal(said, &v) != nil {
		return Verification{Mode: s.VerificationMode, Redundancy: 1, Adjudication: NoAdjudication}
	}
	return v
}
