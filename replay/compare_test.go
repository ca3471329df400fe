package replay_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"guild"
	"guild/replay"
)

// calls returns a session of calls. Each is given as "tool params output".
func calls(all ...string) replay.Session {
	var events []replay.Event
	for i, text := range all {
		part := strings.Fields(text)
		id := fmt.Sprint("tc_", i)
		events = append(events, replay.ToolCall{ID: id, Tool: part[0], Params: json.RawMessage(`{"x":"` + part[1] + `"}`)},
			replay.ToolResult{ID: id, OutputHash: guild.Sum([]byte(part[2])).String(), LatencyMs: int64(i)})
	}
	return replay.Collect(events)
}

func TestCompareAlignment(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b []string
		want string
	}{
		{"nothing", nil, nil, ""},
		{"the same", []string{"read a 1", "edit a 2"}, []string{"read a 1", "edit a 2"}, "same, same"},
		{"another output", []string{"read a 1"}, []string{"read a 2"}, "other output"},
		{"other params", []string{"read a 1", "edit a 1"}, []string{"read b 1", "edit a 1"}, "other params, same"},
		{"one more", []string{"read a 1"}, []string{"plan x 1", "read a 1", "test x 1"}, "only B, same, only B"},
		{"one less", []string{"read a 1", "plan x 1", "test x 1"}, []string{"read a 1", "test x 1"}, "same, only A, same"},
		{"another tool", []string{"read a 1"}, []string{"grep a 1"}, "only A, only B"},
		{"all gone", []string{"read a 1", "read b 1"}, nil, "only A, only A"},
		{"the same again and again", []string{"test x 1", "test x 1", "test x 2"}, []string{"test x 1", "test x 2"}, "same, only A, same"},
		{"turned around", []string{"a 1 1", "b 1 1", "c 1 1"}, []string{"c 1 1", "a 1 1", "b 1 1"}, "only B, same, same, only A"},
		{"tools between", []string{"x 1 1", "read a 1", "edit a 1", "y 1 1"}, []string{"x 1 1", "read b 1", "grep q 1", "edit b 1", "y 1 1"},
			"same, other params, only B, other params, same"},
	} {
		d := replay.Compare(calls(c.a...), calls(c.b...))
		var got []string
		for _, p := range d.Pairs {
			got = append(got, string(p.Relation))
		}
		if all := strings.Join(got, ", "); all != c.want || d.Same() != (strings.Trim(c.want, "same, ") == "") {
			t.Errorf("%s: %s, same %v, want %s", c.name, all, d.Same(), c.want)
		}
	}
}

