package gowire

import (
	"bytes"
	"reflect"
	"strconv"
)

// Limits of a description.
const (
	maxParts       = 64
	maxLevels      = 4
	maxDescription = 4 << 10 // bytes
)

// signature adds the types of arguments and results to the extra member of a request. The judge, which may answer in
// place of the delivery, needs them: a value of another type would end the conversation. p.mu is held.
func (p *Peer) signature(extra []byte, types *[2][]reflect.Value) []byte {
	b := bytes.TrimSuffix(extra, []byte("}"))
	if len(b) > 1 {
		b = append(b, ',')
	}
	b = append(b, `"s":[`...)
	for i, list := range types {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		for j, v := range list {
			if j > 0 {
				b = append(b, ',')
			}
			b = append(b, p.described(v.Type())...)
		}
		b = append(b, ']')
	}
	return append(b, "]}"...)
}

// described returns the description of a type: its name, its kind, its parts and its length.
func (p *Peer) described(t reflect.Type) []byte {
	known := p.descriptions[t]
	if known == nil {
		if known = p.describe(t, 0); len(known) > maxDescription {
			known = describe(t, without(t), nil, 0)
		}
		p.descriptions[t] = known
	}
	return known
}

func (p *Peer) describe(t reflect.Type, level int) []byte {
	kind, size := t.Kind().String(), 0
	var parts []reflect.Type
	switch {
	case t == timeType:
		kind = "time"
	case t == errorType:
		kind = "error"
	case p.handles[t]:
		kind = "handle"
	case level > maxLevels:
		kind = without(t)
	case t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice:
		parts = []reflect.Type{t.Elem()}
	case t.Kind() == reflect.Array:
		parts, size = []reflect.Type{t.Elem()}, t.Len()
	case t.Kind() == reflect.Map:
		parts = []reflect.Type{t.Key(), t.Elem()}
	case t.Kind() == reflect.Struct:
		for i := range min(t.NumField(), maxParts+1) {
			parts = append(parts, t.Field(i).Type)
		}
	}
	if len(parts) > maxParts || size > maxParts {
		return describe(t, without(t), nil, 0)
	}
	var of [][]byte
	for _, part := range parts {
		of = append(of, p.describe(part, level+1))
	}
	return describe(t, kind, of, size)
}

// without returns the kind of a type that is described without its parts. Null is the zero value of "?".
func without(t reflect.Type) string {
	if t.Kind() == reflect.Struct || t.Kind() == reflect.Array {
		return "?"
	}
	return t.Kind().String()
}

func describe(t reflect.Type, kind string, of [][]byte, size int) []byte {
	b := append([]byte{'['}, strconv.Quote(t.String())...)
	b = append(append(append(b, ','), strconv.Quote(kind)...), ",["...)
	b = append(append(b, bytes.Join(of, []byte{','})...), "],"...)
	return append(strconv.AppendInt(b, int64(size), 10), ']')
}
