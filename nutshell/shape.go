package nutshell

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// shape is what the specification knows of a value in a document, read off the Go type for it: which members it
// has and in which order, or what its elements are. The zero shape knows nothing.
type shape struct {
	of    reflect.Type
	first []string // the order of the members, where the type has only some of them
}

// shapeOf is the shape of a document, by its file.
func shapeOf(file string) shape {
	switch file {
	case ManifestFile:
		return shape{reflect.TypeFor[Sections](), order}
	case ResultFile:
		return shape{reflect.TypeFor[Result](), order}
	case CriteriaFile:
		return shape{of: reflect.TypeFor[Criteria]()}
	case EndpointsFile:
		return shape{of: reflect.TypeFor[Endpoints]()}
	}
	return shape{}
}

// kind is that of the Go type; Invalid if nothing is known.
func (s shape) kind() reflect.Kind {
	if s.of == nil || s.of == reflect.TypeFor[json.RawMessage]() {
		return reflect.Invalid
	}
	return s.of.Kind()
}

// isList and isObject report what a value must be; neither is true if nothing is known.
func (s shape) isList() bool   { return s.kind() == reflect.Slice }
func (s shape) isObject() bool { return s.kind() == reflect.Struct || s.kind() == reflect.Map }

// names lists the members in their order.
func (s shape) names() []string {
	if s.first != nil {
		return s.first
	}
	var names []string
	for _, f := range fieldsOf(s.of) {
		names = append(names, f.name)
	}
	return names
}

// at is the shape of a member or an element.
func (s shape) at(step string) shape {
	var inner reflect.Type
	switch s.kind() {
	case reflect.Map, reflect.Slice:
		inner = s.of.Elem()
	case reflect.Struct:
		all := fieldsOf(s.of)
		if i := slices.IndexFunc(all, func(f field) bool { return f.name == step }); i >= 0 {
			inner = all[i].of
		}
	}
	if inner != nil && inner.Kind() == reflect.Pointer {
		inner = inner.Elem()
	}
	return shape{of: inner}
}

// field is a field of a struct that stands for a member.
type field struct {
	name string
	of   reflect.Type
}

// knownFields are the fields of every struct that a document may have, read off the types once.
var knownFields = sync.OnceValue(func() map[reflect.Type][]field {
	all := map[reflect.Type][]field{}
	for _, file := range []string{ManifestFile, ResultFile, CriteriaFile, EndpointsFile} {
		readFields(all, shapeOf(file).of)
	}
	return all
})

// readFields reads the fields of t, and of what is in it.
func readFields(all map[reflect.Type][]field, t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if _, done := all[t]; done || t.Kind() != reflect.Struct {
		return
	}
	var fields []field
	for _, f := range reflect.VisibleFields(t) {
		if name := nameOf(f); name != "" {
			fields = append(fields, field{name, f.Type})
		}
	}
	all[t] = fields
	for _, f := range fields {
		readFields(all, f.of)
	}
}

// fieldsOf lists the fields of a struct that stand for members.
func fieldsOf(t reflect.Type) []field { return knownFields()[t] }

// nameOf is the name of the member that a field stands for, or nothing.
func nameOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return strings.TrimPrefix(name, "-")
}
