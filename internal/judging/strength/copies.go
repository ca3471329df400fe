package strength

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A copy is a lie that needs no run: a name whose every answer was at the same place in what the tests had given the
// delivery before. Whoever repeats that passes the same tests.

// told is one thing that the tests gave: the arguments of a call, a value that they set, the answer of a function of
// theirs.
type told struct {
	value any
	set   bool // it was set, or the operand of an object's, and not passed to a function
}

// hears notes what a frame of the examiner's gives to the delivery.
func hears(f frame) []told {
	var all []told
	for _, name := range []string{"e", "g", "f", "u"} {
		if v, there := f.extra[name]; there {
			all = append(all, told{decoded(name, v), true})
		}
	}
	switch f.op {
	case "call", "method", "new":
		first := 1
		if f.op == "method" {
			first = 2
		}
		given, _ := at(f.args, first).([]any)
		named, _ := at(f.args, first+1).(map[string]any)
		if len(given)+len(named) > 0 {
			all = append(all, told{value: []any{given, named}})
		}
	case "op":
		if len(f.args) > 2 {
			all = append(all, told{[]any{f.args[2:]}, true})
		}
	case "set":
		all = append(all, told{at(f.args, 2), true})
	case "":
		all = append(all, told{value: f.value}) // the answer of a function of the tests'
	}
	return all
}

// decoded returns what came beside a request as values: the environment, or the contents of files and of containers that
// were passed before.
func decoded(name string, v any) any {
	if name == "e" {
		return v
	}
	list, _ := v.([]any)
	var contents []any
	for _, pair := range list {
		parts, _ := pair.([]any)
		if name == "u" {
			changed := at(parts, 1)
			if digits, ok := changed.(string); ok { // a buffer that was read into
				changed = strings.TrimRight(unhex(digits), "\x00")
			}
			contents = append(contents, changed)
			continue
		}
		if data, ok := at(parts, 1).(string); ok {
			if b, err := base64.StdEncoding.DecodeString(data); err == nil {
				contents = append(contents, string(b))
			}
		}
	}
	return contents
}

// Limits of a search for copies.
const (
	mostPlaces = 400 // in one thing that was told
	depth      = 5
	ends       = 4 // items from both ends of a list
)

var numberIn = regexp.MustCompile(`-?\d+(\.\d+)?`)

// counted matches places of numbers that are found in something else.
var counted = regexp.MustCompile(` (length|first number|last number|last number, signed)$`)

// places calls found with each value in v and where it is: the value itself, its length, a number in a text.
func (l *Language) places(v any, found func(place, value string)) {
	left := mostPlaces
	var visit func(v any, place string, level int)
	put := func(place string, v any) {
		left--
		if left > 0 {
			found(place, l.spelled(v))
		}
	}
	items := func(list []any, place string, level int) {
		put(place+" length", literal(int64(len(list))))
		for i := range list {
			if i < ends {
				visit(list[i], fmt.Sprintf("%s item %d", place, i), level+1)
			}
			if back := len(list) - i; back <= ends {
				visit(list[i], fmt.Sprintf("%s item -%d", place, back), level+1)
			}
		}
	}
	visit = func(v any, place string, level int) {
		if left <= 0 || level > depth {
			return
		}
		switch v := v.(type) {
		case string:
			put(place, v)
			put(place+" length", literal(int64(len([]rune(v)))))
			if len(v) > 10_000 {
				return
			}
			if numbers := numberIn.FindAllString(v, -1); numbers != nil {
				put(place+" first number", json.Number(numbers[0]))
				put(place+" last number", json.Number(strings.TrimLeft(numbers[len(numbers)-1], "-")))
				put(place+" last number, signed", json.Number(numbers[len(numbers)-1]))
			}
		case []any:
			items(v, place, level)
		case map[string]any:
			tag, payload := tagged(v)
			parts, isList := payload.([]any)
			inner, _ := at(parts, 1).([]any)
			if n, defines, ok := numbered(v); ok && defines && l.container(tag) { // it may come back itself
				put(place, known(n))
			}
			switch {
			case strings.Contains("t z", tag) && isList:
				put(place, v)
				items(parts, place, level)
			case strings.Contains("L S Q", tag) && isList && tag != "":
				put(place, v)
				items(inner, place, level)
			case strings.Contains("D O N P G", tag) && isList && tag != "":
				put(place, v)
				put(place+" length", literal(int64(len(inner)/2)))
				for i := 0; i+1 < len(inner); i += 2 {
					visit(inner[i+1], place+" key "+text(bare(inner[i])), level+1)
				}
				if len(inner) >= 2 {
					visit(inner[len(inner)-1], place+" last value", level+1)
				}
			case tag == "x" && isList: // the defaults of a function's parameters
				described, _ := at(parts, 3).([]any)
				parameters, _ := at(described, 1).([]any)
				for i, p := range parameters {
					parameter, _ := p.([]any)
					if preset, _ := at(parameter, 2).([]any); len(preset) == 1 {
						visit(preset[0], fmt.Sprintf("%s default %d", place, i), level+1)
					}
				}
			case tag == "X" && isList: // an exception of Python's tests
				visit(at(parts, 3), place+" raised", level+1)
			case tag == "Y" && isList:
				digits, _ := at(parts, 1).(string)
				visit(unhex(digits), place, level)
			case tag == "i" || tag == "f" || tag == "b" || tag == "v" || tag == "s" || tag == "c" || tag == "k":
				put(place, v)
			case tag == "" || !isList:
				for _, name := range sortedKeys(v) {
					visit(v[name], place+" named "+name, level+1)
				}
				if len(v) == 1 {
					for _, only := range v {
						visit(only, place+" the named one", level+1)
					}
				}
			}
		default:
			put(place, v)
		}
	}
	visit(v, "", 0)
}

