package gowire

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// array returns the elements of an array of a length; of any if the length is negative.
func array(v any, length int) []any {
	list, ok := v.([]any)
	if !ok || length >= 0 && len(list) != length {
		panic(malformed("a list that is not one"))
	}
	return list
}

// count returns the number of a thing.
func count(v any) int {
	n, ok := small(v)
	if !ok || n < 0 {
		panic(malformed("a number that is not one"))
	}
	return n
}

func str(v any) string {
	if tag, value := tagged(v); tag == "s" {
		b, err := hex.DecodeString(str(value))
		if err != nil {
			panic(malformed("a text that is not one"))
		}
		return string(b)
	}
	s, ok := v.(string)
	if !ok {
		panic(malformed("a text that is not one"))
	}
	return s
}

// tagged returns the only member of an object; "" if it is not one.
func tagged(v any) (tag string, value any) {
	m, ok := v.(map[string]any)
	if !ok || len(m) != 1 {
		return "", nil
	}
	for tag, value = range m {
	}
	return tag, value
}

// of returns the value of a tag, and refuses another.
func of(v any, want string) any {
	tag, value := tagged(v)
	if tag != want {
		panic(malformed("a value of another type"))
	}
	return value
}

func numeral(v any) string {
	if n, ok := v.(json.Number); ok {
		return string(n)
	}
	s, digits := str(of(v, "i")), ""
	for _, sign := range []string{"0x", "-0x"} {
		if rest, ok := strings.CutPrefix(s, sign); ok {
			digits = rest
		}
	}
	n, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		panic(malformed("a number that is not one"))
	}
	s = strconv.FormatUint(n, 10)
	if str(of(v, "i"))[0] == '-' {
		return "-" + s
	}
	return s
}

func float(v any) float64 {
	n, ok := v.(json.Number)
	if !ok {
		f, known := map[string]float64{"nan": math.NaN(), "inf": math.Inf(1), "-inf": math.Inf(-1)}[str(of(v, "f"))]
		if !known {
			panic(malformed("a number that is not one"))
		}
		return f
	}
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil {
		panic(malformed("a number that is not one"))
	}
	return f
}

// value decodes a value of a type.
func (p *Peer) value(t reflect.Type, v any, depth int) reflect.Value {
	into := reflect.New(t).Elem()
	p.into(into, v, depth)
	return into
}

// nilable are the kinds of types that have nil.
var nilable = map[reflect.Kind]bool{
	reflect.Interface: true, reflect.Pointer: true, reflect.Map: true, reflect.Slice: true, reflect.Func: true,
}

// into decodes a value into a variable.
func (p *Peer) into(into reflect.Value, v any, depth int) {
	if depth > maxNesting {
		panic(malformed("a value that is nested too deeply"))
	}
	t := into.Type()
	large := p.typed && (t.Kind() == reflect.Struct || t.Kind() == reflect.Array) && !p.handles[t] // the judge may not know its parts
	if v == nil && (nilable[t.Kind()] || large) {
		into.SetZero()
		return
	}
	switch t.Kind() {
	case reflect.Bool:
		b, ok := v.(bool)
		if !ok {
			panic(malformed("a value of another type"))
		}
		into.SetBool(b)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(numeral(v), 10, t.Bits())
		if err != nil {
			panic(malformed("a number that does not fit"))
		}
		into.SetInt(n)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		n, err := strconv.ParseUint(numeral(v), 10, t.Bits())
		if err != nil {
			panic(malformed("a number that does not fit"))
		}
		into.SetUint(n)
	case reflect.Float32, reflect.Float64:
		into.SetFloat(float(v))
	case reflect.Complex64, reflect.Complex128:
		parts := array(of(v, "c"), 2)
		into.SetComplex(complex(float(parts[0]), float(parts[1])))
	case reflect.String:
		into.SetString(str(v))
	case reflect.Struct:
		switch {
		case t == timeType:
			into.Set(reflect.ValueOf(instant(v)))
		case p.handles[t]:
			into.Set(p.handle(reflect.PointerTo(t), v).Elem())
		default:
			p.fill(into, v, depth)
		}
	case reflect.Array:
		p.fill(into, v, depth)
	case reflect.Interface:
		into.Set(p.dynamic(t, v, depth))
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Func:
		into.Set(p.reference(t, v, depth))
	default:
		panic(malformed("a value of another type"))
	}
}

