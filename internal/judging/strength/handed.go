package strength

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// callback is a request of the subject's, with the exchange in which it came.
type callback struct {
	request *frame
	within  *exchange
}

// hand keeps what a callback defines. A function that takes the place of a method has a name of its own.
func (in *reader) hand(x *exchange, f frame) {
	s := in.script
	name := x.name
	if member, ok := at(f.args, 1).(string); ok && f.op == "set" {
		name += "." + member
		of, _, _ := numbered(at(f.args, 0))
		if n, _, ok := numbered(at(f.args, 2)); ok && n%2 == 0 && s.lang == JavaScript && in.hasMethod(of, member, 0) {
			s.replaced[n] = true
		}
	}
	s.define(x, name, f.args)
	each(any(f.args), func(v any) {
		if n, defines, ok := numbered(v); ok && defines && n%2 == 0 {
			s.lent[n] = true
		}
	})
}

// replace notes the functions that take the place of others in a test's object of JavaScript, by what it has before and after.
func (in *reader) replace(before, after any) {
	was, _ := before.([]any)
	is, _ := after.([]any)
	old := map[string]bool{}
	for i := 1; i < len(was); i += 2 {
		n, _, ok := numbered(was[i])
		old[text(was[i-1])] = ok && n%2 != 0 && in.isFunction(was[i])
	}
	for i := 1; i < len(is); i += 2 {
		n, _, ok := numbered(is[i])
		if tag, _ := tagged(is[i]); ok && n%2 == 0 && tag == "F" && old[text(is[i-1])] {
			in.replaced[n] = true
		}
	}
}

// isFunction reports whether the tests have passed a function as this value.
func (in *reader) isFunction(v any) bool {
	n, _, _ := numbered(v)
	tag, _ := tagged(in.passed[n])
	return tag == "F"
}

// hasMethod reports whether an object that the tests have passed, or its class, has a method.
func (in *reader) hasMethod(n int64, name string, depth int) bool {
	tag, payload := tagged(in.passed[n])
	parts, _ := payload.([]any)
	methods, class := at(parts, 2), at(parts, 1)
	if tag == "F" {
		methods, class = at(parts, 5), at(parts, 4)
	}
	list, _ := methods.([]any)
	above, _, ok := numbered(class)
	return slices.Contains(list, any(name)) || ok && depth < deepest && in.hasMethod(above, name, depth+1)
}

// hearBack keeps what a function that the tests' function was given is called with first and last, such as the items of an iterator.
func (x *exchange) hearBack(given any) {
	if _, there := x.own["given back first"]; !there {
		x.own["given back first"] = given
	}
	x.own["given back last"] = given
}

// handed returns the lies that keep the form of what was recorded: how much is answered, handed to the tests' functions and
// changed, but not what.
func handed() []*lie {
	return []*lie{
		{says: "always the same, also in what it hands over and changes", again: true, plays: true, needs: func(s *script, x *exchange) bool {
			return s.handing(x.name) && s.varied(x.name)
		}},
		{says: "always the same item, as often as before", again: true, plays: true, items: true, needs: func(s *script, x *exchange) bool {
			given := x.calls()
			return (len(given) > 2 || len(given) == 2 && text(given[0].args[1]) == text(given[1].args[1])) && s.yielding(x.name)
		}},
		{says: "77, true and ~ in the form of the answers", again: true, joint: true, group: true, tell: func(r *replay, f frame) (frame, bool) {
			was := r.recordedValue()
			if text(alike(was)) == text(was) {
				return frame{}, false
			}
			v, ok := r.recordedAnswer(f)
			return frame{kind: answer, value: alike(v)}, ok
		}},
	}
}

// alike returns a value of the same form: its numbers, truths and texts are all the same.
func alike(v any) any {
	tag, payload := tagged(v)
	parts, _ := payload.([]any)
	switch v := v.(type) {
	case bool:
		return true
	case string:
		return "~"
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return json.Number("77.0")
		}
		return json.Number("77")
	}
	all := slices.Clone(parts)
	switch {
	case hasTag("t z", tag):
		for i := range all {
			all[i] = alike(all[i])
		}
	case hasTag("L Q D P", tag) && len(parts) > 1:
		items, isList := parts[1].([]any)
		if !isList { // what a pointer of Go's points to
			all[1] = alike(parts[1])
			break
		}
		items = slices.Clone(items)
		for i := range items {
			if tag != "D" || i%2 == 1 { // a key stays
				items[i] = alike(items[i])
			}
		}
		all[1] = items
	default:
		return v
	}
	return map[string]any{tag: all}
}

// mostHanded limits the steps of an exchange whose values can be those of another.
const mostHanded = 200

// handing reports whether a name hands over values beside its answers, which can be the same each time. How often a function of
// the tests is called depends on what is computed, so no exchange may have a second call. An object that the
// tests ask stays as it was recorded, so no lie is told of it.
func (s *script) handing(name string) bool {
	return s.once("handing "+name, func() bool { return s.hands(name) })
}

