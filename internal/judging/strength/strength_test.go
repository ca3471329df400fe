package strength

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

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
		got := Python.others(value(t, v))
		want = strings.ReplaceAll(want, `{"L":[4,["a"]]}]`, `{"L":[4,[""]]}]`)
		if text(got) != want && !(want == "null" && len(got) == 0) {
			t.Errorf("%s: %s, want %s", v, text(got), want)
		}
	}
}

func TestPlacesOfCopies(t *testing.T) {
	found := map[string]string{}
	given := `[["ab 12", {"L":[1,[3,{"t":[4]}]]}, {"x":[7,"f","check",[null,[["v","POSITIONAL_OR_KEYWORD",[31],null]]]]}, {"X":[9,"E","e",[41]]}],
		{"want": 9, "by": {"D":[5,["k",7]]}}]`
	Python.places(value(t, given), func(place, v string) { found[v] = place })
	for v, want := range map[string]string{"12": "number", "9": "named want", "7": "named by", "4": "item", `"ab 12"`: "item", "31": "default 0", "41": "raised", `{"k":1}`: "item"} {
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
		c.apart(tests, id)
		if ok, _ := c.passes(tests[id]); ok {
			passed = append(passed, id)
		}
	}
	return passed
}

// apart runs a test in processes of its own, as often as the judge likes.
func (c *customer) apart(tests map[string][]string, id string) {
	for c.again(opAgain, id) {
		for again := true; again; again = c.again(opMore, id) {
			ok, clean := c.passes(tests[id])
			c.ask(opDone, id, ok, clean)
		}
		c.ask(opDied, id)
	}
}

