package strength

import (
	"encoding/json"
	"slices"
	"strings"
)

// lie is a rule by which a name is answered for, whatever it is asked.
type lie struct {
	says  string // in words, for the customer
	tell  func(*replay, frame) frame
	empty bool // only for calls that are given a container
	keeps bool // an argument of an earlier call
	joint bool // several names may tell it together
}

// covers reports whether the lie answers a request that is about a name. about is a name, or "*" and how it ends. A lie
// about all names leaves alone what only hangs things together, such as the making of objects.
func (l *lie) covers(about string, f frame, name string, recorded *exchange) bool {
	switch f.op {
	case "call", "method", "op", "await":
		if l.empty && len(containers(f)) == 0 {
			return false
		}
		if operation, _ := at(f.args, 0).(string); f.op == "op" && (operation == "__iter__" || operation == "__aiter__") {
			return false
		}
	case "get":
		// Only what is known to be data is replaced: a function must stay one to be called.
		if l.empty || recorded != nil && !recorded.evident() {
			return false
		}
	default:
		return false
	}
	if end, joint := strings.CutPrefix(about, "*"); joint {
		return strings.HasSuffix(name, end) && recorded != nil && recorded.evident()
	}
	return name == about
}

// evident reports whether an answer is data that the examiner can look at.
func (x *exchange) evident() bool {
	last := len(x.steps) - 1
	if (x.kind != plain && x.kind != predicate && x.kind != shown) || last < 0 {
		return false
	}
	tag, _ := tagged(x.steps[last].value)
	return tag != "h" && tag != "k" && tag != "C" && tag != "E"
}

func says(v any) frame { return frame{kind: answer, value: v} }

// lies returns the table, for a recording. docs/JUDGE.md lists it.
func lies(s *script) []*lie {
	var table []*lie
	constant := func(words string, v any) {
		table = append(table, &lie{says: words, joint: true, tell: func(*replay, frame) frame { return says(v) }})
	}
	for _, c := range constants {
		constant("always "+c.words, c.value)
	}
	for words, tag := range map[string]string{"list": "L", "dict": "D", "set": "S"} {
		table = append(table, &lie{says: "an empty " + words, tell: func(r *replay, _ frame) frame {
			return says(map[string]any{tag: []any{literal(r.fresh()), []any{}}})
		}})
	}
	slices.SortFunc(table[len(constants):], func(a, b *lie) int { return strings.Compare(a.says, b.says) })
	table = append(table,
		&lie{says: "an empty tuple", tell: func(*replay, frame) frame { return says(map[string]any{"t": []any{}}) }},
		&lie{says: "two empty lists", tell: func(r *replay, _ frame) frame {
			return says(map[string]any{"t": []any{r.list(), r.list()}})
		}},
		&lie{says: "a list of its first argument", tell: func(r *replay, f frame) frame {
			return says(r.list(back(at(arguments(f), 0))))
		}},
		&lie{says: "the first item of its first argument", tell: func(r *replay, f frame) frame { return says(item(f, 0)) }},
		&lie{says: "the last item of its first argument", tell: func(r *replay, f frame) frame { return says(item(f, -1)) }},
	)
	for i, words := range []string{"its first argument", "its second argument"} {
		table = append(table, &lie{says: words, tell: func(_ *replay, f frame) frame { return says(back(at(arguments(f), i))) }})
	}
	table = append(table,
		&lie{says: "the last argument of the call before", keeps: true, tell: func(r *replay, f frame) frame { return says(r.earlier(len(r.calls)-1, true)) }},
		&lie{says: "the first argument of the call before", keeps: true, tell: func(r *replay, f frame) frame { return says(r.earlier(len(r.calls)-1, false)) }},
		&lie{says: "an argument of the first call", keeps: true, tell: func(r *replay, f frame) frame { return says(r.earlier(0, true)) }},
		&lie{says: "what it was given for a token", joint: true, tell: byToken},
	)
	for _, e := range s.raised {
		table = append(table, &lie{says: "an exception that the tests expect", tell: func(r *replay, f frame) frame {
			v, ok := r.now(e)
			if !ok {
				return says(nil)
			}
			return frame{kind: raised, value: v}
		}})
	}
	// A container that is emptied first makes a loop over it check nothing.
	var emptied []*lie
	for _, l := range table {
		if slices.Contains(afterEmptying, l.says) {
			emptied = append(emptied, &lie{says: l.says + ", and it empties what it is given", empty: true, tell: func(r *replay, f frame) frame {
				to := l.tell(r, f)
				var updates []any
				for _, n := range containers(f) {
					updates = append(updates, []any{literal(n), []any{}})
				}
				if updates != nil {
					to.extra = map[string]any{"u": updates}
				}
				return to
			}})
		}
	}
	return append(table, emptied...)
}

var afterEmptying = []string{"an empty list", "an empty dict", "always None", "its first argument", "always 0", "always True"}

type word struct {
	words string
	value any
}

