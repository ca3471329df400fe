package strength

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// exchange is one question of the examiner's with all that the subject said until it was answered.
type exchange struct {
	test    int    // index of the test that asked; 0 for what was asked before the first
	key     string // what was asked of what, whatever its arguments were
	name    string // whose answer this is: "add()", "Stack().pop()"
	kind    kind
	about   string // of Go: the name whose answer it compares
	op      string
	args    []any
	request frame           // as it came
	types   []form          // of the results, in Go
	late    []*frame        // callbacks after the answer, by what nobody waits for
	caught  bool            // a test's function failed an assertion in it, and the delivery went on
	steps   []*frame        // callbacks, and at last the answer
	gives   any             // the test's own container that it answers with, as it was passed, with a number of ours
	given   map[string]bool // contents of files, in base64, that the delivery had been given
	told    []told          // the last things that the test gave before the answer, and its first two
	own     map[string]any  // what it was asked with, and what was answered to its callbacks, by where a copy can be from
	with    string          // its arguments, with what is in them then; empty without any
	after   []*exchange     // what was asked later and answered earlier: promises settle in this order

	asked, answered int // positions in the recording
}

// kind says what an answer can show.
type kind int

const (
	structure kind = iota // how things hang together: modules, classes, functions
	plain                 // an answer that the examiner looks at itself
	predicate             // yes or no of a delivered object
	listing               // what a delivered object says that it has
	operator              // a delivered object's operator or identity: the delivery decides
	shown                 // a value that the delivery had been shown as an operand
)

// judged reports whether lies tell what an answer is worth.
func (k kind) judged() bool { return k == plain || k == predicate || k == listing }

// script is a recording that has been understood.
type script struct {
	lang        *Language
	tests       []string // ids by index; the first is empty
	index       map[string]int
	above       map[int]int    // a test → the one that it is a part of
	unfit       map[int]string // tests that cannot be run again → why
	exchanges   []*exchange
	asked       map[int][]*exchange // the same by the test that asked
	definitions map[int64]any       // number of the subject's → the value that defines it
	defined     map[int][]int64     // test → what it defines
	origins     map[int64]string
	modules     map[int64]bool
	twice       map[int64]bool        // functions that a module has under two names
	owners      map[string]string     // name of a module's → the module that had it first
	tags        map[int64]string      // of containers, by their numbers
	iterators   map[int64]bool        // of JavaScript, and promises of their items
	promised    map[int64]bool        // what Python's tests await or enter
	stepped     map[int64]bool        // what they go through
	sent        map[int64]bool        // what they ask for methods, such as a generator's send
	handled     map[int64]bool        // what they do something with but compare it
	walked      map[int64]bool        // sequences that they go through by __getitem__ alone
	called      map[int64]bool        // what they call, such as a function that a function has made
	lent        map[int64]bool        // what the tests' functions were given, such as yield
	makers      map[int64]*exchange   // number of the subject's → the exchange that brought it
	attributes  map[string]*exchange  // key → how an attribute was asked for last, in any test
	raises      map[string]bool       // names whose every answer is an exception
	raised      []any                 // an exception of each class that the subject raised
	errors      []any                 // of Go: errors that it returned, of each text one
	last        int64                 // the largest number of the subject's
	wholes      map[string]string     // the name of such a function in one test → its name in all
	targets     map[int64]bool        // what something is asked of
	used        map[int64]bool        // what is named, but for what is asked for a member
	known       map[string]bool       // what was found out about names
	same        map[string]string     // of Go: exported errors that tell nothing apart, and what they are
	guessed     map[string]bool       // names that try one thing after the other with functions of the tests'
	replaced    map[int64]bool        // functions that have taken the place of methods of the tests' objects
	places      map[*exchange]int     // how often the name of each was asked before
	turns       map[*exchange]int     // how often a test has asked the same of the same object before
	starts      map[string]*exchange  // test and key → the first exchange
	firsts      map[string]*exchange  // key and arguments → the first exchange
	copies      map[int64]int64       // number of an object that we pass for another → the other
	took        map[int]time.Duration // test → how long it took
	whole       time.Duration         // how long all of them took
	broken      error                 // why it cannot be played
}

// mostErrors limits how many errors of Go, and classes of exceptions, the lies raise.
const mostErrors = 4

var errLong = errors.New("the tests and the delivery said more than can be kept")

