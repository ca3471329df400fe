package schema

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"

	"guild"
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

// at is the schema of a member.
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

// value is the schema of a value of a Go type, at a path without the numbers of elements and the names in maps.
func (d document) value(path string, t reflect.Type) *node {
	switch t {
	case reflect.TypeFor[json.RawMessage]():
		return &node{}
	case reflect.TypeFor[nutshell.Timestamp]():
		return &node{Type: types{"string", "null"}, Format: "date-time"}
	case reflect.TypeFor[guild.Hash]():
		return &node{Type: types{"string", "null"}, Pattern: "^((sha256:)?[0-9A-Fa-f]{64})?$"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.value(path, t.Elem())
	case reflect.Struct:
		return d.object(path, t)
	case reflect.Map:
		return d.dictionary(path, t)
	case reflect.Slice:
		return &node{Type: types{"array", "null"}, Items: d.value(path, t.Elem())}
	}
	return d.scalar(path, t)
}

// object is the schema of a struct.
func (d document) object(path string, t reflect.Type) *node {
	n := &node{Type: types{"object", "null"}}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		member := join(path, name)
		s := d.value(member, f.Type)
		s.Description = d.text(member)
		n.Properties = append(n.Properties, property{name, s})
	}
	for _, t := range d.texts {
		if parent, name := cut(t.path); t.only && parent == path {
			n.Properties = append(n.Properties, property{name, &node{Description: t.says}})
		}
	}
	return n
}

// dictionary is the schema of a map. What may be anything is not described.
func (d document) dictionary(path string, t reflect.Type) *node {
	n := &node{Type: types{"object", "null"}, Values: d.value(path, t.Elem())}
	if reflect.DeepEqual(n.Values, &node{}) {
		n.Values = nil
	}
	return n
}

func (d document) scalar(path string, t reflect.Type) *node {
	switch t.Kind() {
	case reflect.Bool:
		return &node{Type: types{"boolean", "null"}}
	case reflect.Int64:
		return &node{Type: types{"integer", "null"}, Minimum: number[int64](math.MinInt64), Maximum: number[int64](math.MaxInt64)}
	case reflect.Float64:
		return &node{Type: types{"number", "null"}, Minimum: number(-math.MaxFloat64), Maximum: number(math.MaxFloat64)}
	}
	anything := &node{Type: types{"string", "null"}}
	if known := nutshell.Values(d.file, path); known != nil {
		return &node{AnyOf: []*node{{Enum: known}, anything}}
	}
	return anything
}

func number[N int64 | float64](n N) json.Number {
	b, _ := json.Marshal(n) // finite
	return json.Number(b)
}

// text is what is said of a member.
type text struct {
	path, says string
	only       bool // it is described, and not read
}

func (d document) text(path string) string {
	i := slices.IndexFunc(d.texts, func(t text) bool { return t.path == path })
	if i < 0 {
		return ""
	}
	return d.texts[i].says
}

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// cut takes the last name off a path.
func cut(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '.')
	return path[:max(0, i)], path[i+1:]
}
