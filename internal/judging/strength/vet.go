package strength

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
)

// Words has what the source of tests says about the names that they use of a delivery; of Go, what the declarations say.
type Words struct {
	Absent   map[string]bool // of Python: packages that no delivery has, such as numpy
	Called   map[string]bool // names that are called
	Awaited  map[string]bool // names whose calls are awaited
	Exported []string        // of JavaScript: names that ES modules may have
	Raised   []string        // exceptions that are expected, as "ValueError" or the name of a delivered one; variables with errors
	Objects  []string        // of Go: types of objects that stay with the delivery, as "example.com/queue.Queue"
	Errors   []string        // of Go: types of errors, as "*example.com/queue.Full"
}

// mostAsked limits the questions of one run of a test. What asks more goes round in circles.
const mostAsked = 5000

// Vetting finds what tests can show before there is a delivery: it answers the examiner itself, and everything that is
// asked of any delivered name is answered by one lie, in turn by each of the table.
type Vetting struct {
	lang  *Language
	words Words
	lies  []vetted
	parts []*vettedPart
	fails map[string]map[int]bool // name → the lies under which a test of it has failed
	asks  map[string]bool         // modules that Python's tests import
	runs  int
}

// vettedPart has the tests of one examiner: of all tests, of one file, or of one package.
type vettedPart struct {
	prefix string // of their ids, where the examiner knows only the rest
	tests  map[string]*vettedTest
	over   bool // a process of it has ended
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
	id     string
	next   int                     // next of the lies
	inner  bool                    // it runs within another, and is told the other's lies
	unsure bool                    // it has the name of another, or runs beside others
	deaths int                     // runs that took too long, or did not end
	tried  map[int]bool            // lies that were told
	asked  map[string]bool         // names that it asked, under any lie
	passes map[int]map[string]bool // lies under which it passed, each with the names that it asked then
	free   bool                    // it passed without asking anything
}

// NewVetting starts a vetting of tests of a language. A run of an examiner is known by the place of the prefix that its
// tests' ids have; Python has only one.
func NewVetting(l *Language, w Words, prefixes ...string) *Vetting {
	v := &Vetting{lang: l, words: w, fails: map[string]map[int]bool{}, asks: map[string]bool{}}
	for _, p := range prefixes {
		v.parts = append(v.parts, &vettedPart{prefix: p, tests: map[string]*vettedTest{}})
	}
	for _, l := range v.table() {
		if l.ends || l.again { // here nothing that is gone through ever has an item, and nothing is recorded
			continue
		}
		v.lies = append(v.lies, vetted{lie: l})
		if l.tell != nil && !l.empty && !v.lang.typed {
			v.lies = append(v.lies, vetted{l, true})
		}
	}
	return v
}

// table returns the lies of the language, with those that the words add.
func (v *Vetting) table() []*lie {
	if v.lang.typed {
		return v.words.goTable()
	}
	table := v.lang.table(nil, nil)
	for _, name := range v.words.Raised {
		table = append(table, &lie{says: "always raises " + name})
	}
	return table
}

// anyOf begins the name of a member of JavaScript's objects, whatever made them.
const anyOf = "*."

// Proves says what a test of a vetting can show.
type Proves struct {
	Asks    bool // it asks the delivery something
	Nothing bool // it passes although everything that it asks is answered by a lie
	Because string
}

// Result returns what each test can show, and the names that a lie can answer for in all tests, each with the lie. A lie
// that was not told in a test may fail there.
func (v *Vetting) Result() (tests map[string]Proves, unproven []string) {
	tests = map[string]Proves{}
	for _, t := range v.all() {
		for i := range v.lies {
			if t.unsure || !t.tried[i] {
				v.fail(t.asked, i)
			}
		}
	}
	lied := map[string]int{} // name → the first lie under which tests of it pass, and none fails
	for _, t := range v.all() {
		p := Proves{Asks: len(t.asked) > 0}
		if t.free && !t.unsure {
			p.Nothing, p.Because = true, "it passes without asking the delivery anything"
		}
		for i, l := range v.lies {
			names := slices.Sorted(maps.Keys(t.passes[i]))
			held := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return v.fails[name][i] })
			for _, name := range held {
				if first, there := lied[name]; (!there || i < first) && !strings.HasPrefix(name, anyOf) {
					lied[name] = i
				}
			}
			if len(names) > 0 && len(held) == len(names) && !p.Nothing {
				names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, anyOf) })
				p.Nothing, p.Because = true, fmt.Sprintf("it passes when %s is answered with %s", strings.Join(names, " and "), l)
			}
		}
		tests[t.id] = p
	}
	for _, name := range slices.Sorted(maps.Keys(lied)) {
		unproven = append(unproven, name+": "+v.lies[lied[name]].String())
	}
	return tests, unproven
}

