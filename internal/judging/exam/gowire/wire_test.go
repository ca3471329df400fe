package gowire

import (
	"errors"
	"net"
	"reflect"
	"testing"
)

// pair returns two connected ends, and fails the test if either breaks the protocol.
func pair(t *testing.T) (tests, delivery *Peer) {
	t.Helper()
	a, b := net.Pipe()
	end := func(side string) func(string) {
		return func(why string) {
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
