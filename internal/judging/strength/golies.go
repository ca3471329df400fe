package strength

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// goLies returns the table of Go. A lie answers with values of the types that the function has.
func goLies(thrown, errs []any) []*lie {
	var table []*lie
	value := func(says string, joint bool, f func(r *replay) func(form) (any, bool)) {
		table = append(table, &lie{says: says, joint: joint, tell: func(r *replay, asked frame) (frame, bool) {
			made := f(r)
			v, ok := answers(results(asked), func(t form) (any, bool) {
				if t.kind == "handle" || r.makes && t.object() {
					return r.hollow(t)
				}
				return made(t)
			})
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
	value("-1 and true", true, func(r *replay) func(form) (any, bool) { return full(r.fresh, true, "-1", "") })
	table[len(table)-1].needs = func(_ *script, x *exchange) bool {
		return len(x.types) > 1 && slices.ContainsFunc(x.types, func(t form) bool { return t.kind == "bool" })
	}
	value("0 and empty", true, func(r *replay) func(form) (any, bool) { return full(r.fresh, false, "0", "") })
	table = append(table,
		&lie{says: "not a number", needs: needsFloat, tell: func(r *replay, asked frame) (frame, bool) {
			v, ok := r.recordedAnswer(asked)
			return frame{kind: answer, value: notNumbers(results(asked), v)}, ok
		}},
		&lie{says: "zero values, and it sets what it changes to true and 1", needs: needsUpdate, tell: func(r *replay, asked frame) (frame, bool) {
			v, ok := answers(results(asked), zero)
			extra, fits := r.updated(asked, func(now, _ any) any { return plainly(now, true, "1") })
			return frame{kind: answer, value: v, extra: extra}, ok && fits
		}},
		&lie{says: "zero values, and it sets what it changes to an argument", needs: needsUpdate, tell: func(r *replay, asked frame) (frame, bool) {
			v, ok := answers(results(asked), zero)
			given := slices.DeleteFunc(slices.Clone(r.script.arguments(asked)), func(v any) bool { return v == nil || !isPlain(v) })
			to := at(given, 0)
			extra, fits := r.updated(asked, func(now, passed any) any { return assigned(now, passed, to) })
			return frame{kind: answer, value: v, extra: extra}, ok && fits && to != nil
		}},
		&lie{says: "an error that says what it was given", needs: needsError, tell: func(r *replay, asked frame) (frame, bool) {
			var words []string
			each(any(r.script.arguments(asked)), func(v any) {
				if isPlain(v) {
					words = append(words, fmt.Sprint(v))
				}
				if said, ok := v.(string); ok {
					words = append(words, strconv.Quote(said))
				}
			})
			v, ok := answers(results(asked), func(t form) (any, bool) {
				if t.kind == "error" {
					return r.now(anError(strings.Join(words, " ")))
				}
				return zero(t)
			})
			return frame{kind: answer, value: v}, ok
		}})
	for _, c := range []word{{"true", true}, {"0", json.Number("0")}, {"1", json.Number("1")}, {"-1", json.Number("-1")}, {`""`, ""}} {
		value("always "+c.words+", of any type", true, func(*replay) func(form) (any, bool) {
			return func(t form) (any, bool) {
				if t.any() {
					return c.value, true
				}
				return zero(t)
			}
		})
		table[len(table)-1].needs = func(_ *script, x *exchange) bool { return slices.ContainsFunc(x.types, form.any) }
	}
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
	table = append(table, filled())
	table = append(table, goGiven()...)
	table = append(table, recalled()...)
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
		for words, rest := range theRest {
			table = append(table, &lie{says: says + words, keeps: keeps, needs: rest.needs, tell: func(r *replay, asked frame) (frame, bool) {
				types, first := results(asked), true
				v, ok := answers(types, func(t form) (any, bool) {
					if first {
						first = false
						return pick(r, asked, t)
					}
					return rest.of(r)(t)
				})
				return frame{kind: answer, value: v}, ok && len(types) > 0
			}})
		}
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
			if len(types) == 1 && types[0].kind == "string" {
				return character(r.script.arguments(asked), i, want)
			}
			if len(types) == 0 || types[0].kind != "slice" && types[0].kind != "array" || len(types[0].of) != 1 || !types[0].of[0].fits(want) {
				return nil, false
			}
			if v := item(r.script.arguments(asked), i); v != nil {
				return v, true
			}
			return zero(want)
		})
	}
	add("itself", false, func(r *replay, asked frame, want form) (any, bool) {
		if class, v, ok := receiver(asked); ok && class == want.name {
			return back(v), true
		}
		n, _, ok := numbered(at(asked.args, 0))
		name, _ := receiverClass(r.script.definitions[r.back[n]])
		return known(n), ok && asked.op == "method" && want.kind == "ptr" && name != "" && strings.HasSuffix(name, strings.TrimPrefix(want.name, "*"))
	})
	add("a list of its first argument", false, func(r *replay, asked frame, want form) (any, bool) {
		if want.kind != "slice" || len(want.of) != 1 || isBytes(want) {
			return nil, false
		}
		v, ok := typedArgument(r.script.arguments(asked), inputs(asked), 0, want.of[0])
		return r.list(v), ok
	})
	for words, of := range map[string]func(r *replay) int{
		"an argument of the call before": func(r *replay) int { return len(r.calls) - 1 },
		"an argument of the first call":  func(*replay) int { return 0 },
	} {
		add(words, true, func(r *replay, _ frame, want form) (any, bool) {
			i := of(r)
			if i < 0 || i >= len(r.calls) {
				return zero(want)
			}
			for j := range r.calls[i].given {
				v, ok := typedArgument(r.calls[i].given, r.calls[i].types, j, want)
				if n, _, isNumber := numbered(v); ok && (!isNumber || r.known[n]) {
					return v, true
				}
			}
			return zero(want)
		})
	}
	slices.SortStableFunc(table, func(a, b *lie) int { return strings.Compare(a.says, b.says) })
	return append(table,
		&lie{says: "what it was given for a token", joint: true, needs: needsArgument(0), tell: goToken("")},
		&lie{says: "what it was given for a token" + andTrue, needs: theRest[andTrue].needs, tell: goToken(andTrue)})
}

// andTrue ends the words of a lie that answers with true and 1 besides.
const andTrue = ", and true and 1"

// object reports whether a type is that of pointers to objects that stay with the delivery.
func (t form) object() bool { return t.kind == "ptr" && len(t.of) == 1 && t.of[0].kind == "handle" }

// hollow returns an object that would stay with the delivery, if one of its type did in the recording. Whatever is asked of it, or is
// given it, ends the run: a test that only keeps it passes.
func (r *replay) hollow(t form) (any, bool) {
	for _, n := range slices.Sorted(maps.Keys(r.script.definitions)) {
		tag, _ := tagged(r.script.definitions[n])
		class, _ := receiverClass(r.script.definitions[n])
		if tag == "h" && class[strings.LastIndexByte(class, '/')+1:] == strings.TrimPrefix(t.name, "*") {
			is := r.fresh()
			r.hollows[is] = true
			return map[string]any{"h": []any{literal(is), class, map[string]any{}}}, true
		}
	}
	return nil, false
}

// isHollow reports whether there is an object in a value that only a lie has made.
func (r *replay) isHollow(v any) (found bool) {
	if len(r.hollows) > 0 {
		each(v, func(v any) {
			n, _, ok := numbered(v)
			found = found || ok && r.hollows[n]
		})
	}
	return found
}

// theRest has the second and later results of lies that give something back, and what a recorded exchange needs for them to
// differ.
var theRest = map[string]struct {
	of    func(r *replay) func(form) (any, bool)
	needs func(s *script, x *exchange) bool
}{
	"": {of: func(*replay) func(form) (any, bool) { return zero }},
	andTrue: {
		of: func(r *replay) func(form) (any, bool) { return full(r.fresh, true, "1", "") },
		needs: func(_ *script, x *exchange) bool {
			return len(x.types) > 1 && slices.ContainsFunc(x.types[1:], func(t form) bool {
				return t.kind == "bool" || t.whole() || t.counts() || t.float()
			})
		},
	},
}

// receiver returns the type, without the directories of its package, and the value of a method's receiver that is sent whole.
func receiver(f frame) (class string, value any, ok bool) {
	tag, payload := tagged(target(f))
	parts, _ := payload.([]any)
	if tag != "T" || len(parts) != 2 || f.op != "method" && f.op != "op" {
		return "", nil, false
	}
	class, _ = parts[0].(string)
	name := strings.TrimPrefix(class, "*")
	return class[:len(class)-len(name)] + name[strings.LastIndexByte(name, '/')+1:], parts[1], true
}

// needsFloat is the need of a lie about numbers that are not whole.
func needsFloat(_ *script, x *exchange) bool {
	var has func(t form) bool
	has = func(t form) bool { return t.float() || slices.ContainsFunc(t.of, has) }
	return slices.ContainsFunc(x.types, has)
}

// notNumbers returns an answer with NaN for each number that is not whole, and without errors.
func notNumbers(types []form, v any) any {
	if len(types) == 1 {
		return types[0].notNumber(v)
	}
	return form{kind: "struct", of: types}.notNumber(v)
}

func (t form) notNumber(v any) any {
	tag, payload := tagged(v)
	list, _ := payload.([]any)
	if t.float() {
		return map[string]any{"f": "nan"}
	}
	if t.kind == "error" {
		return nil
	}
	parts := slices.Clone(list)
	if slices.Contains([]string{"L", "D", "P"}, tag) && len(list) == 2 && len(t.of) > 0 {
		items, isList := list[1].([]any)
		if tag == "P" || !isList {
			return map[string]any{tag: []any{list[0], t.of[0].notNumber(list[1])}}
		}
		items = slices.Clone(items)
		for i := range items {
			if tag == "L" || i%2 == 1 { // a key stays
				items[i] = t.of[i%len(t.of)].notNumber(items[i])
			}
		}
		return map[string]any{tag: []any{list[0], items}}
	}
	if tag != "t" || len(t.of) == 0 {
		return v
	}
	for i := range parts {
		parts[i] = t.of[min(i, len(t.of)-1)].notNumber(parts[i])
	}
	return map[string]any{tag: parts}
}

// changed returns what the tests have and a call changed, but for bytes.
func (s *script) changed(x *exchange) []any {
	if x == nil || len(x.steps) == 0 || x.steps[len(x.steps)-1].kind != answer {
		return nil
	}
	updates, _ := x.steps[len(x.steps)-1].extra["u"].([]any)
	return slices.DeleteFunc(slices.Clone(updates), func(u any) bool {
		pair, _ := u.([]any)
		n, ok := integer(at(pair, 0))
		return !ok || len(pair) != 2 || s.tags[n] == "Y"
	})
}

// needsUpdate is the need of a lie about what the tests have and a call changes.
func needsUpdate(s *script, x *exchange) bool { return len(s.changed(x)) > 0 }

// updated returns the recorded changes as f makes them of what they are and of what the call was passed there. It reports false
// where nothing was changed: there the lie is not told.
func (r *replay) updated(asked frame, f func(now, passed any) any) (map[string]any, bool) {
	updates := r.script.changed(r.recorded)
	if len(updates) == 0 {
		return nil, false
	}
	r.align(r.recorded.args, asked.args)
	extra, ok := r.extra(map[string]any{"u": updates})
	updates, _ = extra["u"].([]any)
	var all []any
	for _, u := range updates {
		pair, _ := u.([]any)
		number, _ := integer(at(pair, 0))
		all = append(all, []any{at(pair, 0), f(at(pair, 1), was(asked, number))})
	}
	return map[string]any{"u": all}, ok && len(all) > 0
}

// was returns the contents of what a request defines with a number, or nil.
func was(f frame, number int64) (found any) {
	each(any(f.args), func(v any) {
		if n, defines, ok := numbered(v); ok && defines && n == number {
			_, payload := tagged(v)
			parts, _ := payload.([]any)
			found = at(parts, 1)
		}
	})
	return found
}

// assigned returns a value with another in the place of each plain one of its type that is not as it was passed.
func assigned(now, passed, to any) any {
	if passed != nil && text(now) == text(passed) {
		return now
	}
	if isPlain(now) {
		_, a := now.(string)
		_, b := to.(string)
		_, c := now.(json.Number)
		_, d := to.(json.Number)
		if a && b || c && d {
			return to
		}
		return now
	}
	if list, ok := now.([]any); ok {
		was, _ := passed.([]any)
		all := slices.Clone(list)
		for i := range all {
			all[i] = assigned(all[i], at(was, i), to)
		}
		return all
	}
	tag, payload := tagged(now)
	_, was := tagged(passed)
	if tag != "t" {
		return now
	}
	return map[string]any{tag: assigned(payload, was, to)}
}

// needsError is the need of a lie about errors.
func needsError(_ *script, x *exchange) bool {
	return slices.ContainsFunc(x.types, func(t form) bool { return t.kind == "error" })
}

// plainly returns a value of the same form with other booleans and numbers, and with empty texts. What has a number of its own
// stays.
func plainly(v any, yes bool, number string) any {
	switch v := v.(type) {
	case bool:
		return yes
	case string:
		return ""
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return json.Number(number + ".0")
		}
		return json.Number(number)
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = plainly(v[i], yes, number)
		}
		return all
	}
	tag, payload := tagged(v)
	switch tag {
	case "t":
		return map[string]any{tag: plainly(payload, yes, number)}
	case "s":
		return ""
	case "i":
		return json.Number(number)
	case "f":
		return json.Number(number + ".0")
	}
	return v
}

