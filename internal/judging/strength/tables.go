package strength

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// pythonLies returns the table of Python.
func pythonLies(thrown, _ []any) []*lie {
	table := constant(pythonConstants)
	for _, l := range table {
		l.steps = true
	}
	for _, c := range []struct{ words, tag string }{{"an empty dict", "D"}, {"an empty list", "L"}, {"an empty set", "S"}} {
		table = append(table, empty(c.words, c.tag))
	}
	table = append(table,
		&lie{says: "an empty tuple", tell: func(*replay, frame) (frame, bool) { return says(map[string]any{"t": []any{}}) }},
		&lie{says: "two empty lists", tell: func(r *replay, _ frame) (frame, bool) {
			return says(map[string]any{"t": []any{r.list(), r.list()}})
		}})
	table = append(table, given()...)
	table = append(table, third()...)
	table = append(table,
		&lie{says: "a tuple of its first argument", needs: needsPlain, tell: func(r *replay, f frame) (frame, bool) {
			return says(map[string]any{"t": []any{at(r.script.arguments(f), 0)}})
		}},
		&lie{says: "a set of its first argument", needs: needsPlain, tell: func(r *replay, f frame) (frame, bool) {
			return says(map[string]any{"S": []any{literal(r.fresh()), []any{at(r.script.arguments(f), 0)}}})
		}})
	table = append(table, &lie{says: "what it was given for a token of bytes", joint: true, needs: needsTag("b"), tell: byBytes})
	table = append(table,
		&lie{says: "nothing to go through", ends: true, needs: needsStep, tell: func(r *replay, f frame) (frame, bool) { return r.end(f), true }},
		&lie{says: "always the same item to go through, and no other", ends: true, needs: needsItem, tell: func(r *replay, f frame) (frame, bool) {
			x := r.script.answered(r.trial.about, false)
			if r.recorded == nil || x == nil || r.script.firstStep(r.recorded) && r.script.promises(r.recorded) {
				return frame{}, false
			}
			if !r.script.firstStep(r.recorded) {
				return r.end(f), true
			}
			v, ok := r.now(r.script.underlying(x))
			return frame{kind: answer, value: v}, ok
		}})
	table = append(table, recalled()...)
	table = append(table, printing())
	table = append(table, exceptions(thrown)...)
	table = append(table, &lie{says: "always raises StopIteration", tell: func(r *replay, _ frame) (frame, bool) {
		return frame{kind: raised, value: r.exception("builtins.StopIteration")}, true
	}})
	table = append(table, emptied(table, "an empty list", "an empty dict", "an empty set", "an empty tuple", `always ""`, "always None",
		"its first argument", "always 0", "always True", "always False")...)
	return append(table, shortened(table, "its first argument", "the first item of its first argument", "always 0", "always True")...)
}

// end answers a request of Python for an item with the exception that says there are no more.
func (r *replay) end(f frame) frame {
	class := "builtins.StopIteration"
	switch at(f.args, 0) {
	case "__anext__":
		class = "builtins.StopAsyncIteration"
	case "__getitem__":
		class = "builtins.IndexError"
	}
	return frame{kind: raised, value: r.exception(class)}
}

// scriptLies returns the table of JavaScript.
func scriptLies(thrown, _ []any) []*lie {
	table := constant(scriptConstants)
	for _, c := range []struct{ words, tag string }{{"an empty array", "L"}, {"an empty object", "D"}, {"an empty map", "P"}, {"an empty set", "S"}} {
		l := empty(c.words, c.tag)
		l.needs = needsTag("L D G P S B A")
		table = append(table, l)
	}
	table = append(table, &lie{says: "two empty arrays", needs: needsTag("L D G P S B A"), tell: func(r *replay, _ frame) (frame, bool) {
		return says(r.list(r.list(), r.list()))
	}})
	for _, l := range table {
		switch l.says {
		case "always NaN", "always Infinity":
			l.needs = needsTag("number f")
		case "always 0n":
			l.needs = needsTag("i")
		}
	}
	table = append(table, given()...)
	table = append(table,
		&lie{says: "itself", tell: func(_ *replay, f frame) (frame, bool) {
			n, _, ok := numbered(at(f.args, 0))
			return frame{kind: answer, value: known(n)}, ok && f.op == "method"
		}},
		&lie{says: "nothing to go through", ends: true, needs: needsStep, tell: func(r *replay, _ frame) (frame, bool) {
			return says(map[string]any{"D": []any{literal(r.fresh()), []any{"value", undefined, "done", true}}})
		}})
	table = append(table, recalled()...)
	table = append(table, holes())
	table = append(table, exceptions(thrown)...)
	table = append(table, emptied(table, "an empty array", "an empty object", "always undefined", "its first argument", "always 0", "always true")...)
	return append(table, shortened(table, "its first argument", "the first item of its first argument", "always 0", "always true")...)
}

