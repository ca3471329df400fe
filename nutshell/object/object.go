// Package object changes JSON objects member by member. All other members keep their place and their spelling, so that a
// program passes on what it does not know. The package knows no format.
package object

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Members are the members of an object in their order.
type Members []Member

// Member is a name, with the text of its value.
type Member struct {
	Name  string
	Value jsontext.Value
}

// ErrNotObject is returned for a JSON value that is not an object.
var ErrNotObject = errors.New("is not a JSON object")

// Parse returns the members of an object. Duplicate names and bytes after the object are errors.
func Parse(text []byte) (Members, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(text)) // reads from text itself
	if d.PeekKind() != '{' {
		return nil, ErrNotObject
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	o := Members{}
	for d.PeekKind() == '"' {
		m, err := readMember(d)
		if err != nil {
			return nil, err
		}
		o = append(o, m)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("has bytes after the end of the object")
	}
	return o, nil
}

func readMember(d *jsontext.Decoder) (Member, error) {
	name, err := d.ReadToken()
	if err != nil {
		return Member{}, err
	}
	m := Member{Name: name.String()} // before the next read, which takes the token's place
	value, err := d.ReadValue()
	m.Value = value.Clone()
	return m, err
}

// Elements returns the elements of a list, nil for any other value.
func Elements(list jsontext.Value) []jsontext.Value {
	if list.Kind() != '[' {
		return nil
	}
	var all []jsontext.Value
	if json.Unmarshal(list, &all) != nil {
		return nil
	}
	return all
}

// Value returns the text of a member, nil if there is none.
func (o Members) Value(name string) jsontext.Value {
	if i := o.index(name); i >= 0 {
		return o[i].Value
	}
	return nil
}

func (o Members) index(name string) int {
	return slices.IndexFunc(o, func(m Member) bool { return m.Name == name })
}

// With returns the object with a member changed in place, or added at the end. An empty value removes it.
func (o Members) With(name string, value jsontext.Value) Members {
	i := o.index(name)
	switch {
	case i >= 0 && len(value) == 0:
		return slices.Delete(slices.Clone(o), i, i+1)
	case i >= 0:
		o = slices.Clone(o)
		o[i].Value = value
		return o
	case len(value) == 0:
		return o
	}
	return append(slices.Clip(o), Member{name, value})
}

// WithText is With for a string; an empty one removes the member.
func (o Members) WithText(name, text string) Members {
	if text == "" {
		return o.With(name, nil)
	}
	return o.With(name, Quote(text))
}

// Text writes the object in one line. Values keep their spelling.
func (o Members) Text() jsontext.Value {
	b := []byte("{")
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, Quote(m.Name)...), ':'), m.Value...)
	}
	return append(b, '}')
}

// MarshalJSONTo writes the members in their order.
func (o Members) MarshalJSONTo(e *jsontext.Encoder) error { return e.WriteValue(o.Text()) }

// Quote writes a string as JSON. What is not UTF-8 becomes U+FFFD.
func Quote(s string) jsontext.Value {
	b, _ := jsontext.AppendQuote(nil, s) // it says that something was replaced
	return b
}
