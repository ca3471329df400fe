package replay_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"guild"
	"guild/canon"
	"guild/replay"
)

func fromBundle(t testing.TB, bundle []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := replay.FromBundle(&b, bundle); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func toBundle(t testing.TB, trajectory []byte) []byte {
	t.Helper()
	bundle, err := replay.ToBundle(bytes.NewReader(trajectory))
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

func file(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFromBundleEvents(t *testing.T) {
	for name, want := range map[string]string{
		"bundle-timeline.json": "ReplayHeader SessionStart phase_start assistant ToolCall ToolResult ToolCall ToolResult phase_end SessionEnd",
		"bundle-steps.json":    "ReplayHeader SessionStart ToolCall ToolResult assistant ToolCall SessionEnd",
	} {
		names, faults := read(string(fromBundle(t, file(t, name))))
		if got := strings.Join(names, " "); got != want || faults != nil {
			t.Errorf("%s: %s, faults in %v, want %s", name, got, faults, want)
		}
	}
}

func TestBundleDataInTrajectory(t *testing.T) {
	var events []replay.Event
	for line, err := range replay.Read(bytes.NewReader(fromBundle(t, file(t, "bundle-timeline.json")))) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, line.Event)
	}
	if start := events[1].(replay.SessionStart); start.SessionID != "sess_42" || start.T != at {
		t.Errorf("%+v", start)
	}
	if call := events[4].(replay.ToolCall); call.ID != "tc_001" || call.Tool != "Read" || string(call.Params) != `{"path":"src/auth.rs"}` || call.T != "2026-01-13T10:00:01Z" {
		t.Errorf("%+v", call)
	}
	output := guild.Sum([]byte("fn main() {}")).String()
	if r := events[5].(replay.ToolResult); r.ID != "tc_001" || r.OutputHash != output || r.Preview != "fn main() {}" || r.StepUtility != 1 || r.LatencyMs != 45 || r.ExitCode != nil {
		t.Errorf("%+v", r)
	}
	if r := events[7].(replay.ToolResult); r.ID != "b1" || r.Preview != `{"passed":3}` || r.LatencyMs != 9000 || r.ExitCode == nil || *r.ExitCode != 0 {
		t.Errorf("%+v", r)
	}
	if end := events[9].(replay.SessionEnd); end.Status != replay.Success || end.TotalToolCalls != 2 || end.TotalLatencyMs != 12000 || end.T != "2026-01-13T10:00:12Z" {
		t.Errorf("%+v", end)
	}
}

func TestBundleRoundTrip(t *testing.T) {
	bundle := file(t, "bundle-timeline.json")
	want, err := canon.Canonical(bundle)
	if err != nil {
		t.Fatal(err)
	}
	trajectory := fromBundle(t, bundle)
	back := toBundle(t, trajectory)
	if !bytes.Equal(back, want) {
		t.Errorf("got  %s\nwant %s", back, want)
	}
	steps := toBundle(t, fromBundle(t, file(t, "bundle-steps.json")))
	for _, said := range []string{`"session_id":"sess_43"`, `"agent":"adjutant"`, `"text":"Now I edit it."`, `"output":"fn main() {}"`, `"arguments":{`, `"tool_name":"Edit"`,
		`"timestamp":"2026-01-13T10:00:03Z"`, `"t":3000`, `"version":"1.0"`, `"created_at":"2026-01-13T10:00:00Z"`} {
		if !bytes.Contains(steps, []byte(said)) {
			t.Errorf("no %s in %s", said, steps)
		}
	}
	if again := toBundle(t, fromBundle(t, steps)); !bytes.Equal(again, steps) {
		t.Errorf("got  %s\nwant %s", again, steps)
	}
}

func TestTrajectoryRoundTrip(t *testing.T) {
	ours, _ := write(t, session()...)
	for name, trajectory := range map[string][]byte{"ours": ours, "the published example": file(t, "REPLAY.example.from-REPLAY-md.jsonl")} {
		bundle := toBundle(t, trajectory)
		back := fromBundle(t, bundle)
		want, err := replay.TrajectoryHash(bytes.NewReader(trajectory))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := replay.TrajectoryHash(bytes.NewReader(back)); got != want || err != nil {
			t.Errorf("%s: %s, %v, want %s\n%s", name, got, err, want, back)
		}
		var b struct {
			Version, ID string
			CreatedAt   string `json:"created_at"`
			Metadata    struct {
				DurationSeconds *uint64 `json:"duration_seconds"`
			}
			Timeline []struct {
				T    *uint64
				Type string
				Tool string
				Data json.RawMessage
			}
		}
		if err := json.Unmarshal(bundle, &b); err != nil || b.Version != "1.0" || !strings.HasPrefix(b.ID, "replay_s") || len(b.Timeline) != 8 ||
			b.Metadata.DurationSeconds == nil || b.Timeline[3].Type != "tool_call" || b.Timeline[3].Tool == "" || b.Timeline[4].Type != "tool_result" ||
			b.Timeline[4].Tool != b.Timeline[3].Tool || b.Timeline[3].T == nil {
			t.Errorf("%s: %+v, %v", name, b, err)
		}
	}
}

func TestCallWithoutParamsMember(t *testing.T) {
	const bundle = `{"id":"replay_1","metadata":{},"receipts":{},"timeline":[{"data":{"command":"ls","call_id":"c1"},"t":0,"tool":"bash","type":"tool_call"},` +
		`{"data":{"id":"c2"},"t":1,"tool":"bash","type":"tool_call"}],"version":"1"}`
	trajectory := fromBundle(t, []byte(bundle))
	if !bytes.Contains(trajectory, []byte(`"id":"c1","params":{"command":"ls"}`)) || !bytes.Contains(trajectory, []byte(`"id":"c2","params":{}`)) {
		t.Errorf("%s", trajectory)
	}
	want, err := canon.Canonical([]byte(bundle))
	if err != nil {
		t.Fatal(err)
	}
	if back := toBundle(t, trajectory); !bytes.Equal(bytes.TrimSpace(back), want) {
		t.Errorf("came back as %s", back)
	}
}

func TestChangedBundleKept(t *testing.T) {
	ours, _ := write(t, session()...)
	changed := bytes.Replace(toBundle(t, ours), []byte(`"pr_url":null`), []byte(`"pr_url":"https://example.org/pull/1"`), 1)
	if back := toBundle(t, fromBundle(t, changed)); !bytes.Equal(back, changed) {
		t.Errorf("got  %s\nwant %s", back, changed)
	}
}

func TestInvalidBundles(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "an array": "[]", "no timeline": "{}", "null": "null", "invalid timeline": `{"timeline":{}}`, "invalid entry": `{"timeline":[1]}`,
		"invalid steps": `{"steps":"a"}`, "invalid step": `{"steps":[[]]}`, "a key twice": `{"timeline":[],"timeline":[]}`,
		"a trajectory without an end": `{"timeline":[{"data":{"event":"ReplayHeader","replay_version":1}}]}`,
		"data without an event":       `{"timeline":[{"data":{"event":"ReplayHeader","replay_version":1}},{"data":{}}]}`,
		"a call that has no form":     `{"timeline":[{"data":{"event":"ReplayHeader","replay_version":1}},{"data":{"event":"SessionStart"}},{"data":{"event":"ToolCall","id":1}}]}`,
		"null entries":                `{"timeline":[null]}`,
		"metadata too deep":           `{"timeline":[],"metadata":` + strings.Repeat("[", 126) + strings.Repeat("]", 126) + `}`,
		"an entry too long":           `{"timeline":[{"data":"` + strings.Repeat("x", replay.MaxLine) + `"}]}`,
	} {
		if _, err := replay.FromBundle(io.Discard, []byte(text)); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	if _, err := replay.FromBundle(io.Discard, []byte("{}")); !errors.Is(err, replay.ErrBundle) {
		t.Errorf("got %v", err)
	}
	if _, err := replay.ToBundle(bytes.NewReader(file(t, "REPLAY.example.from-seed003.jsonl"))); err == nil || !strings.Contains(err.Error(), "line 4") {
		t.Errorf("a faulty trajectory: %v", err)
	}
	deep := session()
	deep[3] = replay.Unknown{Name: "Deep", Raw: []byte(`{"event":"Deep","x":` + strings.Repeat("[", 125) + strings.Repeat("]", 125) + `}`)}
	text, _ := write(t, deep...)
	if _, err := replay.ToBundle(bytes.NewReader(text)); !errors.Is(err, canon.ErrDepth) {
		t.Errorf("a trajectory too deep: %v", err)
	}
}

// anything returns a random JSON value of a few levels.
func anything(r *rand.Rand, depth int) any {
	n := r.IntN(9)
	switch {
	case n == 0:
		return nil
	case n == 1:
		return r.IntN(2) == 0
	case n == 2:
		return r.Int64N(1e12) - 5e11
	case n == 3:
		return replay.Float(r.Float64()*2 - 1)
	case n < 6 || depth == 0:
		return []string{"", "x", "é漢😀", "2026-01-13T10:00:01Z", "ToolCall", "a\nb", digest}[r.IntN(7)]
	case n == 6:
		return []any{anything(r, depth-1), anything(r, depth-1)}
	}
	o := map[string]any{}
	for range r.IntN(4) {
		o[[]string{"id", "tool", "params", "input", "output", "event", "t", "data", "exit_code", "latency_ms", "output_hash", "entry", "params_from", "x"}[r.IntN(14)]] = anything(r, depth-1)
	}
	return o
}

func TestRandomBundlesRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		timeline := []map[string]any{}
		for range r.IntN(6) {
			entry := map[string]any{"t": anything(r, 0), "type": []string{"tool_call", "tool_result", "assistant", "phase_start", "SessionEnd", ""}[r.IntN(6)], "data": anything(r, 3)}
			if r.IntN(3) > 0 {
				entry["tool"] = anything(r, 0)
			}
			timeline = append(timeline, entry)
		}
		want, err := canon.Marshal(map[string]any{"version": "1.0", "id": anything(r, 0), "created_at": anything(r, 0), "metadata": anything(r, 2), "timeline": timeline,
			"receipts": anything(r, 2), "more": anything(r, 2)})
		if err != nil {
			t.Fatal(err)
		}
		if got := toBundle(t, fromBundle(t, want)); !bytes.Equal(got, want) {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
}

func TestRandomTrajectoriesRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		var text bytes.Buffer
		w := replay.NewWriter(&text)
		s := session()
		middle := s[2:7]
		put := func(e replay.Event) {
			if err := w.Write(e); err != nil {
				t.Fatal(err)
			}
		}
		put(s[0])
		put(s[1])
		for range r.IntN(8) {
			if r.IntN(2) == 0 {
				put(middle[r.IntN(len(middle))])
				continue
			}
			o, _ := anything(r, 3).(map[string]any)
			if o == nil {
				o = map[string]any{}
			}
			o["event"] = "Thought"
			raw, err := canon.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			put(replay.Unknown{Name: "Thought", Raw: raw})
		}
		put(s[7])
		want, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		back := fromBundle(t, toBundle(t, text.Bytes()))
		if got, err := replay.TrajectoryHash(bytes.NewReader(back)); got != want || err != nil || !bytes.Equal(back, text.Bytes()) {
			t.Fatalf("%v\ngot  %s\nwant %s", err, back, text.Bytes())
		}
	}
}

