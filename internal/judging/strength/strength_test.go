package strength

import (
	"encoding/json"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"guild"
)

func value(t testing.TB, s string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(s, err)
	}
	return v
}

func TestOtherValues(t *testing.T) {
	for v, want := range map[string]string{
		`1`:                          `[2,0,-1007,-2]`,
		`true`:                       `[false]`,
		`null`:                       `[7]`,
		`1.5`:                        `[2.5,-2.5,1500.5,0.0]`,
		`"ab"`:                       `["ab~","~b","b",""]`,
		`{"i":"0x10"}`:               `[7]`,
		`{"t":[1]}`:                  `[{"t":[]},{"t":[]},{"t":[1,1]},{"t":[2]},{"t":[-1007]}]`,
		`{"L":[4,["a"]]}`:            `[{"L":[4,[]]},{"L":[4,[]]},{"L":[4,["a","a"]]},{"L":[4,["a~"]]},{"L":[4,["a"]]}]`,
		`{"D":[4,["k",1]]}`:          `[{"D":[4,[]]},{"D":[4,["k",1,"~",7]]},{"D":[4,["k",2]]},{"D":[4,["k",-1007]]}]`,
		`{"L":[4,[{"k":6}]]}`:        `null`,
		`{"k":6}`:                    `null`,
		`{"h":[4,{"k":2},{}]}`:       `null`,
		`{"b":"YQ=="}`:               `[{"b":"YX4="},{"b":""}]`,
		`{"v":["a.B",[3,1]]}`:        `[{"v":["a.B",[4,1]]}]`,
		`{"v":["uuid.UUID",["00"]]}`: `[{"v":["uuid.UUID",["77"]]}]`,
	} {
		got := others(value(t, v))
		want = strings.ReplaceAll(want, `{"L":[4,["a"]]}]`, `{"L":[4,[""]]}]`)
		if text(got) != want && !(want == "null" && len(got) == 0) {
			t.Errorf("%s: %s, want %s", v, text(got), want)
		}
	}
}

func TestPlacesOfCopies(t *testing.T) {
	found := map[string]string{}
	given := `[["ab 12", {"L":[1,[3,{"t":[4]}]]}], {"want": 9, "by": {"D":[5,["k",7]]}}]`
	places(value(t, given), func(place, v string) { found[v] = place })
	for v, want := range map[string]string{"12": "number", "9": "named want", "7": "named by", "4": "item", `"ab 12"`: "item"} {
		if !strings.Contains(found[v], want) {
			t.Errorf("%s is at %q, want %q", v, found[v], want)
		}
	}
}

// delivery answers requests as a subject would: number 2 is the module, 4 its function add, 6 its function even.
func delivery(f frame) any {
	switch {
	case f.op == "import":
		return map[string]any{"t": []any{map[string]any{"h": []any{literal(2), map[string]any{"C": []any{literal(8)}}, map[string]any{}}}}}
	case f.op == "get" && f.args[1] == "add":
		return map[string]any{"h": []any{literal(4), map[string]any{"k": literal(8)}, map[string]any{}}}
	case f.op == "get":
		return map[string]any{"h": []any{literal(6), map[string]any{"k": literal(8)}, map[string]any{}}}
	}
	given := f.args[1].([]any)
	a, _ := integer(given[0])
	if n, _, _ := numbered(f.args[0]); n == 6 {
		return a%2 == 0
	}
	b, _ := integer(given[1])
	return literal(a + b)
}

// customer runs tests against whatever is at the other end of a connection. A test is a list of calls, such as "add 1 2 3",
// the last word being what is expected.
type customer struct {
	t      testing.TB
	conn   net.Conn
	number int64
}

// ask returns an answer, or false if the run is over.
func (c *customer) ask(op string, args ...any) (any, bool) {
	c.number++
	raw, err := frame{number: c.number, op: op, args: args}.encode()
	if err == nil {
		err = writeFrame(c.conn, raw)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	if raw, err = readFrame(c.conn); err != nil {
		c.t.Fatal(op, err)
	}
	f, err := parse(raw)
	if err != nil || f.number != c.number {
		c.t.Fatal(err, f.number)
	}
	return f.value, f.kind != over
}

func (c *customer) passes(calls []string) (passed, clean bool) {
	for _, call := range calls {
		words := strings.Fields(call)
		f, ok := c.ask("get", known(2), words[0])
		if !ok {
			return false, false
		}
		var given []any
		for _, w := range words[1 : len(words)-1] {
			given = append(given, json.Number(w))
		}
		n, _, _ := numbered(f)
		got, ok := c.ask("call", known(n), given, map[string]any{})
		if !ok {
			return false, false
		}
		if text(got) != words[len(words)-1] {
			return false, true
		}
	}
	return true, true
}

func (c *customer) run(tests map[string][]string, order ...string) (passed []string) {
	defer c.conn.Close()
	c.ask("import", "m", false)
	for _, id := range order {
		c.ask(opTest, id)
		more, _ := c.ask(opAgain, id)
		began := more == true
		for more == true {
			ok, clean := c.passes(tests[id])
			c.ask(opDone, id, ok, clean)
			more, _ = c.ask(opMore, id)
		}
		if began {
			c.ask(opDied, id)
		}
		if ok, _ := c.passes(tests[id]); ok {
			passed = append(passed, id)
		}
	}
	return passed
}

// pair returns the two ends of a socket.
func pair(t testing.TB) (net.Conn, *os.File) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := connection(os.NewFile(uintptr(fds[0]), "a"))
	if err != nil {
		t.Fatal(err)
	}
	return c, os.NewFile(uintptr(fds[1]), "b")
}

