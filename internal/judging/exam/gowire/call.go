package gowire

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// remoteError is an error of the other side's, of a type that is not exported.
type remoteError struct {
	peer *Peer
	text string
	is   []string
}

func (e *remoteError) Error() string { return e.text }

// Is reports what the error's own method said of a sentinel error. That is the delivery's decision, and counted.
func (e *remoteError) Is(target error) bool {
	e.peer.mu.Lock()
	defer e.peer.mu.Unlock()
	if !reflect.TypeOf(target).Comparable() {
		return false
	}
	name, known := e.peer.named[target]
	if !known || !slices.Contains(e.is, name) {
		return false
	}
	e.peer.decided++
	return true
}

type wrapError struct {
	remoteError
	next error
}

func (e *wrapError) Unwrap() error { return e.next }

type joinError struct {
	remoteError
	all []error
}

func (e *joinError) Unwrap() []error { return e.all }

type runtimeError struct{ remoteError }

func (e *runtimeError) RuntimeError() {}

// goexit ends a callback's caller, because the callback has ended its goroutine, as t.FailNow does.
type goexit struct{}

func (goexit) Error() string { return "a callback has ended its goroutine" }

// addLibrary registers what both sides have of the standard library.
func (p *Peer) addLibrary() {
	for name, err := range map[string]error{
		"io.EOF": io.EOF, "io.ErrUnexpectedEOF": io.ErrUnexpectedEOF, "io.ErrShortWrite": io.ErrShortWrite,
		"io.ErrShortBuffer": io.ErrShortBuffer, "io.ErrClosedPipe": io.ErrClosedPipe, "io.ErrNoProgress": io.ErrNoProgress,
		"fs.ErrInvalid": fs.ErrInvalid, "fs.ErrPermission": fs.ErrPermission, "fs.ErrExist": fs.ErrExist,
		"fs.ErrNotExist": fs.ErrNotExist, "fs.ErrClosed": fs.ErrClosed, "strconv.ErrRange": strconv.ErrRange,
		"strconv.ErrSyntax": strconv.ErrSyntax, "errors.ErrUnsupported": errors.ErrUnsupported,
	} {
		p.errors[name], p.named[err] = err, name
	}
	for _, t := range []reflect.Type{
		reflect.TypeFor[bool](), reflect.TypeFor[string](), reflect.TypeFor[int](), reflect.TypeFor[int8](),
		reflect.TypeFor[int16](), reflect.TypeFor[int32](), reflect.TypeFor[int64](), reflect.TypeFor[uint](),
		reflect.TypeFor[uint8](), reflect.TypeFor[uint16](), reflect.TypeFor[uint32](), reflect.TypeFor[uint64](),
		reflect.TypeFor[uintptr](), reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[complex64](),
		reflect.TypeFor[complex128](), errorType, reflect.TypeFor[time.Duration](), timeType,
		reflect.TypeFor[time.Month](), reflect.TypeFor[time.Weekday](), reflect.TypeFor[strconv.NumError](),
		reflect.TypeFor[fs.PathError](),
	} {
		p.types[t.String()], p.names[t] = t, t.String()
	}
	p.types["any"], p.names[anyType] = anyType, "any"
}

// typeName returns the name of a type of which both sides know the parts.
func (p *Peer) typeName(t reflect.Type, depth int) (string, bool) {
	if name, known := p.names[t]; known {
		return name, true
	}
	if t.Name() != "" || depth > 10 {
		return "", false
	}
	prefix := ""
	switch t.Kind() {
	case reflect.Pointer:
		prefix = "*"
	case reflect.Slice:
		prefix = "[]"
	case reflect.Array:
		prefix = "[" + strconv.Itoa(t.Len()) + "]"
	case reflect.Map:
		key, ok := p.names[t.Key()]
		if !ok {
			return "", false
		}
		prefix = "map[" + key + "]"
	default:
		return "", false
	}
	rest, ok := p.typeName(t.Elem(), depth+1)
	return prefix + rest, ok
}

// typeOf returns the type of a name.
func (p *Peer) typeOf(name string, depth int) reflect.Type {
	if t, known := p.types[name]; known {
		return t
	}
	if depth > 10 {
		panic(malformed("a type that is not known"))
	}
	if rest, ok := strings.CutPrefix(name, "*"); ok {
		return reflect.PointerTo(p.typeOf(rest, depth+1))
	}
	if rest, ok := strings.CutPrefix(name, "[]"); ok {
		return reflect.SliceOf(p.typeOf(rest, depth+1))
	}
	if rest, ok := strings.CutPrefix(name, "map["); ok {
		key, rest, _ := strings.Cut(rest, "]")
		if t, known := p.types[key]; known && t.Comparable() {
			return reflect.MapOf(t, p.typeOf(rest, depth+1))
		}
	}
	if rest, ok := strings.CutPrefix(name, "["); ok {
		length, rest, _ := strings.Cut(rest, "]")
		elem := p.typeOf(rest, depth+1)
		if n, err := strconv.Atoi(length); err == nil && n >= 0 && n <= 1<<16 && elem.Size() <= 1<<8 {
			return reflect.ArrayOf(n, elem)
		}
	}
	panic(malformed("a type that is not known"))
}

