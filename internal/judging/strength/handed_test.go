package strength

import "testing"

func TestSpelledAlike(t *testing.T) {
	for _, pair := range [][2]string{
		{`true`, `1`}, {`{"v":["fractions.Fraction",[8,2]]}`, `4`}, {`{"v":["decimal.Decimal",["4.50"]]}`, `4.5`},
		{`{"h":[2,{"k":4},{"d":4}]}`, `4`}, {`{"c":[4.0,0.0]}`, `4`}, {`{"s":"616e6e"}`, `"ann"`},
	} {
		if a, b := Python.spelled(value(t, pair[0])), Python.spelled(value(t, pair[1])); a != b {
			t.Errorf("%s is %s, want %s", pair[0], a, b)
		}
	}
	if a := Go.spelled(value(t, `{"Y":[3,"616263"]}`)); a != `"abc"` {
		t.Errorf("bytes are %s", a)
	}
	if a := JavaScript.spelled(value(t, `true`)); a != `true` {
		t.Errorf("true is %s in JavaScript", a)
	}
}

func TestAlike(t *testing.T) {
	for v, want := range map[string]string{
		`{"L":[2,[1,2.5,"a",false]]}`: `{"L":[2,[77,77.0,"~",true]]}`, `{"D":[2,["a",1]]}`: `{"D":[2,["a",77]]}`,
		`{"t":[1,{"P":[2,3]}]}`: `{"t":[77,{"P":[2,77]}]}`, `{"h":[2,"x",{}]}`: `{"h":[2,"x",{}]}`, `null`: `null`, `{"L":[2]}`: `{"L":[2]}`,
	} {
		if got := text(alike(value(t, v))); got != want {
			t.Errorf("%s: %s, want %s", v, got, want)
		}
	}
}

func TestLikewise(t *testing.T) {
	for _, c := range []struct{ now, then, passed, want string }{
		{`3`, `1`, `null`, `1`}, {`3`, `1`, `3`, `3`}, {`null`, `1`, `null`, `null`}, {`{"k":3}`, `1`, `null`, `{"k":3}`},
		{`[1,2,3]`, `[7,8]`, `[1,0,0]`, `[1,8,3]`}, {`{"t":["bob",5]}`, `{"t":["ann",4]}`, `{"t":["bob",0]}`, `{"t":["bob",4]}`},
	} {
		if got := text(likewise(value(t, c.now), value(t, c.then), value(t, c.passed))); got != c.want {
			t.Errorf("%s as %s, passed %s: %s, want %s", c.now, c.then, c.passed, got, c.want)
		}
	}
}

func TestAssigned(t *testing.T) {
	for _, c := range []struct{ now, passed, to, want string }{
		{`{"t":["ann",0]}`, `{"t":["",0]}`, `"bob"`, `{"t":["bob",0]}`}, {`[1,2]`, `[1,1]`, `7`, `[1,7]`}, {`true`, `false`, `7`, `true`},
	} {
		if got := text(assigned(value(t, c.now), value(t, c.passed), value(t, c.to))); got != c.want {
			t.Errorf("%s, passed %s: %s, want %s", c.now, c.passed, got, c.want)
		}
	}
}
