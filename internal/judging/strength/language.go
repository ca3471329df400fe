package strength

import (
	"encoding/json"
	"path"
	"strings"
)

// Language has what differs between the languages of tests: which requests let an object decide, and which values there
// are.
type Language struct {
	deciding map[string]bool // operators and methods by which an object decides an assertion
	listing  map[string]bool // operators that say what an object has: a claim where a lie passes for it
	lists    string          // tags of containers of items
	pairs    string          // tags of containers of keys and values
	opaque   string          // tags of what has no data, such as an object that stays with the delivery
	ends     bool            // the examiner says when a test has ended
	named    bool            // calls have arguments by name, after the others
	typed    bool            // a value must have its declared type, which comes with each request
	nothing  any             // the answer of what returns nothing

	table   func(thrown, errs []any) []*lie                  // the lies that docs/JUDGE.md lists
	special func(l *Language, tag string, payload any) []any // other values of a type that only this language has
	name    func(s *script, f frame) (string, bool)          // the name of an answer, where the common rule does not apply
}

// The languages.
var (
	Python = &Language{
		deciding: words("asymmetricMatch toJSON then valueOf toString toPrimitive equals Equal Is As Unwrap Compare Less", pythonOperators()...),
		lists:    "L Q S", pairs: "D O X N", opaque: "h k C E", named: true, table: pythonLies, special: otherPython, name: pythonName,
	}
	JavaScript = &Language{
		deciding: words("toPrimitive get toJSON asymmetricMatch equals"), listing: words("has keys own"),
		lists: "L S", pairs: "D G P", opaque: "h k F E p y g", ends: true, nothing: undefined,
		table: scriptLies, special: otherScript, name: scriptName,
	}
	Go = &Language{
		lists: "L", pairs: "D", opaque: "h k x", ends: true, typed: true,
		table: goLies, special: otherGo, name: goName,
	}
)

// words makes a set of the words of a text, and of more.
func words(text string, more ...string) map[string]bool {
	m := map[string]bool{}
	for _, n := range append(strings.Fields(text), more...) {
		m[n] = true
	}
	return m
}

// pythonOperators returns the special methods by which an object can decide an assertion.
func pythonOperators() []string {
	var all []string
	for _, n := range strings.Fields("eq ne lt le gt ge bool contains hash abs neg pos invert round trunc floor ceil int float complex " +
		"index fspath exit aexit divmod rdivmod instancecheck subclasscheck") {
		all = append(all, "__"+n+"__")
	}
	for _, n := range strings.Fields("add sub mul truediv floordiv mod pow lshift rshift and or xor matmul") {
		all = append(all, "__"+n+"__", "__i"+n+"__", "__r"+n+"__")
	}
	return all
}

// hasTag reports whether a tag is one of a list.
func hasTag(list, tag string) bool {
	for len(tag) > 0 && list != "" {
		var one string
		one, list, _ = strings.Cut(list, " ")
		if one == tag {
			return true
		}
	}
	return false
}

// container reports whether a tag is that of a shared container.
func (l *Language) container(tag string) bool {
	return hasTag(l.lists, tag) || hasTag(l.pairs, tag) || l.typed && (tag == "P" || tag == "Y")
}

// pythonName returns the names of what is gone through or entered: that of the whole.
func pythonName(s *script, f frame) (string, bool) {
	operation, _ := at(f.args, 0).(string)
	switch operation {
	case "__next__", "__iter__", "__anext__", "__aiter__", "__await__":
		return s.of(f), f.op == "op"
	case "__enter__", "__aenter__": // it is another thing than what is entered
		return s.of(f) + "." + operation + "()", f.op == "op"
	}
	return "", false
}

// scriptName does so for JavaScript. A module has its file's name, which is also that of its default export.
func scriptName(s *script, f frame) (string, bool) {
	member, isText := at(f.args, 1).(string)
	switch f.op {
	case "op":
		if at(f.args, 0) == any("get") { // a conversion, such as toJSON
			return s.of(f) + converts + text(at(f.args, 2)), true
		}
	case "import":
		file, _ := at(f.args, 0).(string)
		base, _, _ := strings.Cut(path.Base(file), ".")
		if owner, there := s.owners["module "+base]; there && owner != file {
			base = strings.TrimSuffix(file, path.Ext(file)) // another file has the name, too
		}
		s.owners["module "+base] = file
		return strings.NewReplacer("(", "_", ")", "_", ".", "_").Replace(base), true
	case "get", "method":
		n, _, _ := numbered(target(f))
		if f.op == "method" && (!isText || member == "next" && s.iterators[n]) {
			return s.of(f), true
		}
		if member == "default" && s.modules[n] {
			if f.op == "method" {
				return s.of(f) + "()", true
			}
			return s.of(f), true
		}
	}
	return "", false
}

// converts is in the names of what an object of JavaScript is converted by.
const converts = ".as "

// goName returns the names of functions, variables and methods of Go. Those of packages have a slash.
func goName(s *script, f frame) (string, bool) {
	what := target(f)
	if name, ok := what.(string); ok && f.op == "get" {
		return s.short(name), true
	}
	tag, payload := tagged(what)
	switch {
	case tag == "g" && f.op == "call":
		name, _ := payload.(string)
		return s.short(name) + "()", true
	case tag == "T" || tag == "h":
		class, _ := receiverClass(what)
		name, _ := at(f.args, 1).(string)
		if f.op == "op" {
			name, _ = at(f.args, 0).(string)
		}
		return s.short(class) + "." + name + "()", true
	}
	return "", false
}

// short returns the name of something of a Go package: "queue/New" of "example.com/queue.New". The second package with such a name
// keeps its directories.
func (s *script) short(name string) string {
	name = strings.TrimPrefix(name, "*")
	last := strings.LastIndexByte(name, '/') + 1
	base := strings.Replace(name[last:], ".", "/", 1)
	if owner, there := s.owners[base]; there && owner != name[:last] {
		return strings.ReplaceAll(name[:last], ".", "/") + base
	}
	s.owners[base] = name[:last]
	return base
}

// receiverClass returns the type of a receiver that is sent with it, and the object's number if it has one.
func receiverClass(v any) (class string, number int64) {
	tag, payload := tagged(v)
	parts, _ := payload.([]any)
	switch tag {
	case "T":
		class, _ = at(parts, 0).(string)
		number, _, _ = numbered(at(parts, 1))
	case "h":
		class, _ = at(parts, 1).(string)
		number, _, _ = numbered(v)
	}
	return class, number
}

// display returns a name as it is shown.
func display(name string) string { return strings.ReplaceAll(name, "/", ".") }

// undefined is JavaScript's.
var undefined = map[string]any{"u": json.Number("0")}