func sortedKeys(m map[string]any) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// bare returns a value without the numbers of containers, so that it can be compared.
func bare(v any) any {
	tag, payload := tagged(v)
	parts, _ := payload.([]any)
	inner, _ := at(parts, 1).([]any)
	switch {
	case tag == "S" && len(parts) >= 2: // in any order
		return map[string]any{tag: byText(bares(inner), 1)}
	case strings.Contains("D O N P G", tag) && tag != "" && len(parts) >= 2:
		return map[string]any{tag: byText(bares(inner), 2)}
	case strings.Contains("L Q", tag) && tag != "" && len(parts) >= 2:
		return map[string]any{tag: bares(inner)}
	case tag == "t" || tag == "z":
		return map[string]any{tag: bares(parts)}
	case tag == "s":
		digits, _ := payload.(string)
		return unhex(digits)
	}
	if n, ok := v.(json.Number); ok && len(n) < mostDigits && strings.ContainsAny(n.String(), ".eE") {
		if f, err := n.Float64(); err == nil {
			return json.Number(strconv.FormatFloat(f, 'f', -1, 64))
		}
	}
	return v
}

// spelled returns a value as text by which it is compared: in Python numbers of all types are equal, in Go bytes to a text.
func (l *Language) spelled(v any) string {
	tag, payload := tagged(v)
	parts, _ := payload.([]any)
	switch {
	case l.typed && tag == "Y":
		digits, _ := at(parts, 1).(string)
		v = unhex(digits)
	case l.named:
		v = numeric(v)
	}
	return text(bare(v))
}

// numeric returns a boolean, or a number of a type of Python's library, as the plain number that it is equal to, and what is
// derived from plain data as that.
func numeric(v any) any {
	tag, payload := tagged(v)
	parts, _ := payload.([]any)
	inner, _ := at(parts, 1).([]any)
	switch {
	case v == any(true):
		return json.Number("1")
	case v == any(false):
		return json.Number("0")
	case tag == "h":
		if more, _ := at(parts, 2).(map[string]any); more["d"] != nil {
			return numeric(more["d"])
		}
	case tag == "c" && len(parts) == 2 && text(bare(parts[1])) == "0":
		return parts[0]
	case tag == "v" && at(parts, 0) == any("fractions.Fraction"):
		n, isWhole := integer(at(inner, 0))
		if d, ok := integer(at(inner, 1)); ok && isWhole && d != 0 {
			return json.Number(strconv.FormatFloat(float64(n)/float64(d), 'f', -1, 64))
		}
	case tag == "v" && at(parts, 0) == any("decimal.Decimal"):
		digits, _ := at(inner, 0).(string)
		if f, err := strconv.ParseFloat(digits, 64); err == nil && len(digits) < mostDigits {
			return json.Number(strconv.FormatFloat(f, 'f', -1, 64))
		}
	}
	return v
}

// unhex returns the bytes that a text of hexadecimal digits has, as a text.
func unhex(digits string) string {
	b, err := hex.DecodeString(digits)
	if err != nil {
		return digits
	}
	return string(b)
}