func (s *script) hands(name string) bool {
	found := false
	for _, x := range s.exchanges {
		if x.name != name {
			continue
		}
		calls := 0
		for _, f := range x.steps {
			var given any
			n, _, isNumber := numbered(f.value)
			switch {
			case f.kind == answer && isNumber && s.targets[n] && !s.promises(x):
				return false
			case f.kind != request:
				found = found || f.extra["u"] != nil || f.extra["w"] != nil || f.extra["m"] != nil ||
					f.extra["f"] != nil || f.extra["W"] != nil
			case f.op == "del":
				found = true
			case f.op == "set" || f.op == "method":
				given = at(f.args, 2)
			case f.op == "print" || f.op == "call":
				given = at(f.args, 1)
			}
			if given != nil && f.op != "set" {
				calls++
			}
			list, _ := s.handedOver(given)
			found = found || hasPlain(given) || slices.ContainsFunc(list, hasPlain)
		}
		if calls > 1 || len(x.steps) > mostHanded {
			return false
		}
	}
	return found
}

// calls returns the calls of the tests' functions before the answer.
func (x *exchange) calls() []*frame {
	return slices.DeleteFunc(slices.Clone(x.steps), func(f *frame) bool { return f.kind != request || f.op != "call" || len(f.args) < 2 })
}

// yielding reports whether a name only hands over data to one function of the tests' each time, and how often is easily known: it
// is always the same, as often as something says that the tests gave it, or until that function answers no.
func (s *script) yielding(name string) bool {
	return s.once("yielding "+name, func() bool { return s.yields(name) })
}

func (s *script) yields(name string) bool {
	var often map[string]bool // where all counts are from
	for _, x := range s.exchanges {
		n, _, _ := numbered(target(x.request))
		given := x.calls()
		switch {
		case x.name != name || s.lent[n]:
			continue
		case len(x.steps) == 0 || x.steps[len(x.steps)-1].kind != answer:
			return false
		case len(given) == 0:
			continue
		case len(given) > mostHanded || len(given) != len(x.steps)-1 || !returnsNothing(x.steps[len(given)].value):
			return false
		}
		for _, f := range given {
			if text(f.args[0]) != text(given[0].args[0]) || s.opaque(f.args[1]) {
				return false
			}
		}
		if given[len(given)-1].value == false {
			continue
		}
		here := map[string]bool{constantPlace + text(len(given)): true}
		for _, x := range []*exchange{x, s.makers[n]} {
			if x == nil {
				continue
			}
			for from, v := range x.own {
				s.lang.places(v, func(place, value string) {
					if value == text(len(given)) {
						here[from+place] = true
					}
				})
			}
		}
		maps.DeleteFunc(here, func(place string, _ bool) bool { return often != nil && !often[place] })
		often = here
	}
	return often == nil || len(often) > 0
}

// opaque reports whether there is something in a value that has no data.
func (s *script) opaque(v any) (found bool) {
	each(v, func(v any) {
		tag, _ := tagged(v)
		found = found || hasTag(s.lang.opaque, tag)
	})
	return found
}

// returnsNothing reports whether a value is the answer of a function that returns nothing.
func returnsNothing(v any) bool { return v == nil || isUndefined(v) }

// hasPlain reports whether a value is plain, or a list with such.
func hasPlain(v any) bool {
	if list, ok := v.([]any); ok {
		return slices.ContainsFunc(list, hasPlain)
	}
	return v != nil && isPlain(v)
}

// firstOf returns the first exchange of a name that was answered, or nil.
func (s *script) firstOf(name string) *exchange {
	for _, x := range s.exchanges {
		if (x.name == name || s.wholes[x.name] == name) && len(x.steps) > 0 && x.steps[len(x.steps)-1].kind == answer {
			return x
		}
	}
	return nil
}

// firstCalling returns the first exchange of a name that called a function of the tests', or nil.
func (s *script) firstCalling(name string) *exchange {
	for _, x := range s.exchanges {
		if x.name == name && len(x.calls()) > 0 {
			return x
		}
	}
	return nil
}

