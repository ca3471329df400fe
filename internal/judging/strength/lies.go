package strength

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// lie is a rule by which a name is answered for, whatever it is asked.
type lie struct {
	says  string                             // in words, for the customer
	tell  func(*replay, frame) (frame, bool) // false if it has no answer of the right type
	empty bool                               // it empties containers that it is given, and shows nothing where it is given none
	keeps bool                               // an argument of an earlier call
	joint bool                               // several names may tell it together
	again bool                               // it answers with what was recorded
	steps bool                               // it may also stand for each item of what is gone through
	bare  bool                               // only of names whose answers are copies and that do something else besides
	ends  bool                               // only where something is gone through
	needs func(s *script, x *exchange) bool  // what a recorded exchange must have for it to differ from the others; nil for nothing
}

// Needs of lies. One that has nothing to give back is as good as a constant.
func needsArgument(i int) func(*script, *exchange) bool {
	return func(s *script, x *exchange) bool { return len(s.arguments(x.request)) > i }
}

func needsItems(s *script, x *exchange) bool {
	first := at(s.arguments(x.request), 0)
	_, isText := first.(string)
	tag, _ := tagged(first)
	return isText || tag == "t" || s.lang.container(tag)
}

func needsContainers(s *script, x *exchange) bool { return len(s.containers(x.request)) > 0 }

func needsStep(s *script, x *exchange) bool { return s.stepping(x.request) }

// needsTag is the need of a lie that is a value of a type: an answer of such a type.
func needsTag(tags string) func(*script, *exchange) bool {
	return func(_ *script, x *exchange) bool {
		if len(x.steps) == 0 {
			return false
		}
		value := x.steps[len(x.steps)-1].value
		tag, _ := tagged(value)
		if _, isNumber := value.(json.Number); isNumber {
			tag = "number"
		}
		return hasTag(tags, tag)
	}
}

// covers reports whether the lie answers a request that is about a name. about is a name, or "*" and how it ends. A lie
// about all names leaves alone what only hangs things together, such as the making of objects.
func (l *lie) covers(about string, f frame, s *script, recorded *exchange) bool {
	name := s.nameOf(f)
	switch f.op {
	case "call", "method", "op", "await":
		if next := s.stepping(f); l.ends || next { // any other lie would never come to an end
			if (l.again || l.steps) && recorded != nil {
				return name == about && recorded.item()
			}
			return l.ends && next && name == about && (recorded == nil || !s.promises(recorded) || f.op == "await")
		}
		operation, _ := at(f.args, 0).(string)
		symbol, _ := tagged(at(f.args, 1))
		if f.op == "op" && operation == "own" && l.says == "always true" { // that is what an honest object says
			return false
		}
		if f.op == "op" && (operation == "__iter__" || operation == "__aiter__") || f.op == "method" && symbol == "y" {
			return false
		}
		if recorded != nil && s.promises(recorded) && !(f.op == "await" || s.settles(f) && recorded.itself()) {
			return false // what the promise brings is lied about
		}
		if recorded != nil && (l.again || l.steps) && s.stepped[recorded.number()] {
			return false // and so are the items
		}
	case "get":
		if l.ends {
			return false
		}
		// Only what is known to be data is replaced: a function must stay one to be called.
		if l.empty || recorded != nil && !s.evident(recorded) || s.lang.named && inner.MatchString(text(at(f.args, 1))) {
			return false
		}
	default:
		return false
	}
	if end, joint := strings.CutPrefix(about, "*"); joint {
		return strings.HasSuffix(name, end) && recorded != nil && s.evident(recorded)
	}
	return name == about
}

// inner matches attributes of coroutines and generators, which Python's library looks at.
var inner = regexp.MustCompile(`^"(cr|gi|ag)_`)

// evident reports whether an answer is data that the examiner can look at, or an object that only operators look at.
func (s *script) evident(x *exchange) bool {
	l := s.lang
	last := len(x.steps) - 1
	if (!x.kind.judged() && x.kind != shown) || last < 0 {
		return false
	}
	value := x.steps[last].value
	tag, _ := tagged(value)
	found := hasTag(l.opaque, tag) && !(l.named && tag == "h" && !s.handled[x.number()])
	if l.typed {
		each(value, func(v any) {
			tag, _ := tagged(v)
			found = found || hasTag(l.opaque, tag)
		})
	}
	return !found
}

// promises reports whether an answer is a promise of JavaScript's, or what Python's tests await or enter.
func (s *script) promises(x *exchange) bool {
	last := len(x.steps) - 1
	if last < 0 {
		return false
	}
	tag, _ := tagged(x.steps[last].value)
	return tag == "p" || s.promised[x.number()]
}

// number returns the number of the object that an exchange was answered with, 0 if it was none of the subject's.
func (x *exchange) number() int64 {
	if len(x.steps) == 0 {
		return 0
	}
	n, _, _ := numbered(x.steps[len(x.steps)-1].value)
	return n
}

