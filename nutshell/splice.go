package nutshell

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// member is where one member of an object stands in the object's text.
type member struct {
	name       string
	start      int // of the quoted name
	value, end int // of the value
}

// members lists the members of an object whose syntax has been checked. Of anything else there are none.
func members(object []byte) []member {
	d := jsontext.NewDecoder(bytes.NewBuffer(object))
	if begin, err := d.ReadToken(); err != nil || begin.Kind() != '{' {
		return nil
	}
	var all []member
	for d.PeekKind() == '"' {
		quoted, err := d.ReadValue()
		if err != nil {
			break
		}
		name, _ := jsontext.AppendUnquote(nil, quoted) // checked before
		m := member{name: string(name), start: int(d.InputOffset()) - len(quoted)}
		value, err := d.ReadValue()
		if err != nil {
			break
		}
		m.end = int(d.InputOffset())
		m.value = m.end - len(value)
		all = append(all, m)
	}
	return all
}

func indexOf(all []member, name string) int {
	return slices.IndexFunc(all, func(m member) bool { return m.name == name })
}

// setMember returns the text of object with the member at path replaced by value, or added where the order of
// keys wants it.
func setMember(object []byte, path []string, value []byte, keys []string) ([]byte, error) {
	switch jsontext.Value(object).Kind() {
	case 'n':
		return wrap(path, value), nil
	case '{':
	default:
		return nil, errors.New("is within something that is not an object")
	}
	all := members(object)
	i := indexOf(all, path[0])
	if i < 0 {
		return insertMember(object, all, path[0], wrap(path[1:], value), keys), nil
	}
	old := object[all[i].value:all[i].end]
	if len(path) == 1 {
		value = laidOut(value, object, all[i])
	} else {
		var err error
		if value, err = setMember(old, path[1:], value, nil); err != nil {
			return nil, err
		}
	}
	return splice(object, all[i].value, all[i].end, value), nil
}

// wrap puts value into an object for each name of path.
func wrap(path []string, value []byte) []byte {
	for _, name := range slices.Backward(path) {
		value = slices.Concat([]byte("{"), quote(name), []byte(":"), value, []byte("}"))
	}
	return value
}

func insertMember(object []byte, all []member, name string, value []byte, keys []string) []byte {
	if len(all) == 0 {
		return wrap([]string{name}, value)
	}
	next := insertAt(all, name, keys)
	neighbour := all[min(next, len(all)-1)]
	space := spaceBefore(object, neighbour)
	text := slices.Concat(quote(name), colon(object, neighbour), laidOut(value, object, neighbour))
	if next == len(all) {
		at := all[next-1].end
		return splice(object, at, at, slices.Concat([]byte(","), space, text))
	}
	return splice(object, neighbour.start, neighbour.start, slices.Concat(text, []byte(","), space))
}

// insertAt returns the index before which name belongs: where the order of keys wants it, else at the end.
func insertAt(all []member, name string, keys []string) int {
	place := slices.Index(keys, name)
	if place < 0 {
		return len(all)
	}
	next := slices.IndexFunc(all, func(m member) bool { return slices.Index(keys, m.name) > place })
	if next < 0 {
		return len(all)
	}
	return next
}

func removeMember(object []byte, path []string) []byte {
	all := members(object)
	i := indexOf(all, path[0])
	switch {
	case i < 0:
		return object
	case len(path) > 1:
		inner := removeMember(object[all[i].value:all[i].end], path[1:])
		return splice(object, all[i].value, all[i].end, inner)
	case i+1 < len(all):
		return splice(object, all[i].start, all[i+1].start, nil)
	case i > 0:
		return splice(object, all[i-1].end, all[i].end, nil)
	}
	return splice(object, all[i].start, all[i].end, nil)
}

// mergeMembers returns the object own with the members of another one put in, except those named in keep. Where
// both have an object, their members are merged. Known members stand in their order, others follow.
func mergeMembers(own, other []byte, keep []string) []byte {
	texts := make(map[string][]byte)
	var names []string
	for _, m := range members(own) {
		names = append(names, m.name)
		texts[m.name] = own[m.value:m.end]
	}
	for _, m := range members(other) {
		value := other[m.value:m.end]
		was, both := texts[m.name]
		switch {
		case slices.Contains(keep, m.name):
			continue
		case !both:
			names = append(names, m.name)
		case was[0] == '{' && value[0] == '{':
			value = mergeMembers(was, value, nil)
		}
		texts[m.name] = value
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	var text []byte
	for _, name := range names {
		text = append(append(append(append(text, quote(name)...), ':'), texts[name]...), ',')
	}
	return slices.Concat([]byte("{"), bytes.TrimSuffix(text, []byte(",")), []byte("}"))
}

// rank is the place of a member in the specification's order; what is not in it comes last.
func rank(name string) int {
	if i := slices.Index(order, name); i >= 0 {
		return i
	}
	return len(order)
}

// splice returns text with the bytes from start to end replaced. The text itself stays.
func splice(text []byte, start, end int, by []byte) []byte {
	return slices.Concat(text[:start], by, text[end:])
}

// spaceBefore returns the white space before a member, which is how its object is laid out.
func spaceBefore(object []byte, m member) []byte {
	before := object[:m.start]
	return before[len(bytes.TrimRight(before, " \t\r\n")):]
}

// colon returns what stands between the name and the value of a member.
func colon(object []byte, m member) []byte {
	between := object[m.start:m.value]
	return between[bytes.LastIndexByte(between, ':'):]
}

// laidOut formats a value as its neighbour's line is: over several lines, or in one.
func laidOut(value, object []byte, neighbour member) []byte {
	space := spaceBefore(object, neighbour)
	newline := bytes.LastIndexByte(space, '\n')
	if newline < 0 || bytes.IndexByte(space, '\r') > newline {
		return value
	}
	return indented(value, string(space[newline+1:]))
}

// indented formats a value over several lines, for lines that begin with prefix.
func indented(value []byte, prefix string) []byte {
	v := jsontext.Value(bytes.Clone(value))
	if err := v.Indent(jsontext.WithIndentPrefix(prefix), jsontext.WithIndent("  ")); err != nil {
		return value // not JSON, which the check that follows says
	}
	return v
}

func quote(name string) []byte {
	b, _ := jsontext.AppendQuote(nil, name) // document.set has checked that it is UTF-8
	return b
}
