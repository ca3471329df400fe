package replay_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"guild"
	"guild/canon"
	"guild/replay"
)

const at = "2026-01-13T10:00:00Z"

var digest = guild.Sum([]byte("x")).String()

// session returns one event of every type, in order.
func session() []replay.Event {
	issue, exit := int64(42), 0
	return []replay.Event{
		replay.ReplayHeader{Version: 1, Producer: "guild@1.0.0", CreatedAt: at},
		replay.SessionStart{SessionID: "s1", IssueNumber: &issue, PolicyBundleID: "p1", T: at},
		replay.PlanStart{PlanHash: digest, StepCount: 1, T: at},
		replay.ToolCall{ID: "tc_1", Tool: "publish", Params: json.RawMessage(`{"b":1,"a":2}`), StepID: "step-1", T: at},
		replay.ToolResult{ID: "tc_1", OutputHash: digest, Preview: "ok", ExitCode: &exit, StepUtility: 1, LatencyMs: 45, T: at},
		replay.StepComplete{StepID: "step-1", Status: replay.Success, Iterations: 1, T: at},
		replay.Verification{Commands: []string{"pytest"}, ExitCodes: []int{0}, Delta: 3, T: at},
		replay.SessionEnd{Status: replay.Success, Confidence: 0.92, TotalToolCalls: 1, TotalLatencyMs: 45, T: at},
	}
}

func write(t testing.TB, events ...replay.Event) ([]byte, guild.Hash) {
	t.Helper()
	var b bytes.Buffer
	w := replay.NewWriter(&b)
	for _, e := range events {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	h, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), h
}

func TestWriteReadRoundTrip(t *testing.T) {
	want := session()
	text, _ := write(t, want...)
	call := want[3].(replay.ToolCall)
	call.Params = json.RawMessage(`{"a":2,"b":1}`)
	h, err := canon.Hash(call.Params)
	if err != nil {
		t.Fatal(err)
	}
	call.ParamsHash = h.String()
	want[3] = call
	var got []replay.Event
	for line, err := range replay.Read(bytes.NewReader(text)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, line.Event)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestLinesAreCanonical(t *testing.T) {
	text, _ := write(t, session()...)
	for line := range bytes.Lines(text) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if c, err := canon.Canonical(line); err != nil || !bytes.Equal(c, line) {
			t.Errorf("%s is not canonical: %v", line, err)
		}
	}
	if want := `"step_utility":1.0`; !bytes.Contains(text, []byte(want)) {
		t.Errorf("no %s in %s", want, text)
	}
}

func TestTrajectoryHash(t *testing.T) {
	text, written := write(t, session()...)
	array := "[" + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", ",") + "]"
	want, err := canon.Hash([]byte(array))
	if err != nil {
		t.Fatal(err)
	}
	read, err := replay.TrajectoryHash(bytes.NewReader(text))
	if written != want || read != want || err != nil {
		t.Errorf("written %s, read %s, %v, want %s", written, read, err, want)
	}
}

