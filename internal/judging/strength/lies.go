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
	empty bool // it empties containers that it is given, and shows nothing where it is given none
	keeps bool // an argument of an earlier call
	joint bool // several names may tell it together
	ends  bool // only where something is gone through
}

// covers reports whether the lie answers a request that is about a name. about is a name, or "*" and how it ends. A lie
// about all names leaves alone what only hangs things together, such as the making of objects.
func (l *lie) covers(about string, f frame, name string, recorded *exchange) bool {
	switch f.op {
	case "call", "method", "op", "await":
		operation, _ := at(f.args, 0).(string)
		next := f.op == "op" && (operation == "__next__" || operation == "__anext__")
		if l.ends || next { // any other lie would never come to an end
			return l.ends && next && name == about
		}
		if f.op == "op" && (operation == "__iter__" || operation == "__aiter__") {
			return false
		}
	case "get":
		if l.ends {
			return false
		}
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
	table = append(table, &lie{says: "nothing to go through", ends: true, tell: func(r *replay, f frame) frame {
		class := "builtins.StopIteration"
		if at(f.args, 0) == any("__anext__") {
			class = "builtins.StopAsyncIteration"
		}
		return frame{kind: raised, value: r.exception(class)}
	}})
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

// constants are values that a function can return without looking at anything.
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

// exception makes one of the library's, without arguments.
func (r *replay) exception(class string) any {
	return map[string]any{"E": []any{
		literal(r.fresh()), map[string]any{"g": class}, []any{}, "", nil, nil,
		map[string]any{"D": []any{literal(r.fresh()), []any{}}},
	}}
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
	given := back(r.calls[call][0])
	if last {
		given = back(r.calls[call][len(r.calls[call])-1])
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
