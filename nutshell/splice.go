package nutshell

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// part is the position of one member of an object, or one element of a list, in its text.
type part struct {
	name       string // of a member
	start      int    // of the quoted name, or of the element
	value, end int    // of the value
}

// parts lists the members of an object or the elements of a list whose syntax has been checked. It returns nil for any
// other value. Each change of a document asks several times, so this does not check the syntax again.
func parts(text []byte) []part {
	at := afterSpace(text, 0)
	if at == len(text) || text[at] != '{' && text[at] != '[' {
		return nil
	}
	named := text[at] == '{'
	var all []part
	for at = afterSpace(text, at+1); at < len(text) && text[at] != '}' && text[at] != ']'; {
		p := part{start: at}
		if named {
			end := endOf(text, at)
			name, _ := jsontext.AppendUnquote(nil, text[at:end]) // checked before
			p.name, at = string(name), afterSpace(text, afterSpace(text, end)+1)
		}
		p.value, p.end = at, endOf(text, at)
		all = append(all, p)
		if at = afterSpace(text, p.end); at < len(text) && text[at] == ',' {
			at = afterSpace(text, at+1)
		}
	}
	return all
}

// afterSpace returns the position of the first byte from at on that is not white space.
func afterSpace(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r') {
		at++
	}
	return min(at, len(text))
}

// endOf returns the position after the value that begins at a position.
func endOf(text []byte, at int) int {
	depth := 0
	for i := at; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return min(i+1, len(text))
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // after the last number or word of what is around it
			}
			depth--
			if depth == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
	}
	return len(text)
}

func indexOf(all []part, name string) int {
	return slices.IndexFunc(all, func(p part) bool { return p.name == name })
}

// editor changes the text of a document. Everything that a change does not name keeps its bytes.
type editor struct{ unit string } // unit is the white space of one level of indentation

// editorOf returns an editor with the indentation of a document.
func editorOf(document []byte) editor {
	if all := parts(document); len(all) > 0 {
		if unit, ok := indentation(document, all[0]); ok && unit != "" {
			return editor{unit}
		}
	}
	return editor{"  "}
}

// set returns the text of a value with the member at path, which is not empty, replaced by another value, or added in
// the order of the table.
func (e editor) set(text []byte, path []string, value []byte, f *Field) ([]byte, error) {
	switch jsontext.Value(text).Kind() {
	case 'n':
		return f.wrap(path, value)
	case '{':
		return e.setMember(text, path, value, f)
	case '[':
		return e.setElement(text, path, value, f)
	}
	return nil, errors.New("is within something that is neither an object nor a list")
}

func (e editor) setMember(object []byte, path []string, value []byte, f *Field) ([]byte, error) {
	all, inner := parts(object), f.At(path[0])
	if i := indexOf(all, path[0]); i >= 0 {
		return e.replace(object, all[i], path[1:], value, inner)
	}
	value, err := inner.wrap(path[1:], value)
	if err != nil {
		return nil, err
	}
	return e.insert(object, all, insertAt(all, path[0], f.names()), quote(path[0]), value), nil
}

func (e editor) setElement(list []byte, path []string, value []byte, f *Field) ([]byte, error) {
	all, inner := parts(list), f.At(path[0])
	i, ok := index(path[0], len(all))
	switch {
	case !ok:
		return nil, noElement(path[0], len(all))
	case i < len(all):
		return e.replace(list, all[i], path[1:], value, inner)
	}
	value, err := inner.wrap(path[1:], value)
	if err != nil {
		return nil, err
	}
	return e.insert(list, all, len(all), nil, value), nil
}

func noElement(step string, length int) error {
	return fmt.Errorf("there is no element %.40q in a list of %d; %q adds one", step, length, end)
}

// replace changes the member at path in one part of a text, or with an empty path the whole part.
func (e editor) replace(text []byte, p part, path []string, value []byte, f *Field) ([]byte, error) {
	old := text[p.value:p.end]
	whole := len(path) == 0 || len(parts(old)) == 0
	if len(path) > 0 {
		var err error
		if value, err = e.set(old, path, value, f); err != nil {
			return nil, err
		}
	}
	if whole {
		value = e.laidOut(value, text, p)
	}
	return splice(text, p.value, p.end, value), nil
}

// wrap returns a value inside of the objects and lists that path leads through.
func (f *Field) wrap(path []string, value []byte) ([]byte, error) {
	if len(path) == 0 {
		return value, nil
	}
	value, err := f.At(path[0]).wrap(path[1:], value)
	switch {
	case err != nil:
		return nil, err
	case f.isList() && path[0] != end && path[0] != "0":
		return nil, noElement(path[0], 0)
	case f.isList() || path[0] == end && !f.isObject():
		return slices.Concat([]byte("["), value, []byte("]")), nil
	}
	return slices.Concat([]byte("{"), quote(path[0]), []byte(":"), value, []byte("}")), nil
}

