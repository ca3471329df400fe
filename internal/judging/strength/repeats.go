package strength

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// repeats returns the names whose answers are all copies, each with the place, and those of them that also did something
// else, such as to print.
func (l *Language) repeats(scripts []*script) (found map[string]string, besides map[string]bool) {
	found, besides = map[string]string{}, map[string]bool{}
	answers, effects := map[string][]*exchange{}, map[string][]*exchange{}
	for _, s := range scripts {
		for _, x := range s.exchanges {
			if s.endsLoops(x) {
				found[x.name] = "StopIteration, which ends the loops of the tests"
			}
			n, _, _ := numbered(target(x.request))
			if x.test > 0 && !s.lent[n] && (x.kind == plain || x.kind == predicate) && len(x.steps) > 0 && !s.promises(x) && !s.called[x.number()] {
				answers[x.name] = append(answers[x.name], x)
				if y := x.instead(s); y != nil {
					effects[x.name] = append(effects[x.name], y)
				}
			}
		}
	}
	for name, list := range effects {
		if place, ok := l.copied(list, l.leaves, 1); ok && len(list) > 1 && len(list) == len(answers[name]) {
			found[name] = "it hands over or sets what it was " + place
		}
	}
	for name, list := range answers {
		if l.spellsItself(name, list) {
			found[name] = "its own name"
			continue
		}
		place, ok := l.copied(list, undivided, 1)
		if !ok && len(list) > 1 { // one answer may be equal by chance
			place, ok = l.copied(list, l.held, 1)
		}
		if !ok && len(list) > 1 && !slices.ContainsFunc(list, func(x *exchange) bool { return !x.writes() }) {
			place, ok = l.copied(list, l.leaves, 1)
		}
		if !ok && len(list) > 2 { // honest functions give back one argument beside what is always the same
			place, ok = l.copied(list, l.leaves, 2)
		}
		if ok {
			found[name], besides[name] = "a copy of what it was "+place, slices.ContainsFunc(list, (*exchange).did)
		}
	}
	return found, besides
}

// spellsItself reports whether all answers of an attribute are its own name.
func (l *Language) spellsItself(name string, list []*exchange) bool {
	own := strings.TrimSuffix(name[strings.LastIndexAny(name, "./")+1:], "()")
	return !slices.ContainsFunc(list, func(x *exchange) bool {
		says, isText := x.steps[len(x.steps)-1].value.(string)
		return !isText || x.with != "" || !strings.EqualFold(says, own)
	})
}

