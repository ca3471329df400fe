package strength

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
)

// maxRecording limits what is kept of a run, in bytes. A longer run is not examined.
const maxRecording = 64 << 20

// Recording holds what an examiner and a subject said to each other in one run of the tests.
type Recording struct {
	mu     sync.Mutex
	frames []passed
	size   int
}

// passed is a frame on its way.
type passed struct {
	raw     []byte
	subject bool // from the subject
}

// Record passes frames between an examiner and a subject until either ends, and keeps them. It answers the requests
// that mark the tests itself, so that the subject never learns of them. It closes both connections.
func Record(examiner, subject *os.File) (*Recording, error) {
	e, err := connection(examiner)
	if err != nil {
		return nil, errors.Join(err, subject.Close())
	}
	s, err := connection(subject)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	defer e.Close()
	defer s.Close()
	r := &Recording{}
	var toExaminer sync.Mutex
	var both sync.WaitGroup
	both.Go(func() {
		for {
			raw, err := readFrame(e)
			if err != nil {
				break
			}
			r.keep(raw, false)
			number, isMark := mark(raw)
			if !isMark {
				if writeFrame(s, raw) != nil {
					break
				}
				continue
			}
			reply, err := frame{kind: answer, number: number, value: false}.encode()
			if err != nil {
				break
			}
			toExaminer.Lock()
			err = writeFrame(e, reply)
			toExaminer.Unlock()
			if err != nil {
				break
			}
		}
		_ = s.Close() // the subject ends when it reads the end, or cannot write
	})
	both.Go(func() {
		for {
			raw, err := readFrame(s)
			var long longError
			if errors.As(err, &long) { // the examiner shall say so
				toExaminer.Lock()
				_, _ = e.Write(binary.BigEndian.AppendUint32(nil, uint32(long)))
				toExaminer.Unlock()
			}
			if err != nil {
				break
			}
			r.keep(raw, true)
			toExaminer.Lock()
			err = writeFrame(e, raw)
			toExaminer.Unlock()
			if err != nil {
				break
			}
		}
		_ = e.CloseWrite()
		_ = s.CloseRead()
	})
	both.Wait()
	return r, nil
}

