package strength

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// Words has what the source of Python tests says about the names that they use of a delivery.
type Words struct {
	Absent  map[string]bool // packages that no delivery has, such as numpy
	Called  map[string]bool // names that are called
	Awaited map[string]bool // names whose calls are awaited
	Raised  []string        // exceptions that are expected, as "ValueError" or the name of a delivered one
}

// Vetting finds what tests can show before there is a delivery: it answers the examiner itself, and everything that is
// asked of any delivered name is answered by one lie, in turn by each of the table.
type Vetting struct {
	words Words
	lies  []vetted
	tests map[string]*vettedTest
	fails map[string]map[int]bool // name → the lies under which a test of it has failed
	asks  map[string]bool         // modules that the tests import
	runs  int
}

// vetted is a lie, as it is told by functions or by the objects that they return.
type vetted struct {
	*lie
	objects bool
}

func (v vetted) String() string {
	if v.objects {
		return "objects that answer " + v.says
	}
	return v.says
}

// vettedTest is one test of a vetting.
type vettedTest struct {
	next   int
	asked  map[string]bool         // names that it asked, under any lie
	passes map[int]map[string]bool // lies under which it passed, each with the names that it asked then
	free   bool                    // it passed without asking anything
}

// NewVetting starts a vetting.
func NewVetting(w Words) *Vetting {
	v := &Vetting{words: w, tests: map[string]*vettedTest{}, fails: map[string]map[int]bool{}, asks: map[string]bool{}}
	table := pythonLies(nil, nil)
	for _, name := range w.Raised {
		table = append(table, &lie{says: "always raises " + name})
	}
	for _, l := range table {
		if l.ends || l.again { // here nothing that is gone through ever has an item, and nothing is recorded
			continue
		}
		v.lies = append(v.lies, vetted{lie: l})
		if l.tell != nil && !l.empty {
			v.lies = append(v.lies, vetted{l, true})
		}
	}
	return v
}

// Proves says what a test of a vetting can show.
type Proves struct {
	Nothing bool     `json:"nothing"` // it passes although everything that it asks is answered by a lie
	Because string   `json:"because,omitempty"`
	Asks    []string `json:"asks,omitempty"` // delivered names that it asks
}

// Result returns what each test can show, and the names that a lie can answer for in all tests, each with the lie.
func (v *Vetting) Result() (tests map[string]Proves, unproven []string) {
	tests = map[string]Proves{}
	lied := map[string]int{} // name → the first lie under which tests of it pass, and none fails
	for id, t := range v.tests {
		p := Proves{Asks: slices.Sorted(maps.Keys(t.asked))}
		if t.free {
			p.Nothing, p.Because = true, "it passes without asking the delivery anything"
		}
		for i, l := range v.lies {
			names := slices.Sorted(maps.Keys(t.passes[i]))
			held := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return v.fails[name][i] })
			for _, name := range held {
				if first, there := lied[name]; !there || i < first {
					lied[name] = i
				}
			}
			if len(names) > 0 && len(held) == len(names) && !p.Nothing {
				p.Nothing, p.Because = true, fmt.Sprintf("it passes when %s is answered with %s", strings.Join(names, " and "), l)
			}
		}
		tests[id] = p
	}
	for _, name := range slices.Sorted(maps.Keys(lied)) {
		unproven = append(unproven, name+": "+v.lies[lied[name]].String())
	}
	return tests, unproven
}

// Modules returns the names of the modules that the tests import of a delivery, sorted.
func (v *Vetting) Modules() []string { return slices.Sorted(maps.Keys(v.asks)) }

// pick returns the next lie to try with a test: one that may still answer for a name that the test asks.
func (v *Vetting) pick(t *vettedTest) (lie int, ok bool) {
	for ; t.next < len(v.lies) && v.runs < mostRuns; t.next++ {
		useful := t.next == 0
		for name := range t.asked {
			useful = useful || !v.fails[name][t.next]
		}
		if useful {
			t.next++
			return t.next - 1, true
		}
	}
	return 0, false
}

// learn takes how a test ended when everything was answered by a lie.
func (v *Vetting) learn(t *vettedTest, lie int, passed bool, asked map[string]bool) {
	v.runs++
	maps.Copy(t.asked, asked)
	if len(asked) == 0 {
		t.free = t.free || passed
		return
	}
	if passed {
		t.passes[lie] = asked
		return
	}
	for name := range asked {
		if v.fails[name] == nil {
			v.fails[name] = map[int]bool{}
		}
		v.fails[name][lie] = true
	}
}