// again asks whether a test shall run again.
func (c *customer) again(op, id string) bool {
	patience, _ := c.ask(op, id)
	ms, _ := integer(patience)
	return ms > 0
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
	x := New(Python, Run{Recording: r, Passed: passed})
	examiner, judge := pair(t)
	served := make(chan error)
	go func() { served <- x.Serve(byItself(judge)) }()
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

func TestSubjectEndsNoRun(t *testing.T) {
	for raw, want := range map[string]bool{
		`[0,1,1,"call",[],{}]`: true, `[1,1,null,{}]`: true, `[2,1,null,{}]`: true, ` [ 1 ,1,null,{}]`: true,
		`[3,1,null,{}]`: false, "\n[ 3 ,1,null,{}]": false, "\ufeff[3,1,null,{}]": false, `[3.0,1,null,{}]`: false, `[30e-1,1,null,{}]`: false,
	} {
		if delivered([]byte(raw)) != want {
			t.Errorf("%q: %t, want %t", raw, !want, want)
		}
	}
}

func TestLiesAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range pythonLies([]any{value(t, `{"E":[4,{"g":"builtins.ValueError"},[],"",null,null,{}]}`)}, nil) {
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
	for _, answer := range []string{`[1,2,null,{"w":[["a",{"B":[]}]]}]`, `[1,2,null,{"w":[["a",{"T":[]}]]}]`, `[1,2,null,{"u":[[2,{"L":[2]}]]}]`, `[1,2,{"L":[2,[0,1],{"k":0}]},{}]`,
		`[1,2,{"L":[2]},{}]`, `[1,2,{"B":[]},{}]`, `[1,2,{"A":5},{}]`, `[2,2,{"E":[4,{"g":"x"}]},{}]`, `[1,2,{"h":[6]},{}]`, `[1,2,{"R":["a","b"]},{}]`, `[1,2,{"Y":[2]},{}]`,
		`[1,2,0,{"u":[],"m":[],"r":[{"k":0}],"x":{"k":0},"w":[["a",{"B":[]}]],"f":[["a",{"B":5}]]}]`} {
		for _, end := range []string{"", "\n", "\n\n"} { // for each language
			f.Add("[0,1,0,\"test\",[\"a\"],{}]\n[0,2,0,\"call\",[{\"k\":2},[1],{}],{}]\n" + answer + end)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := &Recording{}
		for line := range strings.Lines(text) {
			raw := []byte(strings.TrimSpace(line))
			f, err := parse(raw)
			r.keep(raw, err == nil && f.kind != request)
		}
		x := New([]*Language{Python, JavaScript, Go}[len(text)%3], Run{Recording: r, Passed: []string{"a"}})
		for _, e := range x.scripts[0].exchanges {
			e.changes(x.scripts[0])
		}
		judge := hostileExaminer(text)
		_ = x.Serve(byItself(judge)) // an examiner that breaks the protocol ends it
		judge.Close()
		x.Result()
	})
}

// rounds runs tests as an examiner that runs all of them again and again, until the judge ends it.
func (c *customer) rounds(tests map[string][]string, shared *int, order ...string) {
	defer c.conn.Close()
	if _, ok := c.try("import", "m", false); !ok {
		return
	}
	for {
		for _, id := range order {
			if _, ok := c.try(opTest, id); !ok {
				return
			}
			passed, clean := c.passes(tests[id])
			if *shared++; id == "depends" && *shared > 2 {
				passed = false // something that ran before has left its traces
			}
			if id == "breaks" && !passed {
				*shared += 100
			}
			if _, ok := c.try(opDone, id, passed, clean); !ok {
				return
			}
		}
	}
}

// try asks, and reports false if the judge has ended the conversation.
func (c *customer) try(op string, args ...any) (any, bool) {
	c.number++
	raw, err := frame{number: c.number, op: op, args: args}.encode()
	if err != nil || writeFrame(c.conn, raw) != nil {
		return nil, false
	}
	if raw, err = readFrame(c.conn); err != nil {
		return nil, false
	}
	f, err := parse(raw)
	return f.value, err == nil
}

// byItself is an examiner that ends before its time is up.
func byItself(conn io.ReadWriter) Examiner {
	return Examiner{Conn: conn, Patience: time.Second, Gives: func(time.Duration) {}, Short: func() bool { return false }}
}

func TestStrengthInRounds(t *testing.T) {
	tests := map[string][]string{"computes": {"add 1 2 3", "add 2 3 5"}, "constant": {"even 4 true"}, "nothing": {}}
	order := []string{"computes", "constant", "nothing"}
	r, passed := recorded(t, tests, order...)
	x := New(Python, Run{Recording: r, Passed: passed})
	for processes := 0; x.Left(0) && processes < 100; processes++ {
		examiner, judge := pair(t)
		served := make(chan error)
		go func() { served <- errors.Join(x.Rounds(0, byItself(judge)), judge.Close()) }()
		(&customer{t: t, conn: examiner}).rounds(tests, new(int), order...)
		if err := <-served; err != nil {
			t.Fatal(err)
		}
	}
	res := x.Result()
	for id, want := range map[string]guild.Strength{"computes": guild.Strong, "constant": guild.Weak, "nothing": guild.Weak} {
		if got := res.Tests[id]; got.Strength != want {
			t.Errorf("%s is %s (%s), want %s", id, got.Strength, got.Because, want)
		}
	}
}

// TestInfluencedTestsAlone has a test that fails whenever another has been tried before in the same process. It must not
// be shown by that.
func TestInfluencedTestsAlone(t *testing.T) {
	tests := map[string][]string{"breaks": {"add 1 2 3", "add 2 3 5"}, "depends": {"even 4 true"}}
	r, passed := recorded(t, tests, "breaks", "depends")
	x := New(Python, Run{Recording: r, Passed: passed})
	for processes := 0; x.Left(0) && processes < 200; processes++ {
		examiner, judge := pair(t)
		served := make(chan error)
		go func() { served <- errors.Join(x.Rounds(0, byItself(judge)), judge.Close()) }()
		(&customer{t: t, conn: examiner}).rounds(tests, new(int), "breaks", "depends")
		if err := <-served; err != nil {
			t.Fatal(err)
		}
	}
	if got := x.Result().Tests["depends"]; got.Strength != guild.Weak {
		t.Errorf("depends is %s, want weak", got.Strength)
	}
}

// FuzzRounds gives what a hostile examiner says, one frame in a line, to a judge that has a recording of one test.
func FuzzRounds(f *testing.F) {
	f.Add("[0,1,0,\"test\",[\"a\"],{}]\n[0,2,0,\"done\",[\"a\",true,true],{}]\n[0,3,0,\"more\",[],{}]\n[0,4,0,\"test\",[\"a\"],{}]\n")
	f.Add("[0,1,0,\"done\",[\"a\",true],{}]\n[0,1,0,\"test\",[7],{}]\n[0,1,0,\"test\",[\"b\"],{}]\n[0,1,0,\"test\",[\"a\"],{}]\n[0,1,0,\"test\",[\"a\"],{}]\n[0,1,0,\"done\",[\"b\",false],{}]\n")
	f.Add("[0,1,0,\"more\",[],{}]\n[0,1,0,\"call\",[{\"k\":4},[1],{}],{\"s\":[[[\"int\",\"int\",[],0]],[[\"x\",\"array\",[[\"int\",\"int\",[],0]],99]]]}]\n[1,7,null,{}]\n[3,1,null,{}]\n")
	f.Add("[0,1,0,\"import\",[\"src/m.js\",false,\"esm\"],{}]\n[0,1,0,\"test\",[\"a\"],{}]\n[0,2,0,\"op\",[\"keys\",{\"k\":2}],{}]\n[0,3,0,\"get\",[{\"k\":2},\"add\"],{}]\n[0,4,0,\"new\",[{\"k\":6},[]],{}]\n[0,5,0,\"get\",[{\"k\":10},{\"y\":\"iterator\"}],{}]\n[0,6,0,\"call\",[{\"k\":12},[]],{}]\n[0,7,0,\"test\",[\"a > b\"],{}]\n[0,8,0,\"done\",[\"a\",true],{}]\n")
	f.Add("[0,1,0,\"get\",[\"x.y/q.ErrFull\",null],{\"s\":[[],[[\"error\",\"error\",[],0]]]}]\n[0,1,0,\"test\",[\"a\"],{}]\n[0,2,0,\"call\",[{\"g\":\"x.y/q.New\"},[],{}],{\"s\":[[],[[\"*q.Queue\",\"ptr\",[[\"q.Queue\",\"handle\",[],0]],0]]]}]\n[0,3,0,\"method\",[{\"k\":2},\"Pop\",[],{}],{\"s\":[[],[[\"int\",\"int\",[],0]]]}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, l := range []*Language{Python, JavaScript, Go} {
			r := &Recording{}
			for _, line := range []string{
				`[0,1,0,"test",["a"],{}]`, `[0,2,0,"call",[{"k":4},[1],{}],{"s":[[["int","int",[],0]],[["int","int",[],0]]]}]`,
				`[1,2,5,{}]`, `[0,3,0,"done",["a",true],{}]`,
			} {
				r.keep([]byte(line), strings.HasPrefix(line, "[1"))
			}
			x := New(l, Run{Recording: r, Passed: []string{"a"}})
			judge := hostileExaminer(text)
			_ = x.Rounds(0, byItself(judge)) // an examiner that breaks the protocol ends it
			judge.Close()
			x.Left(0)
			x.Result()
			v := NewVetting(l, Words{Raised: []string{"Refused"}, Exported: []string{"add"}, Objects: []string{"x.y/q.Queue"}, Errors: []string{"*x.y/q.Full"}}, "")
			judge = hostileExaminer(text)
			_ = v.Rounds(0, byItself(judge))
			judge.Close()
			v.Left(0)
			v.Result()
		}
	})
}

