package vault

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild/nutshell"
)

// maxNesting is how deep the objects and arrays of a document may stand in one another.
const maxNesting = 32

// text is what a JSON document is called in errors, and its size at most in bytes. Errors name a line and a member
// that the specification knows, and never repeat what stands there: it may be a value.
type text struct {
	file string
	max  int
}

// check asks that raw is one JSON object within the bounds, and nothing else.
func (d text) check(raw []byte) error {
	if len(raw) > d.max {
		return &nutshell.LimitError{What: "bytes of a JSON document", Limit: int64(d.max), Path: d.file}
	}
	t := jsontext.NewDecoder(bytes.NewBuffer(raw)) // reads from raw itself
	if kind := t.PeekKind(); kind != '{' {
		return d.problem("", "is not a JSON object")
	}
	for open := true; open; open = t.StackDepth() > 0 {
		if _, err := t.ReadToken(); err != nil {
			return d.syntax(raw, err)
		}
		if t.StackDepth() > maxNesting {
			return &nutshell.LimitError{What: "nesting of a JSON document", Limit: maxNesting, Path: d.file}
		}
	}
	if _, err := t.ReadToken(); !errors.Is(err, io.EOF) {
		return d.problem("", "goes on after the end of the object")
	}
	return nil
}

func (d text) problem(field, reason string) error {
	return &nutshell.ManifestError{File: d.file, Field: field, Reason: reason}
}

// syntax says in which line the decoder stopped. Its own words may hold a part of the text.
func (d text) syntax(raw []byte, err error) error {
	at := len(raw)
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at = min(at, int(e.ByteOffset))
	}
	reason := "is not JSON"
	if errors.Is(err, jsontext.ErrDuplicateName) {
		reason = "has the same name twice"
	}
	return d.problem("", fmt.Sprintf("%s (line %d)", reason, 1+bytes.Count(raw[:at], []byte("\n"))))
}

// decode reads raw, whose syntax is checked, into v. Path is where it stands.
func (d text) decode(path string, raw []byte, v any) error {
	err := json.Unmarshal(raw, v)
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		for name := range e.JSONPointer.Tokens() {
			path = under(path, name) // a member of one of our types, or an index
		}
	}
	return d.problem(path, "is of the wrong type")
}

// under is the path of a member.
func under(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// object is a JSON object, member by member, so that what is not known keeps its place and its spelling.
type object []member

type member struct {
	name  string
	value jsontext.Value
}

// objectOf takes an object apart whose syntax is checked. Of anything else there are no members.
func objectOf(raw []byte) object {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw))
	if begin, err := d.ReadToken(); err != nil || begin.Kind() != '{' {
		return nil
	}
	var o object
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			break
		}
		m := member{name: name.String()}
		value, err := d.ReadValue()
		if err != nil {
			break
		}
		m.value = value.Clone()
		o = append(o, m)
	}
	return o
}

// get returns a member's value, nil if there is none.
func (o object) get(name string) jsontext.Value {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// set returns the object with a member changed where it stands, or added at the end. An empty value takes it out.
func (o object) set(name string, value jsontext.Value) object {
	i := slices.IndexFunc(o, func(m member) bool { return m.name == name })
	switch {
	case i >= 0 && len(value) == 0:
		return slices.Delete(slices.Clone(o), i, i+1)
	case i >= 0:
		o = slices.Clone(o)
		o[i].value = value
		return o
	case len(value) == 0:
		return o
	}
	return append(slices.Clip(o), member{name, value})
}

// setText is set for a string, which takes the member out if it is empty.
func (o object) setText(name, value string) object {
	if value == "" {
		return o.set(name, nil)
	}
	return o.set(name, quoted(value))
}

// text writes the object in one line.
func (o object) text() jsontext.Value {
	b := []byte("{")
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, quoted(m.name)...), ':'), m.value...)
	}
	return append(b, '}')
}

// lines writes the object with a member on each line, for people. Values keep their spelling.
func (o object) lines(indent string) jsontext.Value {
	if len(o) == 0 {
		return jsontext.Value("{}")
	}
	b := []byte("{")
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, "\n%s  %s: %s", indent, quoted(m.name), m.value)
	}
	return fmt.Appendf(b, "\n%s}", indent)
}

// list takes an array apart whose syntax is checked.
func list(raw []byte) []jsontext.Value {
	var all []jsontext.Value
	_ = json.Unmarshal(raw, &all) // of anything else there are no elements
	return all
}

// listLines writes an array with an element on each line.
func listLines(all []jsontext.Value, indent string) jsontext.Value {
	if len(all) == 0 {
		return jsontext.Value("[]")
	}
	b := []byte("[")
	for i, v := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, "\n%s  %s", indent, v)
	}
	return fmt.Appendf(b, "\n%s]", indent)
}

// listText writes an array in one line.
func listText(all []jsontext.Value) jsontext.Value {
	b := []byte("[")
	for i, v := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, v...)
	}
	return append(b, ']')
}

func quoted(s string) jsontext.Value {
	b, _ := jsontext.AppendQuote(nil, s) // what is not UTF-8 becomes U+FFFD
	return b
}
