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

// Sides, by their names in a description.
const (
	Inputs  Side = "inputs"  // the request's payload
	Outputs Side = "outputs" // the result
)

// Schema is the description of a job type (the OpenAgents surface, "Schema Structure", with the additions in the
// package comment).
type Schema struct {
	ID               ID              `json:"schema_id"`
	Description      string          `json:"description,omitzero"`
	Inputs           Fields          `json:"inputs"`
	Outputs          Fields          `json:"outputs"`
	VerificationMode Mode            `json:"verification_mode"`
	HashRules        HashRules       `json:"hash_rules,omitzero"`
	Provenance       map[string]Rule `json:"provenance,omitempty"` // by part, such as ProvenanceModel
	Extra            Extra           `json:",embed"`
}

// Fields has the members of an object by name.
type Fields map[string]Field

// Field describes a value. See the package comment for the members.
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
	Format      string         `json:"format,omitzero"` // FormatSHA256, FormatFloat, or another format, which is not checked
	Extra       Extra          `json:",embed"`
}

// Formats that are checked.
const (
	FormatSHA256 = "sha256"
	FormatFloat  = "float"
)

// HashRules defines the hash of a result. Only one definition is supported.
type HashRules struct {
	Algorithm        string `json:"algorithm"`        // sha256
	Canonicalization string `json:"canonicalization"` // json_canonical: package canon
	Scope            string `json:"scope"`            // full_output
	Extra            Extra  `json:",embed"`
}

// IsZero reports whether all members are absent, which means the supported definition.
func (h HashRules) IsZero() bool {
	return h.Algorithm == "" && h.Canonicalization == "" && h.Scope == "" && len(h.Extra) == 0
}

// ParseSchema parses a description. The error wraps ErrSchema and names the faulty member.
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

// faults returns the faults of a description whose members have the right JSON types.
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

// faults adds the faults of the description of one field.
func (d Field) faults(path string, f *Faults) {
	if !slices.Contains([]string{"", "object", "array", "string", "integer", "number", "boolean"}, d.Type) {
		f.add(path+".type", "is %.40q, which is not a type", d.Type)
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

// root returns one side as a field.
func (s Schema) root(side Side) Field {
	if side == Outputs {
		return Field{Type: "object", Required: true, Properties: s.Outputs}
	}
	return Field{Type: "object", Required: true, Properties: s.Inputs}
}

// Check returns the faults of a payload, in any JSON form: Faults, or an error if it is not JSON.
func (s Schema) Check(side Side, payload []byte) error {
	_, err := s.walk(side, payload, walk{})
	return err
}

// Unknown returns the paths of a payload's members that the description does not have, at most MaxFaults. They are not
// faults and are kept, but one can be a misspelt name. For a payload that is not JSON it returns nil.
func (s Schema) Unknown(side Side, payload []byte) (paths []string) {
	w := walk{unknown: func(path string) { paths = append(paths, path) }}
	s.walk(side, payload, w)
	return paths[:min(len(paths), MaxFaults)]
}

// Complete returns the canonical form of a payload with its defaults filled in and without null fields. The job hash
// is that of the original payload, not of this form.
func (s Schema) Complete(side Side, payload []byte) (jsontext.Value, error) {
	return s.walk(side, payload, walk{fill: true})
}

func (s Schema) walk(side Side, payload []byte, w walk) (jsontext.Value, error) {
	canonical, err := canonicalPayload(payload)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", side, s.ID, err)
	}
	// Defaults and widened numbers can make the output larger than the input.
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

// canonicalPayload returns the canonical form of a payload of at most MaxSize bytes.
func canonicalPayload(payload []byte) ([]byte, error) {
	if len(payload) > MaxSize {
		return nil, fmt.Errorf("%d bytes: %w", len(payload), ErrTooBig)
	}
	return canon.Canonical(payload)
}

// Encode returns the description, indented, with a final newline.
func (s Schema) Encode() ([]byte, error) {
	b, err := json.Marshal(s, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("description of %s: %w", s.ID, err)
	}
	return append(b, '\n'), nil
}

// DefaultVerification returns the verification of a request without one. That of an embedding depends on the request;
// this is the one for a pinned request.
func (s Schema) DefaultVerification() Verification {
	v := Verification{Mode: s.VerificationMode, Redundancy: 1, Adjudication: NoAdjudication}
	if said := s.Inputs["verification"].Default; said != nil && json.Unmarshal(said, &v) != nil {
		return Verification{Mode: s.VerificationMode, Redundancy: 1, Adjudication: NoAdjudication}
	}
	return v
}