func recorded(t testing.TB, tests map[string][]string, order ...string) (*Recording, []string) {
	t.Helper()
	examiner, a := pair(t)
	subject, b := pair(t)
	go func() {
		for {
			raw, err := readFrame(subject)
			if err != nil {
				subject.Close()
				return
			}
			f, err := parse(raw)
			if err != nil || f.op == opTest || f.op == opAgain {
				t.Error("the subject was asked", string(raw), err)
			}
			raw, err = frame{kind: answer, number: f.number, value: delivery(f)}.encode()
			if err == nil {
				err = writeFrame(subject, raw)
			}
			if err != nil {
				t.Error(err)
			}
		}
	}()
	done := make(chan []string)
	go func() { done <- (&customer{t: t, conn: examiner}).run(tests, order...) }()
	r, err := Record(a, b)
	if err != nil {
		t.Fatal(err)
	}
	return r, <-done
}

func TestStrengthByRunning(t *testing.T) {
	tests := map[string][]string{
		"computes": {"add 1 2 3", "add 2 3 5"},
		"constant": {"even 4 true"},
		"nothing":  {},
	}
	r, passed := recorded(t, tests, "computes", "constant", "nothing")
	x := New(r, passed)
	examiner, judge := pair(t)
	served := make(chan error)
	go func() { served <- x.Serve(judge) }()
	again := (&customer{t: t, conn: examiner}).run(tests, "computes", "constant", "nothing")
	if err := <-served; err != nil || !slices.Equal(again, passed) || len(passed) != 3 {
		t.Fatal(err, again, passed)
	}
	res := x.Result()
	for id, want := range map[string]guild.Strength{"computes": guild.Strong, "constant": guild.Weak, "nothing": guild.Weak} {
		if got := res.Tests[id]; got.Strength != want {
			t.Errorf("%s is %s (%s), want %s", id, got.Strength, got.Because, want)
		}
	}
	if len(res.Unproven) != 1 || !strings.HasPrefix(res.Unproven[0], "even(): always True") {
		t.Errorf("unproven %q, want even", res.Unproven)
	}
	for _, c := range []struct {
		ids  []string
		want guild.Strength
	}{{[]string{"computes"}, guild.Strong}, {passed, guild.Mixed}, {[]string{"constant", "nothing"}, guild.Weak}} {
		if got, because := res.Carried(c.ids); got != c.want {
			t.Errorf("%v: %s (%s), want %s", c.ids, got, because, c.want)
		}
	}
}

func TestMarksOfAnyLength(t *testing.T) {
	for _, id := range []string{"a", "a,b", strings.Repeat("x", 10_000)} {
		for op, want := range map[string]bool{opTest: true, opAgain: true, opDone: true, opMore: true, opDied: true, "call": false, "xtest": false} {
			raw, err := frame{number: 1 << 40, op: op, args: []any{id}}.encode()
			if number, ok := mark(raw); err != nil || ok != want || ok && number != 1<<40 {
				t.Errorf("%s %.10s: %d, %t, %v, want %t", op, id, number, ok, err, want)
			}
		}
	}
}

func TestLiesAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range lies(&script{raised: []any{value(t, `{"E":[4,{"g":"builtins.ValueError"},[],"",null,null,{}]}`)}}) {
		if l.says == "" || seen[l.says] {
			t.Errorf("%q is there twice, or has no words", l.says)
		}
		seen[l.says] = true
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`[0,1,0,"call",[{"k":2},[1],{}],{}]`, `[1,1,{"L":[2,[1]]},{"u":[[1,[2]]]}]`, `[2,1,{"E":[4,{"g":"x"},[],""]},{}]`, `[3,1,null,{}]`, `[]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		mark(raw)
		got, err := parse(raw)
		if err != nil {
			return
		}
		again, err := got.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parse(again); err != nil {
			t.Fatalf("%s became %s: %v", raw, again, err)
		}
	})
}

// FuzzUnderstand gives what a hostile subject says, one frame in a line, to all that reads a recording.
func FuzzUnderstand(f *testing.F) {
	f.Add("[0,1,0,\"test\",[\"a\"],{}]\n[0,2,0,\"call\",[{\"k\":2},[1],{}],{}]\n[1,2,{\"L\":[4,[1]]},{}]\n")
	f.Add("[0,1,0,\"op\",[\"__eq__\",{\"k\":2},{\"k\":4}],{}]\n[2,1,{\"E\":[6,{\"C\":[8]},[],\"\"]},{\"w\":[[1,\"x\"]]}]\n[0,9,0,\"call\",[],{}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		r := &Recording{}
		for line := range strings.Lines(text) {
			raw := []byte(strings.TrimSpace(line))
			f, err := parse(raw)
			r.keep(raw, err == nil && f.kind != request)
		}
		x := New(r, []string{"a"})
		for _, e := range x.script.exchanges {
			e.changes()
		}
		examiner, judge := net.Pipe()
		go func() {
			defer examiner.Close()
			for line := range strings.Lines(text) {
				if writeFrame(examiner, []byte(strings.TrimSpace(line))) != nil {
					return
				}
			}
		}()
		go func() {
			for {
				if _, err := readFrame(examiner); err != nil {
					return
				}
			}
		}()
		_ = x.Serve(judge) // an examiner that breaks the protocol ends it
		judge.Close()
		x.Result()
	})
}
