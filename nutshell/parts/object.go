package parts

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild/nutshell/object"
)

// readObject parses an object. Without text it is an object without members.
func readObject(raw []byte) (object.Members, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	return object.Parse(raw)
}

// add adds a member, unless there is one of that name.
func add(o *object.Members, name string, value any) error {
	if o.Value(name) != nil {
		return nil
	}
	raw, err := encode(value)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	*o = append(*o, object.Member{Name: name, Value: raw})
	return nil
}

func encode(value any) (jsontext.Value, error) {
	return json.Marshal(value, json.Deterministic(true), jsontext.PreserveRawStrings(true))
}

// document returns an object as indented JSON.
func document(o object.Members) ([]byte, error) {
	b, err := json.Marshal(o, jsontext.WithIndent("  "), jsontext.PreserveRawStrings(true))
	return append(b, '\n'), err
}