// itself reports whether an object has answered with itself.
func (x *exchange) itself() bool {
	n, _, ok := numbered(target(x.request))
	return ok && (x.number() == 0 || n == x.number())
}

// settles reports whether a request is for what an object stands for: what it brings when it is awaited or entered.
func (s *script) settles(f frame) bool {
	operation, _ := at(f.args, 0).(string)
	return f.op == "await" || f.op == "op" && s.lang.named && hasTag("__await__ __enter__ __aenter__", operation)
}

func says(v any) (frame, bool) { return say(v), true }

func say(v any) frame { return frame{kind: answer, value: v} }

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
	table = append(table, &lie{says: "nothing to go through", ends: true, needs: needsStep, tell: func(r *replay, f frame) (frame, bool) {
		class := "builtins.StopIteration"
		if at(f.args, 0) == any("__anext__") {
			class = "builtins.StopAsyncIteration"
		}
		return frame{kind: raised, value: r.exception(class)}, true
	}})
	table = append(table, recalled()...)
	table = append(table, exceptions(thrown)...)
	table = append(table, &lie{says: "always raises StopIteration", tell: func(r *replay, _ frame) (frame, bool) {
		return frame{kind: raised, value: r.exception("builtins.StopIteration")}, true
	}})
	table = append(table, emptied(table, "an empty list", "an empty dict", "always None", "its first argument", "always 0", "always True")...)
	return append(table, shortened(table, "its first argument", "the first item of its first argument", "always 0", "always True")...)
}

