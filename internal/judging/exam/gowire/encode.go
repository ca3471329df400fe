package gowire

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

var (
	errorType = reflect.TypeFor[error]()
	anyType   = reflect.TypeFor[any]()
	timeType  = reflect.TypeFor[time.Time]()
	byteSlice = reflect.TypeFor[[]byte]()
)

// Classes of an exception: an error that wraps nothing, one or several others; a run-time error; and what ends a
// callback by runtime.Goexit, as t.FailNow does.
const (
	classPlain   = "error"
	classWrap    = "wrap"
	classJoin    = "join"
	classRuntime = "runtime.Error"
	classGoexit  = "goexit"
)

// encoder writes the values of one frame.
type encoder struct {
	p       *Peer
	id      int // of the frame
	b       []byte
	depth   int
	peeking bool // only compares: nothing gets a number
	unknown bool // something had none

	said  []said // what the errors of this frame say, in order
	used  int
	added []*object
	undo  []func()
}

// said has the words and the chain of an error. Its methods may ask the other side, so they run while the tables are free.
type said struct {
	text string
	is   []string // names of sentinel errors that its method Is accepts
}

// needs is the panic of an encoder that does not know yet what an error says.
type needs struct{ err error }

// encode runs write with a new encoder and locked tables. If an error has to be asked for its text, it begins again,
// after undo.
func (p *Peer) encode(write func(*encoder), undo func()) {
	var known []said
	for {
		p.mu.Lock()
		p.objects.frame++
		e := &encoder{p: p, id: p.objects.frame, said: known}
		failure := e.try(write)
		if failure == nil {
			p.objects.settle(p)
			p.mu.Unlock()
			return
		}
		for _, x := range e.added {
			p.objects.remove(x)
		}
		for _, f := range e.undo {
			f()
		}
		for _, x := range p.objects.touched {
			x.touched = false
		}
		p.objects.touched = nil
		undo()
		p.mu.Unlock()
		asks, ok := failure.(needs)
		if !ok {
			panic(failure)
		}
		known = append(known, p.hear(asks.err))
	}
}

func (e *encoder) try(write func(*encoder)) (failure any) {
	defer func() { failure = recover() }()
	write(e)
	return nil
}

// hear asks an error what it says.
func (p *Peer) hear(err error) (s said) {
	defer func() {
		if recover() != nil {
			s.text = "an error without a text"
		}
	}()
	s.text = err.Error()
	if _, ok := err.(interface{ Is(error) bool }); ok {
		p.mu.Lock()
		var list []string
		for name := range p.errors {
			list = append(list, name)
		}
		p.mu.Unlock()
		slices.Sort(list)
		for _, name := range list {
			if errors.Is(err, p.sentinel(name)) {
				s.is = append(s.is, name)
			}
		}
	}
	return s
}

func (p *Peer) sentinel(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.errors[name]
}

func (e *encoder) write(s string) { e.b = append(e.b, s...) }

// part returns what f writes, instead of adding it.
func (e *encoder) part(f func()) []byte {
	before := e.b
	e.b = nil
	f()
	out := e.b
	e.b = before
	return out
}

func (e *encoder) text(s string) {
	if !utf8.ValidString(s) {
		e.write(`{"s":"` + hex.EncodeToString([]byte(s)) + `"}`)
		return
	}
	b, _ := json.Marshal(s)
	e.b = append(e.b, b...)
}

func (e *encoder) float(f float64) {
	switch {
	case math.IsNaN(f):
		e.write(`{"f":"nan"}`)
	case math.IsInf(f, 1):
		e.write(`{"f":"inf"}`)
	case math.IsInf(f, -1):
		e.write(`{"f":"-inf"}`)
	default:
		s := strconv.FormatFloat(f, 'g', -1, 64)
		if !strings.ContainsAny(s, ".e") {
			s += ".0"
		}
		e.write(s)
	}
}

const smallInt = 1 << 62

