package gowire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"runtime"
	"sync"
	"testing"
)

// pair returns two connected ends, and fails the test if either breaks the protocol.
func pair(t *testing.T) (tests, delivery *Peer) {
	t.Helper()
	a, b := net.Pipe()
	end := func(side string) func(string) {
		return func(why string) {
			a.Close() // or the other side waits
			if why != "the connection was closed" {
				t.Errorf("%s: %s", side, why)
			}
		}
	}
	tests, delivery = NewPeer(a, true, "none", end("tests")), NewPeer(b, false, "none", end("delivery"))
	delivery.goroutines = 1 << 20
	go tests.Read(a)
	go delivery.Read(b)
	t.Cleanup(func() { a.Close() })
	return tests, delivery
}

var errBase = errors.New("base")

func TestSentinelKeepsIdentity(t *testing.T) {
	tests, delivery := pair(t)
	delivery.AddOffer("p.ErrBase", &errBase)
	delivery.AddOffer("p.Fail", func() error { return errors.Join(errBase, errors.New("more")) })
	delivery.AddOffer("p.Is", func(err error) bool { return errors.Is(err, errBase) })
	base := tests.Sentinel("p.ErrBase")
	var err error
	tests.Call("p.Fail", nil, []any{&err})
	if !errors.Is(err, base) || err.Error() != "base\nmore" {
		t.Error(err)
	}
	var is bool
	tests.Call("p.Is", []any{&err}, []any{&is})
	if !is {
		t.Error("the delivery does not know its own error")
	}
	tests.Call("p.Is", []any{&base}, []any{&is})
	if !is {
		t.Error("the delivery does not know its sentinel")
	}
}

func TestSentinelsAreKnownAtOnce(t *testing.T) {
	tests, delivery := pair(t)
	all := make([]error, 200)
	for i := range all {
		all[i] = errors.New("mine")
		name := fmt.Sprint("p.Err", i)
		delivery.AddOffer(name, &all[i])
		delivery.AddOffer("p.Is", func(err error) bool { return err == all[i] })
		var is bool
		mine := tests.Sentinel(name)
		tests.Call("p.Is", []any{&mine}, []any{&is})
		if !is {
			t.Error("the delivery does not know ", name)
		}
	}
}

type point struct{ X, Y int }

func (p *point) Move(n int) { p.X += n }

func TestChangesTravelBack(t *testing.T) {
	tests, delivery := pair(t)
	for _, p := range []*Peer{tests, delivery} {
		p.AddType(reflect.TypeFor[point](), "p.Point", false)
	}
	var kept *point
	delivery.AddOffer("p.Sort", func(xs []int) { xs[0], xs[1] = xs[1], xs[0] })
	delivery.AddOffer("p.Put", func(m map[string]*point) { m["a"] = &point{1, 2}; delete(m, "b") })
	delivery.AddOffer("p.Keep", func(p *point) { kept = p })
	delivery.AddOffer("p.Change", func() { kept.Y = 7 })
	delivery.AddOffer("p.Kept", func() point { return *kept })
	xs := []int{1, 2}
	tests.Call("p.Sort", []any{&xs}, nil)
	m := map[string]*point{"b": {}}
	tests.Call("p.Put", []any{&m}, nil)
	if xs[0] != 2 || len(m) != 1 || *m["a"] != (point{1, 2}) {
		t.Error(xs, m)
	}
	p := &point{3, 4}
	tests.Call("p.Keep", []any{&p}, nil)
	tests.Call("p.Change", nil, nil)
	tests.Method(&p, "Move", false, []any{new(int)}, nil)
	if *p != (point{3, 7}) {
		t.Error(*p)
	}
	p.X = 9
	var got point
	tests.Call("p.Kept", nil, []any{&got})
	if got != *p || kept == p {
		t.Error(got)
	}
}