// constants are what a function can always return without looking at anything.
var constants = []word{
	{"True", true}, {"False", false}, {"0", json.Number("0")}, {"1", json.Number("1")}, {"-1", json.Number("-1")},
	{"0.0", json.Number("0.0")}, {`""`, ""}, {"None", nil},
}

// list makes a list.
func (r *replay) list(items ...any) any {
	return map[string]any{"L": []any{literal(r.fresh()), append([]any{}, items...)}}
}

// item returns an item of the first argument, from its end if i is negative.
func item(f frame, i int) any {
	tag, payload := tagged(at(arguments(f), 0))
	list, _ := payload.([]any)
	if tag == "L" || tag == "Q" || tag == "S" {
		list, _ = at(list, 1).([]any)
	} else if s, ok := at(arguments(f), 0).(string); ok {
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

// byToken hands out a token for what it is given, and gives that back for the token.
func byToken(r *replay, f frame) frame {
	given := at(arguments(f), 0)
	if token, ok := given.(string); ok {
		if kept, there := r.tokens[token]; there {
			return says(kept)
		}
	}
	token := "token" + text(len(r.tokens))
	r.tokens[token] = back(given)
	return says(token)
}

// earlier returns an argument of an earlier call of this test.
func (r *replay) earlier(call int, last bool) any {
	if call < 0 || call >= len(r.calls) {
		return nil
	}
	given := r.calls[call]
	if last {
		return back(given[len(given)-1])
	}
	return back(given[0])
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
func containers(f frame) []int64 {
	var found []int64
	each(any(arguments(f)), func(v any) {
		tag, _ := tagged(v)
		n, defines, ok := numbered(v)
		if ok && (defines && strings.Contains("L D S O N Q", tag) || !defines && n%2 != 0) {
			found = append(found, n)
		}
	})
	return found
}

// liar is an object of no class that the tests know, which answers everything.
type liar struct {
	constant any
	itself   bool
}

// objects returns the lies that answer with such objects: what is asked of them is themselves, or a constant.
func objects(s *script) []*lie {
	var table []*lie
	add := func(words string, l liar) {
		table = append(table, &lie{says: words, tell: func(r *replay, _ frame) frame { return says(r.object(l)) }})
	}
	add("an object that agrees to everything", liar{itself: true})
	for _, c := range constants {
		add("an object whose methods return "+c.words, liar{constant: c.value})
	}
	return table
}

// object makes a lying object.
func (r *replay) object(l liar) any {
	n, class := r.fresh(), r.fresh()
	r.liars[n] = &l
	operations := make([]any, 0, len(answering))
	for _, o := range answering {
		operations = append(operations, o)
	}
	methods := make([]any, 0, len(r.script.methods))
	for m := range r.script.methods {
		if !strings.HasPrefix(m, "__") {
			methods = append(methods, m)
		}
	}
	description := []any{literal(class), "Liar", "liar", "Liar", []any{}, nil, operations, methods, nil, []any{}, []any{}}
	return map[string]any{"h": []any{literal(n), map[string]any{"C": description}, map[string]any{}}}
}

// answering has the operations of a lying object.
var answering = strings.Fields("__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __bool__ __contains__ __len__ __iter__ __next__ __getitem__ " +
	"__call__ __enter__ __exit__ __hash__ __add__ __sub__ __mul__ __truediv__ __mod__ __radd__ __rsub__ __abs__ __round__ __neg__ " +
	"__int__ __float__ __index__ __str__ __repr__ __aenter__ __aexit__ __await__")

// answer returns what the object says.
func (l *liar) answer(r *replay, f frame) frame {
	self, _, _ := numbered(target(f))
	value := l.constant
	if l.itself {
		value = known(self)
	}
	operation, _ := at(f.args, 0).(string)
	if f.op != "op" {
		if f.op == "get" && !l.itself {
			if name, _ := at(f.args, 1).(string); strings.HasPrefix(name, "__") {
				return says(nil)
			}
		}
		return says(value)
	}
	switch operation {
	case "__eq__", "__le__", "__ge__", "__bool__", "__contains__":
		return says(true)
	case "__ne__", "__exit__", "__aexit__":
		return says(false)
	case "__lt__", "__gt__":
		return says(l.itself)
	case "__len__", "__hash__", "__int__", "__index__":
		if n, ok := l.constant.(json.Number); ok && !strings.Contains(n.String(), ".") && n != "-1" {
			return says(n)
		}
		return says(json.Number("1"))
	case "__float__":
		return says(json.Number("0.0"))
	case "__str__", "__repr__":
		return says("")
	case "__enter__", "__iter__", "__aenter__":
		return says(known(self))
	case "__next__":
		n := r.fresh()
		return frame{kind: raised, value: map[string]any{"E": []any{
			literal(n), map[string]any{"g": "builtins.StopIteration"}, []any{}, "", nil, nil,
			map[string]any{"D": []any{literal(r.fresh()), []any{}}},
		}}}
	case "__getitem__", "__await__":
		return says(value)
	default:
		return says(known(self))
	}
}