// constant returns the lies that are one value.
func constant(list []word) []*lie {
	var table []*lie
	for _, c := range list {
		table = append(table, &lie{says: "always " + c.words, joint: true, tell: func(*replay, frame) (frame, bool) { return says(c.value) }})
	}
	return table
}

func empty(words, tag string) *lie {
	return &lie{says: words, tell: func(r *replay, _ frame) (frame, bool) {
		return says(map[string]any{tag: []any{literal(r.fresh()), []any{}}})
	}}
}

// given returns the lies that give something back that was given.
func given() []*lie {
	table := []*lie{
		{says: "a list of its first argument", needs: needsArgument(0), tell: func(r *replay, f frame) (frame, bool) {
			return says(r.list(back(at(r.script.arguments(f), 0))))
		}},
		{says: "the first item of its first argument", needs: needsItems, tell: func(r *replay, f frame) (frame, bool) { return says(item(r.script.arguments(f), 0)) }},
		{says: "the last item of its first argument", needs: needsItems, tell: func(r *replay, f frame) (frame, bool) { return says(item(r.script.arguments(f), -1)) }},
	}
	for i, words := range []string{"its first argument", "its second argument"} {
		table = append(table, &lie{says: words, needs: needsArgument(i), tell: func(r *replay, f frame) (frame, bool) { return says(back(at(r.script.arguments(f), i))) }})
	}
	return append(table,
		&lie{says: "the last argument of the call before", keeps: true, tell: func(r *replay, f frame) (frame, bool) { return says(r.earlier(len(r.calls)-1, true)) }},
		&lie{says: "the first argument of the call before", keeps: true, tell: func(r *replay, f frame) (frame, bool) { return says(r.earlier(len(r.calls)-1, false)) }},
		&lie{says: "an argument of the first call", keeps: true, tell: func(r *replay, f frame) (frame, bool) { return says(r.earlier(0, true)) }},
		&lie{says: "what it was given for a token", joint: true, needs: needsArgument(0), tell: byToken},
	)
}

// needsSeveral is the need of a lie about the order of items: two different ones.
func needsSeveral(s *script, x *exchange) bool {
	given := s.arguments(x.request)
	return needsItems(s, x) && text(item(given, 0)) != text(item(given, -1))
}

// turned returns the lie that gives a list or a text from its end.
func turned() *lie {
	return &lie{says: "its first argument from its end", again: true, needs: needsSeveral, tell: func(r *replay, f frame) (frame, bool) {
		first := at(r.script.arguments(f), 0)
		if s, ok := first.(string); ok {
			letters := []rune(s)
			slices.Reverse(letters)
			return frame{kind: answer, value: string(letters)}, !r.script.lang.typed || len(results(f)) == 1 && results(f)[0].kind == "string"
		}
		tag, payload := tagged(first)
		parts, _ := payload.([]any)
		isList := tag == "L" || tag == "Q"
		items := parts
		if isList {
			items, _ = at(parts, 1).([]any)
		}
		if !isList && tag != "t" || r.script.lang.typed && (tag != "L" || len(results(f)) != 1 || len(inputs(f)) == 0 || !inputs(f)[0].fits(results(f)[0])) {
			return frame{}, false
		}
		all := make([]any, len(items))
		for i, v := range items {
			all[len(items)-1-i] = back(v)
		}
		if isList {
			return says(r.list(all...))
		}
		return says(map[string]any{tag: all})
	}}
}

// holes returns the lie of JavaScript that has nothing but holes in its arrays: forEach and every pass over them.
func holes() *lie {
	return &lie{says: "holes in place of all items", again: true,
		needs: func(_ *script, x *exchange) bool {
			return len(x.steps) > 0 && hasItems(x.steps[len(x.steps)-1].value)
		},
		tell: func(r *replay, f frame) (frame, bool) {
			if !hasItems(r.recordedValue()) {
				return frame{}, false
			}
			v, ok := r.recordedAnswer(f)
			return frame{kind: answer, value: holed(v)}, ok
		}}
}