func TestMarksAreAnswered(t *testing.T) {
	ours, judge := net.Pipe()
	p := NewPeer(ours, true, "none", func(string) {})
	go p.Read(ours)
	got := make(chan string, 2)
	go func() {
		for range 2 {
			var head [4]byte
			if _, err := io.ReadFull(judge, head[:]); err != nil {
				t.Error(err)
			}
			b := make([]byte, binary.BigEndian.Uint32(head[:]))
			if _, err := io.ReadFull(judge, b); err != nil {
				t.Error(err)
			}
			got <- string(b)
			one, err := parse(b)
			if err != nil {
				t.Error(err)
			}
			if _, err := judge.Write(frames(fmt.Sprintf(`[1,%d,null,{}]`, one.number))); err != nil {
				t.Error(err)
			}
		}
	}()
	p.mark("test", "a.TestX", "")
	p.mark("done", "a.TestX", ",true")
	for _, want := range []string{`[0,1,1,"test",["a.TestX"],{}]`, `[0,2,2,"done",["a.TestX",true],{}]`} {
		if text := <-got; text != want {
			t.Errorf("%s, want %s", text, want)
		}
	}
}

func TestAskingOnAndOnEnds(t *testing.T) {
	ours, judge := net.Pipe()
	ended := make(chan string, 1)
	p := NewPeer(ours, true, "none", func(why string) { ended <- why })
	go p.Read(ours)
	go func() {
		for {
			p.mark("call", "more", "") // nobody answers, so nothing says when to end
		}
	}()
	var head [4]byte
	if _, err := io.ReadFull(judge, head[:]); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, judge, int64(binary.BigEndian.Uint32(head[:]))); err != nil {
		t.Fatal(err)
	}
	if _, err := judge.Write(frames(`[3,1,null,{}]`)); err != nil {
		t.Fatal(err)
	}
	if why := <-ended; why != "the test asks on and on" {
		t.Error(why)
	}
}

func TestCallbackMayEndItsGoroutine(t *testing.T) {
	tests, delivery := pair(t)
	cleaned := make(chan bool, 1)
	delivery.AddOffer("p.Each", func(f func(int)) {
		defer func() { cleaned <- true }()
		f(1)
		t.Error("the delivery went on")
	})
	ended := make(chan bool)
	go func() {
		defer close(ended)
		f := func(int) { runtime.Goexit() }
		tests.Call("p.Each", []any{&f}, nil)
		t.Error("the test went on")
	}()
	<-ended
	<-cleaned
	var n int
	delivery.AddOffer("p.Two", func() int { return 2 })
	tests.Call("p.Two", nil, []any{&n})
	if n != 2 {
		t.Error(n)
	}
}

func TestThreadsDoNotMix(t *testing.T) {
	tests, delivery := pair(t)
	delivery.AddOffer("p.Twice", func(f func(int) int, n int) int { return f(n) + f(n) })
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			f, got := func(n int) int { return n * 10 }, 0
			tests.Call("p.Twice", []any{&f, &i}, []any{&got})
			if got != 20*i {
				t.Errorf("%d: %d", i, got)
			}
		})
	}
	all.Wait()
}

func TestPanicKeepsItsValue(t *testing.T) {
	tests, delivery := pair(t)
	delivery.AddOffer("p.Panic", func(v any) { panic(v) })
	mine := errors.New("mine")
	for _, v := range []any{"text", 3, mine} {
		func() {
			defer func() {
				if got := recover(); got != v {
					t.Errorf("%v, want %v", got, v)
				}
			}()
			tests.Call("p.Panic", []any{&v}, nil)
		}()
	}
}

func TestManySlicesAreForgotten(t *testing.T) {
	tests, delivery := pair(t)
	delivery.AddOffer("p.Sum", func(xs []int) (n int) {
		for _, x := range xs {
			n += x
		}
		return n
	})
	for i := range 500 {
		xs, got := []int{i, i}, 0
		tests.Call("p.Sum", []any{&xs}, []any{&got})
		if got != 2*i {
			t.Fatal(got)
		}
	}
	if n := len(delivery.objects.by); n > 2*maxRecent {
		t.Errorf("%d slices are kept", n)
	}
}