// reader sorts a recording into exchanges, frame by frame.
type reader struct {
	*script
	running []int                 // the tests that have begun and not ended, those around others first
	current int                   // test that what is asked belongs to
	open    map[int64]*exchange   // number of the examiner's request → its exchange
	asking  map[int64][]*exchange // thread → its open exchanges
	offered map[string]bool       // values that were shown as operands
	classes map[string]bool       // of exceptions
	given   map[string]bool
	heard   []told                // by the delivery, in the running test
	made    map[operand]string    // by functions of Go, in the running test: their names
	calls   map[int64]callback    // by the number of the subject's request
	refused map[string]string     // function of the tests' → what it has refused
	said    map[string]bool       // values that the delivery has heard, in the running test
	counted int                   // how many of what it has heard are among them
	awaited map[int64]*frame      // promise of such a function → its call
	sets    map[string]any        // what the running test has set, by name
	passed  map[int64]any         // what the tests have passed: number → value, with what is in it now
	since   time.Duration         // the recording began
	begun   map[int]time.Duration // test → when it began
}

// understand sorts a recording into exchanges. owners has the names that other recordings of the same delivery have used.
func (r *Recording) understand(l *Language, owners map[string]string) *script {
	s := &script{
		lang: l, tests: []string{""}, index: map[string]int{}, above: map[int]int{}, unfit: map[int]string{},
		asked: map[int][]*exchange{}, definitions: map[int64]any{}, defined: map[int][]int64{}, origins: map[int64]string{}, modules: map[int64]bool{}, twice: map[int64]bool{},
		owners: owners, tags: map[int64]string{}, iterators: map[int64]bool{}, copies: map[int64]int64{}, raises: map[string]bool{},
		attributes: map[string]*exchange{}, promised: map[int64]bool{}, stepped: map[int64]bool{}, sent: map[int64]bool{}, handled: map[int64]bool{}, called: map[int64]bool{}, lent: map[int64]bool{}, walked: map[int64]bool{}, makers: map[int64]*exchange{},
		known: map[string]bool{}, guessed: map[string]bool{}, replaced: map[int64]bool{}, wholes: map[string]string{}, targets: map[int64]bool{}, used: map[int64]bool{}, took: map[int]time.Duration{}, whole: r.took,
	}
	if r.size > maxRecording {
		s.broken = errLong
		return s
	}
	in := &reader{
		script: s, open: map[int64]*exchange{}, asking: map[int64][]*exchange{}, offered: map[string]bool{},
		classes: map[string]bool{}, given: map[string]bool{}, calls: map[int64]callback{}, refused: map[string]string{}, said: map[string]bool{}, awaited: map[int64]*frame{}, made: map[operand]string{},
		sets: map[string]any{}, passed: map[int64]any{}, begun: map[int]time.Duration{},
	}
	frames := make([]frame, len(r.frames))
	for i, p := range r.frames {
		f, err := parse(p.raw)
		if err != nil {
			s.broken = err
			return s
		}
		frames[i] = f
		s.use(f)
	}
	for i, p := range r.frames {
		in.lasts(p.at)
		if err := in.read(i, frames[i], p.subject); err != nil {
			s.broken = err
			return s
		}
	}
	in.lasts(max(in.since, r.took))
	s.guess()
	s.same = s.errorsAlike()
	s.order()
	return s
}

// read takes one frame.
func (in *reader) read(i int, f frame, subject bool) error {
	if subject {
		in.update(f)
	}
	switch {
	case !subject && f.kind == request && marks[f.op]:
		in.mark(f)
	case !subject:
		c, answers := in.calls[f.number]
		answers = answers && f.kind != request
		give(in.given, f)
		in.pass(f)
		if !answers || c.request.op != "print" {
			in.heard = append(in.heard, hears(f)...)
		}
		if f.kind == request {
			in.ask(i, f)
		} else if answers {
			c.request.value = f.value // what the test's function answered
			if c.request.op != "print" {
				c.within.hear(c.request, f.value)
			}
			in.ended(c, f)
			c.within.caught = c.within.caught || f.kind == raised && exceptionClass(f.value) == `{"g":"AssertionError"}`
		}
	case f.kind == request:
		in.callback(f)
	default:
		x := in.open[f.number]
		if x == nil {
			return errors.New("an answer to nothing")
		}
		in.answer(i, x, f)
	}
	return nil
}