// hasItems reports whether there is an array in a value that is not empty.
func hasItems(v any) (found bool) {
	each(v, func(v any) {
		tag, payload := tagged(v)
		parts, _ := payload.([]any)
		items, _ := at(parts, 1).([]any)
		found = found || tag == "L" && len(items) > 0
	})
	return found
}

// holed returns a value with holes in place of all items of its arrays.
func holed(v any) any {
	tag, payload := tagged(v)
	parts, _ := payload.([]any)
	items, _ := at(parts, 1).([]any)
	if !hasTag("L D P", tag) || len(items) == 0 {
		return v
	}
	all := slices.Clone(items)
	for i := range all {
		if tag == "L" {
			all[i] = map[string]any{"u": json.Number("1")}
		} else if i%2 == 1 {
			all[i] = holed(all[i])
		}
	}
	return map[string]any{tag: append([]any{parts[0], all}, parts[2:]...)}
}

// third returns the lies of Python that give back a third argument: those that are passed by name come in the order of their names.
func third() []*lie {
	words := "third argument"
	only := func(r *replay, f frame) []any {
		given := r.script.arguments(f)
		return []any{at(given, 2)}
	}
	return []*lie{
		{says: "its " + words, needs: needsArgument(2), tell: func(r *replay, f frame) (frame, bool) { return says(back(only(r, f)[0])) }},
		{says: "a list of its " + words, needs: needsArgument(2), tell: func(r *replay, f frame) (frame, bool) { return says(r.list(back(only(r, f)[0]))) }},
		{says: "the first item of its " + words, needs: needsArgument(2), tell: func(r *replay, f frame) (frame, bool) { return says(item(only(r, f), 0)) }},
		{says: "the last item of its " + words, needs: needsArgument(2), tell: func(r *replay, f frame) (frame, bool) { return says(item(only(r, f), -1)) }},
	}
}

// exceptions returns the lies that raise what the tests have seen.
func exceptions(seen []any) []*lie {
	var table []*lie
	for _, e := range seen {
		table = append(table, &lie{says: "an exception that the tests expect", tell: func(r *replay, f frame) (frame, bool) {
			v, ok := r.now(e)
			if !ok {
				return says(nil)
			}
			return frame{kind: raised, value: v}, true
		}})
	}
	return table
}

// named returns the lies of a table with these words.
func named(table []*lie, words []string) []*lie {
	return slices.DeleteFunc(slices.Clone(table), func(l *lie) bool { return !slices.Contains(words, l.says) })
}

// emptied returns some of the lies again, told after what was given has been emptied: a loop over that checks nothing.
func emptied(table []*lie, which ...string) []*lie {
	var all []*lie
	for _, l := range named(table, which) {
		all = append(all, &lie{says: l.says + ", and it empties what it is given", empty: true, needs: needsKept, tell: func(r *replay, f frame) (frame, bool) {
			to, ok := l.tell(r, f)
			var updates []any
			given := r.kept(f)
			for _, n := range slices.Sorted(maps.Keys(given)) {
				if given[n] == "B" { // it keeps its length
					continue
				}
				var left any = []any{}
				if given[n] == "Y" {
					left = ""
				}
				updates = append(updates, []any{literal(n), left})
			}
			if updates != nil {
				to.extra = map[string]any{"u": updates}
			}
			return to, ok
		}})
	}
	return all
}