func TestCompareSessionEnds(t *testing.T) {
	end := func(change func(e []replay.Event)) replay.Session {
		e := session()
		change(e)
		return replay.Collect(e)
	}
	a := end(func([]replay.Event) {})
	for name, c := range map[string]struct {
		change func(e []replay.Event)
		want   replay.Difference
	}{
		"other times": {func(e []replay.Event) {
			e[7] = replay.SessionEnd{Status: replay.Success, T: "2027-01-01T00:00:00Z", Confidence: 0.1, TotalLatencyMs: 9}
		}, replay.Difference{}},
		"another end":   {func(e []replay.Event) { e[7] = replay.SessionEnd{Status: replay.Failed} }, replay.Difference{Status: true}},
		"another check": {func(e []replay.Event) { e[6] = replay.Verification{Commands: []string{"pytest"}, ExitCodes: []int{1}} }, replay.Difference{Checks: true}},
		"another step":  {func(e []replay.Event) { e[5] = replay.StepComplete{StepID: "step-1", Status: replay.Skipped} }, replay.Difference{Steps: true}},
	} {
		d := replay.Compare(a, end(c.change))
		if d.Status != c.want.Status || d.Checks != c.want.Checks || d.Steps != c.want.Steps || d.Same() != (name == "other times") {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestCollect(t *testing.T) {
	events := append(session(), replay.Unknown{Name: "Thought"}, replay.ToolResult{ID: "lost", LatencyMs: 5}, replay.ToolCall{ID: "tc_1", Tool: "again", ParamsHash: "said"})
	events[7] = replay.SessionEnd{Status: replay.Success, T: "2026-01-13T10:01:00Z"}
	s := replay.Collect(events)
	if len(s.Calls) != 3 || s.Calls[0].Result == nil || s.Calls[2].Result != nil || s.Calls[2].ParamsHash != "said" || s.Latency() != 50 || s.Duration() != time.Minute || s.Others["Thought"] != 1 {
		t.Errorf("%+v", s)
	}
	if d := replay.Compare(s, replay.Session{}); len(d.Pairs) != 3 || d.Same() {
		t.Errorf("%+v", d)
	}
}

// Sessions too long for the table must be aligned quickly, too.
func TestLongSessionsAreAligned(t *testing.T) {
	var a, b []string
	for i := range 5000 {
		a = append(a, fmt.Sprintf("read %d 1", i))
		if i%10 != 0 {
			b = append(b, fmt.Sprintf("read %d 1", i))
		}
	}
	count := map[replay.Relation]int{}
	for _, p := range replay.Compare(calls(a...), calls(b...)).Pairs {
		count[p.Relation]++
	}
	if count[replay.Same] != 4500 || count[replay.OnlyA] != 500 || len(count) != 2 {
		t.Errorf("%v", count)
	}
	same := make([]string, 5000)
	for i := range same {
		same[i] = "poll x 1"
	}
	if d := replay.Compare(calls(append(same, "a 1 1")...), calls(append([]string{"b 1 1"}, same...)...)); len(d.Pairs) < 5000 {
		t.Errorf("%d pairs", len(d.Pairs))
	}
}

// FuzzCompare checks that every call is in exactly one pair, in order, and that swapping the sessions swaps the pairs.
func FuzzCompare(f *testing.F) {
	f.Add("abcabba", "cbabac")
	f.Add("", "xyz")
	f.Fuzz(func(t *testing.T, x, y string) {
		a, b := letters(x), letters(y)
		i, j, same := 0, 0, 0
		for _, p := range replay.Compare(a, b).Pairs {
			if p.A != nil {
				if p.A != &a.Calls[i] {
					t.Fatal("A is out of order")
				}
				i++
			}
			if p.B != nil {
				if p.B != &b.Calls[j] {
					t.Fatal("B is out of order")
				}
				j++
			}
			if p.Relation == replay.Same {
				same++
			}
		}
		if i != len(a.Calls) || j != len(b.Calls) || x == y && same != len(x) {
			t.Fatalf("%d of %d, %d of %d, %d the same", i, len(a.Calls), j, len(b.Calls), same)
		}
		back := 0
		for _, p := range replay.Compare(b, a).Pairs {
			if p.Relation == replay.Same {
				back++
			}
		}
		if back != same {
			t.Fatalf("%d the same, %d the other way round", same, back)
		}
	})
}

// letters returns a session with one call per byte. The upper bits are the tool, all bits the params.
func letters(text string) replay.Session {
	var s replay.Session
	for i := range len(text) {
		s.Calls = append(s.Calls, replay.Call{ToolCall: replay.ToolCall{Tool: fmt.Sprint(text[i] >> 2), ParamsHash: fmt.Sprint(text[i])}})
	}
	return s
}

func BenchmarkCompare(b *testing.B) {
	var x, y []string
	for i := range 300 {
		x = append(x, fmt.Sprintf("t%d %d 1", i%7, i))
		y = append(y, fmt.Sprintf("t%d %d 1", i%5, i))
	}
	s, o := calls(x...), calls(y...)
	b.ReportAllocs()
	for b.Loop() {
		replay.Compare(s, o)
	}
}

func ExampleCompare() {
	a, b := calls("read a 1", "test x failed"), calls("read a 1", "edit a 1", "test x passed")
	for _, p := range replay.Compare(a, b).Pairs {
		fmt.Println(p.Relation)
	}
	// Output:
	// same
	// only B
	// other output
}

func ExampleRedact() {
	e, err := replay.Redact(replay.ToolCall{Tool: "http", Params: json.RawMessage(`{"tokens_in":12,"headers":{"Authorization":"Bearer x"}}`)})
	fmt.Println(string(e.(replay.ToolCall).Params), err)
	// Output:
	// {"tokens_in":12,"headers":{"Authorization":"[redacted:authorization]"}} <nil>
}

func ExampleRedactText() {
	fmt.Println(replay.RedactText("curl -u bob:hunter2 'https://example.org?access_token=abc&page=2'"))
	fmt.Println(replay.RedactText("total_tokens=46, the author's keyboard, sha256:00"))
	// Output:
	// curl -u bob:[redacted:password] 'https://example.org?access_token=[redacted:token]&page=2'
	// total_tokens=46, the author's keyboard, sha256:00
}

func TestLatencySumOverflow(t *testing.T) {
	result := replay.ToolResult{LatencyMs: math.MaxInt64}
	s := replay.Collect([]replay.Event{result, result, result})
	if got := s.Latency(); got != 3*replay.MaxMs {
		t.Errorf("%d ms", got)
	}
}
