package strength

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
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
		value := []any{given, named}
		_, self, isSent := receiver(f)
		if isSent {
			value = append(value, self)
		}
		if len(given)+len(named) > 0 || isSent {
			all = append(all, told{value: value})
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
	mostPlaces = 1000 // in one thing that was told
	depth      = 10
	ends       = 16 // items from both ends of a list
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
			if n, defines, ok := numbered(v); ok && defines && (l.container(tag) || tag == "B") { // it may come back itself
				put(place, known(n))
			}
			switch {
			case l.typed && (tag == "P" || tag == "T") && isList: // what a pointer or an interface holds
				put(place, v)
				visit(at(parts, 1), place, level+1)
			case tag == "B" && isList:
				put(place, v)
				items(elements(parts), place, level)
			case (tag == "T" || tag == "R" || tag == "A") && isList:
				put(place, v)
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
			if n, ok := v.(json.Number); ok && !l.named && !l.typed { // JavaScript's == takes one for the other
				put(place+" as a text", n.String())
			}
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
		if inner == nil && parts[1] != nil { // a pointer of Go's
			return map[string]any{tag: bare(parts[1])}
		}
		return map[string]any{tag: byText(bares(inner), 2)}
	case strings.Contains("T B A Y", tag) && tag != "" && len(parts) >= 2:
		if _, isType := parts[0].(string); isType { // of Go
			return map[string]any{tag: []any{parts[0], bare(parts[1])}}
		}
		return map[string]any{tag: parts[1:]}
	case tag == "f" && payload == any("-0"):
		return json.Number("0")
	case tag == "i":
		digits, _ := payload.(string)
		if len(digits) > mostDigits {
			return v
		}
		if n, ok := new(big.Int).SetString(digits, 0); ok {
			return json.Number(n.String())
		}
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

// wasSet begins the place of what the tests have set.
const wasSet = "given as "

// hear keeps what a function of the tests' has answered, by what it was asked: more callbacks may come before the answer.
func (x *exchange) hear(asked *frame, v any) {
	if asked.op == "await" { // nobody knows in which order promises settle
		return
	}
	name, _ := at(asked.args, 1).(string)
	place := strings.TrimSpace("answered to " + asked.op + " " + name)
	if _, there := x.own[place]; there {
		place += " again"
	}
	if _, there := x.own[place]; !there {
		x.own[place] = v
	}
}

// first returns an answer that may be a copy: of several results of Go's the first, if the others are no error, true or 1. It
// reports false for other results.
func (x *exchange) first(v any) (any, bool) {
	tag, payload := tagged(v)
	parts, _ := payload.([]any)
	if len(x.types) < 2 || tag != "t" || len(parts) != len(x.types) {
		return v, true
	}
	for _, rest := range parts[1:] {
		if rest != nil && rest != true && rest != json.Number("1") {
			return v, false
		}
	}
	return parts[0], true
}

// elements returns the elements of a typed array of JavaScript's, none of a large one or one of big integers.
func elements(parts []any) (list []any) {
	class, _ := at(parts, 1).(string)
	text, _ := at(parts, 2).(string)
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(data) > 10_000 {
		return nil
	}
	size := map[string]int{"Int16Array": 2, "Uint16Array": 2, "Int32Array": 4, "Uint32Array": 4, "Float32Array": 4, "Float64Array": 8}[class]
	for one := range slices.Chunk(data, max(size, 1)) {
		var n uint64
		for i, b := range one {
			n |= uint64(b) << (8 * i)
		}
		switch {
		case strings.Contains(class, "64Array") && class != "Float64Array":
			return nil
		case class == "Float64Array":
			list = append(list, plainNumber(math.Float64frombits(n)))
		case class == "Float32Array":
			list = append(list, plainNumber(float64(math.Float32frombits(uint32(n)))))
		case strings.HasPrefix(class, "Int"): // the sign
			shift := 64 - 8*len(one)
			list = append(list, literal(int64(n<<shift)>>shift))
		default:
			list = append(list, literal(int64(n)))
		}
	}
	return list
}

// plainNumber returns a number as JavaScript's examiner and subject write it.
func plainNumber(f float64) any {
	b, err := json.Marshal(f)
	if err != nil {
		return nil
	}
	return json.Number(b)
}
