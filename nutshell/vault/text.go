package vault

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild/nutshell"
	"guild/nutshell/object"
)

// maxNesting limits how deep the objects and arrays of a document are nested.
const maxNesting = 32

// text is the name of a JSON document in errors, and its maximum size in bytes. Errors name a line and a member that the
// specification knows, and never repeat what is there: it may be a value.
type text struct {
	file string
	max  int
}

// check returns an error unless raw is one JSON object within the limits.
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
		return d.problem("", "has bytes after the end of the object")
	}
	return nil
}

func (d text) problem(field, reason string) error {
	return &nutshell.ManifestError{File: d.file, Field: field, Reason: reason}
}

// syntax returns an error with the line in which the decoder stopped. The decoder's own message may repeat the text.
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

// decode decodes raw, whose syntax has been checked, into v. path is where it is in the document.
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

// under returns the path of a member.
func under(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// objectOf returns the members of an object whose syntax has been checked. Anything else has none.
func objectOf(raw []byte) object.Members {
	o, _ := object.Parse(raw)
	return o
}

// lines formats an object with one member a line. Values keep their spelling.
func lines(o object.Members, indent string) jsontext.Value {
	if len(o) == 0 {
		return jsontext.Value("{}")
	}
	b := []byte("{")
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, "\n%s  %s: %s", indent, object.Quote(m.Name), m.Value)
	}
	return fmt.Appendf(b, "\n%s}", indent)
}

// list returns the elements of an array whose syntax has been checked.
func list(raw []byte) []jsontext.Value {
	var all []jsontext.Value
	_ = json.Unmarshal(raw, &all) // of anything else there are no elements
	return all
}

// listLines formats an array with one element a line.
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

// listText formats an array on one line.
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