// Serve answers an examiner that runs the tests, until it closes the connection.
func (v *Vetting) Serve(conn io.ReadWriter) error {
	l := &liar{vetting: v, replay: newReplay(&script{lang: Python}, conn), things: map[int64]thing{}, named: map[string]int64{}}
	var t *vettedTest
	trying := -1
	var before map[string]int64 // what the parent of the process knew
	for {
		raw, err := readFrame(conn)
		if err != nil {
			return nil // the examiner has ended
		}
		f, err := parse(raw)
		if err != nil {
			return fmt.Errorf("the examiner: %w", err)
		}
		id, _ := at(f.args, 0).(string)
		value, more := false, false
		begin := func() {
			l.named, l.asked, l.tokens, l.calls = maps.Clone(before), map[string]bool{}, map[string]any{}, nil
			if trying, more = v.pick(t); more {
				l.tells = &v.lies[trying]
			}
		}
		switch {
		case f.kind == request && f.op == opTest:
			t = &vettedTest{asked: map[string]bool{}, passes: map[int]map[string]bool{}}
			v.tests[id] = t
			l.tells = nil
		case f.kind == request && (f.op == opAgain || f.op == opMore) && t != nil:
			if f.op == opAgain {
				before = maps.Clone(l.named)
			}
			begin()
			value = more
		case f.kind == request && f.op == opDone && t != nil:
			passed, _ := at(f.args, 1).(bool)
			clean, _ := at(f.args, 2).(bool)
			v.learn(t, trying, passed && clean, l.asked)
			trying = -1
		case f.kind == request && f.op == opDied && t != nil:
			if trying >= 0 {
				v.learn(t, trying, false, l.asked)
			}
			l.named, l.tells, trying = maps.Clone(before), nil, -1
		case f.kind == request:
			if l.answer(f) != nil {
				return nil
			}
			continue
		default:
			continue // nothing of the tests' own is ever called
		}
		if l.reply(f, frame{kind: answer, value: value}) != nil {
			return nil
		}
	}
}

// liar answers an examiner for a delivery that is not there.
type liar struct {
	vetting *Vetting
	*replay
	things map[int64]thing
	named  map[string]int64 // module and name → number
	tells  *vetted          // nil while no lie is tried
	asked  map[string]bool
}

// thing describes something that the liar has numbered.
type thing struct {
	kind byte   // module, function, class, exception, object, awaited: their first letters
	root string // the name of a module at which it begins
}

// answer answers one request.
func (l *liar) answer(f frame) error {
	l.learn(f)
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
		module := l.object(thing{'m', ""}, "module")
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
			return l.reply(f, say(l.function(t.root)))
		}
	case "call":
		switch t.kind {
		case 'c':
			return l.reply(f, say(l.object(thing{'o', t.root}, t.root)))
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

// lie answers a request by the lie that is tried.
func (l *liar) lie(f frame, t thing) error {
	name, _ := at(f.args, 1).(string)
	awaited := l.vetting.words.Awaited
	if t.kind != 'a' && (f.op == "call" && awaited[t.root] || f.op == "method" && awaited[name]) {
		return l.reply(f, say(l.object(thing{'a', t.root}, "coroutine")))
	}
	l.ask(t.root)
	to := say(nil)
	switch {
	case l.tells == nil:
	case l.tells.tell == nil:
		class := strings.TrimPrefix(l.tells.says, "always raises ")
		to = frame{kind: raised, value: l.exception("builtins." + class)}
		if _, delivered := l.named[class]; delivered || !builtin[class] {
			to.value = l.failure(l.class(class, 'e', map[string]any{"g": "builtins.Exception"}))
		}
	case l.tells.objects && t.kind == 'f':
		to = say(l.object(thing{'o', t.root}, t.root))
	default:
		to, _ = l.tells.tell(l.replay, f)
	}
	l.remember(f)
	return l.reply(f, to)
}

func (l *liar) ask(name string) {
	if l.asked != nil && name != "" {
		l.asked[name] = true
	}
}

// member returns what a name of a module is taken for: an exception that the tests expect, a class if it is written as
// one, else a function.
func (l *liar) member(name string) any {
	switch {
	case slices.Contains(l.vetting.words.Raised, name):
		return l.class(name, 'e', map[string]any{"g": "builtins.Exception"})
	case unicode.IsUpper([]rune(name + "_")[0]):
		return l.class(name, 'c', nil)
	default:
		return l.function(name)
	}
}

// class returns a class of the delivery, always the same under one name.
func (l *liar) class(name string, kind byte, base any) any {
	if n, there := l.named[name]; there {
		return known(n)
	}
	n := l.fresh()
	l.named[name], l.things[n] = n, thing{kind, name}
	bases := []any{}
	if base != nil {
		bases = append(bases, base)
	}
	return describe(n, name, bases)
}

// object returns something new, of a class of its own.
func (l *liar) object(t thing, class string) any {
	n, c := l.fresh(), l.fresh()
	l.things[n] = t
	return map[string]any{"h": []any{literal(n), describe(c, class, []any{}), map[string]any{}}}
}

func (l *liar) function(root string) any { return l.object(thing{'f', root}, "function") }

// failure returns an exception of a delivered class.
func (l *liar) failure(class any) any {
	e := l.exception("")
	_, payload := tagged(e)
	payload.([]any)[1] = class
	return e
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
