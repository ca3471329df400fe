package oa

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// node is one JSON Schema. The order of its fields is the order in which they are written.
type node struct {
	Draft       string          `json:"$schema,omitzero"`
	ID          string          `json:"$id,omitzero"`
	Title       string          `json:"title,omitzero"`
	Description string          `json:"description,omitzero"`
	Type        types           `json:"type,omitempty"`
	Enum        []any           `json:"enum,omitempty"`
	Pattern     string          `json:"pattern,omitzero"`
	Minimum     Number          `json:"minimum,omitzero"`
	Maximum     Number          `json:"maximum,omitzero"`
	Default     jsontext.Value  `json:"default,omitzero"`
	Required    []string        `json:"required,omitempty"`
	Properties  map[string]node `json:"properties,omitempty"`
	Values      *node           `json:"additionalProperties,omitzero"`
	Items       *node           `json:"items,omitzero"`
}

// types lists the JSON types that a value may have. A single type is written as a string.
type types []string

// MarshalJSON implements json.Marshaler.
func (t types) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// Default range of an integer, and of a number in single precision.
const (
	leastInteger Number = "-9223372036854775808"
	mostInteger  Number = "18446744073709551615"
	mostFloat    Number = "3.4028235677973362e38" // the greatest double that does not round to infinity
)

// JSONSchema returns the JSON Schema (draft 2020-12) of one side of the job type, indented, with a final newline. It
// refuses the same documents as Check, except integers that are written with a point, such as 1.0.
func (s Schema) JSONSchema(side Side) ([]byte, error) {
	root := s.root(side).node(true)
	root.Draft = "https://json-schema.org/draft/2020-12/schema"
	root.ID = "urn:" + strings.ReplaceAll(s.ID.String(), ".", ":") + ":" + side.document()
	root.Title = s.ID.String() + " " + side.document()
	root.Description = s.Description
	b, err := json.Marshal(root, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("JSON Schema of %s: %w", s.ID, err)
	}
	return append(b, '\n'), nil
}

// document names the document of a side.
func (s Side) document() string {
	if s == Outputs {
		return "result"
	}
	return "request"
}

// node returns the JSON Schema of a field. An optional field may be null.
func (d Field) node(needed bool) node {
	n := node{Description: d.Description, Minimum: d.Minimum, Maximum: d.Maximum, Default: d.Default}
	if d.Type != "" {
		n.Type = types{d.Type}
	}
	for _, text := range d.Enum {
		n.Enum = append(n.Enum, text)
	}
	if !needed && d.Type != "" {
		n.Type = append(n.Type, "null")
		if n.Enum != nil {
			n.Enum = append(n.Enum, nil)
		}
	}
	switch { // the range or the pattern that follows from the type and the format
	case d.Type == "integer":
		n.Minimum, n.Maximum = cmp.Or(n.Minimum, leastInteger), cmp.Or(n.Maximum, mostInteger)
	case d.Type == "number" && d.Format == FormatFloat:
		n.Minimum, n.Maximum = cmp.Or(n.Minimum, "-"+mostFloat), cmp.Or(n.Maximum, mostFloat)
	case d.Type == "string" && d.Format == FormatSHA256:
		n.Pattern = "^(sha256:)?[0-9A-Fa-f]{64}$"
	}
	for _, name := range slices.Sorted(maps.Keys(d.Properties)) {
		if n.Properties == nil {
			n.Properties = map[string]node{}
		}
		n.Properties[name] = d.Properties[name].node(d.Properties[name].Required)
		if d.Properties[name].Required {
			n.Required = append(n.Required, name)
		}
	}
	if d.Values != nil {
		values := d.Values.node(true)
		n.Values = &values
	}
	if d.Items != nil {
		items := d.Items.node(true)
		n.Items = &items
	}
	return n
}
