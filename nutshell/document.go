package nutshell

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
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

// document is the text of one JSON object of a bundle. It is edited as text, so that everything else keeps its bytes.
// The text is never changed in place: documents can share it.
type document struct {
	file string // its path, for errors
	raw  []byte
}

// ReadDocument reads a JSON document of a tree for one of the parsers of this package. It stops one byte after the
// maximum that these accept.
func ReadDocument(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("%.200q: %w", name, err)
	}
	return b, nil
}

// parseDocument checks that b is exactly one JSON object and within the bounds.
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
		return &ManifestError{File: file, Reason: "has bytes after the end of the object"}
	}
	return nil
}

// syntaxError turns an error of the decoder into a *ManifestError for a person.
func syntaxError(file string, b []byte, err error) error {
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case ok && errors.Is(err, jsontext.ErrDuplicateName):
		return &ManifestError{file, dotted(syntax.JSONPointer), "is a duplicate name"}
	case ok && startsComment(b, int(syntax.ByteOffset)):
		return &ManifestError{File: file, Reason: "has a comment; JSON has none"}
	case ok:
		return &ManifestError{File: file, Reason: fmt.Sprintf("is not JSON at byte %d: %v", syntax.ByteOffset, syntax.Err)}
	}
	return &ManifestError{File: file, Reason: "is not JSON: " + err.Error()}
}

// startsComment reports whether a comment follows at offset.
func startsComment(b []byte, offset int) bool {
	rest := bytes.TrimLeft(b[min(offset, len(b)):], " \t\r\n")
	return bytes.HasPrefix(rest, []byte("//")) || bytes.HasPrefix(rest, []byte("/*"))
}

// dotted turns a JSON pointer into the form that people write.
func dotted(p jsontext.Pointer) string { return Path(slices.Collect(p.Tokens())...) }

// decode reads the document into v. Members that v lacks are ignored.
func (d document) decode(v any) error { return decode(d.file, d.raw, v) }

func decode(file string, raw []byte, v any) error {
	err := json.Unmarshal(raw, v)
	if _, ok := errors.AsType[*json.SemanticError](err); ok {
		err = json.Unmarshal(raw, v, wholeNumbers) // which takes longer, and is rarely needed
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		return &ManifestError{file, dotted(semantic.JSONPointer), misplaced(semantic)}
	}
	if err != nil {
		return &ManifestError{File: file, Reason: err.Error()}
	}
	return nil
}

// misplaced describes a value of the wrong type for a person.
func misplaced(err *json.SemanticError) string {
	switch {
	case errors.Is(err.Err, errNotWhole):
		return err.Err.Error()
	case errors.Is(err.Err, strconv.ErrRange):
		return fmt.Sprintf("%.40s is not a number that fits here", err.JSONValue)
	}
	return fmt.Sprintf("must not be a JSON %s", kindName(err.JSONKind))
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "boolean"
	}
	return k.String()
}

// wholeNumbers reads 12.0 and 1.2e1 as 12: for JSON they are the same number, and some programs write them so.
var wholeNumbers = json.WithUnmarshalers(json.UnmarshalFromFunc(readWhole))

var errNotWhole = errors.New("is not a whole number that fits here")

func readWhole(d *jsontext.Decoder, n *int64) error {
	if d.PeekKind() != '0' {
		return errors.ErrUnsupported // for the decoder's own rules
	}
	literal, err := d.ReadValue()
	if err != nil {
		return err
	}
	whole, ok := whole(string(literal))
	if !ok {
		return fmt.Errorf("%.40s %w", literal, errNotWhole)
	}
	*n = whole
	return nil
}

// whole returns the value of a JSON number if it is a whole one that fits. The work does not grow with the number.
func whole(literal string) (int64, bool) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(literal), "e")
	left, right, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimRight(left+right, "0")
	if strings.Trim(digits, "-0") == "" {
		return 0, true
	}
	shift, err := strconv.Atoi(cmp.Or(exponent, "0"))
	zeros := shift + len(left) - len(digits) // that follow the last other digit
	if err != nil || zeros < 0 || zeros > 18 {
		return 0, false
	}
	n, err := strconv.ParseInt(digits+strings.Repeat("0", zeros), 10, 64)
	return n, err == nil
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
	for _, step := range path {
		p, ok := find(raw, step)
		if !ok {
			return nil, false
		}
		raw = raw[p.value:p.end]
	}
	return raw, true
}

// string returns the text at path, empty if there is none or another type of value.
func (d document) string(path ...string) string {
	raw, _ := d.get(path...)
	if !isText(raw) {
		return ""
	}
	unquoted, _ := jsontext.AppendUnquote(nil, raw) // checked before
	return string(unquoted)
}

// change is the path of a member and its new value.
type change struct {
	path  []string
	value any
}

// set returns the document with members changed or added.
func (d document) set(changes ...change) (document, error) {
	raw, e, table := d.raw, editorOf(d.raw), tables()[d.file]
	for _, c := range changes {
		var err error
		if raw, err = c.apply(e, raw, table); err != nil {
			return document{}, &ManifestError{d.file, Path(c.path...), err.Error()}
		}
	}
	return parseDocument(d.file, raw)
}

func (c change) apply(e editor, raw []byte, table *Field) ([]byte, error) {
	switch {
	case len(c.path) > maxNesting:
		return nil, fmt.Errorf("is more than %d levels deep", maxNesting)
	case !utf8.ValidString(strings.Join(c.path, "")):
		return nil, errors.New("the name is not UTF-8")
	}
	value, err := encode(c.value)
	if err != nil {
		return nil, err
	}
	return e.set(raw, c.path, value, table)
}

// remove returns the document without the member at path.
func (d document) remove(path ...string) document {
	return document{d.file, remove(d.raw, path)}
}
