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

func (t form) whole() bool  { return strings.HasPrefix(t.kind, "int") }
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
	case t.kind == "time":
		return map[string]any{"v": []any{"time.Time", []any{json.Number("-62135596800"), literal(0), "UTC", literal(0)}}}, true
	case t.kind == "struct" || t.kind == "array":
		return t.compose(zero)
	case slices.Contains([]string{"slice", "map", "ptr", "error", "interface"}, t.kind):
		return nil, true
	}
	return nil, false // functions and objects that stay with the delivery
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

// goLies returns the table of Go. A lie answers with values of the types that the function has; a second result is zero.
func goLies(thrown, errs []any) []*lie {
	var table []*lie
	value := func(says string, joint bool, f func(r *replay) func(form) (any, bool)) {
		table = append(table, &lie{says: says, joint: joint, tell: func(r *replay, asked frame) (frame, bool) {
			v, ok := answers(results(asked), f(r))
			return frame{kind: answer, value: v}, ok
		}})
	}
	value("zero values", true, func(*replay) func(form) (any, bool) { return zero })
	value("true and zero values", true, func(*replay) func(form) (any, bool) {
		return func(t form) (any, bool) {
			if t.kind == "bool" {
				return true, true
			}
			return zero(t)
		}
	})
	value("1, true and empty", true, func(r *replay) func(form) (any, bool) { return full(r.fresh, true, "1", "") })
	value("1, false and empty", true, func(r *replay) func(form) (any, bool) { return full(r.fresh, false, "1", "") })
	value("-1", true, func(r *replay) func(form) (any, bool) { return full(r.fresh, false, "-1", "") })
	value("0 and empty", true, func(r *replay) func(form) (any, bool) { return full(r.fresh, false, "0", "") })
	for _, e := range errs {
		value("an error that the tests expect", true, func(r *replay) func(form) (any, bool) {
			return func(t form) (any, bool) {
				if t.kind == "error" {
					return r.now(e)
				}
				return zero(t)
			}
		})
	}
	table = append(table, goGiven()...)
	for _, l := range exceptions(thrown) {
		l.says = "a panic that the tests expect"
		table = append(table, l)
	}
	var all []*lie
	for _, l := range table {
		if slices.Contains([]string{"zero values", "true and zero values", "0 and empty", "its first argument", "its second argument"}, l.says) {
			all = append(all, &lie{says: l.says + ", and it empties what it is given", empty: true, needs: needsContainers, tell: func(r *replay, asked frame) (frame, bool) {
				to, ok := l.tell(r, asked)
				to.extra = r.cleared(asked)
				return to, ok && to.extra != nil
			}})
		}
	}
	return append(table, all...)
}

