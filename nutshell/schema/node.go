package schema

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"

	"guild/nutshell"
)

// node is one schema. The order of its fields is the order in which they are written.
type node struct {
	Draft       string      `json:"$schema,omitempty"`
	ID          string      `json:"$id,omitempty"`
	Title       string      `json:"title,omitempty"`
	Description string      `json:"description,omitempty"`
	Type        types       `json:"type,omitempty"`
	Const       string      `json:"const,omitempty"`
	Enum        []string    `json:"enum,omitempty"`
	AnyOf       []*node     `json:"anyOf,omitempty"`
	Format      string      `json:"format,omitempty"`
	Pattern     string      `json:"pattern,omitempty"`
	MinLength   int         `json:"minLength,omitempty"`
	Minimum     json.Number `json:"minimum,omitempty"`
	Maximum     json.Number `json:"maximum,omitempty"`
	Required    []string    `json:"required,omitempty"`
	Properties  properties  `json:"properties,omitempty"`
	Values      *node       `json:"additionalProperties,omitempty"`
	Items       *node       `json:"items,omitempty"`
	If          *node       `json:"if,omitempty"`
	Else        *node       `json:"else,omitempty"`
}

// at returns the schema of a member.
func (n *node) at(name string) *node {
	i := slices.IndexFunc(n.Properties, func(p property) bool { return p.name == name })
	return n.Properties[i].schema
}

// types are the JSON types that a value may have. One is written as a string.
type types []string

// MarshalJSON implements json.Marshaler.
func (t types) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// properties are members in their order, which a map would not keep.
type properties []property

type property struct {
	name   string
	schema *node
}

// MarshalJSON implements json.Marshaler.
func (p properties) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, one := range p {
		name, err := json.Marshal(one.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(one.schema)
		if err != nil {
			return nil, err
		}
		b.WriteByte("{,"[min(i, 1)])
		b.Write(append(append(name, ':'), value...))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// reading says how a document is read.
type reading struct{ strict bool }

// of returns the schema of a field of a table.
func (r reading) of(f *nutshell.Field) *node {
	n := &node{Description: f.About}
	switch f.Kind {
	case nutshell.KindAny:
		return n
	case nutshell.KindText:
		r.text(n, f)
		return n
	case nutshell.KindTime:
		n.Type, n.Format = types{"string"}, "date-time"
	case nutshell.KindFlag:
		n.Type = types{"boolean"}
	case nutshell.KindWhole:
		n.Type, n.Minimum, n.Maximum = types{"integer"}, number[int64](math.MinInt64), number[int64](math.MaxInt64)
	case nutshell.KindNumber:
		n.Type, n.Minimum, n.Maximum = types{"number"}, number(-math.MaxFloat64), number(math.MaxFloat64)
	case nutshell.KindTexts, nutshell.KindList:
		n.Type, n.Items = types{"array"}, r.of(f.Each)
	case nutshell.KindObject:
		n.Type = types{"object"}
		if f.Each != nil && f.Each.Kind != nutshell.KindAny {
			n.Values = r.of(f.Each)
		}
		for _, m := range f.Members {
			n.Properties = append(n.Properties, property{m.Name, r.of(m)})
			if m.Required {
				n.Required = append(n.Required, m.Name)
			}
		}
	}
	if r.strict && len(f.Range) == 2 {
		n.Minimum, n.Maximum = json.Number(f.Range[0]), json.Number(f.Range[1])
	} else if r.strict && f.Kind == nutshell.KindWhole {
		n.Minimum = "0"
	}
	if !f.Required {
		n.Type = append(n.Type, "null")
	}
	return n
}

// text makes n the schema of a text. If other values than the known ones are allowed, it is anyOf both, so that editors
// can offer the known ones.
func (r reading) text(n *node, f *nutshell.Field) {
	if f.Closed || r.strict && f.Required && len(f.Values) > 0 && !f.Free {
		n.Type, n.Enum = types{"string"}, f.Values
		return
	}
	one := n
	if len(f.Values) > 0 {
		one = &node{}
		n.AnyOf = []*node{{Enum: f.Values}, one}
	}
	if r.strict && len(f.Values) > 0 && !f.Free {
		one.Type = types{"null"}
		return
	}
	one.Type = types{"string"}
	if f.Form != nil {
		one.Pattern = f.Form.String()
	}
	switch {
	case !f.Required:
		one.Type = types{"string", "null"}
	case f.Form == nil:
		one.MinLength = 1
	}
}

func number[N int64 | float64](n N) json.Number {
	b, _ := json.Marshal(n) // finite
	return json.Number(b)
}
