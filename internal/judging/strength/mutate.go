package strength

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"
)

// change is one answer of a recording in another form: a step of an exchange in place of the recorded one.
type change struct {
	at   *exchange
	step int
	to   frame
}

// mostChanges limits how many changes of one exchange are tried.
const mostChanges = 8

// changes returns the ways in which an exchange could have gone otherwise: the answer, what was printed or written, what
// was changed in the test's own containers, and what its functions were given.
func (x *exchange) changes() []change {
	var all []change
	put := func(step int, f frame) { all = append(all, change{x, step, f}) }
	for i, f := range x.steps {
		last := i == len(x.steps)-1
		switch {
		case f.kind == answer && last:
			value := f.value
			if x.gives != nil {
				value = x.gives
			}
			for _, v := range others(value) {
				g := f
				g.value = v
				put(i, g)
			}
		case f.kind == raised && last:
			put(i, frame{kind: answer, extra: f.extra})
			for _, v := range otherExceptions(f.value) {
				g := f
				g.value = v
				put(i, g)
			}
		case f.kind == request && f.op == "call":
			given, _ := at(f.args, 1).([]any)
			for _, v := range otherItems(given, len(given), false) {
				g := f
				g.args = slices.Clone(f.args)
				g.args[1] = v
				put(i, g)
			}
		}
		for _, extra := range otherExtras(f.extra, x.given) {
			g := f
			g.extra = extra
			put(i, g)
		}
	}
	return spread(all, mostChanges)
}

// copied returns the exchange with another object of the same class in place of one that the examiner knows already. It
// answers as that one does, but is not the same. So a test that fails then has compared objects by identity, which only
// the delivery knows.
func (s *script) copied(x *exchange) []change {
	last := len(x.steps) - 1
	if last < 0 || x.steps[last].kind != answer {
		return nil
	}
	n, defines, ok := numbered(x.steps[last].value)
	tag, payload := tagged(s.definitions[n])
	parts, _ := payload.([]any)
	if !ok || defines || tag != "h" || len(parts) < 3 {
		return nil
	}
	s.last += 2
	s.copies[s.last] = n
	f := x.steps[last]
	f.value = map[string]any{"h": append([]any{literal(s.last)}, parts[1:]...)}
	return []change{{x, last, f}}
}

// spread returns at most n items of a list, from all over it.
func spread[T any](list []T, n int) []T {
	if len(list) <= n {
		return list
	}
	some := make([]T, 0, n)
	for i := range n {
		some = append(some, list[i*len(list)/n])
	}
	return some
}

// others returns other values of a value's type, none for what stays with the delivery.
func others(v any) []any {
	switch v := v.(type) {
	case nil:
		return []any{json.Number("7")}
	case bool:
		return []any{!v}
	case json.Number:
		return otherNumbers(v)
	case string:
		return otherTexts(v)
	}
	tag, payload := tagged(v)
	parts, _ := payload.([]any)
	switch tag {
	case "i":
		return []any{json.Number("7")}
	case "f":
		return []any{json.Number("0.5")}
	case "b":
		if data, ok := payload.(string); ok {
			return []any{map[string]any{"b": otherBytes(data)}, map[string]any{"b": ""}}
		}
	case "s":
		return []any{"other"}
	case "t", "z":
		return tag1(tag, otherItems(parts, 4, tag == "t" && len(parts) < 8))
	case "c", "r", "l":
		return tag1(tag, otherItems(parts, 3, false))
	case "L", "Q", "S":
		items, _ := at(parts, 1).([]any)
		return inside(tag, parts, otherItems(items, 4, true))
	case "D", "O", "X", "N":
		items, _ := at(parts, 1).([]any)
		return inside(tag, parts, otherPairs(items))
	case "v":
		return otherSpecials(parts)
	case "h": // derived data has a plain value
		more, _ := at(parts, 2).(map[string]any)
		var all []any
		for _, name := range []string{"d", "c"} {
			value, there := more[name]
			if !there {
				continue
			}
			list, isList := value.([]any)
			changed := others(value)
			if isList {
				changed = otherItems(list, 4, true)
			}
			for _, v := range changed {
				m := maps.Clone(more)
				m[name] = v
				all = append(all, map[string]any{"h": []any{parts[0], parts[1], m}})
			}
		}
		return all
	}
	return nil
}

func otherNumbers(v json.Number) []any {
	n, ok := new(big.Int).SetString(v.String(), 10)
	if !ok {
		f, _ := v.Float64()
		return []any{decimal(f + 1), decimal(-f - 1), decimal(f*1000 + 0.5), json.Number("0.0")}
	}
	one := big.NewInt(1)
	up, down := new(big.Int).Add(n, one), new(big.Int).Sub(n, one)
	far := new(big.Int).Add(new(big.Int).Mul(n, big.NewInt(1000)), big.NewInt(7))
	return []any{whole(up), whole(down), whole(far.Neg(far)), whole(new(big.Int).Neg(up))}
}

func whole(n *big.Int) any {
	if n.BitLen() > 61 {
		return map[string]any{"i": "0x" + n.Text(16)}
	}
	return json.Number(n.String())
}

// decimal returns a number that is read as one with a fraction.
func decimal(f float64) json.Number {
	b, err := json.Marshal(f)
	if err != nil {
		return "0.5"
	}
	if s := string(b); !strings.ContainsAny(s, ".e") {
		return json.Number(s + ".0")
	}
	return json.Number(b)
}