// instead returns an exchange whose answer is what this one hands to a function of the tests', or puts into an object of theirs. It is
// nil for one that has another answer, or does neither.
func (x *exchange) instead(s *script) *exchange {
	f, given := x.steps[len(x.steps)-1], x.calls()
	if f.kind != answer || !returnsNothing(f.value) || len(given) > 1 {
		return nil
	}
	var all []any
	for _, call := range given {
		list, _ := s.handedOver(call.args[1])
		all = append(all, list...)
	}
	changes, _ := f.extra["u"].([]any)
	for _, c := range changes {
		pair, _ := c.([]any)
		n, _ := integer(at(pair, 0))
		members, _ := at(pair, 1).([]any)
		if !hasTag(s.lang.pairs, s.tags[n]) {
			return nil
		}
		before, _ := was(x.request, n).([]any)
		for i := 1; i < len(members); i += 2 {
			same := false
			for j := 1; j < len(before); j += 2 {
				same = same || text(before[j-1]) == text(members[i-1]) && text(before[j]) == text(members[i])
			}
			if !same {
				all = append(all, members[i])
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	y := *x
	y.steps, y.types = []*frame{{kind: answer, value: map[string]any{"t": all}}}, nil
	return &y
}

// did reports whether an exchange did something besides answering.
func (x *exchange) did() bool {
	f := x.steps[len(x.steps)-1]
	return f.kind == answer && (f.extra["u"] != nil || f.extra["w"] != nil || f.extra["W"] != nil || f.extra["f"] != nil)
}

// writes reports whether an exchange wrote files or printed, besides answering.
func (x *exchange) writes() bool {
	f := x.steps[len(x.steps)-1]
	return f.kind == answer && (f.extra["w"] != nil || f.extra["W"] != nil || f.extra["f"] != nil)
}

// undivided returns an answer as its only part.
func undivided(v any) (form string, parts []any) { return "", []any{v} }

// fields returns the fields of an error of Go's that is a struct or a pointer to one, as a tuple. Other values stay.
func fields(v any) any {
	inner := v
	for _, wrapper := range []string{"T", "P"} {
		tag, payload := tagged(inner)
		if parts, _ := payload.([]any); tag == wrapper && len(parts) == 2 {
			inner = parts[1]
		}
	}
	if tag, _ := tagged(inner); tag == "t" {
		return inner
	}
	return v
}

// mostHeld limits how many items a container of copies has.
const mostHeld = 4

// fails reports whether one of several results of Go's is an error.
func (x *exchange) fails() bool {
	_, payload := tagged(x.steps[len(x.steps)-1].value)
	parts, _ := payload.([]any)
	for i, t := range x.types {
		if t.kind == "error" && at(parts, i) != nil {
			return true
		}
	}
	return false
}

// held returns the items of a list, set or tuple, and its form.
func (l *Language) held(v any) (form string, parts []any) {
	tag, payload := tagged(v)
	list, _ := payload.([]any)
	switch {
	case hasTag("t z", tag):
		parts = list
	case hasTag(l.lists, tag):
		parts, _ = at(list, 1).([]any)
	}
	if len(parts) > mostHeld {
		return "", nil
	}
	return fmt.Sprint(tag, len(parts)), parts
}

// mostLeaves limits how many parts an answer may be made of.
const mostLeaves = 16

// leaves returns all plain values in an answer, also of what is nested, and the rest as its form.
func (l *Language) leaves(v any) (form string, parts []any) {
	var visit func(v any, level int) any
	visit = func(v any, level int) any {
		tag, payload := tagged(v)
		list, _ := payload.([]any)
		items, isList := at(list, 1).([]any)
		switch {
		case level > deepest:
		case hasTag("t z", tag):
			items = list
		case l.typed && hasTag("P T", tag) && len(list) == 2 && !isList:
			items = list[1:]
		case hasTag(l.lists, tag) || hasTag(l.pairs, tag):
		default:
			parts = append(parts, v)
			return nil
		}
		all := make([]any, len(items))
		for i, item := range items {
			if hasTag(l.pairs, tag) && i%2 == 0 {
				all[i] = bare(item)
			} else {
				all[i] = visit(item, level+1)
			}
		}
		return []any{tag, all}
	}
	form = text(visit(v, 0))
	if len(parts) > mostLeaves || form == "null" {
		return "", nil
	}
	return form, parts
}

// constantPlace is the place of what is the same in all answers.
const constantPlace = "always"

// copied returns the place that all these answers, or all their parts in turn, are copied from. Some parts may always be
// the same instead, but least of them are copies.
func (l *Language) copied(list []*exchange, split func(v any) (string, []any), least int) (string, bool) {
	var left []map[string]bool // of each part
	form, answered, refuses := "", false, false
	different := map[string]bool{} // answers
	var values []map[string]bool   // of each part
	asked := map[string]bool{}
	for _, x := range list {
		asked[x.with] = true
	}
	differ := len(asked) >= mostCounted
	_, halves := split(map[string]any{"t": []any{nil, nil}})
	nothing := l.typed // nil is a constant of Go's
	for nth, x := range list {
		f := x.steps[len(x.steps)-1]
		value, isValue := x.first(f.value)
		if len(halves) == 2 && len(x.types) > 1 && !x.fails() {
			value, isValue = f.value, true
		}
		if len(x.types) > 0 && x.types[0].kind == "error" {
			value = fields(value)
		}
		if f.kind != answer || !isValue {
			refuses = true
			continue
		}
		nothing = nothing && value == nil
		now, parts := split(value)
		if len(parts) == 0 || answered && now != form {
			return "", false
		}
		if !answered {
			left, values = make([]map[string]bool, len(parts)), make([]map[string]bool, len(parts))
		}
		form, answered = now, true
		different[l.spelled(value)] = true
		for i, v := range parts {
			if values[i] == nil {
				values[i] = map[string]bool{}
			}
			values[i][l.spelled(v)] = true
			here := map[string]bool{}
			l.find(x, len(list) == 1, v, func(place string) {
				if left[i] == nil || left[i][place] {
					here[place] = true
				}
			})
			if form != "" { // what is counted may be equal by chance
				maps.DeleteFunc(here, func(place string, _ bool) bool { return counted.MatchString(place) })
			}
			if same := constantPlace + l.spelled(v); form != "" && (left[i] == nil || left[i][same]) {
				here[same] = true
			}
			if n, ok := integer(v); ok && form != "" && differ {
				count := fmt.Sprintf("the number of its calls, and %d", n-int64(nth))
				if left[i] == nil || left[i][count] {
					here[count] = true
				}
			}
			if len(here) == 0 { // none of the places is that of all answers
				return "", false
			}
			left[i] = here
		}
	}
	if !answered || nothing {
		return "", false
	}
	best, copies, varied := "", 0, true
	for i, places := range left {
		if slices.ContainsFunc(slices.Collect(maps.Keys(places)), func(place string) bool { return strings.HasPrefix(place, constantPlace) }) {
			continue
		}
		copies++
		varied = varied && len(values[i]) > 1
		for place := range places {
			// Many functions refuse what they do not give back.
			if (!refuses || strings.Contains(place, " key ")) && (best == "" || place < best) {
				best = place
			}
		}
	}
	return best, best != "" && copies >= least && (form == "" || len(different) > min(copies, 2) || copies > 1 && varied && l.typed && form[0] == 't')
}

// find calls found with each place where a value was told before an exchange was answered.
func (l *Language) find(x *exchange, alone bool, v any, found func(place string)) {
	want := l.spelled(v)
	_, isText := v.(string)
	_, isNumber := v.(json.Number)
	told := recent(x.told, alone)
	for from, v := range x.own {
		if !alone || strings.HasPrefix(from, wasSet) { // one answer may be equal by chance
			told[from] = v
		}
	}
	for from, v := range told {
		l.places(v, func(place, value string) {
			if value == want && (isText || isNumber || !counted.MatchString(place)) { // what is of another type is only taken for what it equals
				found(from + place)
			}
		})
	}
}