// insert adds a part before the one with index at, formatted like its neighbours. Elements have no name.
func (e editor) insert(text []byte, all []part, at int, name, value []byte) []byte {
	if len(all) == 0 {
		if name != nil {
			name = append(name, ':')
		}
		first, last := bytes.IndexAny(text, "{["), bytes.LastIndexAny(text, "}]")
		return splice(text, first+1, last, slices.Concat(name, value))
	}
	neighbour := all[min(at, len(all)-1)]
	if name != nil {
		name = append(name, colon(text, neighbour)...)
	}
	added := append(name, e.laidOut(value, text, neighbour)...)
	space := spaceBetween(text, all)
	if at == len(all) {
		after := all[at-1].end
		return splice(text, after, after, slices.Concat([]byte(","), space, added))
	}
	return splice(text, neighbour.start, neighbour.start, slices.Concat(added, []byte(","), space))
}

// insertAt returns the index at which to insert name: by the order of names, or at the end if it is not among them.
func insertAt(all []part, name string, names []string) int {
	place := slices.Index(names, name)
	if place < 0 {
		return len(all)
	}
	next := slices.IndexFunc(all, func(p part) bool { return slices.Index(names, p.name) > place })
	if next < 0 {
		return len(all)
	}
	return next
}

// remove returns the text of a value without the member at path.
func remove(text []byte, path []string) []byte {
	p, ok := find(text, path[0])
	if !ok {
		return text
	}
	if len(path) > 1 {
		return splice(text, p.value, p.end, remove(text[p.value:p.end], path[1:]))
	}
	all := parts(text)
	i := slices.Index(all, p)
	switch {
	case i+1 < len(all):
		return splice(text, p.start, all[i+1].start, nil)
	case i > 0:
		return splice(text, all[i-1].end, p.end, nil)
	}
	return splice(text, p.start, p.end, nil)
}

// mergeMembers returns the object own with the members of another one, which replace those of own, except those named in
// keep. Where both have an object, these are merged. The known members come first, in their order.
func mergeMembers(own, other []byte, keep []string, f *Field) []byte {
	texts := make(map[string][]byte)
	var names []string
	for _, m := range parts(own) {
		names = append(names, m.name)
		texts[m.name] = own[m.value:m.end]
	}
	for _, m := range parts(other) {
		value := other[m.value:m.end]
		was, both := texts[m.name]
		switch {
		case slices.Contains(keep, m.name):
			continue
		case !both:
			names = append(names, m.name)
		case was[0] == '{' && value[0] == '{':
			value = mergeMembers(was, value, nil, f.At(m.name))
		}
		texts[m.name] = value
	}
	known := f.names()
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(rank(a, known), rank(b, known)) })
	var text []byte
	for _, name := range names {
		text = append(append(append(append(text, quote(name)...), ':'), texts[name]...), ',')
	}
	return slices.Concat([]byte("{"), bytes.TrimSuffix(text, []byte(",")), []byte("}"))
}

// rank returns the place of a member among the known ones; unknown ones come last.
func rank(name string, known []string) int {
	if i := slices.Index(known, name); i >= 0 {
		return i
	}
	return len(known)
}

// splice returns text with the bytes from start to end replaced. The text itself stays.
func splice(text []byte, start, end int, by []byte) []byte {
	return slices.Concat(text[:start], by, text[end:])
}

// spaceBefore returns the white space before a part.
func spaceBefore(text []byte, p part) []byte {
	before := text[:p.start]
	return before[len(bytes.TrimRight(before, " \t\r\n")):]
}

// spaceBetween returns the white space that follows the commas between parts.
func spaceBetween(text []byte, all []part) []byte {
	if len(all) > 1 {
		return spaceBefore(text, all[1])
	}
	space := spaceBefore(text, all[0])
	if len(space) == 0 && all[0].start < all[0].value {
		return colon(text, all[0])[1:]
	}
	return space
}

// colon returns the colon between the name and the value of a member, with the white space after it.
func colon(object []byte, m part) []byte {
	between := object[m.start:m.value]
	return between[bytes.LastIndexByte(between, ':'):]
}

// indentation returns the white space at the start of the line that a part begins. It reports false if the part does not
// begin a line.
func indentation(text []byte, p part) (string, bool) {
	space := spaceBefore(text, p)
	newline := bytes.LastIndexByte(space, '\n')
	if newline < 0 || bytes.IndexByte(space, '\r') > newline {
		return "", false
	}
	return string(space[newline+1:]), true
}

// laidOut formats a value over several lines if its neighbour begins a line, and returns it unchanged otherwise.
func (e editor) laidOut(value, text []byte, neighbour part) []byte {
	prefix, ok := indentation(text, neighbour)
	if !ok {
		return value
	}
	value = indented(value, prefix, e.unit)
	if bytes.Contains(spaceBefore(text, neighbour), []byte("\r\n")) {
		value = bytes.ReplaceAll(value, []byte("\n"), []byte("\r\n"))
	}
	return value
}

// indented formats a value over several lines, for lines that begin with prefix.
func indented(value []byte, prefix, unit string) []byte {
	v := jsontext.Value(bytes.Clone(value))
	if err := v.Indent(jsontext.WithIndentPrefix(prefix), jsontext.WithIndent(unit)); err != nil {
		return value // not JSON; the check that follows reports it
	}
	return v
}

func quote(name string) []byte {
	b, _ := jsontext.AppendQuote(nil, name) // document.set has checked that it is UTF-8
	return b
}