// goGiven returns the lies that give something back, where it has the type of the first result.
func goGiven() []*lie {
	var table []*lie
	add := func(says string, keeps bool, pick func(r *replay, asked frame, want form) (any, bool)) {
		table = append(table, &lie{says: says, keeps: keeps, tell: func(r *replay, asked frame) (frame, bool) {
			types, first := results(asked), true
			v, ok := answers(types, func(t form) (any, bool) {
				if first {
					first = false
					return pick(r, asked, t)
				}
				return zero(t)
			})
			return frame{kind: answer, value: v}, ok && len(types) > 0
		}})
	}
	argument := func(i int) func(*replay, frame, form) (any, bool) {
		return func(r *replay, asked frame, want form) (any, bool) {
			return typedArgument(r.script.arguments(asked), inputs(asked), i, want)
		}
	}
	add("its first argument", false, argument(0))
	add("its second argument", false, argument(1))
	for words, i := range map[string]int{"the first item of its first argument": 0, "the last item of its first argument": -1} {
		add(words, false, func(r *replay, asked frame, want form) (any, bool) {
			types := inputs(asked)
			if len(types) == 0 || types[0].kind != "slice" || len(types[0].of) != 1 || types[0].of[0].name != want.name {
				return nil, false
			}
			v := item(r.script.arguments(asked), i)
			return v, v != nil
		})
	}
	add("itself", false, func(r *replay, asked frame, want form) (any, bool) {
		n, _, ok := numbered(at(asked.args, 0))
		name, _ := receiverClass(r.script.definitions[r.back[n]])
		return known(n), ok && asked.op == "method" && want.kind == "ptr" && name != "" && strings.HasSuffix(name, strings.TrimPrefix(want.name, "*"))
	})
	for words, of := range map[string]func(r *replay) int{
		"an argument of the call before": func(r *replay) int { return len(r.calls) - 1 },
		"an argument of the first call":  func(*replay) int { return 0 },
	} {
		add(words, true, func(r *replay, _ frame, want form) (any, bool) {
			i := of(r)
			if i < 0 || i >= len(r.calls) {
				return nil, false
			}
			for j := range r.calls[i].given {
				v, ok := typedArgument(r.calls[i].given, r.calls[i].types, j, want)
				if n, _, isNumber := numbered(v); ok && (!isNumber || r.known[n]) {
					return v, true
				}
			}
			return nil, false
		})
	}
	slices.SortStableFunc(table, func(a, b *lie) int { return strings.Compare(a.says, b.says) })
	return append(table, &lie{says: "what it was given for a token", joint: true, needs: needsArgument(0), tell: goToken})
}

// typedArgument returns an argument as it is sent back, if it has a type.
func typedArgument(given []any, types []form, i int, want form) (any, bool) {
	if i >= len(given) || i >= len(types) || types[i].name != want.name {
		return nil, false
	}
	if tag, _ := tagged(given[i]); tag == "x" || tag == "h" {
		return nil, false
	}
	return back(given[i]), true
}

// goToken hands out a text for what it is given, and gives that back for the text.
func goToken(r *replay, asked frame) (frame, bool) {
	given, types, out := r.script.arguments(asked), inputs(asked), results(asked)
	if len(given) == 0 || len(types) == 0 || len(out) == 0 {
		return frame{}, false
	}
	token, _ := given[0].(string)
	kept, there := r.tokens[token]
	v, ok := answers(out, func() func(t form) (any, bool) {
		first := true
		return func(t form) (any, bool) {
			switch {
			case !first:
				return zero(t)
			case there:
				first = false
				c, _ := kept.(call)
				return typedArgument(c.given, c.types, 0, t)
			}
			first = false
			return "token" + text(len(r.tokens)), t.kind == "string"
		}
	}())
	if ok && !there {
		r.tokens["token"+text(len(r.tokens))] = call{given, types}
	}
	return frame{kind: answer, value: v}, ok
}

// cleared returns what lets a call empty what it is given: maps lose their keys, the items of slices and what pointers
// point to become zero.
func (r *replay) cleared(asked frame) map[string]any {
	types := inputs(asked)
	var updates []any
	for i, v := range r.script.arguments(asked) {
		tag, payload := tagged(v)
		parts, _ := payload.([]any)
		n, defines, ok := numbered(v)
		if !ok || !defines || i >= len(types) || n == 0 {
			continue
		}
		items, _ := at(parts, 1).([]any)
		switch of := types[i].of; tag {
		case "D":
			updates = append(updates, []any{literal(n), []any{}})
		case "L", "P":
			if len(of) != 1 {
				continue
			}
			if v, ok := zero(of[0]); ok && tag == "P" {
				updates = append(updates, []any{literal(n), v})
			} else if ok {
				updates = append(updates, []any{literal(n), slices.Repeat([]any{v}, len(items))})
			}
		case "Y":
			hex, _ := at(parts, 1).(string)
			updates = append(updates, []any{literal(n), strings.Repeat("0", len(hex))})
		}
	}
	if updates == nil {
		return nil
	}
	return map[string]any{"u": updates}
}