// call asks for a call, and stores the results in the variables outs. A panic of the other side is raised here.
func (p *Peer) call(op string, ins, outs []reflect.Value, args func(*encoder) []byte) {
	var panicked any
	p.ask(op, &[2][]reflect.Value{ins, outs}, args, func(f frame) {
		if f.kind == raised {
			panicked = p.value(anyType, f.value, 0).Interface()
			if panicked == nil {
				panicked = errors.New("panic called with nil argument")
			}
			return
		}
		switch len(outs) {
		case 0:
			if f.value != nil {
				panic(malformed("a result of a function that has none"))
			}
		case 1:
			p.into(outs[0], f.value, 0)
		default:
			for i, part := range array(of(f.value, "t"), len(outs)) {
				p.into(outs[i], part, 0)
			}
		}
	})
	if panicked != nil {
		panic(panicked)
	}
}

// values writes a list of values.
func (e *encoder) values(list []reflect.Value) []byte {
	return append(append([]byte{'['}, e.part(func() { e.list(len(list), func(i int) reflect.Value { return list[i] }) })...), ']')
}

// callback calls a function of the other side's.
func (p *Peer) callback(t reflect.Type, n int, args []reflect.Value) []reflect.Value {
	var outs []reflect.Value
	for i := range t.NumOut() {
		outs = append(outs, reflect.New(t.Out(i)).Elem())
	}
	p.call("call", args, outs, func(e *encoder) []byte {
		return fmt.Appendf(nil, `[{"k":%d},%s,{}]`, n, e.values(args))
	})
	return outs
}

// serve answers a request.
func (p *Peer) serve(a arrival) {
	f, touched := a.frame, a.touched
	here := goroutine()
	p.mu.Lock()
	before, nested := p.threads[here]
	p.threads[here] = f.thread
	p.mu.Unlock()
	kind, done, results := answer, false, []reflect.Value(nil)
	defer func() {
		p.mu.Lock()
		delete(p.threads, here)
		if nested {
			p.threads[here] = before
		}
		p.mu.Unlock()
	}()
	func() {
		defer func() {
			v := recover()
			if v == nil && !done { // runtime.Goexit
				p.left(f, touched)
				return
			}
			if v != nil {
				kind, results = raised, []reflect.Value{reflect.ValueOf(&v).Elem()}
			}
		}()
		results = a.run()
		done = true
	}()
	p.answer(f, kind, results, touched)
}

// left handles a call that has ended its goroutine. A test may do that in a callback; the delivery may not, because a
// test's goroutine would then end without a decision.
func (p *Peer) left(f frame, touched []*object) {
	if !p.tests {
		p.close("the delivery ended its goroutine")
		return
	}
	p.encode(func(e *encoder) {
		extra := e.extra(touched)
		p.send(digits(raised), digits(f.number), []byte(`{"E":[0,"goexit",null,"",[],[]]}`), extra)
	}, func() {})
}

func (p *Peer) answer(f frame, kind int, results []reflect.Value, touched []*object) {
	defer func() {
		if v := recover(); v != nil { // the value cannot travel
			why := fmt.Errorf("a value cannot be passed on: %v", v)
			if _, large := v.(tooLarge); large {
				why = errors.New("a value is too large to be passed on")
			}
			var out any = why
			p.reply(f, raised, []reflect.Value{reflect.ValueOf(&out).Elem()}, nil)
		}
	}()
	p.reply(f, kind, results, touched)
}

func (p *Peer) reply(f frame, kind int, results []reflect.Value, touched []*object) {
	p.encode(func(e *encoder) {
		extra := e.extra(touched)
		value := []byte("null")
		switch {
		case len(results) == 1:
			value = e.part(func() { e.put(results[0]) })
		case len(results) > 1:
			value = append(append([]byte(`{"t":`), e.values(results)...), '}')
		}
		if f.op == "get" && kind == answer && results[0].Type() == errorType && !results[0].IsNil() {
			p.know(str(f.args[0]), results[0].Interface().(error)) // before the other side can name it
		}
		p.send(digits(kind), digits(f.number), value, extra)
	}, func() {})
}

