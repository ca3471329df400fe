package strength

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"
)

// form describes the type of an argument or a result of a Go function. The tests' side sends it with each request, because
// a value of another type would end the conversation and show nothing.
type form struct {
	name string // as Go writes it
	kind string // of package reflect, or time, error, handle (an object that stays with the delivery)
	of   []form // the element of a pointer, slice or array, key and element of a map, fields of a struct
	size int    // of an array
}

// Limits of forms.
const (
	deepest   = 8
	mostParts = 64
)

// forms reads the types that come with a request: those of its arguments or of its results.
func forms(f frame, which int) []form {
	both, _ := f.extra["s"].([]any)
	list, _ := at(both, which).([]any)
	var all []form
	for _, v := range list[:min(len(list), mostParts)] {
		all = append(all, readForm(v, 0))
	}
	return all
}

func inputs(f frame) []form  { return forms(f, 0) }
func results(f frame) []form { return forms(f, 1) }

// readForm reads one type: [name, kind, parts, size].
func readForm(v any, level int) form {
	parts, _ := v.([]any)
	var t form
	t.name, _ = at(parts, 0).(string)
	t.kind, _ = at(parts, 1).(string)
	of, _ := at(parts, 2).([]any)
	size, _ := integer(at(parts, 3))
	t.size = int(min(size, mostParts+1))
	if level > deepest || len(of) > mostParts || size < 0 || size > mostParts {
		return form{name: t.name, kind: "?"}
	}
	for _, p := range of {
		t.of = append(t.of, readForm(p, level+1))
	}
	return t
}

func (t form) whole() bool {
	return slices.Contains([]string{"int", "int8", "int16", "int32", "int64"}, t.kind)
}
func (t form) any() bool    { return t.name == "interface {}" }
func (t form) counts() bool { return strings.HasPrefix(t.kind, "uint") }
func (t form) float() bool  { return strings.HasPrefix(t.kind, "float") }

// zero returns the zero value of a type, false for what cannot be sent.
func zero(t form) (any, bool) {
	switch {
	case t.kind == "bool":
		return false, true
	case t.whole() || t.counts():
		return json.Number("0"), true
	case t.float():
		return json.Number("0.0"), true
	case t.kind == "string":
		return "", true
	case strings.HasPrefix(t.kind, "complex"):
		return map[string]any{"c": []any{json.Number("0.0"), json.Number("0.0")}}, true
	case t.kind == "time":
		return map[string]any{"v": []any{"time.Time", []any{json.Number("-62135596800"), literal(0), "UTC", literal(0)}}}, true
	case t.kind == "struct" || t.kind == "array":
		return t.compose(zero)
	case slices.Contains([]string{"slice", "map", "ptr", "error", "interface", "func", "?"}, t.kind):
		return nil, true
	}
	return nil, false // objects that stay with the delivery
}

// compose returns a struct or an array whose parts f gives.
func (t form) compose(f func(form) (any, bool)) (any, bool) {
	parts := t.of
	if t.kind == "array" && len(t.of) == 1 {
		parts = slices.Repeat(t.of, t.size)
	}
	list := make([]any, len(parts))
	for i, p := range parts {
		var ok bool
		if list[i], ok = f(p); !ok {
			return nil, false
		}
	}
	return map[string]any{"t": list}, true
}

// full returns what makes values of a boolean, a number and a text, with pointers and containers that are not nil.
func full(fresh func() int64, yes bool, number, words string) func(form) (any, bool) {
	var full func(t form) (any, bool)
	full = func(t form) (any, bool) {
		switch {
		case t.kind == "bool":
			return yes, true
		case t.counts() && strings.HasPrefix(number, "-"):
			return json.Number("0"), true
		case t.whole() || t.counts():
			return json.Number(number), true
		case t.float():
			return json.Number(number + ".0"), true
		case strings.HasPrefix(t.kind, "complex"):
			return map[string]any{"c": []any{json.Number(number + ".0"), json.Number("0.0")}}, true
		case t.kind == "string":
			return words, true
		case t.kind == "slice" && isBytes(t):
			return map[string]any{"Y": []any{literal(fresh()), ""}}, true
		case t.kind == "slice":
			return map[string]any{"L": []any{literal(fresh()), []any{}}}, true
		case t.kind == "map":
			return map[string]any{"D": []any{literal(fresh()), []any{}}}, true
		case t.kind == "ptr" && len(t.of) == 1:
			v, ok := zero(t.of[0])
			return map[string]any{"P": []any{literal(fresh()), v}}, ok
		case t.kind == "struct" || t.kind == "array":
			return t.compose(full)
		}
		return zero(t)
	}
	return full
}

func isBytes(t form) bool { return len(t.of) == 1 && t.of[0].kind == "uint8" }