func TestGoValuesFit(t *testing.T) {
	for _, c := range []struct{ types, zero, others string }{
		{`[["uint8","uint8",[],0]]`, `0`, `[6,4]`},
		{`[["int","int",[],0],["error","error",[],0]]`, `{"t":[0,null]}`, `[{"t":[6,null]},{"t":[4,null]},{"t":[-5007,null]},{"t":[-6,null]},{"t":[5,{"E":[0,"error",null,"~",[],[]]}]}]`},
		{`[["task.P","struct",[["int","int",[],0],["string","string",[],0]],0]]`, `{"t":[0,""]}`, ``},
		{`[["[2]bool","array",[["bool","bool",[],0]],2]]`, `{"t":[false,false]}`, ``},
		{`[["func()","func",[],0],["complex128","complex128",[],0]]`, `{"t":[null,{"c":[0.0,0.0]}]}`, ``},
		{`[["any","interface",[],0],["[100]byte","?",[],0]]`, `{"t":[null,null]}`, ``},
		{`[["task.T","handle",[],0]]`, ``, ``},
		{`[]`, `null`, ``},
	} {
		types := results(frame{extra: map[string]any{"s": []any{[]any{}, value(t, c.types)}}})
		v, ok := answers(types, zero)
		if got := text(v); ok != (c.zero != "") || ok && got != c.zero {
			t.Errorf("%s: %s, %t, want %s", c.types, got, ok, c.zero)
		}
		if c.others == "" {
			continue
		}
		of := any(json.Number("5"))
		if len(types) > 1 {
			of = map[string]any{"t": []any{of, nil}}
		}
		if got := text(otherResults(types, of)); got != c.others {
			t.Errorf("%s: others %s, want %s", c.types, got, c.others)
		}
	}
}

// hostileExaminer returns the judge's end of a connection on which somebody sends these lines as frames, and ignores what
// comes back.
func hostileExaminer(text string) net.Conn {
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
	return judge
}
