package nutshell

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of the JSON documents in a bundle: the manifest of 10,000 files is about 2 MiB.
const (
	maxDocument = 8 << 20 // bytes
	maxNesting  = 64      // objects and arrays within one another
)

// document is the text of one JSON object of a bundle. It is edited as text, so that what is not touched keeps
// its bytes. The text is never changed in place: documents can share it.
type document struct {
	file string // its path, for errors
	raw  []byte
}

// parseDocument checks that b is one JSON object within the bounds, and nothing else.
func parseDocument(file string, b []byte) (document, error) {
	if len(b) > maxDocument {
		return document{}, &LimitError{What: "bytes of a JSON document", Limit: maxDocument, Path: file}
	}
	if bytes.HasPrefix(b, []byte("\ufeff")) {
		return document{}, &ManifestError{File: file, Reason: "starts with a byte order mark; save it as plain UTF-8"}
	}
	if err := checkObject(file, b); err != nil {
		return document{}, err
	}
	return document{file, bytes.Clone(b)}, nil
}

func checkObject(file string, b []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(b)) // reads from b itself
	if kind := d.PeekKind(); kind != '{' && kind != jsontext.KindInvalid {
		return &ManifestError{File: file, Reason: "is not a JSON object"}
	}
	for open := true; open; open = d.StackDepth() > 0 {
		if _, err := d.ReadToken(); err != nil {
			return syntaxError(file, b, err)
		}
		if d.StackDepth() > maxNesting {
			return &LimitError{What: "nesting of a JSON document", Limit: maxNesting, Path: file}
		}
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return &ManifestError{File: file, Reason: "goes on after the end of the object"}
	}
	return nil
}

// syntaxError words what the decoder found for a person.
func syntaxError(file string, b []byte, err error) error {
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case ok && errors.Is(err, jsontext.ErrDuplicateName):
		return &ManifestError{file, dotted(syntax.JSONPointer), "stands there twice"}
	case ok && startsComment(b, int(syntax.ByteOffset)):
		return &ManifestError{File: file, Reason: "has a comment; JSON has none"}
	case ok:
		return &ManifestError{File: file, Reason: fmt.Sprintf("is not JSON at byte %d: %v", syntax.ByteOffset, syntax.Err)}
	}
	return &ManifestError{File: file, Reason: "is not JSON: " + err.Error()}
}

// startsComment reports whether the first thing from offset on is a comment.
func startsComment(b []byte, offset int) bool {
	rest := bytes.TrimLeft(b[min(offset, len(b)):], " \t\r\n")
	return bytes.HasPrefix(rest, []byte("//")) || bytes.HasPrefix(rest, []byte("/*"))
}

// dotted turns a JSON pointer into the form that people write.
func dotted(p jsontext.Pointer) string { return strings.Join(slices.Collect(p.Tokens()), ".") }

// decode reads the document into v, which may know a part of it.
func (d document) decode(v any) error { return decode(d.file, d.raw, v) }

func decode(file string, raw []byte, v any) error {
	err := json.Unmarshal(raw, v)
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		return &ManifestError{file, dotted(semantic.JSONPointer), fmt.Sprintf("a JSON %s does not belong here", semantic.JSONKind)}
	}
	if err != nil {
		return &ManifestError{File: file, Reason: err.Error()}
	}
	return nil
}

// encode writes v as compact JSON, the same for the same value. Raw messages keep their spelling.
func encode(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true), jsontext.PreserveRawStrings(true))
}

// has reports whether there is a member at path.
func (d document) has(path ...string) bool {
	_, ok := d.get(path...)
	return ok
}

// get returns the text of the member at path.
func (d document) get(path ...string) ([]byte, bool) {
	raw := d.raw
	for _, name := range path {
		all := members(raw)
		i := indexOf(all, name)
		if i < 0 {
			return nil, false
		}
		raw = raw[all[i].value:all[i].end]
	}
	return raw, true
}

// change is a member, by its path, and its new value.
type change struct {
	path  []string
	value any
}

// set returns the document with members changed or added.
func (d document) set(changes ...change) (document, error) {
	raw := d.raw
	for _, c := range changes {
		var err error
		if raw, err = c.apply(raw); err != nil {
			return document{}, &ManifestError{d.file, strings.Join(c.path, "."), err.Error()}
		}
	}
	return parseDocument(d.file, raw)
}

func (c change) apply(raw []byte) ([]byte, error) {
	if !utf8.ValidString(strings.Join(c.path, "")) {
		return nil, errors.New("the name is not UTF-8")
	}
	value, err := encode(c.value)
	if err != nil {
		return nil, err
	}
	return setMember(raw, c.path, value, order)
}

// remove returns the document without the member at path.
func (d document) remove(path ...string) document {
	return document{d.file, removeMember(d.raw, path)}
}