// mark notes that a test begins or ends.
func (in *reader) mark(f frame) {
	id, ok := at(f.args, 0).(string)
	switch {
	case f.op == opTest && ok:
		in.tests = append(in.tests, id)
		in.current = len(in.tests) - 1
		in.heard, in.made = nil, map[operand]string{}
		in.said, in.counted = map[string]bool{}, 0
		in.begun[in.current] = in.since
		clear(in.sets)
		if in.lang.typed { // its operands are often the indexes of sorting
			clear(in.offered)
		}
		if _, there := in.index[id]; there {
			in.unfit[in.current], in.unfit[in.index[id]] = "another test has the same name", "another test has the same name"
		} else {
			in.index[id] = in.current
		}
		if !in.lang.ends {
			return
		}
		for _, other := range in.running {
			if strings.HasPrefix(id, in.tests[other]+" > ") {
				in.above[in.current] = other
				continue
			}
			in.unfit[in.current], in.unfit[other] = "it ran beside other tests", "it ran beside other tests"
		}
		in.running = append(in.running, in.current)
	case f.op == opDone && ok:
		in.running = slices.DeleteFunc(in.running, func(i int) bool { return in.tests[i] == id })
		if n := len(in.running); n > 0 {
			in.current = in.running[n-1]
		}
	}
}

// ask begins an exchange.
func (in *reader) ask(i int, f frame) {
	s := in.script
	s.receivers(f)
	each(any(f.args), func(v any) {
		if tag, _ := tagged(v); s.lang.container(tag) {
			n, _, _ := numbered(v)
			s.tags[n] = tag
		}
	})
	s.handle(f)
	x := &exchange{given: in.given, test: in.current, op: f.op, args: f.args, key: s.key(f), asked: i, types: results(f), request: f, own: map[string]any{}}
	x.with = in.spell(f)
	for _, t := range hears(f) {
		if !t.set {
			x.own["asked with"] = t.value
		}
	}
	if name, ok := at(f.args, 1).(string); ok && f.op == "set" && len(in.sets) < mostSet {
		in.sets[wasSet+name] = at(f.args, 2)
	}
	x.name = s.nameOf(f)
	n, _, _ := numbered(target(f))
	s.targets[n] = true
	if maker := s.makers[n]; s.lent[n] && f.op == "call" && maker.answered == 0 {
		maker.hearBack(at(f.args, 1))
	}
	if s.twice[n] { // nobody knows by which name, so what one test shows says nothing of others
		whole := x.name
		x.name = strings.Replace(whole, s.origins[n], fmt.Sprintf("%s/%d", s.origins[n], x.test), 1)
		s.wholes[x.name] = whole
	}
	if f.op == "get" {
		s.attributes[x.key] = x
	}
	in.open[f.number] = x
	if f.op != "idle" {
		in.asking[f.thread] = append(in.asking[f.thread], x)
	}
	s.exchanges = append(s.exchanges, x)
	s.asked[x.test] = append(s.asked[x.test], x)
}

// handle notes what the tests do with an object of Python's.
func (s *script) handle(f frame) {
	n, _, ok := numbered(target(f))
	if !ok || !s.lang.named {
		return
	}
	operation, _ := at(f.args, 0).(string)
	switch {
	case s.settles(f):
		s.promised[n] = true
	case f.op == "op" && hasTag("__iter__ __aiter__ __next__ __anext__", operation):
		s.stepped[n] = true
	case f.op == "method":
		s.sent[n] = true
	case f.op == "call":
		s.called[n] = true
	}
	if f.op != "op" || !s.lang.deciding[operation] && !hasTag("__repr__ __str__ __format__", operation) {
		s.handled[n] = true
	}
}

// callback adds what the subject asks to the exchange in which it does. If nobody there waits for anything, that is the
// one that was answered last.
func (in *reader) callback(f frame) {
	if waiting := in.asking[f.thread]; len(waiting) > 0 {
		x := waiting[len(waiting)-1]
		x.steps = append(x.steps, &f)
		in.tries(x, f)
		in.calls[f.number] = callback{&f, x}
		in.define(x, x.name, f.extra["W"])
		in.hand(x, f)
		return
	}
	var last *exchange
	for _, x := range in.script.asked[in.current] {
		if x.answered > 0 && x.op != "idle" && in.lang == JavaScript && (last == nil || x.answered > last.answered) {
			last = x
		}
	}
	if last != nil {
		last.late = append(last.late, &f)
		in.tries(last, f)
		in.calls[f.number] = callback{&f, last}
		in.hand(last, f)
		return
	}
	in.unfit[in.current] = "the delivery's threads asked for themselves"
}

