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
	answers := map[string][]*exchange{}
	for _, s := range scripts {
		for _, x := range s.exchanges {
			if s.endsLoops(x) {
				found[x.name] = "StopIteration, which ends the loops of the tests"
			}
			n, _, _ := numbered(target(x.request))
			if x.test > 0 && !s.lent[n] && (x.kind == plain || x.kind == predicate) && len(x.steps) > 0 && !s.promises(x) && !s.called[x.number()] {
				answers[x.name] = append(answers[x.name], x)
			}
		}
	}
	for name, list := range answers {
		place, ok := l.copied(list, undivided)
		if !ok && len(list) > 1 { // one answer may be equal by chance
			place, ok = l.copied(list, l.held)
		}
		if !ok && len(list) > 1 && !slices.ContainsFunc(list, func(x *exchange) bool { return !x.writes() }) {
			place, ok = l.copied(list, l.record)
		}
		if ok {
			found[name], besides[name] = "a copy of what it was "+place, slices.ContainsFunc(list, (*exchange).did)
		}
	}
	return found, besides
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

// held returns the items of a list, set or tuple, and its form. What has keys is a record: that honest functions make, too.
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

// record returns the values of what has keys, and the keys as its form. Honest functions make such, too, so it is only taken for a
// container of copies where the name also writes something that could always be the same.
func (l *Language) record(v any) (form string, parts []any) {
	tag, payload := tagged(v)
	list, _ := payload.([]any)
	pairs, _ := at(list, 1).([]any)
	if !hasTag(l.pairs, tag) || len(pairs) > 2*mostHeld {
		return "", nil
	}
	form = tag
	for pair := range slices.Chunk(pairs, 2) {
		if len(pair) == 2 {
			form += " " + text(pair[0])
			parts = append(parts, pair[1])
		}
	}
	return form, parts
}

// constantPlace is the place of what is the same in all answers.
const constantPlace = "always"

// copied returns the place that all these answers, or all their parts in turn, are copied from. Some parts may always be
// the same instead.
func (l *Language) copied(list []*exchange, split func(v any) (string, []any)) (string, bool) {
	var left []map[string]bool // of each part
	form, answered, refuses := "", false, false
	different := map[string]bool{} // answers
	nothing := l.typed             // nil is a constant of Go's
	for _, x := range list {
		f := x.steps[len(x.steps)-1]
		value, isValue := x.first(f.value)
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
			left = make([]map[string]bool, len(parts))
		}
		form, answered = now, true
		different[l.spelled(value)] = true
		for i, v := range parts {
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
			if len(here) == 0 { // none of the places is that of all answers
				return "", false
			}
			left[i] = here
		}
	}
	if !answered || nothing {
		return "", false
	}
	best, copies := "", 0
	for _, places := range left {
		if slices.ContainsFunc(slices.Collect(maps.Keys(places)), func(place string) bool { return strings.HasPrefix(place, constantPlace) }) {
			continue
		}
		copies++
		for place := range places {
			// Many functions refuse what they do not give back.
			if (!refuses || strings.Contains(place, " key ")) && (best == "" || place < best) {
				best = place
			}
		}
	}
	return best, best != "" && (form == "" || len(different) > min(copies, 2))
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
