package hooks

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tailscale/hujson"
)

// parseObject parses a document that is one JSON object. Packed again, it is the same byte for byte.
func parseObject(doc []byte) (hujson.Value, *hujson.Object, error) {
	v, err := hujson.Parse(doc)
	if err != nil {
		return v, nil, err
	}
	object, ok := v.Value.(*hujson.Object)
	switch {
	case !ok:
		err = errors.New("not a JSON object")
	case !jsontext.Value(doc).IsValid():
		err = errors.New("it has comments, a trailing comma, invalid UTF-8 or a name twice")
	}
	return v, object, err
}

func isNamed(m hujson.ObjectMember, name string) bool {
	return m.Name.Value.(hujson.Literal).String() == name
}

// member returns the value of a member. A missing one is added at the end with an empty value, and the white space of the last.
func member[T hujson.ValueTrimmed](of *hujson.Object, name string, empty T) (T, error) {
	i := slices.IndexFunc(of.Members, func(m hujson.ObjectMember) bool { return isNamed(m, name) })
	if i < 0 {
		i = len(of.Members)
		added := hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(name)}, Value: hujson.Value{BeforeExtra: hujson.Extra(" "), Value: empty}}
		if i > 0 {
			added.Name.BeforeExtra = of.Members[i-1].Name.BeforeExtra
		}
		of.Members = append(of.Members, added)
	}
	value, ok := of.Members[i].Value.Value.(T)
	if !ok {
		return value, fmt.Errorf("%s: want %c", name, empty.Kind())
	}
	return value, nil
}

// addTo adds an element to the array doc[object][name] at its end, and makes both if they are missing. It changes nothing else.
func addTo(doc, element []byte, object, name string) ([]byte, error) {
	v, root, err := parseObject(doc)
	if err != nil {
		return nil, err
	}
	inner, err := member(root, object, &hujson.Object{})
	if err != nil {
		return nil, err
	}
	array, err := member(inner, name, &hujson.Array{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", object, err)
	}
	added, err := hujson.Parse(element)
	if err != nil {
		return nil, err
	}
	if n := len(array.Elements); n > 0 {
		added.BeforeExtra = array.Elements[n-1].BeforeExtra
	}
	array.Elements = append(array.Elements, added)
	return v.Pack(), nil
}

// removeFrom removes the elements of the arrays in doc[object] for which drop is true, then the arrays that this left empty,
// and then the object if it is empty.
func removeFrom(doc []byte, drop func(element []byte) bool, object string) ([]byte, error) {
	v, root, err := parseObject(doc)
	if err != nil {
		return nil, err
	}
	root.Members = withoutMembers(root.Members, func(m hujson.ObjectMember) bool {
		inner, ok := m.Value.Value.(*hujson.Object)
		if !ok || !isNamed(m, object) {
			return false
		}
		n := len(inner.Members)
		inner.Members = withoutMembers(inner.Members, func(m hujson.ObjectMember) bool {
			array, ok := m.Value.Value.(*hujson.Array)
			if !ok {
				return false
			}
			n := len(array.Elements)
			array.Elements = withoutValues(array.Elements, func(e hujson.Value) bool { return drop(doc[e.StartOffset:e.EndOffset]) })
			return len(array.Elements) < n && len(array.Elements) == 0
		})
		return len(inner.Members) < n && len(inner.Members) == 0
	})
	return v.Pack(), nil
}

// withoutMembers removes the members for which drop is true, each with the comma and the white space before it.
func withoutMembers(all []hujson.ObjectMember, drop func(hujson.ObjectMember) bool) []hujson.ObjectMember {
	kept := slices.DeleteFunc(slices.Clone(all), drop)
	if n := len(kept); n > 0 {
		kept[0].Name.BeforeExtra, kept[n-1].Value.AfterExtra = all[0].Name.BeforeExtra, nil
	}
	return kept
}

// withoutValues is withoutMembers for the elements of an array.
func withoutValues(all []hujson.Value, drop func(hujson.Value) bool) []hujson.Value {
	kept := slices.DeleteFunc(slices.Clone(all), drop)
	if n := len(kept); n > 0 {
		kept[0].BeforeExtra, kept[n-1].AfterExtra = all[0].BeforeExtra, nil
	}
	return kept
}