// answer ends an exchange.
func (in *reader) answer(i int, x *exchange, f frame) {
	s := in.script
	delete(in.open, f.number)
	for thread, waiting := range in.asking {
		in.asking[thread] = slices.DeleteFunc(waiting, func(w *exchange) bool { return w == x })
	}
	x.steps, x.answered = append(x.steps, &f), i
	x.told = slices.Clone(in.heard[:min(2, len(in.heard))])
	x.told = append(x.told, in.heard[max(len(x.told), len(in.heard)-6):]...)
	n, _, _ := numbered(target(x.request))
	if maker := s.makers[n]; maker != nil && s.settles(x.request) { // what was told before the promise was made
		x.told = maker.told
		maps.Copy(x.own, maker.own)
	}
	maps.Copy(x.own, in.sets)
	if maker := s.makers[n]; maker != nil && hasTag("get method op", x.op) && hasTag("call new", maker.op) {
		x.own["made with"] = maker.own["asked with"]
	}
	s.define(x, x.name, f.extra["W"])
	s.define(x, x.name, f.value)
	in.fill(x, f)
	s.deliver(x, f.value)
	x.gives = s.givenBack(x, f.value)
	s.walk(x, f)
	s.classify(x, f, in.offered)
	in.compares(x, f)
	if before, there := s.raises[x.name]; (!there || before) && !s.promises(x) {
		s.raises[x.name] = f.kind == raised
	}
	if s.lang.typed {
		s.returned(f.value)
	}
	if class := exceptionClass(f.value); f.kind == raised && class != "" && !in.classes[class] && len(s.raised) < mostErrors {
		in.classes[class] = true
		s.raised = append(s.raised, s.alone(f.value))
	}
}

// order finds which promises were asked about before others and settled later. Python's coroutines run when they are
// asked about, perhaps one within another.
func (s *script) order() {
	if s.lang == Python {
		return
	}
	last := map[int][]*exchange{}
	for _, x := range s.exchanges {
		if x.op != "await" || x.answered == 0 {
			continue
		}
		for _, y := range last[x.test] {
			if y.answered > x.answered {
				y.after = append(y.after, x)
			}
		}
		last[x.test] = append(last[x.test], x)
		if len(last[x.test]) > 50 {
			last[x.test] = last[x.test][1:]
		}
	}
}