// FuzzFromBundle checks that every accepted bundle becomes a trajectory without faults, and that converting that back
// and forth again changes nothing.
func FuzzFromBundle(f *testing.F) {
	f.Add(file(f, "bundle-timeline.json"))
	f.Add(file(f, "bundle-steps.json"))
	ours, _ := write(f, session()...)
	f.Add(toBundle(f, ours))
	f.Add([]byte(`{"steps":[{"type":"tool_result","output":{"a":1.0},"t":-1e300}],"metadata":{"confidence":7}}`))
	f.Fuzz(func(t *testing.T, bundle []byte) {
		var b bytes.Buffer
		written, err := replay.FromBundle(&b, bundle)
		if err != nil {
			return
		}
		if h, err := replay.TrajectoryHash(bytes.NewReader(b.Bytes())); h != written || err != nil {
			t.Fatalf("%s, %v\n%s", h, err, b.Bytes())
		}
		second := toBundle(t, b.Bytes())
		if again := fromBundle(t, second); !bytes.Equal(toBundle(t, again), second) {
			t.Fatalf("%s\nbecomes %s", second, toBundle(t, again))
		}
	})
}

func ExampleFromBundle() {
	bundle := []byte(`{"session_id":"s1","metadata":{"created_at":"2026-01-13T10:00:00Z"},"steps":[{"tool":"Read","params":{"path":"a"},"t":5}]}`)
	var b bytes.Buffer
	_, err := replay.FromBundle(&b, bundle)
	fmt.Println(err)
	for line := range replay.Read(&b) {
		fmt.Println(line.Event.EventName())
	}
	// Output:
	// <nil>
	// ReplayHeader
	// SessionStart
	// ToolCall
	// SessionEnd
}

func ExampleToBundle() {
	trajectory := `{"event":"ReplayHeader","replay_version":1,"created_at":"2026-01-13T10:00:00Z"}
{"event":"SessionStart","session_id":"s1","t":"2026-01-13T10:00:00Z"}
{"event":"SessionEnd","status":"Success","t":"2026-01-13T10:00:02Z"}`
	bundle, err := replay.ToBundle(strings.NewReader(trajectory))
	var read struct {
		ID       string
		Timeline []struct {
			T    int
			Type string
		}
	}
	fmt.Println(err, json.Unmarshal(bundle, &read))
	fmt.Println(read.ID, read.Timeline)
	// Output:
	// <nil> <nil>
	// replay_s1 [{0 phase_start} {0 phase_start} {2000 phase_end}]
}