// fill decodes the contents of a struct, array or shared object in place.
func (p *Peer) fill(o reflect.Value, v any, depth int) {
	switch o.Kind() {
	case reflect.Pointer:
		p.into(o.Elem(), v, depth+1)
	case reflect.Struct:
		for i, part := range array(of(v, "t"), o.NumField()) {
			if !o.Field(i).CanSet() {
				panic(malformed("a field that is not exported"))
			}
			p.into(o.Field(i), part, depth+1)
		}
	case reflect.Array:
		for i, part := range array(of(v, "t"), o.Len()) {
			p.into(o.Index(i), part, depth+1)
		}
	case reflect.Slice:
		if o.Type().Elem().Kind() == reflect.Uint8 {
			b, err := hex.DecodeString(str(v))
			if err != nil || len(b) != o.Len() {
				panic(malformed("bytes that are not"))
			}
			reflect.Copy(o, reflect.ValueOf(b).Convert(reflect.SliceOf(o.Type().Elem())))
			return
		}
		for i, part := range array(v, o.Len()) {
			p.into(o.Index(i), part, depth+1)
		}
	case reflect.Map:
		list := array(v, -1)
		if len(list)%2 != 0 {
			panic(malformed("a map that is not one"))
		}
		o.Clear()
		for i := 0; i < len(list); i += 2 {
			key := p.value(o.Type().Key(), list[i], depth+1)
			if !key.Comparable() {
				panic(malformed("a key that cannot be one"))
			}
			o.SetMapIndex(key, p.value(o.Type().Elem(), list[i+1], depth+1))
		}
	}
}

// instant decodes a time.
func instant(v any) time.Time {
	special := array(of(v, "v"), 2)
	if str(special[0]) != "time.Time" {
		panic(malformed("a value of another type"))
	}
	parts := array(special[1], 4)
	second, err := strconv.ParseInt(numeral(parts[0]), 10, 64)
	offset, err2 := strconv.ParseInt(numeral(parts[3]), 10, 32)
	if err != nil || err2 != nil {
		panic(malformed("a time that is not one"))
	}
	t := time.Unix(second, int64(count(parts[1])))
	switch zone := str(parts[2]); zone {
	case "UTC":
		return t.UTC()
	case "Local":
		return t
	default:
		return t.In(time.FixedZone(zone, int(offset)))
	}
}

// find returns the object of a number.
func (p *Peer) find(v any) *object {
	x := p.objects.by[count(v)]
	if x == nil {
		panic(malformed("a number that nothing has"))
	}
	return x
}

// reference decodes a pointer, map, slice or function.
func (p *Peer) reference(t reflect.Type, v any, depth int) reflect.Value {
	if t.Kind() == reflect.Pointer && p.handles[t.Elem()] {
		return p.handle(t, v)
	}
	tag, value := tagged(v)
	if tag == "k" {
		x := p.find(value)
		if x.v.Type() != t {
			panic(malformed("a number of another type"))
		}
		if x.shared {
			p.objects.touch(x)
		}
		return x.v
	}
	pair := array(value, 2)
	n := count(pair[0])
	if t.Kind() == reflect.Func {
		if tag != "x" || str(pair[1]) != "f" {
			panic(malformed("a value of another type"))
		}
		f := reflect.MakeFunc(t, func(args []reflect.Value) []reflect.Value { return p.callback(t, n, args) })
		p.objects.arrive(n, f)
		return f
	}
	want := tags[t.Kind()]
	if want == "L" && t.Elem().Kind() == reflect.Uint8 {
		want = "Y"
	}
	if tag != want {
		panic(malformed("a value of another type"))
	}
	if x := p.objects.by[n]; x != nil { // it was changed
		if x.v.Type() != t || !x.shared {
			panic(malformed("a number of another type"))
		}
		p.objects.touch(x)
		p.fill(x.v, pair[1], depth)
		return x.v
	}
	var o reflect.Value
	switch t.Kind() {
	case reflect.Pointer:
		o = reflect.New(t.Elem())
		if o.Type() != t {
			o = o.Convert(t)
		}
	case reflect.Map:
		o = reflect.MakeMap(t)
	default:
		size := len(elements(pair[1]))
		o = reflect.MakeSlice(t, size, size)
	}
	if n != 0 || t.Kind() != reflect.Slice || o.Len() > 0 {
		x := p.objects.arrive(n, o)
		x.shared = true
		p.objects.touch(x)
	}
	p.fill(o, pair[1], depth)
	return o
}

// elements returns as many elements as the contents of a slice have.
func elements(v any) []any {
	if s, ok := v.(string); ok {
		return make([]any, len(s)/2)
	}
	return array(v, -1)
}