func TestTrajectoryHashIgnoresSpelling(t *testing.T) {
	text, want := write(t, session()...)
	var loose bytes.Buffer
	for line := range bytes.Lines(text) {
		loose.WriteString("\r\n  ")
		loose.Write(bytes.ReplaceAll(line, []byte(`":`), []byte(`" : `)))
	}
	if got, err := replay.TrajectoryHash(&loose); got != want || err != nil {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestWriterEnforcesTheOrder(t *testing.T) {
	s := session()
	header, start, plan, end := s[0], s[1], s[2], s[7]
	for _, c := range []struct {
		name   string
		before []replay.Event
		next   replay.Event
	}{
		{"no header", nil, start},
		{"no session start", []replay.Event{header}, plan},
		{"two headers", []replay.Event{header, start}, header},
		{"two session starts", []replay.Event{header, start}, start},
		{"after the end", []replay.Event{header, start, end}, plan},
		{"two ends", []replay.Event{header, start, end}, end},
	} {
		var b bytes.Buffer
		w := replay.NewWriter(&b)
		for _, e := range c.before {
			if err := w.Write(e); err != nil {
				t.Fatal(err)
			}
		}
		size := b.Len()
		if err := w.Write(c.next); !errors.Is(err, replay.ErrOrder) || b.Len() != size {
			t.Errorf("%s: %v, %d bytes more", c.name, err, b.Len()-size)
		}
	}
	if _, err := replay.NewWriter(io.Discard).Close(); !errors.Is(err, replay.ErrIncomplete) {
		t.Errorf("an empty file: %v", err)
	}
}

func TestWriterRefusesValues(t *testing.T) {
	for name, e := range map[string]replay.Event{
		"a time in words":                   replay.PlanStart{PlanHash: digest, T: "now"},
		"a bare hash":                       replay.PlanStart{PlanHash: strings.TrimPrefix(digest, "sha256:"), T: at},
		"no hash of an output":              replay.ToolResult{T: at},
		"a status of the other sort":        replay.StepComplete{Status: replay.Timeout, T: at},
		"a session that was skipped":        replay.SessionEnd{Status: replay.Skipped, T: at},
		"a command without a code":          replay.Verification{Commands: []string{"a"}, T: at},
		"params that are not JSON":          replay.ToolCall{Params: json.RawMessage(`{`), T: at},
		"params with a key twice":           replay.ToolCall{Params: json.RawMessage(`{"a":1,"a":2}`), T: at},
		"an id that is not UTF-8":           replay.ToolCall{ID: "\xff", T: at},
		"an event of an unknown type":       replay.Unknown{Name: "Thought"},
		"a version that is not ours":        replay.ReplayHeader{Version: 2, CreatedAt: at},
		"a result after a million years":    replay.ToolResult{OutputHash: digest, LatencyMs: 1 << 55, T: at},
		"an end after a million years":      replay.SessionEnd{Status: replay.Success, TotalLatencyMs: 1 << 55, T: at},
		"a delta that sums overflow by":     replay.Verification{Delta: replay.MaxDelta + 1, T: at},
		"a confidence that is not a number": replay.SessionEnd{Status: replay.Success, Confidence: replay.Float(nan()), T: at},
	} {
		var b bytes.Buffer
		if err := replay.NewWriter(&b).Write(e); err == nil || b.Len() > 0 {
			t.Errorf("%s: written as %s", name, b.Bytes())
		}
	}
}

func nan() float64 { var zero float64; return zero / zero }

func TestUnknownEventsRoundTrip(t *testing.T) {
	const text = `{"created_at":"2026-01-13T10:00:00Z","event":"ReplayHeader","producer":"x","replay_version":1}
{"event":"SessionStart","lesson":[1.0,{"a":null}],"session_id":"s"}
{"event":"Thought","text":"hm é","weight":1e-7}
{"event":"ToolCall","id":"1","mood":"good","params":{},"params_hash":"sha256:def456..."}
{"event":"SessionEnd","status":"success","tip_msats":21}
`
	var raw, events bytes.Buffer
	w, only := replay.NewWriter(&raw), replay.NewWriter(&events)
	for line, err := range replay.Read(strings.NewReader(text)) {
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WriteRaw(line.Raw); err != nil {
			t.Fatal(err)
		}
		if u, ok := line.Event.(replay.Unknown); ok {
			if err := errors.Join(only.Write(session()[0]), only.Write(session()[1]), only.Write(u)); err != nil {
				t.Fatal(err)
			}
		}
	}
	want, err := replay.TrajectoryHash(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.Close(); got != want || err != nil || raw.String() != text {
		t.Errorf("%s, %v, want %s\n%s", got, err, want, raw.String())
	}
	if line := strings.Split(text, "\n")[2]; !strings.HasSuffix(events.String(), line+"\n") {
		t.Errorf("no %s in %s", line, events.String())
	}
}

func TestWriterRefusesInvalidEvents(t *testing.T) {
	var b bytes.Buffer
	w := replay.NewWriter(&b)
	for name, raw := range map[string]string{
		"nothing": "", "an array": "[]", "no event": `{}`, "a key twice": `{"event":"A","event":"A"}`, "another version": `{"event":"ReplayHeader","replay_version":2}`,
		"a line too long": `{"event":"X","x":"` + strings.Repeat("x", replay.MaxLine) + `"}`, "not the first": `{"event":"SessionEnd"}`, "two lines": "{\"event\":\"A\"}\n{}",
	} {
		if err := w.WriteRaw([]byte(raw)); err == nil || b.Len() > 0 {
			t.Errorf("%s: written as %.100s", name, b.Bytes())
		}
	}
	for name, u := range map[string]replay.Unknown{
		"of a known type":    {Name: "ToolCall", Raw: json.RawMessage(`{"event":"ToolCall"}`)},
		"of another name":    {Name: "A", Raw: json.RawMessage(`{"event":"B"}`)},
		"with a key twice":   {Name: "A", Raw: json.RawMessage(`{"event":"A","a":1,"a":2}`)},
		"without its object": {Name: "A"},
	} {
		if err := w.Write(u); err == nil {
			t.Errorf("an unknown event %s was written", name)
		}
	}
}

func TestLineErrors(t *testing.T) {
	b, err := os.ReadFile("testdata/REPLAY.example.from-seed003.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range replay.Read(bytes.NewReader(b)) {
		if err != nil && (!strings.Contains(err.Error(), "line 4") || !errors.Is(err, canon.ErrSyntax)) {
			t.Errorf("got %v", err)
		}
	}
}

func TestWriterStopsAtAWriteError(t *testing.T) {
	full := errors.New("disk full")
	w := replay.NewWriter(iotest.TruncateWriter(writerFunc(func([]byte) (int, error) { return 0, full }), 1<<20))
	for range 2 {
		if err := w.Write(session()[0]); !errors.Is(err, full) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := w.Close(); !errors.Is(err, full) {
		t.Errorf("close: %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// read returns the names of the events in a text, and the numbers of the faulty lines.
func read(text string) (names []string, faults []string) {
	for line, err := range replay.Read(strings.NewReader(text)) {
		if line.Event != nil {
			names = append(names, line.Event.EventName())
		}
		if e, ok := errors.AsType[*replay.LineError](err); ok {
			faults = append(faults, fmt.Sprint(e.Number))
		}
	}
	return names, faults
}

func TestPublishedExamples(t *testing.T) {
	for file, want := range map[string]string{
		"REPLAY.example.from-REPLAY-md.jsonl": "ReplayHeader SessionStart PlanStart ToolCall ToolResult StepComplete Verification SessionEnd | ",
		"REPLAY.example.from-seed003.jsonl":   "ReplayHeader SessionStart PlanStart ToolResult StepComplete Verification SessionEnd | 4",
	} {
		b, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		names, faults := read(string(b))
		if got := strings.Join(names, " ") + " | " + strings.Join(faults, " "); got != want {
			t.Errorf("%s: read %s, want %s", file, got, want)
		}
		_, err = replay.TrajectoryHash(bytes.NewReader(b))
		if whole := !strings.Contains(want, "4"); (err == nil) != whole {
			t.Errorf("%s: hash: %v", file, err)
		}
	}
}

func TestReadIsLenient(t *testing.T) {
	const head = `{"event":"ReplayHeader","replay_version":1}` + "\n" + `{"event":"SessionStart","session_id":"s"}` + "\n"
	const end = `{"event":"SessionEnd","status":"cancelled"}` + "\n"
	for _, c := range []struct {
		name, text, names, faults string
	}{
		{"unknown events and fields", head + `{"event":"Thought","text":"hm"}` + "\n" + `{"event":"PlanStart","more":[1]}` + "\n" + end,
			"ReplayHeader SessionStart Thought PlanStart SessionEnd", ""},
		{"no line feed at the end, blank lines", "\n" + head + "\r\n \n" + strings.TrimSpace(end), "ReplayHeader SessionStart SessionEnd", ""},
		{"faulty lines", head + "oops\n" + `{"no":"event"}` + "\n" + `{"event":"ToolCall","id":7}` + "\n" + `{"event":"A","event":"B"}` + "\n[]\n" + end,
			"ReplayHeader SessionStart SessionEnd", "3 4 5 6 7"},
		{"a line too long", head + `{"event":"X","x":"` + strings.Repeat("x", replay.MaxLine) + `"}` + "\n" + end, "ReplayHeader SessionStart SessionEnd", "3"},
		{"a last line too long", head + strings.Repeat("x", replay.MaxLine+1), "ReplayHeader SessionStart", "3 4"},
		{"no end", head, "ReplayHeader SessionStart", "3"},
		{"nothing", "", "", "1"},
		{"another version", `{"event":"ReplayHeader","replay_version":2}` + "\n" + end, "SessionEnd", "1 2"},
		{"no header", end, "SessionEnd", "1"},
		{"a second header", head + head + end, "ReplayHeader SessionStart ReplayHeader SessionStart SessionEnd", "3 4"},
		{"events after the end", head + end + end, "ReplayHeader SessionStart SessionEnd SessionEnd", "4"},
	} {
		names, faults := read(c.text)
		if strings.Join(names, " ") != c.names || strings.Join(faults, " ") != c.faults {
			t.Errorf("%s: read %v with faults in %v, want %s with %s", c.name, names, faults, c.names, c.faults)
		}
	}
}

func TestStatusesInLowerCase(t *testing.T) {
	for text, want := range map[string]replay.Status{
		"success": replay.Success, "FAILED": replay.Failed, "max_iterations_reached": replay.MaxIterationsReached,
		"maxiterationsreached": replay.MaxIterationsReached, "timeout": replay.Timeout, "odd": "odd",
	} {
		var s replay.Status
		if err := json.Unmarshal([]byte(`"`+text+`"`), &s); err != nil || s != want {
			t.Errorf("%q is %q, %v, want %q", text, s, err, want)
		}
	}
}

func TestReadStopsAtAReadError(t *testing.T) {
	broken := errors.New("broken disk")
	count := 0
	for _, err := range replay.Read(iotest.ErrReader(broken)) {
		if count++; !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	}
	if count != 1 {
		t.Errorf("%d items, want 1", count)
	}
}

func TestReadStopsEarly(t *testing.T) {
	text, _ := write(t, session()...)
	for range replay.Read(bytes.NewReader(text)) {
		break
	}
}

func TestPreview(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       int // characters
	}{
		{"short", "abc", 3},
		{"just long enough", strings.Repeat("x", replay.MaxPreview), replay.MaxPreview},
		{"one too many", strings.Repeat("x", replay.MaxPreview+1), replay.MaxPreview},
		{"many bytes, few characters", strings.Repeat("漢", 1999), 1999},
		{"many bytes, too many characters", strings.Repeat("😀", 3000), replay.MaxPreview},
		{"bytes that are not UTF-8", "\xff" + strings.Repeat("é", 3000), replay.MaxPreview},
	} {
		got := replay.Preview(c.text)
		if utf8.RuneCountInString(got) != c.want || !utf8.ValidString(got) {
			t.Errorf("%s: %d characters, valid %v", c.name, utf8.RuneCountInString(got), utf8.ValidString(got))
		}
	}
}

// FuzzReplay checks that Read fails only by line, and that a file without faults has the same hash after it is written
// canonically.
func FuzzReplay(f *testing.F) {
	text, _ := write(f, session()...)
	f.Add(text)
	f.Add([]byte("{\"event\":\"ReplayHeader\",\"replay_version\":1}\n{\"event\":\"SessionStart\"}\n{\"event\":\"X\",\"a\":1.0}\n{\"event\":\"SessionEnd\",\"status\":null}"))
	f.Add([]byte("\n\r\n{}\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var canonical []byte
		faulty := false
		for line, err := range replay.Read(bytes.NewReader(text)) {
			if err != nil {
				if _, ok := errors.AsType[*replay.LineError](err); !ok {
					t.Fatal(err)
				}
				faulty = true
				continue
			}
			var err2 error
			if canonical, err2 = canon.Append(canonical, line.Raw); err2 != nil {
				t.Fatal(err2)
			}
			canonical = append(canonical, '\n')
		}
		a, err := replay.TrajectoryHash(bytes.NewReader(text))
		if faulty != (err != nil) {
			t.Fatalf("faulty %v, but hash: %v", faulty, err)
		}
		if !faulty {
			w := replay.NewWriter(io.Discard)
			for line := range replay.Read(bytes.NewReader(text)) {
				if err := w.WriteRaw(line.Raw); err != nil {
					t.Fatal(err)
				}
			}
			if b, err := w.Close(); a != b || err != nil {
				t.Fatalf("%s, written again %s, %v", a, b, err)
			}
		}
		if b, err := replay.TrajectoryHash(bytes.NewReader(canonical)); !faulty && (a != b || err != nil) {
			t.Fatalf("%s, canonically %s, %v", a, b, err)
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	e := session()
	b.ReportAllocs()
	for b.Loop() {
		w := replay.NewWriter(io.Discard)
		for i := range e {
			if err := w.Write(e[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkRead(b *testing.B) {
	text, _ := write(b, session()...)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range replay.Read(bytes.NewReader(text)) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkTrajectoryHash(b *testing.B) {
	text, _ := write(b, session()...)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := replay.TrajectoryHash(bytes.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleWriter() {
	now := replay.Time(time.Unix(1768298400, 0))
	w := replay.NewWriter(os.Stdout)
	for _, e := range []replay.Event{
		replay.ReplayHeader{Producer: "guild@1.0.0", CreatedAt: now},
		replay.SessionStart{SessionID: "s1", PolicyBundleID: "p1", T: now},
		replay.SessionEnd{Status: replay.Cancelled, T: now},
	} {
		if err := w.Write(e); err != nil {
			fmt.Println(err)
		}
	}
	h, err := w.Close()
	fmt.Println(h, err)
	// Output:
	// {"created_at":"2026-01-13T10:00:00Z","event":"ReplayHeader","producer":"guild@1.0.0","replay_version":1}
	// {"event":"SessionStart","issue_number":null,"policy_bundle_id":"p1","session_id":"s1","t":"2026-01-13T10:00:00Z"}
	// {"confidence":0.0,"event":"SessionEnd","status":"Cancelled","t":"2026-01-13T10:00:00Z","total_latency_ms":0,"total_tool_calls":0}
	// sha256:9614464e37d83d52ccf380b2b2873d92c16cfb377795586c2e7e612ad56f0200 <nil>
}

func ExampleRead() {
	text := `{"event":"ReplayHeader","replay_version":1}
{"event":"SessionStart","session_id":"s1"}
not JSON
{"event":"SessionEnd","status":"success"}`
	for line, err := range replay.Read(strings.NewReader(text)) {
		if err != nil {
			fmt.Println("faulty:", err.(*replay.LineError).Number)
			continue
		}
		fmt.Println(line.Number, line.Event.EventName())
	}
	// Output:
	// 1 ReplayHeader
	// 2 SessionStart
	// faulty: 3
	// 4 SessionEnd
}
