package strength

import (
	"path"
	"slices"
	"strings"
)

// scriptErrors has the exceptions of JavaScript that cross by their names.
var scriptErrors = words("Error TypeError RangeError SyntaxError ReferenceError EvalError URIError AggregateError AssertionError")

// answerScript answers a request of JavaScript's tests. All that a module has is taken for a function, which is also a class; a
// module that is required is one itself. What is made by new, and how things hang together, is not lied about.
func (l *liar) answerScript(f frame) error {
	n, _, _ := numbered(target(f))
	t := l.things[n]
	name, _ := at(f.args, 1).(string)
	if tag, symbol := tagged(at(f.args, 1)); tag == "y" {
		symbol, _ := symbol.(string)
		name = "@" + symbol
	}
	switch f.op {
	case "import":
		file, _ := at(f.args, 0).(string)
		base, _, _ := strings.Cut(path.Base(file), ".")
		if at(f.args, 2) == any("esm") {
			return l.reply(f, say(l.object(thing{kind: 'm', root: base}, "")))
		}
		return l.reply(f, say(l.callable(thing{kind: 'M', root: base, name: base}, nil)))
	case "set", "idle":
		return l.reply(f, say(undefined))
	case "del":
		return l.reply(f, say(true))
	case "modules":
		return l.reply(f, say(l.list()))
	case "get":
		if found, ok := l.part(t, n, name); ok {
			return l.reply(f, say(found))
		}
	case "new":
		if t.kind == 'e' {
			return l.reply(f, say(l.failure(known(n))))
		}
		made := l.fresh()
		l.things[made] = thing{kind: 'o', root: t.root}
		return l.reply(f, say(map[string]any{"h": []any{literal(made), known(n), []any{}}}))
	case "call":
		switch t.kind {
		case 'i':
			return l.reply(f, say(l.object(t, "")))
		case 'n':
			l.ask(t.root)
			return l.reply(f, say(map[string]any{"D": []any{literal(l.fresh()), []any{"value", undefined, "done", true}}}))
		}
	case "op":
		to, _ := l.silence(f)
		switch at(f.args, 0) {
		case any("keys"):
			if t.kind == 'm' {
				to = say(l.list(l.exported()...))
				break
			}
			l.ask(t.root)
		case any("toPrimitive"):
			l.ask(t.root)
			to = say(t.root)
		}
		return l.reply(f, to)
	}
	return l.lie(f, t)
}

// part returns what hangs on something of the liar's, or false for data.
func (l *liar) part(t thing, n int64, name string) (found any, ok bool) {
	isModule := t.kind == 'm' || t.kind == 'M'
	switch {
	case t.kind == 'M' && name == "default":
		return known(n), true
	case t.kind == 'm' && name == "default":
		return l.member(t.root), true
	case isModule && !strings.HasPrefix(name, "@"):
		return l.member(name), true
	case name == "@iterator" || name == "@asyncIterator":
		return l.callable(thing{kind: 'i', root: t.root}, nil), true
	case t.kind == 'i' && name == "next":
		return l.callable(thing{kind: 'n', root: t.root}, nil), true
	case t.kind == 'i' || strings.HasPrefix(name, "@"):
		return undefined, true
	case l.vetting.words.Called[name]:
		return l.function(t.root, name), true
	}
	return nil, false
}

// exported returns the names that an ES module has.
func (l *liar) exported() []any {
	all := []any{"default"}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(l.vetting.words.Exported))) {
		if name != "default" {
			all = append(all, name)
		}
	}
	return all
}

// callable returns a function of JavaScript's, which also constructs; with a class above it, it does only that.
func (l *liar) callable(t thing, above any) any {
	n, kind := l.fresh(), 1
	l.things[n] = t
	if above != nil {
		kind = 2
	}
	return map[string]any{"F": []any{literal(n), t.name, 0, kind, above, []any{}, literal(l.fresh())}}
}