func (v *Vetting) all() []*vettedTest {
	var all []*vettedTest
	for _, p := range v.parts {
		all = slices.AppendSeq(all, maps.Values(p.tests))
	}
	return all
}

// Modules returns the names of the modules that Python's tests import of a delivery, sorted.
func (v *Vetting) Modules() []string { return slices.Sorted(maps.Keys(v.asks)) }

// Left reports whether there is more to try with the tests of a run.
func (v *Vetting) Left(run int) bool {
	p := v.parts[run]
	left := len(p.tests) == 0 && !p.over
	for _, t := range p.tests {
		left = left || !t.inner && v.next(t)
	}
	return left && v.runs < mostRuns
}

// Progress counts what has been tried.
func (v *Vetting) Progress() int { return v.runs }

// next returns the next lie to tell in a test: one that may still answer for a name that the test asks. It reports false when
// no lie is left.
func (v *Vetting) next(t *vettedTest) bool {
	for ; t.next < len(v.lies); t.next++ {
		useful := t.next == 0
		for name := range t.asked {
			useful = useful || !v.fails[name][t.next]
		}
		if useful {
			return true
		}
	}
	return false
}

func (v *Vetting) fail(names map[string]bool, lie int) {
	for name := range names {
		if v.fails[name] == nil {
			v.fails[name] = map[int]bool{}
		}
		v.fails[name][lie] = true
	}
}

// telling is a test that has begun.
type telling struct {
	test   *vettedTest
	lie    int // that is told in it, -1 for none
	asked  map[string]bool
	failed bool // a test within it has
}

// liar answers an examiner for a delivery that is not there.
type liar struct {
	vetting *Vetting
	of      *vettedPart
	run     int
	*replay
	things  map[int64]thing
	named   map[string]int64     // module and name → number
	before  map[string]int64     // of them, what the parent of a process of Python's knows
	test    *vettedTest          // of Python: the one that has begun last
	running []*telling           // those around others first
	ended   map[*vettedTest]bool // of JavaScript: those that shall not run again in this process or round
	rounds  int                  // that have begun, where all is evaluated anew for each
	tried   int                  // progress when the last of them began
	outside bool                 // something was asked while no test ran
	tells   *vetted              // nil while no lie is told
	late    *time.Timer
	waited  atomic.Bool // the running test takes longer than a run shall
}

// Limits of a test, until it is not tried any further.
const (
	longRun    = 1900 * time.Millisecond // jest waits for two seconds
	mostDeaths = 3                       // of a test under lies, until it is not tried any further
)

// Rounds answers an examiner that runs the tests of a run, until it closes the connection or nothing is left to try in its
// process.
func (v *Vetting) Rounds(run int, by Examiner) error {
	l := &liar{
		vetting: v, of: v.parts[run], run: run, replay: newReplay(v.script(), by.Conn), things: map[int64]thing{}, named: map[string]int64{},
		ended: map[*vettedTest]bool{}, tried: -1,
	}
	l.makes, l.late = true, time.AfterFunc(longRun, func() { l.waited.Store(true) })
	defer l.end()
	return l.converse(func(n notice) (value any, over bool) {
		again, over := l.noticed(n)
		if v.lang != Python {
			by.Gives(by.Patience)
			return again, over
		}
		patience := literal(0)
		if again {
			patience = literal(by.Patience.Milliseconds())
		}
		return patience, over
	}, l.answer)
}

// script returns a recording of nothing.
func (v *Vetting) script() *script {
	s := &script{lang: v.lang, owners: map[string]string{}, origins: map[int64]string{}, definitions: map[int64]any{}}
	for i, class := range v.words.Objects {
		s.definitions[int64(-i)] = map[string]any{"h": []any{literal(0), class, map[string]any{}}}
	}
	return s
}

// noticed takes what the examiner says of its tests. Python's runs a test first, and then as often as it is told to in a process
// of its own. The others run all their tests again.
func (l *liar) noticed(n notice) (value, over bool) {
	python := l.vetting.lang == Python
	switch {
	case n.op == opTest && python:
		l.test = l.known(n.id)
		l.rest()
	case n.op == opTest:
		if l.of.tests[n.id] != nil && len(l.running) == 0 && !l.vetting.Left(l.run) {
			return false, true
		}
		l.begin(l.known(n.id))
	case n.op == opDone:
		value = l.done(n)
	case !python:
		value = n.op == opMore && l.round()
	case l.test == nil:
	case n.op == opDied:
		for _, u := range l.running {
			l.note(u, false)
		}
		l.named = maps.Clone(l.before)
		l.rest()
	default:
		if n.op == opAgain {
			l.before = maps.Clone(l.named)
		}
		l.running, l.named = nil, maps.Clone(l.before)
		value = l.begin(l.test)
	}
	return value, false
}

