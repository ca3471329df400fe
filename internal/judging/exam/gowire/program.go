package gowire

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"slices"
	"sync"
)

// Descriptors of both programs.
const (
	resultsFD = 3
	channelFD = 4
)

// results is kept open: the descriptor of a file that is no longer used is closed.
var results = sync.OnceValue(func() *os.File { return os.NewFile(resultsFD, "results") })

// channel connects the two programs.
var channel = sync.OnceValue(func() *os.File { return os.NewFile(channelFD, "channel") })

// program is the peer of the running program. Generated code of several packages shares it. The tests ask while their
// packages are initialised; the delivery answers only when all of it is there.
var program = sync.OnceValue(func() *Peer {
	p := NewPeer(channel(), testSide, modulePath, ended)
	p.goroutines = runtime.NumGoroutine() + 1
	p.typed = testSide && os.Getenv("GUILD_MARKS") == "1"
	if testSide {
		go p.Read(channel())
	}
	return p
})

// ended ends the program when nothing can be asked any more. A test could catch a panic.
func ended(why string) {
	if testSide {
		report(map[string]any{"kind": "closed", "message": why})
		os.Exit(86)
	}
	if why != gone {
		fmt.Fprintln(os.Stderr, why)
		os.Exit(1)
	}
	os.Exit(0)
}

var reporting sync.Mutex

// report writes one line of the results.
func report(record map[string]any) {
	reporting.Lock()
	defer reporting.Unlock()
	b, _ := json.Marshal(record)
	_, _ = results().Write(append(b, '\n'))
}

// Type registers a type of the delivery's that travels by its name. The values of a handle stay with the delivery.
func Type[T any](name string, handle bool) { program().AddType(reflect.TypeFor[T](), name, handle) }

// Interface registers how to make what stands for one of the other side's values of the interface T.
func Interface[T any](make func(Handle) any) { program().AddInterface(reflect.TypeFor[T](), make) }

// Offer registers a function, or a pointer to a variable, that the tests may ask for.
func Offer(name string, v any) { program().AddOffer(name, v) }

// Variable fills a variable of a stub, and connects it with the delivery's.
func Variable(name string, v any) { program().Variable(name, v) }

// Sentinel returns a package variable of type error.
func Sentinel(name string) error { return program().Sentinel(name) }

// Call calls a function of the delivery's. The arguments and results are pointers to variables.
func Call(name string, ins, outs []any) {
	p := program()
	if _, counts := p.claims(name[max(0, lastDot(name)+1):], 4); counts {
		p.count()
	}
	p.Call(name, ins, outs)
}

func lastDot(s string) int {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '.' {
			return i
		}
	}
	return -1
}

// Method calls a method. The receiver, the arguments and the results are pointers to variables.
func Method(receiver any, name string, ins, outs []any) {
	p := program()
	claim, counts := p.claims(name, 4)
	if counts || !claim && p.predicate(receiver, outs) {
		p.count()
	}
	p.Method(receiver, name, claim, ins, outs)
}

// Serve answers the tests' requests until they end. All that they may ask for must be registered.
func Serve() {
	go program().Read(channel())
	select {}
}

// AddType registers a type by its name.
func (p *Peer) AddType(t reflect.Type, name string, handle bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.types[name], p.names[t] = t, name
	if handle {
		p.handles[t] = true
	}
}

// AddInterface registers how to make what stands for one of the other side's values of an interface.
func (p *Peer) AddInterface(t reflect.Type, make func(Handle) any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proxies[t] = make
}

// AddOffer registers a function, or a pointer to a variable, that the tests may ask for.
func (p *Peer) AddOffer(name string, v any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.offered[name] = reflect.ValueOf(v)
}

// Variable fills a variable with the delivery's, and connects the two.
func (p *Peer) Variable(name string, variable any) {
	v := reflect.ValueOf(variable)
	p.call("get", nil, []reflect.Value{v.Elem()}, func(e *encoder) []byte {
		x := e.number(v)
		x.shared, x.pinned = true, true
		p.objects.pinned = append(p.objects.pinned, x)
		return fmt.Appendf(nil, "[%s,%d]", e.part(func() { e.text(name) }), x.number)
	})
	p.locked(func() { p.objects.touch(p.objects.find(v)); p.objects.settle(p) })
}

// Sentinel returns a package variable of type error, which errors.Is finds on both sides.
func (p *Peer) Sentinel(name string) error {
	var err error
	p.call("get", nil, []reflect.Value{reflect.ValueOf(&err).Elem()}, func(e *encoder) []byte {
		return fmt.Appendf(nil, "[%s,null]", e.part(func() { e.text(name) }))
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.know(name, err)
	return err
}

// variables returns what pointers point to.
func variables(pointers []any) []reflect.Value {
	var all []reflect.Value
	for _, v := range pointers {
		all = append(all, reflect.ValueOf(v).Elem())
	}
	return all
}

// Call calls a function of the delivery's.
func (p *Peer) Call(name string, ins, outs []any) {
	p.call("call", variables(ins), variables(outs), func(e *encoder) []byte {
		return fmt.Appendf(nil, `[{"g":%s},%s,{}]`, e.part(func() { e.text(name) }), e.values(variables(ins)))
	})
}

// Method calls a method. A claim is asked for as an operator.
func (p *Peer) Method(receiver any, name string, claim bool, ins, outs []any) {
	r := reflect.New(anyType).Elem()
	r.Set(reflect.ValueOf(receiver).Elem())
	op := "method"
	if claim {
		op = "op"
	}
	p.call(op, variables(ins), variables(outs), func(e *encoder) []byte {
		o := e.part(func() { e.dynamicReceiver(reflect.ValueOf(receiver).Elem(), r) })
		if claim {
			return fmt.Appendf(nil, `[%q,%s,%s]`, name, o, e.values(variables(ins)))
		}
		return fmt.Appendf(nil, `[%s,%q,%s,{}]`, o, name, e.values(variables(ins)))
	})
}

// dynamicReceiver writes a receiver with its type. A handle that is a variable keeps the number that it gets.
func (e *encoder) dynamicReceiver(v, boxed reflect.Value) {
	if v.Kind() == reflect.Struct && e.p.handles[v.Type()] {
		e.write(`{"T":["` + e.p.names[v.Type()] + `",`)
		e.put(v)
		e.write("]}")
		return
	}
	e.dynamic(boxed)
}

// predicate reports whether a method of an object that the delivery keeps says yes or no.
func (p *Peer) predicate(receiver any, outs []any) bool {
	if len(outs) != 1 || reflect.TypeOf(outs[0]).Elem().Kind() != reflect.Bool {
		return false
	}
	t := reflect.TypeOf(receiver).Elem()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return false
	}
	return slices.ContainsFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.Name == "GuildHandle" })
}

func (p *Peer) count() {
	p.mu.Lock()
	p.decided++
	p.mu.Unlock()
}

// Decided returns how many decisions were the delivery's so far.
func (p *Peer) Decided() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.decided
}