// prepare decodes a request, and returns what it asks for.
func (p *Peer) prepare(f frame) func() []reflect.Value {
	switch f.op {
	case "get":
		if p.tests || len(f.args) != 2 {
			break
		}
		return p.get(str(f.args[0]), f.args[1])
	case "call":
		if len(f.args) != 3 {
			break
		}
		var fn reflect.Value
		if tag, name := tagged(f.args[0]); tag == "g" && !p.tests {
			fn = p.offered[str(name)]
		} else if x := p.find(of(f.args[0], "k")); x.lent != nil {
			fn = x.v
		}
		if fn.Kind() != reflect.Func {
			panic(malformed("a call of nothing that can be called"))
		}
		return p.invoke(fn, array(f.args[1], -1))
	case "method", "op":
		args := f.args
		if f.op == "op" && len(args) == 3 {
			args = []any{args[1], args[0], args[2], nil}
		}
		if len(args) != 4 {
			break
		}
		return p.invoke(p.method(args[0], str(args[1])), array(args[2], -1))
	}
	panic(malformed("a request of no known kind"))
}

// method returns a method. The delivery may only ask for those of the interface that it was given.
func (p *Peer) method(receiver any, name string) reflect.Value {
	if p.tests {
		x := p.find(of(receiver, "k"))
		if x.lent == nil || x.lent.Kind() != reflect.Interface {
			panic(malformed("a method of nothing that was lent"))
		}
		if _, has := x.lent.MethodByName(name); !has {
			panic(malformed("a method that was not lent"))
		}
		return x.v.MethodByName(name)
	}
	o := p.anything(anyType, receiver, 0)
	m := o.MethodByName(name)
	if !m.IsValid() {
		panic(malformed("a method that is not there"))
	}
	return m
}

func (p *Peer) invoke(fn reflect.Value, list []any) func() []reflect.Value {
	t := fn.Type()
	if len(list) != t.NumIn() {
		panic(malformed("a call with too many or too few arguments"))
	}
	var args []reflect.Value
	for i, v := range list {
		args = append(args, p.value(t.In(i), v, 0))
	}
	if t.IsVariadic() {
		return func() []reflect.Value { return fn.CallSlice(args) }
	}
	return func() []reflect.Value { return fn.Call(args) }
}

// get returns a package variable, which has the number of the tests' variable from now on, or a sentinel error.
func (p *Peer) get(name string, variable any) func() []reflect.Value {
	o := p.offered[name]
	if o.Kind() != reflect.Pointer {
		panic(malformed("a variable that is not there"))
	}
	if variable != nil {
		x := p.objects.arrive(count(variable), o)
		x.shared, x.pinned = true, true
		p.objects.pinned = append(p.objects.pinned, x)
		return func() []reflect.Value { return []reflect.Value{o.Elem()} }
	}
	if !o.Type().Elem().Implements(errorType) {
		panic(malformed("a variable that is not an error"))
	}
	err := reflect.New(errorType).Elem()
	err.Set(o.Elem())
	return func() []reflect.Value { return []reflect.Value{err} }
}

// know makes an error one that both sides know by its name. p.mu is held.
func (p *Peer) know(name string, err error) {
	if err == nil || !reflect.ValueOf(err).Comparable() {
		return
	}
	p.errors[name] = err
	if _, known := p.named[err]; !known {
		p.named[err] = name
	}
}

// deciding are methods and functions that say how values relate, or whether one is right.
var deciding = []string{"Equal", "Equals", "Is", "As", "Less", "Compare", "Cmp"}

// printing are methods that the standard library asks for when it writes a value. A test that calls one itself compares
// the text.
var printing = []string{
	"String", "Error", "GoString", "Format", "MarshalJSON", "MarshalText", "MarshalBinary", "UnmarshalJSON", "UnmarshalText",
	"UnmarshalBinary", "GobEncode", "GobDecode", "Scan", "Value", "Len", "Swap",
}

// claims reports whether what a method answers decides instead of the tests: by its name, or because the standard
// library asks for it. Nothing is decided while a test writes to its log.
func (p *Peer) claims(name string, skip int) (claim, counts bool) {
	calls := make([]uintptr, 32)
	frames := runtime.CallersFrames(calls[:runtime.Callers(skip, calls)])
	library, first := false, true
	for {
		f, more := frames.Next()
		if first {
			library = !strings.HasPrefix(f.Function, p.module+".") && !strings.HasPrefix(f.Function, p.module+"/") &&
				!strings.HasPrefix(f.Function, p.module+"_test.")
		}
		first = false
		if strings.HasPrefix(f.Function, "testing.(*common).") && slices.Contains([]string{"log", "Log", "Logf", "Error", "Errorf", "Fatal", "Fatalf", "Skip", "Skipf"},
			strings.TrimPrefix(f.Function, "testing.(*common).")) {
			return true, false
		}
		if !more {
			break
		}
	}
	claim = slices.Contains(deciding, name) || library && slices.Contains(printing, name)
	return claim, claim
}
