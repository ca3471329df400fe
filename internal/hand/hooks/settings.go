package hooks

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// child is a member of a JSON object or an element of an array, with its place in the document.
type child struct {
	name       string // of a member
	begin      int    // of the name, or of the element
	value, end int
}

// children lists what is in the object or array that begins at an offset of the document.
func children(doc []byte, at int) ([]child, error) {
	in := jsontext.NewDecoder(bytes.NewReader(doc[at:]))
	open, err := in.ReadToken()
	if err != nil {
		return nil, err
	}
	isObject := open.Kind() == '{'
	if !isObject && open.Kind() != '[' {
		return nil, errors.New("neither an object nor an array")
	}
	var all []child
	for in.PeekKind() != '}' && in.PeekKind() != ']' {
		var c child
		if isObject {
			before := doc[at+int(in.InputOffset()):]
			c.begin = len(doc) - len(bytes.TrimLeft(before, ", \t\r\n"))
			name, err := in.ReadToken()
			if err != nil {
				return nil, err
			}
			c.name = name.String()
		}
		value, err := in.ReadValue()
		if err != nil {
			return nil, err
		}
		c.end = at + int(in.InputOffset())
		c.value = c.end - len(value)
		if !isObject {
			c.begin = c.value
		}
		all = append(all, c)
	}
	return all, nil
}

// whole checks that a document is one JSON object, and returns where it begins.
func whole(doc []byte) (int, error) {
	in := jsontext.NewDecoder(bytes.NewReader(doc))
	value, err := in.ReadValue()
	if err != nil {
		return 0, err
	}
	begin, kind := int(in.InputOffset())-len(value), value.Kind()
	if _, err := in.ReadToken(); !errors.Is(err, io.EOF) {
		return 0, errors.New("more than one JSON value")
	}
	if kind != '{' {
		return 0, errors.New("not a JSON object")
	}
	return begin, nil
}

// addTo adds an element to the array doc[object][name] at its end, and makes both if they are missing. It changes nothing else.
func addTo(doc, element []byte, object, name string) ([]byte, error) {
	root, err := whole(doc)
	if err != nil {
		return nil, err
	}
	inner, err := memberOf(doc, root, object)
	if err != nil {
		return nil, err
	}
	if inner < 0 {
		return insert(doc, root, fmt.Appendf(nil, "%s: {%s: [%s]}", strconv.Quote(object), strconv.Quote(name), element))
	}
	array, err := memberOf(doc, inner, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", object, err)
	}
	if array < 0 {
		return insert(doc, inner, fmt.Appendf(nil, "%s: [%s]", strconv.Quote(name), element))
	}
	if doc[array] != '[' {
		return nil, fmt.Errorf("%s.%s: not an array", object, name)
	}
	return insert(doc, array, element)
}

// memberOf returns where the value of a member begins, or -1.
func memberOf(doc []byte, object int, name string) (int, error) {
	if doc[object] != '{' {
		return 0, errors.New("not an object")
	}
	all, err := children(doc, object)
	if err != nil {
		return 0, err
	}
	for _, c := range all {
		if c.name == name {
			return c.value, nil
		}
	}
	return -1, nil
}

// insert adds a text as the last child of the object or array at an offset, with the white space that its last child has.
func insert(doc []byte, at int, text []byte) ([]byte, error) {
	all, err := children(doc, at)
	if err != nil {
		return nil, err
	}
	place, before := at+1, ""
	if len(all) > 0 {
		last := all[len(all)-1]
		place = last.end
		space := doc[:last.begin]
		before = "," + string(space[len(bytes.TrimRight(space, " \t\r\n")):])
	}
	return cut(doc, place, place, append([]byte(before), text...)), nil
}

// cut returns the document with the text in place of a part of it.
func cut(doc []byte, begin, end int, text []byte) []byte {
	return append(append(append([]byte{}, doc[:begin]...), text...), doc[end:]...)
}

// removeFrom removes the elements of the arrays in doc[object] for which drop is true, then the arrays that this left empty,
// and then the object if it is empty.
func removeFrom(doc []byte, drop func(element []byte) bool, object string) ([]byte, error) {
	for {
		root, err := whole(doc)
		if err != nil {
			return nil, err
		}
		path, err := find(doc, root, drop, object)
		if err != nil || path == nil {
			return doc, err
		}
		for len(path) > 1 && len(path[len(path)-1].all) == 1 { // the container would be empty
			path = path[:len(path)-1]
		}
		doc = path[len(path)-1].without(doc)
	}
}

// spot is a child of one container.
type spot struct {
	at  int // the container
	all []child
	i   int
}

// without removes the child, with the comma and the white space before it.
func (s spot) without(doc []byte) []byte {
	c := s.all[s.i]
	switch {
	case s.i > 0:
		return cut(doc, s.all[s.i-1].end, c.end, nil)
	case len(s.all) > 1:
		return cut(doc, c.begin, s.all[1].begin, nil)
	}
	return cut(doc, s.at+1, c.end, nil)
}

// find returns the way from the root to the first element for which drop is true, or nil.
func find(doc []byte, root int, drop func(element []byte) bool, object string) ([]spot, error) {
	top, err := children(doc, root)
	if err != nil {
		return nil, err
	}
	for i, c := range top {
		if c.name != object || doc[c.value] != '{' {
			continue
		}
		arrays, err := children(doc, c.value)
		if err != nil {
			return nil, err
		}
		for j, a := range arrays {
			if doc[a.value] != '[' {
				continue
			}
			elements, err := children(doc, a.value)
			if err != nil {
				return nil, err
			}
			for k, e := range elements {
				if drop(doc[e.value:e.end]) {
					return []spot{{root, top, i}, {c.value, arrays, j}, {a.value, elements, k}}, nil
				}
			}
		}
	}
	return nil, nil
}