// byText returns the groups of a list, each of so many items, in the order of their texts.
func byText(list []any, size int) []any {
	groups := slices.Collect(slices.Chunk(list, size))
	slices.SortStableFunc(groups, func(a, b []any) int { return strings.Compare(text(a), text(b)) })
	return slices.Concat(groups...)
}

func bares(list []any) []any {
	all := make([]any, len(list))
	for i, v := range list {
		all[i] = bare(v)
	}
	return all
}

// recent has the names of the things told last, and of the first ones of a test, by where a copy can be from.
func recent(list []told, alone bool) map[string]any {
	from := map[string]any{}
	for back := range min(3, len(list)) {
		if item := list[len(list)-1-back]; back == 0 || !alone || item.set {
			from[fmt.Sprintf("told %d before", back)] = item.value
		}
	}
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].set {
			from["set last"] = list[i].value
			break
		}
	}
	if !alone && len(list) > 0 {
		from["told first"] = list[0].value
		if len(list) > 1 {
			from["told second"] = list[1].value
		}
	}
	return from
}

// endsLoops reports whether something of Python's was answered with StopIteration, or a class derived from it, that goes through
// nothing. Where a test asks it in a loop over map or zip, the loop ends there without a failure.
func (s *script) endsLoops(x *exchange) bool {
	method, _ := at(x.args, 1).(string)
	last := len(x.steps) - 1
	if last < 0 || x.steps[last].kind != raised || !s.lang.named || !s.stops(x.steps[last].value, 0) {
		return false
	}
	return x.op == "call" || x.op == "get" || x.op == "method" && !hasTag("send throw __next__", method) || x.op == "op" && !s.stepping(x.request)
}

// stops reports whether an exception, or a class, is StopIteration or derived from it.
func (s *script) stops(v any, depth int) bool {
	tag, payload := tagged(v)
	parts, _ := payload.([]any)
	n, defines, _ := numbered(v)
	above, _ := at(parts, 4).([]any)
	switch {
	case depth > 20:
	case tag == "E":
		return s.stops(at(parts, 1), depth+1)
	case tag == "k" && !defines && s.definitions[n] != nil:
		return s.stops(s.definitions[n], depth+1)
	case tag == "C":
		return slices.ContainsFunc(above, func(b any) bool { return s.stops(b, depth+1) })
	}
	return payload == any("builtins.StopIteration")
}

// repeats returns the names whose answers are all copies, each with the place, and those of them that also did something
// else, such as to print.
func (l *Language) repeats(scripts []*script) (found map[string]string, besides map[string]bool) {
	found, besides = map[string]string{}, map[string]bool{}
	answers := map[string][]*exchange{}
	for _, s := range scripts {
		for _, x := range s.exchanges {
			if s.endsLoops(x) {
				found[x.name] = "StopIteration, which ends the loops of the tests"
			}
			if x.test > 0 && (x.kind == plain || x.kind == predicate) && len(x.steps) > 0 && !s.promises(x) && !s.called[x.number()] {
				answers[x.name] = append(answers[x.name], x)
			}
		}
	}
	for name, list := range answers {
		var left map[string]bool
		did, refuses := false, false
		nothing := l.typed // nil is a constant of Go's
		for _, x := range list {
			f := x.steps[len(x.steps)-1]
			if f.kind != answer {
				refuses = true
				continue
			}
			nothing = nothing && f.value == nil
			did = did || f.extra["u"] != nil || f.extra["w"] != nil || f.extra["W"] != nil || f.extra["f"] != nil
			want, here := l.spelled(f.value), map[string]bool{}
			_, isText := f.value.(string)
			_, isNumber := f.value.(json.Number)
			for from, v := range recent(x.told, len(list) == 1) {
				l.places(v, func(place, value string) {
					same := isText || isNumber || !counted.MatchString(place) // what is of another type is only taken for what it equals
					if value == want && same && (left == nil || left[from+place]) {
						here[from+place] = true
					}
				})
			}
			if left = here; len(left) == 0 { // none of the places is that of all answers
				break
			}
		}
		if len(left) > 0 && !nothing {
			var all []string
			for place := range left {
				if !refuses || strings.Contains(place, " key ") { // many functions refuse what they do not give back
					all = append(all, place)
				}
			}
			if len(all) == 0 {
				continue
			}
			found[name], besides[name] = "a copy of what it was "+slices.Min(all), did
		}
	}
	return found, besides
}