// rest tells no lies in the test that has begun last.
func (l *liar) rest() {
	l.running, l.tells = []*telling{{test: l.test, lie: -1, asked: map[string]bool{}}}, nil
}

// known returns the test of an id.
func (l *liar) known(id string) *vettedTest {
	t := l.of.tests[id]
	if t == nil {
		t = &vettedTest{id: l.of.prefix + id, tried: map[int]bool{}, asked: map[string]bool{}, passes: map[int]map[string]bool{}}
		l.of.tests[id] = t
	}
	return t
}

// begin begins a run of a test, and reports whether a lie is told in it.
func (l *liar) begin(t *vettedTest) bool {
	u := &telling{test: t, lie: -1, asked: map[string]bool{}}
	if n := len(l.running); n > 0 {
		around := l.running[n-1]
		t.inner, u.lie = true, around.lie
		if !strings.HasPrefix(t.id, around.test.id+" > ") {
			t.unsure, around.test.unsure = true, true
		}
	} else {
		l.tokens, l.calls, l.asks, l.strayed = map[string]any{}, nil, 0, false
		l.waited.Store(false)
		l.late.Reset(longRun)
		if l.vetting.runs < mostRuns && l.vetting.next(t) {
			u.lie = t.next
			t.next++
		}
	}
	t.unsure = t.unsure || l.ended[t]
	l.running = append(l.running, u)
	l.choose()
	return u.lie >= 0
}

// choose finds the lie that is told in the running test.
func (l *liar) choose() {
	l.tells = nil
	if n := len(l.running); n > 0 && l.running[n-1].lie >= 0 {
		l.tells = &l.vetting.lies[l.running[n-1].lie]
	}
}

// done takes how a run of a test has ended, and reports whether it shall run again.
func (l *liar) done(n notice) (again bool) {
	t := l.known(n.id)
	i := slices.IndexFunc(l.running, func(u *telling) bool { return u.test == t })
	if i < 0 {
		return false
	}
	u := l.running[i]
	l.running = slices.Delete(l.running, i, i+1)
	passed := n.passed && !n.unclean && !l.strayed && !u.failed
	if i > 0 {
		around := l.running[i-1]
		maps.Copy(around.asked, u.asked)
		around.failed = around.failed || !passed
	}
	l.note(u, passed)
	l.choose()
	if l.waited.Load() {
		l.tire(u)
	}
	again = !t.inner && l.vetting.next(t)
	l.ended[t] = l.vetting.lang == JavaScript && (l.rounds > 0 || !again)
	return again
}

// note takes how a test has ended when everything was answered by a lie. What was asked outside of tests was not; a test
// that passes then shows nothing of the lie.
func (l *liar) note(u *telling, passed bool) {
	t := u.test
	maps.Copy(t.asked, u.asked)
	if u.lie < 0 {
		return
	}
	l.vetting.runs++
	t.tried[u.lie] = true
	switch {
	case !passed:
		l.vetting.fail(u.asked, u.lie)
	case l.outside:
	case len(u.asked) == 0:
		t.free = true
	default:
		t.passes[u.lie] = u.asked
	}
}

// round begins one of the rounds for which all is evaluated anew. It reports false if there is nothing left to try, or the
// last one was of no use.
func (l *liar) round() bool {
	l.giveUp()
	clear(l.ended)
	before := l.tried
	l.rounds, l.outside, l.tried = l.rounds+1, false, l.vetting.runs
	return l.tried != before && l.vetting.Left(l.run)
}

// giveUp takes that tests which have begun do not end, in this round or process.
func (l *liar) giveUp() {
	for _, u := range l.running {
		l.note(u, false)
		l.tire(u)
	}
	l.running = nil
}

// tire counts a run of a test that took too long or did not end. After some, the test is not tried any further.
func (l *liar) tire(u *telling) {
	u.test.deaths++
	if u.test.deaths > mostDeaths && l.vetting.lang != Python {
		u.test.next = len(l.vetting.lies)
	}
}

// end takes what a process has left.
func (l *liar) end() {
	l.late.Stop()
	l.giveUp()
	l.of.over = true
}

// answer answers one request. Nothing of the tests' own is ever called.
func (l *liar) answer(f frame) error {
	if f.kind != request {
		return nil
	}
	l.learn(f)
	idle := len(l.running) > 0 && l.tells == nil && l.vetting.lang != Python // nothing is left to try in the running test
	l.asks++
	if (idle || l.asks > mostAsked && len(l.running) > 0) && f.op != "idle" {
		return l.over(f.number)
	}
	switch l.vetting.lang {
	case JavaScript:
		return l.answerScript(f)
	case Go:
		return l.answerGo(f)
	default:
		return l.answerPython(f)
	}
}