// like returns a step of an exchange with the values that another one of the same name had there. What a test has passed and is
// not changed stays.
func (s *script) like(x *exchange, step int, first *exchange) frame {
	f := *x.steps[step]
	nth, found := 0, &f
	for _, other := range x.steps[:step] {
		if f.same(other) {
			nth++
		}
	}
	for _, other := range first.steps {
		if f.same(other) && nth >= 0 {
			found = other
			nth--
		}
	}
	switch {
	case f.kind == request && (f.op == "call" || f.op == "method" || f.op == "set" || f.op == "print"):
		f.args, _ = likewise(f.args, found.args, nil).([]any)
	case f.kind == answer:
		f.value = likewise(f.value, found.value, nil)
		if tag, _ := tagged(found.value); s.lang.container(tag) {
			if own, _ := tagged(f.value); own == tag {
				f.value = found.value
			}
		}
		f.extra = maps.Clone(f.extra)
		for _, name := range []string{"u", "w"} {
			if now, ok := f.extra[name].([]any); ok {
				then, _ := found.extra[name].([]any)
				f.extra[name] = s.changedLike(x, now, then)
			}
		}
		if now, ok := f.extra["m"].([]any); ok {
			then, _ := found.extra["m"].([]any)
			f.extra["m"] = exportsLike(now, then)
		}
		if now, ok := f.extra["f"].([]any); ok {
			then, _ := found.extra["f"].([]any)
			f.extra["f"] = writtenLike(now, then)
		}
	}
	return f
}

// repeats reports whether a lie of all names answers with nothing what was recorded as nothing: that shows nothing of the names.
func (r *replay) repeats(to frame) bool {
	if r.recorded == nil || len(r.recorded.steps) == 0 || !strings.HasPrefix(r.trial.about, "*") {
		return false
	}
	was := r.recorded.steps[len(r.recorded.steps)-1]
	return was.kind == to.kind && (was.value == nil || isUndefined(was.value)) && text(was.value) == text(to.value)
}

// exportsLike returns changes of exported variables, with the values of others.
func exportsLike(now, then []any) any {
	all := slices.Clone(now)
	for i, v := range all {
		change, _ := v.([]any)
		for _, other := range then {
			if as, _ := other.([]any); len(change) == 3 && len(as) == 3 && text(as[1]) == text(change[1]) {
				all[i] = []any{change[0], change[1], likewise(change[2], as[2], nil)}
			}
		}
	}
	return all
}

// same reports whether two steps do the same, perhaps with other values.
func (f *frame) same(other *frame) bool {
	return other.kind == f.kind && other.op == f.op && (f.op != "set" && f.op != "method" || text(at(other.args, 1)) == text(at(f.args, 1)))
}

// changedLike returns changes of containers, or printed texts, with the values of others.
func (s *script) changedLike(x *exchange, now, then []any) any {
	all := slices.Clone(now)
	for i, v := range all {
		pair, _ := v.([]any)
		as, _ := at(then, min(i, len(then)-1)).([]any)
		if len(pair) == 2 && len(as) == 2 {
			n, _ := integer(pair[0])
			all[i] = []any{pair[0], s.refilled(x, n, pair[1], as[1])}
		}
	}
	return all
}

// writtenLike returns files with the contents that others had the first time, in their order.
func writtenLike(now, then []any) any {
	contents := func(v any) (string, bool) {
		pair, _ := v.([]any)
		data, ok := at(pair, 1).(string)
		return data, ok
	}
	then = slices.DeleteFunc(slices.Clone(then), func(v any) bool { _, ok := contents(v); return !ok })
	all := slices.Clone(now)
	for i, v := range all {
		if _, ok := contents(v); !ok || len(then) == 0 {
			continue
		}
		data, _ := contents(then[0])
		then = then[1:]
		all[i] = []any{at(v.([]any), 0), data}
	}
	return all
}

// refilled returns the contents of a container, or a text, with those that another had the first time. Items that the test has
// passed stay.
func (s *script) refilled(x *exchange, number int64, now, then any) any {
	passed := was(x.request, number)
	items, isList := now.([]any)
	if !isList || !hasTag(s.lang.pairs, s.tags[number]) {
		return likewise(now, then, passed)
	}
	value := func(list any, key any) any {
		pairs, _ := list.([]any)
		for i := 0; i+1 < len(pairs); i += 2 {
			if text(pairs[i]) == text(key) {
				return pairs[i+1]
			}
		}
		return nil
	}
	all := slices.Clone(items)
	for i := 0; i+1 < len(all); i += 2 {
		all[i+1] = likewise(all[i+1], value(then, all[i]), value(passed, all[i]))
	}
	return all
}

// likewise returns a value with the plain parts that another has at the same place, but for those that have stayed as they were
// passed.
func likewise(now, then, passed any) any {
	if passed != nil && text(now) == text(passed) {
		return now
	}
	if now != nil && then != nil && isPlain(now) && isPlain(then) {
		return then
	}
	if list, ok := now.([]any); ok {
		as, _ := then.([]any)
		was, _ := passed.([]any)
		all := slices.Clone(list)
		for i := range min(len(list), len(as)) {
			all[i] = likewise(list[i], as[i], at(was, i))
		}
		return all
	}
	tag, payload := tagged(now)
	other, as := tagged(then)
	_, was := tagged(passed)
	if tag != other || tag != "t" {
		return now
	}
	return map[string]any{tag: likewise(payload, as, was)}
}