// last returns a name without the modules that it has it from.
func last(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// deliver notes which values are modules, and functions that modules have under two names.
func (s *script) deliver(x *exchange, v any) {
	n, defines, ok := numbered(v)
	module, _, _ := numbered(target(x.request))
	first, isNamed := s.origins[n]
	fromModule := x.op == "get" && s.modules[module]
	switch {
	case !ok || n%2 != 0:
	case defines:
		s.modules[n] = s.modules[n] || fromModule && s.lang == JavaScript && (at(x.args, 1) == any("default") && isHandle(v) || isNamespace(v)) ||
			fromModule && s.standsIn(v)
	case fromModule && isNamed && last(first) != last(x.name) && first != s.origins[module] && x.name != s.origins[module]:
		tag, _ := tagged(s.definitions[n]) // what came with another, such as the class above, has its name
		s.twice[n] = s.twice[n] || hasTag("F h C", tag) && s.makers[n].number() == n
	}
}

// define keeps what a value of the subject's defines, with the name of what it came from.
func (s *script) define(x *exchange, name string, v any) {
	each(v, func(v any) {
		tag, payload := tagged(v)
		n, defines, ok := numbered(v)
		if defines && s.lang.container(tag) {
			s.tags[n] = tag
		}
		if !ok || n%2 != 0 {
			return
		}
		s.last = max(s.last, n)
		if x.op == "method" && s.lang == JavaScript && x.iterates(s) {
			s.iterators[n] = true
		}
		if parts, _ := payload.([]any); tag == "F" && len(parts) == 7 { // the class, and what its objects are made after
			if prototype, ok := integer(parts[6]); ok && prototype > 0 {
				s.keep(x, name, prototype, v)
			}
		}
		if defines {
			s.keep(x, name, n, v)
		}
		if x.op == "import" && (tag == "h" || s.standsIn(v)) {
			s.modules[n] = true
		}
	})
}

func (s *script) keep(x *exchange, name string, n int64, v any) {
	s.last = max(s.last, n)
	if _, there := s.definitions[n]; n == 0 || there {
		return
	}
	s.definitions[n], s.origins[n], s.makers[n] = v, name, x
	s.defined[x.test] = append(s.defined[x.test], n)
}

// iterates reports whether a method returns an iterator, or an item of one.
func (x *exchange) iterates(s *script) bool {
	name, _ := tagged(at(x.args, 1))
	n, _, _ := numbered(at(x.args, 0))
	return name == "y" || s.iterators[n] && at(x.args, 1) == any("next")
}

// stepping reports whether a request asks for the next of what is gone through. Such an answer has a form of its own.
func (s *script) stepping(f frame) bool {
	operation, _ := at(f.args, 0).(string)
	n, _, _ := numbered(target(f))
	switch f.op {
	case "op":
		return operation == "__next__" || operation == "__anext__"
	case "method":
		return s.iterators[n] && at(f.args, 1) == any("next")
	case "await":
		return s.iterators[n]
	}
	return false
}

// classify says what an answer can show, and keeps the operands that the delivery has seen.
func (s *script) classify(x *exchange, f frame, offered map[string]bool) {
	_, isBool := f.value.(bool)
	operation, _ := at(x.args, 0).(string)
	n, _, isObject := numbered(target(frame{op: x.op, args: x.args}))
	isObject = isObject && !s.modules[n]
	switch x.op {
	case "import", "set", "del", "signature", "threads", "idle", "modules":
		x.kind = structure
	case "op":
		x.kind = plain
		spec, _ := at(x.args, 2).(string)
		switch {
		case strings.HasSuffix(operation, "exit__") && (f.value == nil || f.value == false):
			x.kind = structure // what lets an exception pass hides nothing
		case operation == "get" && isUndefined(f.value):
			x.kind = structure // the object claims nothing
		case s.lang.listing[operation]:
			x.kind = listing
		case s.lang.typed || s.lang.deciding[operation] || operation == "__format__" && spec != "":
			x.kind = operator
			for _, v := range x.args[min(2, len(x.args)):] {
				each(v, func(v any) {
					if isPlain(v) {
						offered[text(v)] = true
					}
				})
			}
		case isBool:
			x.kind = predicate
		}
	case "get":
		x.kind = plain
		if s.inner(x.request) {
			x.kind = structure
		} else if isBool && isObject {
			x.kind = predicate
		}
	case "method":
		x.kind = plain
		name, _ := at(x.args, 1).(string)
		if s.lang.deciding[name] || strings.Contains(x.name, converts) {
			x.kind = operator
		} else if _, number := receiverClass(at(x.args, 0)); isBool && (!s.lang.typed || isObject || number != 0) {
			x.kind = predicate
		} else if !s.lang.typed && isObject && isOrder(f.value) && withObject(x.args) {
			x.kind = predicate
		}
	default:
		x.kind = plain
		if strings.Contains(x.name, converts) {
			x.kind = operator
		} else if isBool && x.op == "lib" {
			x.kind = structure // whether it is a coroutine function: mock asks for that, too
		} else if isBool && strings.Contains(strings.TrimSuffix(x.name, "()"), ".") {
			x.kind = predicate // what is called was got from an object
		}
	}
	if (x.caught || x.op == "call" && s.replaced[n]) && f.kind == answer {
		x.kind = operator
	}
	if x.kind == plain && f.kind == answer && (offered[text(f.value)] || pointsAtTests(f.value)) {
		x.kind = shown
	}
}

// repeated returns how a function without callbacks was last asked in a test. A Go test that fails calls once more what
// it complains about.
func (s *script) repeated(test int, key string) *exchange {
	for _, x := range slices.Backward(s.asked[test]) {
		if x.key == key && len(x.steps) == 1 {
			return x
		}
	}
	return nil
}

// pointsAtTests reports whether a value has a path that leads to the examiner's own files, or out of a directory.
func pointsAtTests(v any) bool {
	found := false
	each(v, func(v any) {
		s, ok := v.(string)
		found = found || ok && len(s) < 4096 && (strings.Contains(s, "/judge/") || slices.Contains(strings.Split(s, "/"), ".."))
	})
	return found
}

func at(list []any, i int) any {
	if 0 <= i && i < len(list) {
		return list[i]
	}
	return nil
}

func isUndefined(v any) bool {
	tag, payload := tagged(v)
	return tag == "u" && text(payload) == "0"
}

func isPlain(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	default:
		return true
	}
}