func (e *encoder) put(v reflect.Value) {
	e.depth++
	if e.depth > maxNesting {
		panic(tooLarge{})
	}
	defer func() { e.depth-- }()
	switch v.Kind() {
	case reflect.Bool:
		e.b = strconv.AppendBool(e.b, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if n := v.Int(); n > -smallInt && n < smallInt {
			e.b = strconv.AppendInt(e.b, n, 10)
		} else if n < 0 {
			e.write(`{"i":"-0x` + strconv.FormatUint(-uint64(n), 16) + `"}`)
		} else {
			e.write(`{"i":"0x` + strconv.FormatInt(n, 16) + `"}`)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		if n := v.Uint(); n < smallInt {
			e.b = strconv.AppendUint(e.b, n, 10)
		} else {
			e.write(`{"i":"0x` + strconv.FormatUint(n, 16) + `"}`)
		}
	case reflect.Float32, reflect.Float64:
		e.float(v.Float())
	case reflect.Complex64, reflect.Complex128:
		e.write(`{"c":[`)
		e.float(real(v.Complex()))
		e.write(",")
		e.float(imag(v.Complex()))
		e.write("]}")
	case reflect.String:
		e.text(v.String())
	case reflect.Struct:
		switch {
		case v.Type() == timeType:
			e.time(v.Interface().(time.Time))
		case e.p.handles[v.Type()]:
			e.handle(v)
		default:
			e.contents(v)
		}
	case reflect.Array:
		e.contents(v)
	case reflect.Interface:
		e.dynamic(v)
	default:
		e.reference(v)
	}
}

func (e *encoder) list(n int, at func(int) reflect.Value) {
	for i := range n {
		if i > 0 {
			e.write(",")
		}
		e.put(at(i))
	}
}

// contents writes what a struct, array or shared object is made of.
func (e *encoder) contents(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		e.put(v.Elem())
	case reflect.Struct:
		e.write(`{"t":[`)
		e.list(v.NumField(), v.Field)
		e.write("]}")
	case reflect.Array:
		e.write(`{"t":[`)
		e.list(v.Len(), v.Index)
		e.write("]}")
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			e.write(`"` + hex.EncodeToString(v.Convert(byteSlice).Bytes()) + `"`)
			return
		}
		e.write("[")
		e.list(v.Len(), v.Index)
		e.write("]")
	case reflect.Map:
		type entry struct {
			key   string
			value reflect.Value
		}
		var entries []entry
		for it := v.MapRange(); it.Next(); {
			entries = append(entries, entry{string(e.part(func() { e.put(it.Key()) })), it.Value()})
		}
		slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.key, b.key) })
		e.write("[")
		for i, x := range entries {
			if i > 0 {
				e.write(",")
			}
			e.write(x.key + ",")
			e.put(x.value)
		}
		e.write("]")
	}
}

// time writes an instant with its zone.
func (e *encoder) time(t time.Time) {
	zone, offset := t.Zone()
	if t.Location() == time.UTC || t.Location() == time.Local {
		zone, offset = t.Location().String(), 0
	}
	e.write(`{"v":["time.Time",[` + strconv.FormatInt(t.Unix(), 10) + "," + strconv.Itoa(t.Nanosecond()) + ",")
	e.text(zone)
	e.write("," + strconv.Itoa(offset) + "]]}")
}

// number gives something of ours a number.
func (e *encoder) number(v reflect.Value) *object {
	x := e.p.objects.own(v)
	e.added = append(e.added, x)
	return x
}

func (e *encoder) known(n int) { e.write(`{"k":` + strconv.Itoa(n) + "}") }

// missing reports whether the encoder only compares, and notes that something has no number.
func (e *encoder) missing() bool {
	if e.peeking {
		e.unknown = true
		e.write("0")
	}
	return e.peeking
}

// tags of the shared containers.
var tags = map[reflect.Kind]string{reflect.Pointer: "P", reflect.Map: "D", reflect.Slice: "L"}

// reference writes a pointer, map, slice or function.
func (e *encoder) reference(v reflect.Value) {
	tag := tags[v.Kind()]
	if tag == "L" && v.Type().Elem().Kind() == reflect.Uint8 {
		tag = "Y"
	}
	switch {
	case v.Kind() != reflect.Func && tag == "":
		panic(malformed("a " + v.Kind().String() + " cannot travel"))
	case v.IsNil():
		e.write("null")
		return
	case v.Kind() == reflect.Pointer && e.p.handles[v.Type().Elem()]:
		e.handle(v)
		return
	case v.Kind() == reflect.Slice && v.Len() == 0:
		e.write(`{"` + tag + `":[0,`)
		e.contents(v)
		e.write("]}")
		return
	}
	x := e.p.objects.find(v)
	if v.Kind() == reflect.Func {
		if x == nil {
			if e.missing() {
				return
			}
			x = e.number(v)
			x.lent = v.Type()
			e.write(`{"x":[` + strconv.Itoa(x.number) + `,"f"]}`)
			return
		}
		e.known(x.number)
		return
	}
	if x != nil && (e.peeking || x.frame == e.id || !e.p.changed(x)) {
		e.known(x.number)
		if !e.peeking {
			e.p.objects.touch(x)
		}
		return
	}
	if x == nil {
		if e.missing() {
			return
		}
		x = e.number(v)
		x.shared = true
	}
	x.frame = e.id
	e.p.objects.touch(x)
	e.write(`{"` + tag + `":[` + strconv.Itoa(x.number) + ",")
	e.contents(v)
	e.write("]}")
}

