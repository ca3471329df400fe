package gowire

import (
	"bytes"
	"encoding/json"
	"reflect"
	"runtime"
	"slices"
	"unsafe"
)

// Handle is the number of something that stays on the other side.
type Handle struct{ N int }

// Opaque stands for something of the other side's of which nothing is known.
type Opaque struct{ GuildHandle Handle }

// Limits on the shared containers that are looked through for changes beside those of the current call.
const (
	maxRecent = 64
	maxWeight = 1 << 14
)

// identity tells pointers, maps, slices and functions apart.
type identity struct {
	at     unsafe.Pointer
	typ    reflect.Type
	length int
}

// object is something that both sides know by a number.
type object struct {
	number  int
	v       reflect.Value
	key     identity
	shared  bool         // its contents are on both sides
	lent    reflect.Type // the interface or function type by which the other side may call it
	pinned  bool         // a package variable
	told    []byte       // contents that the other side has, with references by number
	frame   int          // the last frame that has it
	touched bool
}

// objects has everything with a number. Ours are odd on the tests' side and even on the other.
type objects struct {
	next, first int
	by          map[int]*object
	keys        map[identity]*object
	recent      []*object
	pinned      []*object // package variables
	touched     []*object
	released    []int // numbers that the other side can forget
	frame       int
}

func newObjects(tests bool) *objects {
	o := &objects{next: 2, first: 0, by: map[int]*object{}, keys: map[identity]*object{}}
	if tests {
		o.next, o.first = 1, 1
	}
	return o
}

// identify returns the identity of a reference, and whether it has one.
func identify(v reflect.Value) (identity, bool) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Map:
		return identity{v.UnsafePointer(), v.Type(), 0}, true
	case reflect.Slice:
		return identity{v.UnsafePointer(), v.Type(), v.Len()}, v.Len() > 0
	case reflect.Func:
		// Each closure has a memory block of its own, which reflect does not show.
		p := reflect.New(v.Type())
		p.Elem().Set(v)
		return identity{*(*unsafe.Pointer)(p.UnsafePointer()), v.Type(), 0}, true
	default:
		return identity{}, false
	}
}

// find returns the object of a reference, or nil.
func (o *objects) find(v reflect.Value) *object {
	key, ok := identify(v)
	if !ok {
		return nil
	}
	return o.keys[key]
}

// own numbers something of ours.
func (o *objects) own(v reflect.Value) *object {
	n := o.next
	o.next += 2
	return o.add(n, v)
}

// add keeps something under a number.
func (o *objects) add(n int, v reflect.Value) *object {
	if len(o.by) >= maxObjects {
		panic(malformed("too many things"))
	}
	if v.CanAddr() {
		v = reflect.ValueOf(v.Interface()) // the value, not the variable that has it now
	}
	x := &object{number: n, v: v}
	if key, ok := identify(v); ok {
		x.key = key
		o.keys[key] = x
	}
	o.by[n] = x
	return x
}

// arrive keeps something of the other side's under the number that it has there.
func (o *objects) arrive(n int, v reflect.Value) *object {
	if n <= 0 || n%2 == o.first || o.by[n] != nil {
		panic(malformed("a number that is not free"))
	}
	return o.add(n, v)
}

func (o *objects) remove(x *object) {
	delete(o.by, x.number)
	if o.keys[x.key] == x {
		delete(o.keys, x.key)
	}
}

// touch notes that a shared object is part of the current frame.
func (o *objects) touch(x *object) {
	if !x.touched {
		x.touched = true
		o.touched = append(o.touched, x)
	}
}

// settle notes what both sides have now of the objects of a frame, and returns them.
func (o *objects) settle(p *Peer) []*object {
	all := o.touched
	o.touched = nil
	for _, x := range all {
		x.touched = false
		x.told, _ = p.peek(x)
	}
	for _, x := range all {
		for i, r := range o.recent {
			if r == x {
				o.recent = append(o.recent[:i], o.recent[i+1:]...)
				break
			}
		}
		o.recent = append(o.recent, x)
	}
	// Nothing that is under way may refer to a number that is given up.
	o.trim(p.tests && !p.parallel && len(p.threads) == 0 && len(p.waiting) <= 1)
	return all
}

// trim stops looking at the oldest shared objects. If free is set, slices and maps lose their numbers, so that a test
// that makes many of them does not keep them all.
func (o *objects) trim(free bool) {
	weight, from := 0, len(o.recent)
	for from > 0 && len(o.recent)-from < maxRecent {
		weight += len(o.recent[from-1].told)
		if weight > maxWeight && from < len(o.recent) {
			break
		}
		from--
	}
	for _, x := range o.recent[:from] {
		if free && x.v.Kind() != reflect.Pointer {
			o.remove(x)
			o.released = append(o.released, x.number)
		}
	}
	o.recent = append([]*object(nil), o.recent[from:]...)
}

// changed reports whether an object is not what the other side has.
func (p *Peer) changed(x *object) bool {
	now, certain := p.peek(x)
	return !certain || !bytes.Equal(now, x.told)
}

// peek encodes the contents of a shared object with what it refers to by number. It is uncertain if something there has
// no number.
func (p *Peer) peek(x *object) (contents []byte, certain bool) {
	e := &encoder{p: p, peeking: true}
	e.contents(x.v)
	return e.b, !e.unknown
}

// extra returns the extra member of a frame: what has changed in shared objects that the other side has. Objects of the
// given call are looked at in any case.
func (e *encoder) extra(of []*object) []byte {
	p, list := e.p, of
	if !p.parallel && p.alone() {
		list = slices.Concat(of, p.objects.pinned, p.objects.recent)
	}
	var u []byte
	seen := map[*object]bool{}
	for _, x := range list {
		if seen[x] || !x.shared || p.objects.by[x.number] != x || !p.changed(x) {
			continue
		}
		seen[x] = true
		x.frame = e.id
		p.objects.touch(x)
		if u != nil {
			u = append(u, ',')
		}
		u = append(append(append(u, '['), digits(x.number)...), ',')
		u = append(append(u, e.part(func() { e.contents(x.v) })...), ']')
	}
	var members [][]byte
	if u != nil {
		members = append(members, append(append([]byte(`"u":[`), u...), ']'))
	}
	if r := p.objects.released; len(r) > 0 {
		list, _ := json.Marshal(r)
		members = append(members, append([]byte(`"r":`), list...))
		p.objects.released = nil
	}
	return append(append([]byte{'{'}, bytes.Join(members, []byte{','})...), '}')
}

// alone reports whether no code of this side runs beside what was asked, as far as it is known.
func (p *Peer) alone() bool {
	return p.tests || runtime.NumGoroutine() <= p.goroutines+len(p.threads)
}

// apply takes the changes of an extra member over.
func (p *Peer) apply(extra map[string]any) {
	released, _ := extra["r"].([]any)
	for _, n := range released {
		x := p.objects.by[count(n)]
		if x == nil || !x.shared || x.pinned {
			panic(malformed("a number that cannot be given up"))
		}
		p.objects.remove(x)
	}
	list, _ := extra["u"].([]any)
	for _, one := range list {
		pair := array(one, 2)
		x := p.objects.by[count(pair[0])]
		if x == nil || !x.shared {
			panic(malformed("a change of nothing that is shared"))
		}
		p.fill(x.v, pair[1], 0)
		p.objects.touch(x)
	}
}