func otherTexts(v string) []any {
	all := []any{v + "~"}
	if v != "" {
		cut := []rune(v)
		all = append(all, "~"+string(cut[1:]), string(cut[1:]), "")
	}
	return all
}

func otherBytes(data string) string {
	b, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return "fg=="
	}
	return base64.StdEncoding.EncodeToString(append(b, '~'))
}

func tag1(tag string, lists []any) []any {
	for i, l := range lists {
		lists[i] = map[string]any{tag: l}
	}
	return lists
}

func inside(tag string, parts []any, lists []any) []any {
	for i, l := range lists {
		p := slices.Clone(parts)
		p[1] = l
		lists[i] = map[string]any{tag: p}
	}
	return lists
}

// otherItems returns other lists: with an item changed and, where resize is set and no item stays with the delivery,
// longer, shorter and empty ones. At most most items are changed.
func otherItems(items []any, most int, resize bool) []any {
	var all []any
	whole := true
	for _, v := range items {
		whole = whole && !delivered(v)
	}
	if resize && whole {
		var more any = json.Number("7")
		if len(items) > 0 {
			more = items[0]
			all = append(all, slices.Clone(items[:len(items)-1]), []any{})
		}
		if _, defines, ok := numbered(more); !ok || !defines {
			all = append(all, append(slices.Clone(items), more))
		}
	}
	indexes := make([]int, len(items))
	for i := range indexes {
		indexes[i] = i
	}
	for _, i := range spread(indexes, most) {
		for _, v := range spread(others(items[i]), 2) {
			list := slices.Clone(items)
			list[i] = v
			all = append(all, list)
		}
	}
	return all
}

// otherPairs does the same for the keys and values of a dict, in turn.
func otherPairs(items []any) []any {
	var all []any
	if !slices.ContainsFunc(items, delivered) {
		if len(items) >= 2 {
			all = append(all, slices.Clone(items[:len(items)-2]))
		}
		all = append(all, append(slices.Clone(items), "~", json.Number("7")))
	}
	indexes := make([]int, 0, len(items)/2)
	for i := 1; i < len(items); i += 2 {
		indexes = append(indexes, i)
	}
	for _, i := range spread(indexes, 4) {
		for _, v := range spread(others(items[i]), 2) {
			list := slices.Clone(items)
			list[i] = v
			all = append(all, list)
		}
	}
	return all
}

// delivered reports whether a value has an object, a class or a function of the delivery's in it.
func delivered(v any) bool {
	found := false
	each(v, func(v any) {
		tag, _ := tagged(v)
		found = found || tag == "h" || tag == "k" || tag == "C" || tag == "E"
	})
	return found
}

// otherSpecials returns other values of a type of the library, by its first part.
func otherSpecials(parts []any) []any {
	name, _ := at(parts, 0).(string)
	inner, _ := at(parts, 1).([]any)
	if len(inner) == 0 {
		return nil
	}
	to := func(v any) []any {
		changed := slices.Clone(inner)
		changed[0] = v
		return []any{map[string]any{"v": []any{name, changed}}}
	}
	first, isText := inner[0].(string)
	switch {
	case !isText:
		return to(otherNumbers(json.Number(text(inner[0])))[0])
	case name == "decimal.Decimal":
		return to(first[:len(first)-min(1, len(first))] + "7")
	case name == "uuid.UUID":
		return to(strings.Repeat("7", len(first)))
	default:
		return to(first + "~")
	}
}

// otherExceptions returns the exception with other arguments and another text.
func otherExceptions(v any) []any {
	tag, payload := tagged(v)
	parts, _ := payload.([]any)
	if tag != "E" || len(parts) < 4 {
		return nil
	}
	var all []any
	add := func(i int, v any) {
		p := slices.Clone(parts)
		p[i] = v
		if i == 2 {
			p[3] = "~"
		}
		all = append(all, map[string]any{"E": p})
	}
	args, _ := parts[2].([]any)
	for _, v := range otherItems(args, 2, false) {
		add(2, v)
	}
	if s, ok := parts[3].(string); ok && len(args) == 0 {
		add(3, s+"~")
	}
	return all
}

// otherExtras returns what else came with a frame, with one thing changed. A file that only repeats one that was given
// shows nothing.
func otherExtras(extra map[string]any, given map[any]bool) []map[string]any {
	var all []map[string]any
	for _, name := range []string{"u", "w", "f"} {
		list, _ := extra[name].([]any)
		for i := range spread(list, 3) {
			i = i * len(list) / min(3, len(list))
			pair, _ := list[i].([]any)
			if len(pair) != 2 || name == "f" && given[pair[1]] {
				continue
			}
			var changed []any
			switch contents := pair[1].(type) {
			case []any:
				changed = spread(otherItems(contents, 2, true), 4)
			case string:
				switch name {
				case "f":
					changed = []any{otherBytes(contents)}
				case "u":
					changed = []any{contents + "7e"}
				default:
					changed = []any{"~" + contents, ""}
				}
			}
			for _, c := range changed {
				m := maps.Clone(extra)
				l := slices.Clone(list)
				l[i] = []any{pair[0], c}
				m[name] = l
				all = append(all, m)
			}
		}
	}
	return all
}