// scriptLies returns the table of JavaScript.
func scriptLies(thrown, _ []any) []*lie {
	table := constant(scriptConstants)
	for _, c := range []struct{ words, tag string }{{"an empty array", "L"}, {"an empty object", "D"}, {"an empty map", "P"}, {"an empty set", "S"}} {
		l := empty(c.words, c.tag)
		l.needs = needsTag("L D G P S")
		table = append(table, l)
	}
	table = append(table, &lie{says: "two empty arrays", needs: needsTag("L D G P S"), tell: func(r *replay, _ frame) (frame, bool) {
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
		&lie{says: "what it was given for a token of bytes", joint: true, needs: needsTag("b"), tell: byBytes},
	)
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

// emptied returns some of the lies again, told after what was given has been emptied: a loop over that checks nothing.
func emptied(table []*lie, which ...string) []*lie {
	var all []*lie
	for _, l := range table {
		if !slices.Contains(which, l.says) {
			continue
		}
		all = append(all, &lie{says: l.says + ", and it empties what it is given", empty: true, needs: needsContainers, tell: func(r *replay, f frame) (frame, bool) {
			to, ok := l.tell(r, f)
			var updates []any
			for _, n := range r.script.containers(f) {
				var left any = []any{}
				if r.script.tags[n] == "Y" {
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
	for _, l := range table {
		if !slices.Contains(which, l.says) {
			continue
		}
		for words, left := range map[string]func(items []any) []any{
			"leaves one item of what it is given": func(items []any) []any { return []any{back(items[0])} },
			"overwrites what it is given with 0":  func(items []any) []any { return slices.Repeat([]any{json.Number("0")}, len(items)) },
		} {
			all = append(all, &lie{says: l.says + ", and it " + words, empty: true, needs: needsList, tell: func(r *replay, f frame) (frame, bool) {
				to, ok := l.tell(r, f)
				var updates []any
				each(any(r.script.arguments(f)), func(v any) {
					if n, items := aList(v); len(items) > 1 {
						updates = append(updates, []any{literal(n), left(items)})
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

// needsList is the need of a lie that changes a list of several items.
func needsList(s *script, x *exchange) (found bool) {
	each(any(s.arguments(x.request)), func(v any) {
		_, items := aList(v)
		found = found || len(items) > 1
	})
	return found
}

// aList returns the number and the items of a list that is passed for the first time.
func aList(v any) (number int64, items []any) {
	n, defines, ok := numbered(v)
	if tag, payload := tagged(v); ok && defines && tag == "L" {
		parts, _ := payload.([]any)
		items, _ = at(parts, 1).([]any)
		number = n
	}
	return number, items
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
				v, ok := r.now(x.steps[len(x.steps)-1].value)
				return frame{kind: answer, value: v}, ok
			}})
	}
	slices.SortFunc(table, func(a, b *lie) int { return strings.Compare(a.says, b.says) })
	return append(table, &lie{says: "a copy, and nothing else", again: true, bare: true, tell: func(r *replay, _ frame) (frame, bool) {
		x := r.recorded
		v, ok := r.now(x.steps[len(x.steps)-1].value)
		return frame{kind: answer, value: v}, ok
	}})
}

// item reports whether an exchange gave an item of what is gone through, and not its end.
func (x *exchange) item() bool {
	last := len(x.steps) - 1
	if last < 0 || x.steps[last].kind != answer {
		return false
	}
	tag, payload := tagged(x.steps[last].value)
	parts, _ := payload.([]any)
	members, _ := at(parts, 1).([]any)
	for i := 0; tag == "D" && i+1 < len(members); i += 2 {
		if members[i] == any("done") && members[i+1] == any(true) {
			return false
		}
	}
	return true
}

// varied reports whether a name was asked with three different arguments, or for three items of one iteration; two are
// enough if their answers are equal. With fewer, one of the recorded answers is as good as the table of all.
func (s *script) varied(name string) bool {
	given, answers, items, most := map[string]bool{}, map[string]bool{}, map[int]int{}, 0
	for _, x := range s.exchanges {
		if x.name != name || !x.item() {
			continue
		}
		args := s.arguments(x.request)
		switch {
		case s.stepping(x.request):
			items[x.test]++
			most = max(most, items[x.test])
		case args != nil:
			given[text(bares(args))] = true
		default:
			continue
		}
		answers[text(bare(x.steps[len(x.steps)-1].value))] = true
	}
	most = max(most, len(given))
	return most > 2 || most == 2 && len(answers) == 1
}

// answered returns the first or the last exchange of a name that was answered with data, or nil.
func (s *script) answered(name string, last bool) (found *exchange) {
	for _, x := range s.exchanges {
		if x.name == name && s.evident(x) && x.item() && len(x.steps) > 0 && (found == nil || last) {
			found = x
		}
	}
	return found
}

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

// list makes a list.
func (r *replay) list(items ...any) any {
	return map[string]any{"L": []any{literal(r.fresh()), append([]any{}, items...)}}
}

// item returns an item of the first argument, from its end if i is negative.
func item(given []any, i int) any {
	tag, payload := tagged(at(given, 0))
	list, _ := payload.([]any)
	if tag == "L" || tag == "Q" || tag == "S" {
		list, _ = at(list, 1).([]any)
	} else if s, ok := at(given, 0).(string); ok {
		for _, r := range s {
			list = append(list, string(r))
		}
	}
	if i < 0 {
		i += len(list)
	}
	if i < 0 || i >= len(list) {
		return nil
	}
	return back(list[i])
}

// exception makes one of the library's, without arguments.
func (r *replay) exception(class string) any {
	return map[string]any{"E": []any{
		literal(r.fresh()), map[string]any{"g": class}, []any{}, "", nil, nil,
		map[string]any{"D": []any{literal(r.fresh()), []any{}}},
	}}
}

// byToken hands out a token for what it is given, and gives that back for the token.
func byToken(r *replay, f frame) (frame, bool) {
	given := at(r.script.arguments(f), 0)
	if token, ok := given.(string); ok {
		if kept, there := r.tokens[token]; there {
			return says(kept)
		}
	}
	token := "token" + text(len(r.tokens))
	r.tokens[token] = back(given)
	return says(token)
}

// byBytes does so with bytes.
func byBytes(r *replay, f frame) (frame, bool) {
	given := at(r.script.arguments(f), 0)
	if kept, there := r.tokens[text(given)]; there {
		return says(kept)
	}
	token := map[string]any{"b": base64.StdEncoding.EncodeToString([]byte("token" + text(len(r.tokens))))}
	r.tokens[text(token)] = back(given)
	return says(token)
}

// earlier returns an argument of an earlier call of this test.
func (r *replay) earlier(call int, last bool) any {
	if call < 0 || call >= len(r.calls) {
		return nil
	}
	list := r.calls[call].given
	given := back(list[0])
	if last {
		given = back(list[len(list)-1])
	}
	n, _, ok := numbered(given)
	if _, theirs := r.back[n]; ok && !theirs && !r.known[n] {
		return nil // the examiner has let go of it
	}
	return given
}

// back returns an argument as it is sent back: what the examiner has is named by its number.
func back(v any) any {
	if n, _, ok := numbered(v); ok {
		if tag, _ := tagged(v); tag == "E" {
			return nil
		}
		return known(n)
	}
	tag, payload := tagged(v)
	if list, ok := payload.([]any); ok && (tag == "t" || tag == "z") {
		items := make([]any, len(list))
		for i, x := range list {
			items[i] = back(x)
		}
		return map[string]any{tag: items}
	}
	if tag == "a" || tag == "x" || tag == "n" {
		return nil
	}
	return v
}

// containers returns the numbers of the containers that a call is given.
func (s *script) containers(f frame) []int64 {
	var found []int64
	given := []any{s.arguments(f)}
	if _, v, ok := receiver(f); ok && s.lang.typed {
		given = append(given, v)
	}
	each(any(given), func(v any) {
		tag, _ := tagged(v)
		n, defines, ok := numbered(v)
		if ok && (defines && (s.lang.container(tag) || tag == "Y") || !defines && n%2 != 0) {
			found = append(found, n)
		}
	})
	return found
}