// handle writes an object that stays with the delivery, or a pointer to one.
func (e *encoder) handle(v reflect.Value) {
	o, pointer := e.p.objects, v
	if v.Kind() != reflect.Pointer {
		pointer = reflect.New(v.Type())
		pointer.Elem().Set(v)
	}
	name := e.p.names[pointer.Type().Elem()]
	var x *object
	if e.p.tests {
		h := pointer.Elem().FieldByName("GuildHandle").Addr().Interface().(*Handle)
		if h.N != 0 {
			if known := o.by[h.N]; known != nil && v.Kind() == reflect.Pointer {
				known.v = v
			}
			e.known(h.N)
			return
		}
		if e.missing() {
			return
		}
		x = e.number(pointer)
		h.N = x.number
		e.undo = append(e.undo, func() { h.N = 0 })
		if v.Kind() != reflect.Pointer && v.CanAddr() {
			kept := v.FieldByName("GuildHandle").Addr().Interface().(*Handle)
			*kept = *h
			e.undo = append(e.undo, func() { kept.N = 0 })
		}
	} else {
		if x = o.find(pointer); x != nil {
			e.known(x.number)
			return
		}
		if e.missing() {
			return
		}
		x = e.number(pointer)
	}
	e.write(`{"h":[` + strconv.Itoa(x.number) + ",")
	e.text(name)
	e.write(",{}]}")
}

// dynamic writes the value of an interface.
func (e *encoder) dynamic(v reflect.Value) {
	if v.IsNil() {
		e.write("null")
		return
	}
	static, v := v.Type(), v.Elem()
	if v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct && !v.IsNil() && !e.p.handles[v.Type().Elem()] {
		// What stands here for something of the other side's.
		if h := v.Elem().FieldByName("GuildHandle"); h.IsValid() {
			e.known(h.Interface().(Handle).N)
			return
		}
	}
	err, isError := v.Interface().(error)
	if isError && v.Comparable() {
		if name, known := e.p.named[err]; known {
			e.write(`{"g":`)
			e.text(name)
			e.write("}")
			return
		}
	}
	switch v.Type() {
	case reflect.TypeFor[bool](), reflect.TypeFor[string](), reflect.TypeFor[int](), reflect.TypeFor[float64]():
		e.put(v)
		return
	}
	if name, ok := e.p.typeName(v.Type(), 0); ok {
		if v.Kind() == reflect.Pointer && !v.IsNil() && e.p.handles[v.Type().Elem()] {
			e.handle(v)
			return
		}
		e.write(`{"T":[`)
		e.text(name)
		e.write(",")
		e.put(v)
		e.write("]}")
		return
	}
	x := e.p.objects.find(v)
	switch {
	case x != nil:
		e.known(x.number)
		if x.lent != nil && x.lent != static && static != anyType && static != errorType {
			x.lent = static
		}
	case e.missing():
	case isError && (static == errorType || static == anyType):
		e.exception(err, v)
	default:
		x = e.number(v)
		x.lent = static
		if e.p.tests {
			e.write(`{"x":[` + strconv.Itoa(x.number) + `,"o"]}`)
		} else {
			e.write(`{"h":[` + strconv.Itoa(x.number) + `,"",{}]}`)
		}
	}
}

// exception writes an error of a type that only this side has.
func (e *encoder) exception(err error, v reflect.Value) {
	if e.used == len(e.said) {
		panic(needs{err})
	}
	s := e.said[e.used]
	e.used++
	x := e.number(v)
	class, chain := classPlain, []error{}
	switch wraps := err.(type) {
	case interface{ Unwrap() error }:
		class, chain = classWrap, []error{wraps.Unwrap()}
	case interface{ Unwrap() []error }:
		class, chain = classJoin, wraps.Unwrap()
	case runtime.Error:
		class = classRuntime
	}
	e.write(`{"E":[` + strconv.Itoa(x.number) + `,"` + class + `",null,`)
	e.text(s.text)
	e.write(",[")
	for i := range chain {
		if i > 0 {
			e.write(",")
		}
		e.put(reflect.ValueOf(&chain[i]).Elem())
	}
	e.write("],[")
	for i, name := range s.is {
		if i > 0 {
			e.write(",")
		}
		e.text(name)
	}
	e.write("]]}")
}