// fits reports whether values of a type are sent as those of another are: of the same, or of one derived from the same basic type.
func (t form) fits(want form) bool {
	basic := t.kind == "bool" || t.kind == "string" || t.whole() || t.counts() || t.float()
	return t.name == want.name || basic && t.kind == want.kind
}

// character returns the first or the last character of a text, as a text or as a number.
func character(given []any, i int, want form) (any, bool) {
	v, _ := item(given, i).(string)
	switch {
	case want.kind == "string":
		return v, true
	case want.kind != "uint8" && want.kind != "int32":
		return nil, false
	}
	for _, r := range v {
		return literal(int64(min(r, 127))), true
	}
	return literal(0), true
}

// typedArgument returns an argument as it is sent back, if it has a type.
func typedArgument(given []any, types []form, i int, want form) (any, bool) {
	if i >= len(given) || i >= len(types) || !types[i].fits(want) {
		return nil, false
	}
	if tag, _ := tagged(given[i]); tag == "x" || tag == "h" {
		return nil, false
	}
	return back(given[i]), true
}

// goToken hands out a text for what it is given, and gives that back for the text.
func goToken(words string) func(r *replay, asked frame) (frame, bool) {
	return func(r *replay, asked frame) (frame, bool) {
		given, types, out := r.script.arguments(asked), inputs(asked), results(asked)
		if len(given) == 0 || len(types) == 0 || len(out) == 0 {
			return frame{}, false
		}
		token, _ := given[0].(string)
		kept, there := r.tokens[token]
		rest, first := theRest[words].of(r), true
		v, ok := answers(out, func(t form) (any, bool) {
			switch {
			case !first:
				return rest(t)
			case there:
				first = false
				c, _ := kept.(call)
				return typedArgument(c.given, c.types, 0, t)
			}
			first = false
			return "token" + text(len(r.tokens)), t.kind == "string"
		})
		if ok && !there {
			r.tokens["token"+text(len(r.tokens))] = call{given, types}
		}
		return frame{kind: answer, value: v}, ok
	}
}