// shortened returns some of the lies again, told after the lists that were given have kept one item, or have become as many
// zeros: a test that computes its expectation from them afterwards.
func shortened(table []*lie, which ...string) []*lie {
	var all []*lie
	for _, l := range named(table, which) {
		for words, left := range map[string]func(pairs bool, items []any) []any{
			"leaves one item of what it is given": func(pairs bool, items []any) []any {
				if pairs {
					return []any{back(items[0]), back(items[1])}
				}
				return []any{back(items[0])}
			},
			"overwrites what it is given with 0": func(pairs bool, items []any) []any {
				zeros := slices.Repeat([]any{json.Number("0")}, len(items))
				for i := 0; pairs && i < len(items); i += 2 {
					zeros[i] = back(items[i])
				}
				return zeros
			},
		} {
			all = append(all, &lie{says: l.says + ", and it " + words, empty: true, needs: needsList, tell: func(r *replay, f frame) (frame, bool) {
				to, ok := l.tell(r, f)
				var updates []any
				each(any(r.script.arguments(f)), func(v any) {
					if n, pairs, items := r.script.lang.contents(v); len(items) > 1 {
						updates = append(updates, []any{literal(n), left(pairs, items)})
					}
					if tag, payload := tagged(v); tag == "B" && !r.script.lang.named {
						parts, _ := payload.([]any)
						data, _ := at(parts, 2).(string)
						size := base64.StdEncoding.DecodedLen(len(data))
						updates = append(updates, []any{at(parts, 0), []any{base64.StdEncoding.EncodeToString(make([]byte, size))}})
					}
				})
				if updates != nil {
					to.extra = map[string]any{"u": updates}
				}
				return to, ok
			}})
		}
	}
	slices.SortStableFunc(all, func(a, b *lie) int { return strings.Compare(a.says, b.says) })
	return all
}

// needsList is the need of a lie that changes a list of several items, a dict, or a typed array.
func needsList(s *script, x *exchange) (found bool) {
	each(any(s.arguments(x.request)), func(v any) {
		_, _, items := s.lang.contents(v)
		tag, _ := tagged(v)
		found = found || len(items) > 1 || tag == "B" && !s.lang.named
	})
	return found
}

// contents returns the number and the items of a list, a dict or a map, in Python also of a set or a deque, that is passed for the first
// time. With pairs, these are keys and values in turn.
func (l *Language) contents(v any) (number int64, pairs bool, items []any) {
	n, defines, ok := numbered(v)
	tag, payload := tagged(v)
	pairs = tag == "D" || !l.named && hasTag("G P", tag)
	if !ok || !defines || !pairs && tag != "L" && !(l.named && hasTag("S Q", tag)) {
		return 0, false, nil
	}
	parts, _ := payload.([]any)
	items, _ = at(parts, 1).([]any)
	if pairs {
		items = items[:len(items)/2*2]
	}
	return n, pairs, items
}

// recalled returns the lies that give one of the recorded answers of a name to all that is asked of it. They are told of
// what is asked with several arguments, or of iterations of several items.
func recalled() []*lie {
	var table []*lie
	for words, last := range map[string]bool{"what it answered first": false, "what it answered last": true} {
		table = append(table, &lie{says: "always " + words, again: true,
			needs: func(s *script, x *exchange) bool { return s.varied(x.name) },
			tell: func(r *replay, _ frame) (frame, bool) {
				x := r.script.answered(r.trial.about, last)
				if x == nil {
					return frame{}, false
				}
				v, ok := r.now(r.script.underlying(x))
				return frame{kind: answer, value: v}, ok
			}})
	}
	slices.SortFunc(table, func(a, b *lie) int { return strings.Compare(a.says, b.says) })
	return append(append(append(table, handed()...), append(counting(), visits()...)...), again(), turned(),
		&lie{says: "a copy, and nothing else", again: true, bare: true, tell: func(r *replay, f frame) (frame, bool) {
			v, ok := r.recordedAnswer(f)
			return frame{kind: answer, value: v}, ok
		}},
		&lie{says: "a copy, and beside it always the same", again: true, bare: true, plays: true, needs: func(s *script, x *exchange) bool {
			return s.handing(x.name) && s.firstOf(x.name) != x
		}})
}

// word is a value, and how it is called.
type word struct {
	words string
	value any
}

// Values that a function can return without looking at anything.
var pythonConstants = []word{
	{"True", true}, {"False", false}, {"0", json.Number("0")}, {"1", json.Number("1")}, {"-1", json.Number("-1")},
	{"0.0", json.Number("0.0")}, {"nan", map[string]any{"f": "nan"}}, {"inf", map[string]any{"f": "inf"}}, {`""`, ""}, {"None", nil},
}

var scriptConstants = []word{
	{"true", true}, {"false", false}, {"0", json.Number("0")}, {"1", json.Number("1")}, {"-1", json.Number("-1")},
	{"NaN", map[string]any{"f": "nan"}}, {"Infinity", map[string]any{"f": "inf"}}, {`""`, ""}, {"null", nil}, {"undefined", undefined},
	{"0n", map[string]any{"i": "0x0"}},
}
