package strength

import "strings"

// answerPython answers a request of Python's tests.
func (l *liar) answerPython(f frame) error {
	what := target(f)
	if tag, payload := tagged(what); tag == "a" { // a method that was kept
		parts, _ := payload.([]any)
		what = at(parts, 0)
	}
	n, _, _ := numbered(what)
	t := l.things[n]
	name, _ := at(f.args, 1).(string)
	if f.op == "import" {
		name, _ = at(f.args, 0).(string)
	}
	switch f.op {
	case "import":
		top, _, _ := strings.Cut(name, ".")
		if l.vetting.words.Absent[top] {
			return l.reply(f, say(nil))
		}
		l.vetting.asks[top] = true
		module := l.object(thing{kind: 'm'}, "module")
		return l.reply(f, say(map[string]any{"t": []any{module, true, l.list(), nil, nil}}))
	case "set", "del", "threads":
		return l.reply(f, say(nil))
	case "signature":
		return l.reply(f, say(l.list()))
	case "get":
		switch {
		case t.kind == 'm':
			return l.reply(f, say(l.member(name)))
		case strings.HasPrefix(name, "__"):
			return l.reply(f, say(t.root))
		case l.vetting.words.Called[name]:
			return l.reply(f, say(l.function(t.root, name)))
		}
	case "call":
		switch t.kind {
		case 'c':
			return l.reply(f, say(l.object(thing{kind: 'o', root: t.root}, t.root)))
		case 'e':
			return l.reply(f, say(l.failure(known(n))))
		}
	case "op":
		operation, _ := at(f.args, 0).(string)
		switch operation {
		case "__iter__", "__aiter__", "__enter__":
			return l.reply(f, say(known(n)))
		case "__next__", "__anext__":
			class := "builtins.StopIteration"
			if operation == "__anext__" {
				class = "builtins.StopAsyncIteration"
			}
			l.ask(t.root)
			return l.reply(f, frame{kind: raised, value: l.exception(class)})
		case "__exit__", "__setitem__", "__delitem__":
			return l.reply(f, say(nil))
		case "__repr__", "__str__", "__format__":
			if l.tells == nil || l.tells.says != `always ""` {
				return l.reply(f, say(t.root))
			}
		}
	}
	return l.lie(f, t)
}

// operations lists the special methods of every object of the liar's. An operator would decide in the place of the test,
// which is another matter than a test that shows nothing.
var operations = strings.Fields("__call__ __len__ __iter__ __next__ __aiter__ __anext__ __contains__ __getitem__ __setitem__ __delitem__ " +
	"__enter__ __exit__ __str__ __repr__")

// describe defines a class of the liar's. Functions and coroutines are those of the library's types.
func describe(number int64, name string, bases []any) any {
	module, can := "liar", []any{}
	for _, operation := range operations {
		can = append(can, operation)
	}
	if name == "function" || name == "coroutine" {
		module, can = "builtins", []any{"__call__"}
	}
	if name == "" {
		name = "thing"
	}
	return map[string]any{"C": []any{literal(number), name, module, name, bases, nil, can, []any{}, nil, []any{}, []any{}}}
}

// builtin has the exceptions of Python that need no arguments.
var builtin = func() map[string]bool {
	m := map[string]bool{}
	for _, n := range strings.Fields("Arithmetic Assertion Attribute Buffer EOF FileExists FileNotFound Import Index Interrupted Key Lookup Memory " +
		"ModuleNotFound Name NotADirectory NotImplemented OS Overflow Permission Recursion Runtime Syntax Timeout Type Value ZeroDivision") {
		m[n+"Error"] = true
	}
	m["Exception"] = true
	return m
}()
