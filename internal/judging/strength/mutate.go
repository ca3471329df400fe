package strength

import (
	"bytes"
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
func (x *exchange) changes(s *script) []change { return spread(x.every(s), mostChanges) }

func (x *exchange) every(s *script) []change {
	var all []change
	put := func(step int, f frame) { all = append(all, change{x, step, f}) }
	for i, step := range x.steps {
		f := *step
		last := i == len(x.steps)-1
		switch {
		case f.kind == answer && last:
			value := f.value
			if x.gives != nil {
				value = x.gives
			}
			for _, v := range s.otherAnswers(x, value) {
				g := f
				g.value = v
				put(i, g)
			}
		case f.kind == raised && last:
			if v, ok := s.nothing(x); ok {
				put(i, frame{kind: answer, value: v, extra: f.extra})
			}
			for _, v := range s.lang.otherExceptions(f.value) {
				g := f
				g.value = v
				put(i, g)
			}
		case f.kind == request && (f.op == "call" || f.op == "method" || f.op == "print"):
			last := 1
			if f.op == "method" {
				last = 2
			}
			given, wrap := s.handedOver(at(f.args, last))
			for _, v := range s.lang.otherItems(given, len(given), false) {
				g := f
				g.args = slices.Clone(f.args)
				g.args[last] = wrap(v)
				put(i, g)
			}
		case f.kind == request && f.op == "set" && s.lang.named && len(f.args) > 2:
			for _, v := range spread(s.lang.others(f.args[2]), 3) {
				g := f
				g.args = slices.Clone(f.args)
				g.args[2] = v
				put(i, g)
			}
		}
		for _, extra := range s.otherExports(f.extra) {
			g := f
			g.extra = extra
			put(i, g)
		}
		for _, extra := range s.otherExtras(f.extra, x.given) {
			g := f
			g.extra = extra
			put(i, g)
		}
	}
	return all
}

// handedOver returns the arguments of a callback, and how to put others in their place: in Python they are a tuple.
func (s *script) handedOver(v any) (list []any, wrap func(any) any) {
	tag, payload := tagged(v)
	if list, ok := payload.([]any); ok && tag == "t" && s.lang.named {
		return list, func(v any) any { return map[string]any{"t": v} }
	}
	list, _ = v.([]any)
	return list, func(v any) any { return v }
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
	s.defined[x.test] = append(s.defined[x.test], s.last)
	f := *x.steps[last]
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

// otherAnswers returns other values of an answer, of its type if that is known.
func (s *script) otherAnswers(x *exchange, v any) []any {
	if s.lang.typed {
		return otherResults(x.types, v)
	}
	return s.lang.others(v)
}

// nothing returns what is answered where an exception was.
func (s *script) nothing(x *exchange) (any, bool) {
	if s.lang.typed {
		return answers(x.types, zero)
	}
	return s.lang.nothing, true
}

// others returns other values of a value's type, none for what stays with the delivery.
func (l *Language) others(v any) []any {
	switch v := v.(type) {
	case nil:
		if l.typed {
			return nil
		}
		return []any{json.Number("7")}
	case bool:
		return []any{!v}
	case json.Number:
		return l.otherNumbers(v)
	case string:
		return otherTexts(v)
	}
	tag, payload := tagged(v)
	parts, _ := payload.([]any)
	switch {
	case hasTag(l.lists, tag):
		items, _ := at(parts, 1).([]any)
		return inside(tag, parts, l.otherItems(items, 4, true))
	case hasTag(l.pairs, tag):
		items, _ := at(parts, 1).([]any)
		return inside(tag, parts, l.otherPairs(items))
	case tag == "s":
		return []any{"other"}
	case tag == "f":
		return []any{json.Number("0.5")}
	}
	return l.special(l, tag, payload)
}

// otherPython returns other values of what only Python has.
func otherPython(l *Language, tag string, payload any) []any {
	parts, _ := payload.([]any)
	switch tag {
	case "i":
		return []any{json.Number("7")}
	case "b":
		if data, ok := payload.(string); ok {
			return []any{map[string]any{"b": otherBytes(data)}, map[string]any{"b": ""}}
		}
	case "t", "z":
		return tag1(tag, l.otherItems(parts, 4, tag == "t" && len(parts) < 8))
	case "c", "r", "l":
		return tag1(tag, l.otherItems(parts, 3, false))
	case "v":
		return l.otherSpecials(parts)
	case "h": // derived data has a plain value
		more, _ := at(parts, 2).(map[string]any)
		var all []any
		for _, name := range []string{"d", "c"} {
			value, there := more[name]
			if !there {
				continue
			}
			list, isList := value.([]any)
			changed := l.others(value)
			if isList {
				changed = l.otherItems(list, 4, true)
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

// otherScript returns other values of what only JavaScript has.
func otherScript(l *Language, tag string, payload any) []any {
	parts, _ := payload.([]any)
	with := func(i int, v any) []any {
		p := slices.Clone(parts)
		p[i] = v
		return []any{map[string]any{tag: p}}
	}
	last := len(parts) - 1
	if last < 0 && hasTag("T R A B", tag) {
		return nil
	}
	switch tag {
	case "u":
		return []any{json.Number("7"), "~"}
	case "i":
		if payload == any("0x7") {
			return []any{map[string]any{"i": "0x8"}}
		}
		return []any{map[string]any{"i": "0x7"}}
	case "T":
		times, _ := at(parts, 1).([]any)
		if n, ok := at(times, 0).(json.Number); ok && last > 0 {
			return with(1, []any{l.otherNumbers(n)[0]})
		}
	case "R":
		if source, ok := at(parts, 0).(string); ok && len(parts) == 2 {
			return with(0, source+"~")
		}
	case "A", "B":
		if data, ok := at(parts, last).(string); ok {
			b, _ := base64.StdEncoding.DecodeString(data)
			b = append(b, "~~~~~~~~"...) // a whole number of elements of any size
			b[0] ^= 1
			return append(with(last, base64.StdEncoding.EncodeToString(b)), with(last, "")...)
		}
	case "E": // an error that is returned
		return l.otherExceptions(map[string]any{tag: payload})
	}
	return nil
}

// mostDigits limits the numbers with which is counted.
const mostDigits = 400

func (l *Language) otherNumbers(v json.Number) []any {
	if len(v) > mostDigits {
		return []any{json.Number("7")}
	}
	n, ok := new(big.Int).SetString(v.String(), 10)
	if !ok {
		f, _ := v.Float64()
		return []any{decimal(f + 1), decimal(-f - 1), decimal(f*1000 + 0.5), json.Number("0.0")}
	}
	if l.typed {
		return []any{near(n)}
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

// garbled returns as many other bytes: many formats ignore what is added at the end.
func garbled(data string) string {
	b, _ := base64.StdEncoding.DecodeString(data)
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("~"), len(b)))
}

func tag1(tag string, lists []any) []any {
	for i, l := range lists {
		lists[i] = map[string]any{tag: l}
	}
	return lists
}

func inside(tag string, parts []any, lists []any) []any {
	if len(parts) < 2 {
		return nil
	}
	for i, l := range lists {
		p := slices.Clone(parts)
		p[1] = l
		lists[i] = map[string]any{tag: p}
	}
	return lists
}

// otherItems returns other lists: with an item changed and, where resize is set and no item stays with the delivery,
// longer, shorter and empty ones. At most most items are changed.
func (l *Language) otherItems(items []any, most int, resize bool) []any {
	var all []any
	whole := true
	for _, v := range items {
		whole = whole && !l.delivered(v)
	}
	if resize && whole {
		var more any = json.Number("7")
		if len(items) > 0 {
			more = items[0]
			all = append(all, slices.Clone(items[:len(items)-1]), []any{})
		}
		if _, defines, ok := numbered(more); (!ok || !defines) && (len(items) > 0 || !l.typed) {
			all = append(all, append(slices.Clone(items), more))
		}
	}
	indexes := make([]int, len(items))
	for i := range indexes {
		indexes[i] = i
	}
	for _, i := range spread(indexes, most) {
		for _, v := range spread(l.others(items[i]), 2) {
			list := slices.Clone(items)
			list[i] = v
			all = append(all, list)
		}
	}
	return all
}

// otherPairs does the same for the keys and values of a dict, in turn.
func (l *Language) otherPairs(items []any) []any {
	var all []any
	if !slices.ContainsFunc(items, l.delivered) {
		if len(items) >= 2 {
			all = append(all, slices.Clone(items[:len(items)-2]))
		}
		if !l.typed {
			all = append(all, append(slices.Clone(items), "~", json.Number("7")))
		}
	}
	indexes := make([]int, 0, len(items)/2)
	for i := 1; i < len(items); i += 2 {
		indexes = append(indexes, i)
	}
	for _, i := range spread(indexes, 4) {
		for _, v := range spread(l.others(items[i]), 2) {
			list := slices.Clone(items)
			list[i] = v
			all = append(all, list)
		}
	}
	return all
}

// delivered reports whether a value has an object, a class or a function of the delivery's in it.
func (l *Language) delivered(v any) bool {
	found := false
	each(v, func(v any) {
		tag, _ := tagged(v)
		n, _, _ := numbered(v)
		own := tag == "k" && n%2 != 0 && !l.named // of the test
		found = found || hasTag(l.opaque, tag) && !own
	})
	return found
}

// otherSpecials returns other values of a type of the library, by its first part.
func (l *Language) otherSpecials(parts []any) []any {
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
	case strings.HasPrefix(name, "datetime.") && !isText:
		return otherTimes(name, inner)
	case !isText:
		return to(l.otherNumbers(json.Number(text(inner[0])))[0])
	case name == "decimal.Decimal":
		return to(first[:len(first)-min(1, len(first))] + "7")
	case strings.HasPrefix(name, "ipaddress."):
		other := "7.7.7.7"
		if strings.Contains(first, ":") {
			other = "::7"
		}
		if strings.HasPrefix(first, other) {
			other = strings.Replace(other, "7", "9", 1)
		}
		if strings.Contains(first, "/") && strings.Contains(other, ":") {
			other += "/128"
		} else if strings.Contains(first, "/") {
			other += "/32"
		}
		return to(other)
	case name == "re.Pattern":
		return append(to(first+"~"), to("(?s:.*)")...)
	case name == "zoneinfo.ZoneInfo" && first == "UTC":
		return to("Asia/Tokyo")
	case name == "zoneinfo.ZoneInfo":
		return to("UTC")
	case name == "uuid.UUID":
		return to(strings.Repeat("7", len(first)))
	default:
		return to(first + "~")
	}
}

// otherTimes returns other times, each with one part changed so that it stays a time.
func otherTimes(name string, parts []any) []any {
	var all []any
	for i, v := range parts {
		n, ok := integer(v)
		switch {
		case !ok:
			continue
		case i == 0 && (name == "datetime.datetime" || name == "datetime.date"):
			n += 4 // another leap year, perhaps
		case n > 1:
			n--
		default:
			n++
		}
		changed := slices.Clone(parts)
		changed[i] = literal(n)
		all = append(all, map[string]any{"v": []any{name, changed}})
	}
	return all
}

// otherExceptions returns the exception with other arguments and another text.
func (l *Language) otherExceptions(v any) []any {
	tag, payload := tagged(v)
	parts, _ := payload.([]any)
	if tag != "E" || len(parts) < 4 {
		if l.typed {
			return l.others(v)
		}
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
	if message, ok := parts[2].(string); ok { // of JavaScript
		add(2, message+"~")
		parts[3] = ""
		return all
	}
	args, _ := parts[2].([]any)
	for _, v := range l.otherItems(args, 2, false) {
		add(2, v)
	}
	if s, ok := parts[3].(string); ok && len(args) == 0 {
		add(3, s+"~")
	}
	return all
}

// otherExtras returns what else came with a frame, with one thing changed. A file that only repeats one that was given
// shows nothing.
func (s *script) otherExtras(extra map[string]any, given map[string]bool) []map[string]any {
	var all []map[string]any
	if extra["W"] != nil { // warnings
		m := maps.Clone(extra)
		delete(m, "W")
		all = append(all, m)
	}
	for _, name := range []string{"u", "w", "f"} {
		list, _ := extra[name].([]any)
		for i := range spread(list, 3) {
			i = i * len(list) / min(3, len(list))
			pair, _ := list[i].([]any)
			if len(pair) != 2 {
				continue
			}
			if data, ok := pair[1].(string); ok && name == "f" && given[data] {
				continue
			}
			var changed []any
			switch contents := pair[1].(type) {
			case map[string]any:
				changed = s.lang.others(contents)
			case []any:
				n, _ := integer(pair[0])
				tag := s.tags[n]
				switch {
				case hasTag(s.lang.pairs, tag):
					changed = spread(s.lang.otherPairs(contents), 4)
				case s.lang.typed: // a slice or a struct keeps its length
					changed = spread(s.lang.otherItems(contents, 2, false), 4)
				default:
					changed = spread(s.lang.otherItems(contents, 2, true), 4)
				}
			case string:
				switch name {
				case "f":
					changed = []any{otherBytes(contents), garbled(contents)}
				case "u":
					changed = []any{s.lang.otherHex(contents)}
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

// otherExports returns what came with a frame, with another value of a variable that a JavaScript module exports.
func (s *script) otherExports(extra map[string]any) []map[string]any {
	list, _ := extra["m"].([]any)
	var all []map[string]any
	for i := range list[:min(len(list), 3)] {
		parts, _ := list[i].([]any)
		for _, v := range spread(s.lang.others(at(parts, 2)), 2) {
			m := maps.Clone(extra)
			l := slices.Clone(list)
			l[i] = []any{at(parts, 0), at(parts, 1), v}
			m["m"] = l
			all = append(all, m)
		}
	}
	return all
}

// otherHex returns other bytes in hexadecimal: in Go as many as before.
func (l *Language) otherHex(text string) string {
	if !l.typed {
		return text + "7e"
	}
	if strings.HasPrefix(text, "7e") {
		return "7d" + text[2:]
	}
	return "7e" + text[min(2, len(text)):]
}