// answers returns the answer of a function with results of these types.
func answers(types []form, f func(form) (any, bool)) (any, bool) {
	if len(types) == 0 {
		return nil, true
	}
	all, ok := form{kind: "struct", of: types}.compose(f)
	if len(types) == 1 && ok {
		return all.(map[string]any)["t"].([]any)[0], true
	}
	return all, ok
}

// otherResults returns other answers of a function: with one result changed.
func otherResults(types []form, v any) []any {
	switch len(types) {
	case 0:
		return nil
	case 1:
		return types[0].others(v)
	}
	_, payload := tagged(v)
	list, _ := payload.([]any)
	return otherParts(types, list)
}

// otherParts returns other tuples: with one part changed.
func otherParts(types []form, list []any) []any {
	var all []any
	for i := range min(len(types), len(list)) {
		for _, other := range types[i].others(list[i]) {
			parts := slices.Clone(list)
			parts[i] = other
			all = append(all, map[string]any{"t": parts})
		}
	}
	return all
}

// others returns other values of a type.
func (t form) others(v any) []any {
	tag, payload := tagged(v)
	parts, _ := payload.([]any)
	items, _ := at(parts, 1).([]any)
	switch {
	case t.kind == "error" && v == nil:
		return []any{anError("~")}
	case t.kind == "error":
		return []any{nil, anError("~")}
	case t.whole() || t.counts():
		return t.numbers(v)
	case v == nil:
		other, ok := full(func() int64 { return unnumbered }, true, "1", "~")(t)
		if ok && (t.kind == "slice" || t.kind == "map") && len(t.of) > 0 {
			other, ok = t.holding(other)
		}
		if !ok || other == nil {
			return nil
		}
		return []any{other}
	case t.kind == "struct" && tag == "t" && len(parts) == len(t.of):
		return spread(otherParts(t.of, parts), 8)
	case (t.kind == "slice" || t.kind == "map") && len(items) == 0 && tag != "Y" && tag != "k":
		if other, ok := t.holding(v); ok {
			return []any{other}
		}
		return nil
	}
	return Go.others(v)
}

// unnumbered stands for the number of a value that a change makes. Each run gives it another.
const unnumbered = 0

// holding returns a slice or map with one item.
func (t form) holding(v any) (any, bool) {
	tag, payload := tagged(v)
	parts, _ := payload.([]any)
	var items []any
	for i, p := range t.of {
		item, ok := zero(p)
		if !ok || len(parts) != 2 {
			return nil, false
		}
		if t.kind == "map" && i == 0 && p.kind == "string" {
			item = "~"
		}
		items = append(items, item)
	}
	if isBytes(t) {
		return map[string]any{"Y": []any{literal(unnumbered), "7e"}}, true
	}
	return map[string]any{tag: []any{literal(unnumbered), items}}, true
}

// numbers returns other integers that fit.
func (t form) numbers(v any) []any {
	bits := map[string]int{"8": 8, "16": 16, "32": 32}[strings.TrimLeft(t.kind, "uint")]
	if bits == 0 {
		bits = 62
	}
	low, high := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(bits))
	if t.whole() {
		high.Rsh(high, 1)
		low.Neg(high)
	}
	n, ok := v.(json.Number)
	if !ok {
		return []any{json.Number("7")}
	}
	var all []any
	for _, other := range Python.otherNumbers(n) {
		text, _ := other.(json.Number)
		m, ok := new(big.Int).SetString(text.String(), 10)
		if ok && m.Cmp(low) >= 0 && m.Cmp(high) < 0 {
			all = append(all, other)
		}
	}
	return all
}

// anError is an error of the delivery's.
func anError(says string) any {
	return map[string]any{"E": []any{literal(unnumbered), "error", nil, says, []any{}, []any{}}}
}

// near returns another integer that fits every type that the first fits.
func near(n *big.Int) any {
	other := new(big.Int).Add(n, big.NewInt(1))
	if n.Sign() > 0 {
		other.Sub(n, big.NewInt(1))
	}
	return whole(other)
}

// otherGo returns other values of a type that is not known, of the same form.
func otherGo(l *Language, tag string, payload any) []any {
	parts, _ := payload.([]any)
	switch tag {
	case "t", "c":
		return tag1(tag, l.otherItems(parts, 4, false))
	case "T":
		if len(parts) == 2 {
			return inside(tag, parts, l.others(parts[1]))
		}
	case "P":
		if len(parts) == 2 {
			return inside(tag, parts, l.others(parts[1]))
		}
	case "Y":
		if hex, ok := at(parts, 1).(string); ok && len(parts) == 2 {
			return inside(tag, parts, []any{l.otherHex(hex), ""})
		}
	case "v":
		return l.otherSpecials(parts)
	case "E":
		if len(parts) == 6 {
			p := slices.Clone(parts)
			text, _ := p[3].(string)
			p[3] = text + "~"
			return []any{map[string]any{"E": p}}
		}
	case "g":
		return []any{anError("~")}
	case "i":
		return []any{json.Number("7")}
	}
	return nil
}