// thing describes something that the liar has numbered.
type thing struct {
	kind byte   // module, function, class, exception, object, awaited, iterator, its next: their first letters
	root string // the name of a module at which it begins
	name string // of a function
}

// lie answers a request by the lie that is tried.
func (l *liar) lie(f frame, t thing) error {
	name, _ := at(f.args, 1).(string)
	awaited := l.vetting.words.Awaited
	if t.kind != 'a' && (f.op == "call" && awaited[t.name] || f.op == "method" && awaited[name]) {
		return l.reply(f, say(l.promise(f, t.root)))
	}
	l.ask(t.root)
	if member := cmp.Or(t.name, name); l.vetting.lang == JavaScript && member != "" && member != t.root { // classes share what is above them
		l.ask(anyOf + member)
	}
	asked := f
	n, _, _ := numbered(target(f))
	if made, there := l.made[n]; there && t.kind == 'a' {
		asked = made
	}
	to := say(l.vetting.lang.nothing)
	switch {
	case l.tells == nil:
	case l.tells.tell == nil:
		to = frame{kind: raised, value: l.expected(strings.TrimPrefix(l.tells.says, "always raises "))}
	case l.tells.objects && t.kind != 'o':
		to = say(l.object(thing{kind: 'o', root: t.root}, t.root))
	default:
		if told, ok := l.tells.tell(l.replay, asked); ok {
			to = told
		}
	}
	l.remember(asked)
	return l.reply(f, to)
}

// promise returns what is awaited in the place of an answer.
func (l *liar) promise(f frame, root string) any {
	v := l.object(thing{kind: 'a', root: root}, "coroutine")
	if l.vetting.lang == JavaScript {
		n := l.fresh()
		l.things[n], v = thing{kind: 'a', root: root}, map[string]any{"p": literal(n)}
	}
	n, _, _ := numbered(v)
	l.made[n] = f
	return v
}

// expected returns an exception that the tests expect, of the library or of the delivery.
func (l *liar) expected(class string) any {
	prefix, base, library := "builtins.", "Exception", builtin
	if l.vetting.lang == JavaScript {
		prefix, base, library = "", "Error", scriptErrors
	}
	if _, delivered := l.named[class]; delivered || !library[class] {
		return l.failure(l.class(class, 'e', map[string]any{"g": prefix + base}))
	}
	return l.failure(map[string]any{"g": prefix + class})
}

// ask notes that the running test asks a name.
func (l *liar) ask(name string) {
	n := len(l.running)
	switch {
	case name == "":
	case n == 0:
		l.outside = true
	default:
		l.running[n-1].asked[name] = true
	}
}

// member returns what a name of a module is taken for: an exception that the tests expect, a class if it is written as
// one, else a function. In JavaScript a function is a class.
func (l *liar) member(name string) any {
	js := l.vetting.lang == JavaScript
	switch {
	case slices.Contains(l.vetting.words.Raised, name) && js:
		return l.class(name, 'e', map[string]any{"g": "Error"})
	case slices.Contains(l.vetting.words.Raised, name):
		return l.class(name, 'e', map[string]any{"g": "builtins.Exception"})
	case js:
		return l.class(name, 'f', nil)
	case unicode.IsUpper([]rune(name + "_")[0]):
		return l.class(name, 'c', nil)
	default:
		return l.function(name, name)
	}
}

// class returns a class of the delivery, always the same under one name.
func (l *liar) class(name string, kind byte, base any) any {
	if n, there := l.named[name]; there {
		return known(n)
	}
	t := thing{kind: kind, root: name, name: name}
	if l.vetting.lang == JavaScript {
		v := l.callable(t, base)
		l.named[name], _, _ = numbered(v)
		return v
	}
	n := l.fresh()
	l.named[name], l.things[n] = n, t
	bases := []any{}
	if base != nil {
		bases = append(bases, base)
	}
	return describe(n, name, bases)
}

// object returns something new, of a class of its own.
func (l *liar) object(t thing, class string) any {
	n := l.fresh()
	l.things[n] = t
	if l.vetting.lang == JavaScript {
		return map[string]any{"h": []any{literal(n), map[string]any{"g": "Object"}, []any{}}}
	}
	return map[string]any{"h": []any{literal(n), describe(l.fresh(), class, []any{}), map[string]any{}}}
}

func (l *liar) function(root, name string) any {
	t := thing{kind: 'f', root: root, name: name}
	if l.vetting.lang == JavaScript {
		return l.callable(t, nil)
	}
	return l.object(t, "function")
}

// failure returns an exception of a class.
func (l *liar) failure(class any) any {
	if l.vetting.lang == JavaScript {
		return map[string]any{"E": []any{literal(l.fresh()), class, "", "", []any{}}}
	}
	e := l.exception("")
	_, payload := tagged(e)
	payload.([]any)[1] = class
	return e
}
