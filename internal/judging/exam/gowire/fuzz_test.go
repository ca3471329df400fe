package gowire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
)

type shape interface{ Area() float64 }

type proxy struct{ GuildHandle Handle }

func (proxy) Area() float64 { return 0 }

type square struct{ side float64 }

func (s square) Area() float64 { return s.side }

type kept struct{ n int }

func (k *kept) Add(n int) *kept { k.n += n; return k }

type stub struct {
	_           [0]func()
	GuildHandle Handle
}

// prepare gives both sides the same declarations.
func prepare(p *Peer) {
	p.AddType(reflect.TypeFor[point](), "p.Point", false)
	p.AddInterface(reflect.TypeFor[shape](), func(h Handle) any { return proxy{h} })
	if p.tests {
		p.AddType(reflect.TypeFor[stub](), "p.Kept", true)
		return
	}
	p.AddType(reflect.TypeFor[kept](), "p.Kept", true)
	p.AddOffer("p.ErrBase", &errBase)
	p.AddOffer("p.N", new(int))
	p.AddOffer("p.New", func() *kept { return &kept{} })
	p.AddOffer("p.Sum", func(k *kept, xs []int, m map[string]point, f func(int) int, s shape, v any, err error) (any, error) {
		xs[0] += len(m) + f(1)
		return []any{v, s.Area(), k.n}, err
	})
}

// frames splits text into frames, one for each line.
func frames(text string) []byte {
	var b []byte
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(line))), line...)
	}
	return b
}

// hear has a peer read what the other side sends, and end. In a bubble the test ends only if all goroutines of the peer do.
func hear(t *testing.T, p *Peer, data []byte) {
	if why := p.read(bufio.NewReader(bytes.NewReader(data))); why == "" {
		t.Error("no reason")
	}
	p.close(gone)
}

func FuzzHostileTests(f *testing.F) {
	f.Add(frames(`[0,1,1,"call",[{"g":"p.New"},[],{}],{}]` + "\n" + `[0,2,2,"get",["p.ErrBase",null],{}]`))
	f.Add(frames(`[0,1,1,"get",["p.N",1],{}]` + "\n" + `[0,2,2,"get",["p.N",3],{"u":[[1,7]]}]`))
	f.Add(frames(`[0,1,1,"method",[{"T":["*p.Kept",{"h":[1,"p.Kept",{}]}]},"Add",[{"i":"0x7fffffffffffffff"}],{}],{}]`))
	f.Add(frames(`[0,1,1,"op",["Is",{"E":[1,"wrap",null,"x",[{"g":"io.EOF"}],["io.EOF"]]},[null]],{"r":[1]}]`))
	f.Add(frames(`[0,1,1,"call",[{"g":"p.Sum"},[{"h":[1,"p.Kept",{}]},{"L":[3,[1]]},{"D":[5,["a",{"t":[1,2]}]]},{"x":[7,"f"]},{"x":[9,"o"]},{"T":["map[string]any",{"D":[11,[]]}]},null],{}],{}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		synctest.Test(t, func(t *testing.T) {
			p := NewPeer(io.Discard, false, "none", func(string) {})
			prepare(p)
			p.goroutines = 1 << 20
			hear(t, p, data)
		})
	})
}

func FuzzHostileDelivery(f *testing.F) {
	f.Add(frames(`[1,1,{"t":[{"T":["[]any",{"L":[2,[1,2.5]]}]},{"E":[4,"join",null,"x",[null],[]]}]},{"u":[[1,[5]]]}]`))
	f.Add(frames(`[2,1,{"E":[2,"runtime.Error",null,"index",[],[]]},{}]`))
	f.Add(frames(`[0,1,1,"call",[{"k":5},[1],{}],{}]` + "\n" + `[0,2,1,"method",[{"k":7},"Area",[],{}],{}]` + "\n" + `[0,3,-1,"call",[{"k":5},[1],{}],{}]`))
	f.Add(frames(`[1,1,{"t":[{"h":[2,"",{}]},{"k":9}]},{}]`))
	f.Add(frames(`[3,1,null,{}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		synctest.Test(t, func(t *testing.T) {
			p := NewPeer(io.Discard, true, "none", func(string) {})
			prepare(p)
			go func() {
				defer func() { _ = recover() }()
				k, xs, m := &stub{}, []int{1}, map[string]point{"a": {1, 2}}
				double, s := func(n int) int { return 2 * n }, shape(square{2})
				v, err := any("text"), errors.New("mine")
				var got any
				var failed error
				p.Call("p.Sum", []any{&k, &xs, &m, &double, &s, &v, &err}, []any{&got, &failed})
				if failed != nil {
					_ = failed.Error()
				}
			}()
			synctest.Wait()
			hear(t, p, data)
		})
	})
}

func FuzzTravel(f *testing.F) {
	f.Add("a\xff", int64(-1<<63), uint64(1<<63), 1e300, true)
	f.Fuzz(func(t *testing.T, s string, i int64, u uint64, x float64, b bool) {
		tests, delivery := pair(t)
		delivery.AddOffer("p.Same", func(v any, m map[string][]any) (any, map[string][]any) { return v, m })
		v, m := any([]any{s, i, u, x, b, nil, []byte(s)}), map[string][]any{s: {i, s}}
		if x != x {
			v = any(s)
		}
		var w any
		var n map[string][]any
		tests.Call("p.Same", []any{&v, &m}, []any{&w, &n})
		if !reflect.DeepEqual(v, w) || !reflect.DeepEqual(m, n) {
			t.Errorf("%#v came back as %#v, %#v as %#v", v, w, m, n)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`[1,1,{"t":["\"[",1.5]},{}]`))
	f.Add([]byte(`[0,1,1,"call",[],{}]`))
	f.Add(bytes.Repeat([]byte("["), 1000))
	f.Fuzz(func(t *testing.T, b []byte) {
		one, err := parse(b)
		if err == nil && (one.kind < request || one.kind > over || one.extra == nil) {
			t.Errorf("%+v", one)
		}
	})
}