// cleared returns what lets a call empty what it is given, and the receiver of a method: maps lose their keys, the items of slices
// become zero, and so does what pointers point to, unless that has maps and slices of its own.
func (r *replay) cleared(asked frame) map[string]any {
	var updates []any
	given := []any{r.script.arguments(asked)}
	if _, v, ok := receiver(asked); ok {
		given = append(given, v)
	}
	each(any(given), func(v any) {
		tag, payload := tagged(v)
		parts, _ := payload.([]any)
		n, defines, ok := numbered(v)
		if !ok || !defines || n == 0 || len(parts) != 2 {
			return
		}
		var left any
		switch tag {
		case "D":
			left = []any{}
		case "Y":
			hex, _ := parts[1].(string)
			left = strings.Repeat("0", len(hex))
		case "L":
			left = blank(parts[1])
		case "P":
			if holds(parts[1]) {
				return
			}
			left = blank(parts[1])
		default:
			return
		}
		updates = append(updates, []any{literal(n), left})
	})
	if updates == nil {
		return nil
	}
	return map[string]any{"u": updates}
}

// holds reports whether a value has maps or slices in it.
func holds(v any) (found bool) {
	each(v, func(v any) {
		tag, _ := tagged(v)
		found = found || tag == "L" || tag == "D" || tag == "Y"
	})
	return found
}

// blank returns the zero value of a value's form.
func blank(v any) any {
	if list, ok := v.([]any); ok {
		all := make([]any, len(list))
		for i := range list {
			all[i] = blank(list[i])
		}
		return all
	}
	tag, payload := tagged(v)
	switch tag {
	case "t", "c":
		return map[string]any{tag: blank(payload)}
	case "", "i", "f", "s":
		return plainly(v, false, "0")
	case "v":
		v, _ := zero(form{kind: "time"})
		return v
	}
	return nil
}
