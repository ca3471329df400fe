package clawnet

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// member is one name of a JSON object with the text of its value.
type member struct {
	name  string
	value []byte
}

// object is the members of a JSON object in their order. What is not understood of it is kept by it.
type object []member

// errNotObject is JSON of another kind.
var errNotObject = errors.New("is not a JSON object")

// parseObject reads one object and nothing after it. Names must be unique.
func parseObject(b []byte) (object, error) {
	d := jsontext.NewDecoder(bytes.NewReader(b))
	if d.PeekKind() != '{' {
		return nil, errNotObject
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	o := object{}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		m := member{name: name.String()}
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		m.value = bytes.Clone(value)
		o = append(o, m)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("goes on after the end of the object")
	}
	return o, nil
}

// value returns the text of a member, nil if there is none.
func (o object) value(name string) []byte {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// with returns the object with a member set, in its place or at the end, or taken out if value is nil.
func (o object) with(name string, value []byte) object {
	kept := make(object, 0, len(o)+1)
	found := false
	for _, m := range o {
		if m.name == name {
			found = true
			m.value = value
		}
		if m.value != nil {
			kept = append(kept, m)
		}
	}
	if !found && value != nil {
		kept = append(kept, member{name, value})
	}
	return kept
}

// text writes the object.
func (o object) text() ([]byte, error) {
	b := []byte("{")
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = jsontext.AppendQuote(b, m.name); err != nil {
			return nil, err
		}
		b = append(append(b, ':'), m.value...)
	}
	return append(b, '}'), nil
}