// handle decodes a pointer to an object that stays with the delivery. What the tests have made with var begins to exist
// where the delivery is.
func (p *Peer) handle(t reflect.Type, v any) reflect.Value {
	tag, value := tagged(v)
	if tag == "k" {
		x := p.find(value)
		if x.v.Type() != t {
			panic(malformed("a number of another type"))
		}
		return x.v
	}
	if tag != "h" {
		panic(malformed("a value of another type"))
	}
	parts := array(value, 3)
	if str(parts[1]) != p.names[t.Elem()] {
		panic(malformed("a value of another type"))
	}
	o, n := reflect.New(t.Elem()), count(parts[0])
	p.objects.arrive(n, o)
	if p.tests {
		o.Elem().FieldByName("GuildHandle").Set(reflect.ValueOf(Handle{n}))
	}
	return o
}

// dynamic decodes the value of an interface.
func (p *Peer) dynamic(static reflect.Type, v any, depth int) reflect.Value {
	o := p.anything(static, v, depth)
	if !o.Type().Implements(static) {
		panic(malformed("a value of another type"))
	}
	return o
}

func (p *Peer) anything(static reflect.Type, v any, depth int) reflect.Value {
	switch v := v.(type) {
	case bool, string:
		return reflect.ValueOf(v)
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			return reflect.ValueOf(float(v))
		}
		return p.value(reflect.TypeFor[int](), v, depth)
	}
	tag, value := tagged(v)
	switch tag {
	case "s":
		return reflect.ValueOf(str(v))
	case "f":
		return reflect.ValueOf(float(v))
	case "i":
		return p.value(reflect.TypeFor[int](), v, depth)
	case "g":
		err := p.errors[str(value)]
		if err == nil {
			panic(malformed("a name that nothing has"))
		}
		return reflect.ValueOf(err)
	case "T":
		parts := array(value, 2)
		t := p.typeOf(str(parts[0]), 0)
		return p.value(t, parts[1], depth+1)
	case "E":
		return reflect.ValueOf(p.exception(value, depth))
	case "h", "x":
		return p.foreign(static, tag, value)
	case "k":
		x := p.find(value)
		if x.shared {
			p.objects.touch(x)
		}
		if !x.v.Type().Implements(static) {
			return p.proxy(static, x.number)
		}
		return x.v
	default:
		panic(malformed(fmt.Sprintf("%.100v is not a value", v)))
	}
}

// foreign decodes something of the other side's that only has methods, or that nothing is known of.
func (p *Peer) foreign(static reflect.Type, tag string, value any) reflect.Value {
	parts := array(value, -1)
	if len(parts) < 2 {
		panic(malformed("a value that is not one"))
	}
	name := str(parts[1])
	if tag == "h" && name != "" {
		t, known := p.types[name]
		if !known || !p.handles[t] {
			panic(malformed("a value of another type"))
		}
		return p.handle(reflect.PointerTo(t), map[string]any{tag: value})
	}
	if tag == "h" != p.tests || tag == "x" && name != "o" {
		panic(malformed("a value of another type"))
	}
	n := count(parts[0])
	o := p.proxy(static, n)
	p.objects.arrive(n, o)
	return o
}

// proxy makes what stands for something of the other side's.
func (p *Peer) proxy(static reflect.Type, n int) reflect.Value {
	if n%2 == p.objects.first {
		panic(malformed("a value of another type"))
	}
	if static.NumMethod() == 0 {
		return reflect.ValueOf(&Opaque{Handle{n}})
	}
	make, known := p.proxies[static]
	if !known {
		panic(malformed("a value of another type"))
	}
	return reflect.ValueOf(make(Handle{n}))
}

// exception decodes an error of a type that only the other side has.
func (p *Peer) exception(value any, depth int) error {
	parts := array(value, 6)
	e := remoteError{peer: p, text: str(parts[3])}
	var chain []error
	for _, one := range array(parts[4], -1) {
		next := p.value(errorType, one, depth+1)
		if next.IsNil() {
			chain = append(chain, nil)
		} else {
			chain = append(chain, next.Interface().(error))
		}
	}
	for _, name := range array(parts[5], -1) {
		e.is = append(e.is, str(name))
	}
	var err error
	class := str(parts[1])
	switch {
	case class == classPlain && len(chain) == 0:
		err = &e
	case class == classWrap && len(chain) == 1:
		err = &wrapError{e, chain[0]}
	case class == classJoin:
		err = &joinError{e, chain}
	case class == classRuntime:
		err = &runtimeError{e}
	case class == classGoexit && !p.tests:
		return goexit{}
	default:
		panic(malformed("an error that is not one"))
	}
	p.objects.arrive(count(parts[0]), reflect.ValueOf(err))
	return err
}
