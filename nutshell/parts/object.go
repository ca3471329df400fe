package parts

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// object is a JSON object whose members keep their order and their spelling.
type object []member

type member struct {
	name  string
	value jsontext.Value
}

// readObject takes an object apart. Nothing is an object without members.
func readObject(raw []byte) (object, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(raw))
	if begin, err := d.ReadToken(); err != nil || begin.Kind() != '{' {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	var o object
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		m := member{name: name.String()}
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		m.value = value.Clone()
		o = append(o, m)
	}
	return o, nil
}

func (o object) get(name string) jsontext.Value {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// add adds a member, unless there is one of the name.
func (o *object) add(name string, value any) error {
	if o.get(name) != nil {
		return nil
	}
	raw, err := json.Marshal(value, json.Deterministic(true), jsontext.PreserveRawStrings(true))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	*o = append(*o, member{name, raw})
	return nil
}

// replace changes the value of a member that is there.
func (o object) replace(name string, value any) error {
	for i := range o {
		if o[i].name == name {
			raw, err := json.Marshal(value, json.Deterministic(true), jsontext.PreserveRawStrings(true))
			o[i].value = raw
			return err
		}
	}
	return nil
}

// MarshalJSONTo writes the members in their order.
func (o object) MarshalJSONTo(e *jsontext.Encoder) error {
	if err := e.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, m := range o {
		if err := e.WriteToken(jsontext.String(m.name)); err != nil {
			return err
		}
		if err := e.WriteValue(m.value); err != nil {
			return err
		}
	}
	return e.WriteToken(jsontext.EndObject)
}

// text writes an object as a document, laid out for people.
func (o object) text() ([]byte, error) {
	b, err := json.Marshal(o, jsontext.WithIndent("  "), jsontext.PreserveRawStrings(true))
	return append(b, '\n'), err
}

// elements takes a list apart. Of anything else there are none.
func elements(list jsontext.Value) []jsontext.Value {
	if list.Kind() != '[' {
		return nil
	}
	var all []jsontext.Value
	if json.Unmarshal(list, &all) != nil {
		return nil
	}
	return all
}