// connection makes a connection of a socket's file, which it closes.
func connection(f *os.File) (*net.UnixConn, error) {
	c, err := net.FileConn(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}

func (r *Recording) keep(raw []byte, subject bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size += len(raw); r.size <= maxRecording {
		r.frames = append(r.frames, passed{raw, subject})
	}
}

// Requests that mark the tests.
const (
	opTest  = "test"  // a test begins
	opAgain = "again" // may a process run it before it runs?
	opDone  = "done"  // the process has run it
	opMore  = "more"  // may the process run it once more?
	opDied  = "died"  // the process has ended, perhaps too early
)

// mark returns the number of a request that only the judge answers. It reads no more of a frame than it must.
func mark(raw []byte) (number int64, ok bool) {
	if !bytes.HasPrefix(raw, []byte("[0,")) {
		return 0, false
	}
	parts := strings.SplitN(string(raw[:min(len(raw), 100)]), ",", 5)
	if len(parts) < 5 {
		return 0, false
	}
	switch parts[3] {
	case `"` + opTest + `"`, `"` + opAgain + `"`, `"` + opDone + `"`, `"` + opMore + `"`, `"` + opDied + `"`:
		number, ok = integer(json.Number(parts[1]))
	}
	return number, ok
}

// exchange is one question of the examiner's with all that the subject said until it was answered.
type exchange struct {
	test  int    // index of the test that asked; 0 for what was asked before the first
	key   string // what was asked of what, whatever its arguments were
	name  string // whose answer this is: "add()", "Stack().pop()"
	kind  kind
	op    string
	args  []any
	steps []frame      // callbacks, and at last the answer
	gives any          // the test's own container that it answers with, as it was passed, with a number of ours
	given map[any]bool // contents of files, in base64, that the delivery had been given
	told  []told       // the last things that the test gave before the answer, and its first two
}

// kind says what an answer can show.
type kind int

const (
	structure kind = iota // how things hang together: modules, classes, functions
	plain                 // an answer that the examiner looks at itself
	predicate             // yes or no of a delivered object
	operator              // a delivered object's operator or identity: the delivery decides
	shown                 // a value that the delivery had been shown as an operand
)

// script is a recording that has been understood.
type script struct {
	tests       []string // ids by index; the first is empty
	exchanges   []*exchange
	definitions map[int64]any // number of the subject's → the value that defines it
	origins     map[int64]string
	modules     map[int64]bool
	attributes  map[string]*exchange // key → how an attribute was asked for last, in any test
	raises      map[string]bool      // names whose every answer is an exception
	raised      []any                // an exception of each class that the subject raised
	last        int64                // the largest number of the subject's
	copies      map[int64]int64      // number of an object that we pass for another → the other
	broken      error                // why it cannot be played
}

var errLong = errors.New("the tests and the delivery said more than can be kept")

// understand sorts a recording into exchanges.
func (r *Recording) understand() *script {
	s := &script{
		tests: []string{""}, definitions: map[int64]any{}, origins: map[int64]string{}, modules: map[int64]bool{},
		copies: map[int64]int64{}, raises: map[string]bool{},
		attributes: map[string]*exchange{},
	}
	if r.size > maxRecording {
		s.broken = errLong
		return s
	}
	open := map[int64]*exchange{}     // number of the examiner's request → its exchange
	asking := map[int64][]*exchange{} // thread → its open exchanges
	offered := map[string]bool{}      // values that were shown as operands
	classes := map[string]bool{}      // of exceptions
	given := map[any]bool{}
	var heard []told // by the delivery, in the running test
	for _, p := range r.frames {
		f, err := parse(p.raw)
		if err != nil {
			s.broken = err
			return s
		}
		switch {
		case !p.subject && f.kind == request && f.op == opTest:
			if id, ok := at(f.args, 0).(string); ok {
				s.tests = append(s.tests, id)
				heard = nil
			}
		case !p.subject && f.kind == request && f.op == opAgain:
		case !p.subject && f.kind != request:
			give(given, f)
			heard = append(heard, hears(f)...)
		case !p.subject:
			give(given, f)
			heard = append(heard, hears(f)...)
			x := &exchange{given: given, test: len(s.tests) - 1, op: f.op, args: f.args, key: key(f)}
			x.name = s.nameOf(f)
			if f.op == "get" {
				s.attributes[x.key] = x
			}
			open[f.number] = x
			asking[f.thread] = append(asking[f.thread], x)
			s.exchanges = append(s.exchanges, x)
		case p.subject && f.kind == request:
			waiting := asking[f.thread]
			if len(waiting) == 0 {
				s.broken = errors.New("the delivery's threads asked for themselves")
				return s
			}
			x := waiting[len(waiting)-1]
			x.steps = append(x.steps, f)
			s.define(x, f.args)
		case p.subject:
			x := open[f.number]
			if x == nil {
				s.broken = errors.New("an answer to nothing")
				return s
			}
			delete(open, f.number)
			for thread, waiting := range asking {
				if n := len(waiting); n > 0 && waiting[n-1] == x {
					asking[thread] = waiting[:n-1]
				}
			}
			x.steps = append(x.steps, f)
			x.told = slices.Clone(heard[:min(2, len(heard))])
			x.told = append(x.told, heard[max(len(x.told), len(heard)-6):]...)
			s.define(x, f.value)
			x.gives = s.givenBack(x, f.value)
			s.classify(x, f, offered)
			if before, there := s.raises[x.name]; !there || before {
				s.raises[x.name] = f.kind == raised
			}
			if f.kind == raised {
				if class := exceptionClass(f.value); class != "" && !classes[class] && len(s.raised) < 4 {
					classes[class] = true
					s.raised = append(s.raised, alone(f.value))
				}
			}
		}
	}
	return s
}

// givenBack returns a container of the test's that an exchange passes and gets back.
func (s *script) givenBack(x *exchange, v any) (found any) {
	back, defines, ok := numbered(v)
	if !ok || defines || back%2 == 0 {
		return nil
	}
	each(any(x.args), func(v any) {
		n, defines, ok := numbered(v)
		tag, payload := tagged(v)
		if !ok || !defines || n != back || !strings.Contains("L D S O N Q", tag) {
			return
		}
		s.last += 2
		found = map[string]any{tag: append([]any{literal(s.last)}, payload.([]any)[1:]...)}
	})
	return found
}

// give notes the files that come with a frame of the examiner's.
func give(given map[any]bool, f frame) {
	for _, name := range []string{"f", "g"} {
		list, _ := f.extra[name].([]any)
		for _, pair := range list {
			parts, _ := pair.([]any)
			given[at(parts, 1)] = true
		}
	}
}

// define keeps what a value of the subject's defines, with where it came from.
func (s *script) define(x *exchange, v any) {
	each(v, func(v any) {
		n, defines, ok := numbered(v)
		if !ok || n%2 != 0 {
			return
		}
		s.last = max(s.last, n)
		if !defines {
			return
		}
		if _, there := s.definitions[n]; there {
			return
		}
		s.definitions[n] = v
		s.origins[n] = x.name
		if tag, _ := tagged(v); x.op == "import" && tag == "h" {
			s.modules[n] = true
		}
	})
}

// deciding has the operators by which an object can decide an assertion.
var deciding = func() map[string]bool {
	m := map[string]bool{}
	for _, n := range strings.Fields("eq ne lt le gt ge bool contains hash abs neg pos invert round trunc floor ceil int float complex " +
		"index fspath exit aexit divmod rdivmod instancecheck subclasscheck") {
		m["__"+n+"__"] = true
	}
	for _, n := range strings.Fields("add sub mul truediv floordiv mod pow lshift rshift and or xor matmul") {
		m["__"+n+"__"], m["__i"+n+"__"], m["__r"+n+"__"] = true, true, true
	}
	for _, n := range strings.Fields("asymmetricMatch toJSON then valueOf toString toPrimitive equals Equal Is As Unwrap Compare Less") {
		m[n] = true
	}
	return m
}()

// classify says what an answer can show, and keeps the operands that the delivery has seen.
func (s *script) classify(x *exchange, f frame, offered map[string]bool) {
	_, isBool := f.value.(bool)
	operation, _ := at(x.args, 0).(string)
	switch x.op {
	case "import", "set", "del", "signature", "threads":
		x.kind = structure
	case "op":
		x.kind = plain
		spec, _ := at(x.args, 2).(string)
		switch {
		case strings.HasSuffix(operation, "exit__") && (f.value == nil || f.value == false):
			x.kind = structure // what lets an exception pass hides nothing
		case deciding[operation] || operation == "__format__" && spec != "":
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
		if n, _, ok := numbered(at(x.args, 0)); isBool && ok && !s.modules[n] {
			x.kind = predicate
		}
	case "method":
		x.kind = plain
		name, _ := at(x.args, 1).(string)
		if deciding[name] {
			x.kind = operator
		} else if isBool {
			x.kind = predicate
		}
	default:
		x.kind = plain
		if isBool && strings.Contains(strings.TrimSuffix(x.name, "()"), ".") {
			x.kind = predicate // what is called was got from an object
		}
	}
	if x.kind == plain && f.kind == answer && (offered[text(f.value)] || pointsAtTests(f.value)) {
		x.kind = shown
	}
}

// pointsAtTests reports whether a value has a path that leads to the examiner's own files, or out of a directory.
func pointsAtTests(v any) bool {
	found := false
	each(v, func(v any) {
		s, ok := v.(string)
		found = found || ok && len(s) < 4096 && (strings.Contains(s, "/judge/") || strings.Contains(s, "../") || s == "..")
	})
	return found
}

// key returns what identifies a question: the operation, what is asked, and the name of what is asked for.
func key(f frame) string {
	parts := []any{f.op, at(f.args, 0), nil}
	switch f.op {
	case "get", "set", "del", "method", "import":
		parts[2] = at(f.args, 1)
	case "op", "lib":
		parts[2] = target(f)
		if f.op == "lib" {
			parts = append(parts, at(f.args, 1))
		}
	}
	return text(parts)
}

// target returns what a request asks something of.
func target(f frame) any {
	switch f.op {
	case "op":
		return at(f.args, 1)
	case "lib":
		args, _ := at(f.args, 2).([]any)
		return at(args, 0)
	case "import", "threads":
		return nil
	default:
		return at(f.args, 0)
	}
}

// nameOf returns the name of an answer: how the tests come to it from a name of a delivered module.
func (s *script) nameOf(f frame) string {
	what := target(f)
	if tag, payload := tagged(what); tag == "a" { // a method that was kept
		parts, _ := payload.([]any)
		inner := frame{op: "method", args: parts}
		return s.nameOf(inner)
	}
	n, _, _ := numbered(what)
	of := s.origins[n]
	member := func(name any) string {
		text, _ := name.(string)
		if s.modules[n] {
			return text
		}
		if strings.HasSuffix(of, "."+text) || strings.Count(of, ".") > 6 {
			return of // a chain of the same things, such as the nodes of a list
		}
		return of + "." + text
	}
	switch f.op {
	case "import":
		name, _ := at(f.args, 0).(string)
		return name
	case "get", "set", "del":
		return member(at(f.args, 1))
	case "method":
		return member(at(f.args, 1)) + "()"
	case "call":
		return strings.TrimSuffix(of, "()") + "()"
	case "op":
		operation, _ := at(f.args, 0).(string)
		switch operation {
		case "__next__", "__iter__", "__anext__", "__aiter__", "__enter__", "__aenter__", "__await__":
			return of
		}
		return member(operation)
	case "lib":
		return member(at(f.args, 1))
	default:
		return of
	}
}

// root returns the name of a delivered module at which a name begins.
func root(name string) string {
	if i := strings.IndexAny(name, ".("); i >= 0 {
		return name[:i]
	}
	return name
}

func at(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

func isPlain(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	default:
		return true
	}
}

// alone returns an exception without what it refers to, so that it can be raised anywhere.
func alone(v any) any {
	tag, payload := tagged(v)
	parts := slices.Clone(payload.([]any))
	refers := false
	each(at(parts, 2), func(v any) {
		_, _, ok := numbered(v)
		refers = refers || ok
	})
	if refers {
		parts[2] = []any{}
	}
	for i := 4; i < len(parts)-1; i++ {
		parts[i] = nil
	}
	if last := len(parts) - 1; last > 5 {
		parts[last] = map[string]any{"D": []any{json.Number("0"), []any{}}}
	}
	return map[string]any{tag: parts}
}

// exceptionClass returns the class of an exception as text.
func exceptionClass(v any) string {
	tag, payload := tagged(v)
	parts, _ := payload.([]any)
	if tag != "E" || len(parts) < 2 {
		return ""
	}
	if n, _, ok := numbered(parts[1]); ok {
		return text(known(n))
	}
	return text(parts[1])
}
