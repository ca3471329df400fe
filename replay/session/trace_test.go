package session_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"guild"
	"guild/canon"
	"guild/replay"
	"guild/replay/session"
)

// told lists the events of a session between its start and its end in short form.
func told(s session.Session) (all []string) {
	for _, e := range s.Events[2 : len(s.Events)-1] {
		switch e := e.(type) {
		case replay.ToolCall:
			all = append(all, fmt.Sprintf("call %s %s %s %s", e.ID, e.Tool, e.Params, e.StepID))
		case replay.ToolResult:
			exit := "-"
			if e.ExitCode != nil {
				exit = fmt.Sprint(*e.ExitCode)
			}
			all = append(all, fmt.Sprintf("result %s %s %.12s %dms %v %q", e.ID, exit, e.OutputHash, e.LatencyMs, float64(e.StepUtility), e.Preview))
		case replay.StepComplete:
			all = append(all, fmt.Sprintf("step %s %s %d", e.StepID, e.Status, e.Iterations))
		case replay.Verification:
			all = append(all, fmt.Sprintf("verification %v %v %d", e.Commands, e.ExitCodes, e.Delta))
		case replay.PlanStart:
			all = append(all, fmt.Sprintf("plan %.12s %d", e.PlanHash, e.StepCount))
		}
	}
	return all
}

func short(text string) string { return guild.Sum([]byte(text)).String()[:12] }

func TestTraceLines(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		want  []string
	}{
		{"a call and its result", []string{`{"tool":"read","id":"r1","params":{"b":1,"a":[]},"step":"s1"}`, `{"id":"r1","output":"text","exit_code":0}`},
			[]string{`call r1 read {"a":[],"b":1} s1`, `result r1 0 ` + short("text") + ` 1000ms 0 "text"`}},
		{"a call with its result at once", []string{`{"tool":"read","output":{"b":2.0,"a":1},"latency_ms":7,"step_utility":0.5}`},
			[]string{`call tc_001 read {} `, `result tc_001 - ` + short(`{"a":1,"b":2.0}`) + ` 7ms 0.5 "{\"a\":1,\"b\":2.0}"`}},
		{"a result of the last call", []string{`{"tool":"a"}`, `{"tool":"b"}`, `{"output":"x"}`},
			[]string{`call tc_001 a {} `, `call tc_002 b {} `, `result tc_002 - ` + short("x") + ` 1000ms 0 "x"`}},
		{"an output in parts", []string{`{"tool":"cat","id":"c"}`, `{"id":"c","output_part":"one "}`, `{"id":"c","output_part":"two"}`, `{"id":"c","done":true}`},
			[]string{`call c cat {} `, `result c - ` + short("one two") + ` 3000ms 0 "one two"`}},
		{"an output that only the worker has seen", []string{`{"tool":"cat"}`, `{"output_hash":"` + guild.Sum([]byte("huge")).String() + `","output":"hu"}`},
			[]string{`call tc_001 cat {} `, `result tc_001 - ` + short("huge") + ` 1000ms 0 "hu"`}},
		{"an id that is taken", []string{`{"tool":"a","id":"x","output":""}`, `{"tool":"b","id":"x","output":""}`},
			[]string{`call x a {} `, `result x - ` + short("") + ` 0ms 0 ""`, `call tc_002 b {} `, `result tc_002 - ` + short("") + ` 0ms 0 ""`}},
		{"a note", []string{`{"tool":"a"}`, `{"note":"half way"}`, `{"output":"x"}`},
			[]string{`call tc_001 a {} `, `call tc_002 note {} `, `result tc_002 - ` + short("half way") + ` 0ms 0 "half way"`, `result tc_001 - ` + short("x") + ` 2000ms 0 "x"`}},
		{"a step and a verification", []string{`{"step":"s1","status":"success"}`, `{"step":"s2","status":"max_iterations_reached","iterations":5}`, `{"verification":` + twice + `}`},
			[]string{`step s1 Success 1`, `step s2 MaxIterationsReached 5`, `verification [go vet go test] [0 1] 2`}},
		{"a plan", []string{`{"plan":{"steps":[]}}`},
			[]string{`call tc_001 plan {"steps":[]} `, `result tc_001 - ` + short(`{"steps":[]}`) + ` 0ms 0 ""`, `plan ` + short(`{"steps":[]}`) + ` 0`}},
		{"lines that are events already", []string{
			`{"event":"ReplayHeader","replay_version":1,"producer":"x","created_at":"2020-01-01T00:00:00Z"}`,
			`{"event":"ToolCall","id":"t","tool":"a","params":{"n":1},"params_hash":"sha256:00","step_id":"s","t":"never"}`,
			`{"event":"ToolResult","id":"t","output_hash":"` + short("") + strings.Repeat("0", 59) + `","step_utility":-0.5,"latency_ms":9,"exit_code":3,"t":""}`,
			`{"event":"StepComplete","step_id":"s","status":"failed","iterations":2,"t":""}`,
			`{"event":"PlanStart","plan_hash":"` + guild.Sum(nil).String() + `","step_count":4,"t":""}`,
			`{"event":"Verification","commands":["x"],"exit_codes":[0],"verification_delta":1,"t":""}`,
		}, []string{`call t a {"n":1} s`, `result t 3 ` + short("") + ` 9ms -0.5 ""`, `step s Failed 2`, `plan ` + short("") + ` 4`, `verification [x] [0] 1`}},
	} {
		s := record(t, c.lines...)
		if got := strings.Join(told(s), "\n"); got != strings.Join(c.want, "\n") {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, strings.Join(c.want, "\n"))
		}
		if s.Report.Faults() != 0 {
			t.Errorf("%s: %+v", c.name, s.Report)
		}
		readable(t, s)
	}
}

func TestModelInReceipt(t *testing.T) {
	s := record(t, `{"model":"small","tokens":{"input":7}}`, `{"tokens":{"output":2},"cost_micro_usd":31}`, `{"tool":"a","output":""}`)
	r := receiptOf(t, s)
	r.Provenance = &s.Provenance
	got, err := r.Encode()
	if want := `"provenance":{"cost_micro_usd":31,"model_id":"small","tokens":{"input":7,"output":2}}`; err != nil || !bytes.Contains(got, []byte(want)) {
		t.Errorf("%v: %s", err, got)
	}
}

func TestFaultyLinesCounted(t *testing.T) {
	for _, bad := range []string{
		`{"tool":`, `"tool"`, `[1]`, `{"tool":"a","tool":"b"}`, "{\"tool\":\"\xff\"}", `{"tool":"a","params":[1]}`, `{"tool":1}`,
		`{"id":"nobody","output":"x"}`, `{"output":"x"}`, `{"step":"s","status":"Great"}`, `{"verification":{"commands":["a"]}}`,
		`{"confidence":2}`, `{"tokens":{"input":-1}}`, `{"cost_micro_usd":-1}`, `{"plan":[]}`, `{"plan":{"steps":[{"id":"a","intent":"x"}]}}`,
		`{"tool":"` + strings.Repeat("x", 300) + `"}`, `{"event":"ToolResult","id":"x","output_hash":"abc"}`,
		`{"event":"PlanStart","plan_hash":"x"}`, `{"id":"exec","output":"the command's own call"}`,
		strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200),
	} {
		r := session.New(session.Config{SessionID: "s", Created: noon})
		if _, err := r.Call(noon, "exec", map[string]string{}); err != nil {
			t.Fatal(err)
		}
		r.Line(noon, session.Guild, []byte(bad))
		r.Line(noon, session.Guild, []byte(`{"tool":"good","output":"x"}`))
		s := r.End(noon, replay.Success)
		if s.Report.Malformed != 1 || s.Report.First == "" || len(told(s)) != 3 {
			t.Errorf("%.60s: %+v, %q", bad, s.Report, told(s))
		}
		readable(t, s)
	}
	for _, idle := range []string{`{}`, `{"something":"else"}`, `{"event":"Novelty"}`, `{"event":"SessionStart"}`, ` `} {
		if s := record(t, idle); s.Report.Unknown != 1 || s.Report.Faults() != 0 {
			t.Errorf("%s: %+v", idle, s.Report)
		}
	}
}

func TestHostileTraceLimits(t *testing.T) {
	await := func(n int64, write func(w io.Writer)) session.Session {
		r := session.New(session.Config{SessionID: "s", Created: noon})
		lines := &session.Lines{To: r, Format: session.Guild, Now: func() time.Time { return noon }}
		write(lines)
		lines.Flush()
		s := r.End(noon, replay.Success)
		if s.Report.Lines != n {
			t.Errorf("%d lines were counted, want %d", s.Report.Lines, n)
		}
		readable(t, s)
		return s
	}
	t.Run("a line that never ends", func(t *testing.T) {
		s := await(2, func(w io.Writer) {
			for range 100 {
				w.Write(bytes.Repeat([]byte("x"), 1<<20))
			}
			io.WriteString(w, "\n"+`{"tool":"after"}`)
		})
		if s.Report.TooLong != 1 || s.Report.Bytes < 100<<20 || len(told(s)) != 1 {
			t.Errorf("%+v, %q", s.Report, told(s))
		}
	})
	t.Run("a million lines", func(t *testing.T) {
		s := await(1_000_000, func(w io.Writer) {
			chunk := []byte(strings.Repeat(`{"tool":"x","output":""}`+"\n", 1000))
			for range 1000 {
				w.Write(chunk)
			}
		})
		if len(s.Events) > session.MaxEvents+session.MaxOpen+3 || s.Report.Dropped == 0 {
			t.Errorf("%d events, %+v", len(s.Events), s.Report)
		}
	})
	t.Run("calls without a result", func(t *testing.T) {
		s := await(10_000, func(w io.Writer) {
			chunk := []byte(strings.Repeat(`{"tool":"x"}`+"\n", 1000))
			for range 10 {
				w.Write(chunk)
			}
		})
		if len(told(s)) != session.MaxOpen {
			t.Errorf("%d calls are open", len(told(s)))
		}
	})
	t.Run("large params", func(t *testing.T) {
		s := await(100, func(w io.Writer) {
			for range 100 {
				fmt.Fprintf(w, `{"tool":"x","params":{"a":%q},"output":"y"}`+"\n", strings.Repeat("z", 200<<10))
			}
		})
		if s.Report.Dropped == 0 {
			t.Errorf("%+v", s.Report)
		}
	})
}

func TestLongParamsHashed(t *testing.T) {
	params := fmt.Sprintf(`{"text":%q}`, strings.Repeat("word ", session.MaxParams/5))
	s := record(t, `{"tool":"write","params":`+params+`}`)
	h, err := canon.Hash([]byte(params))
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`call tc_001 write {"omitted":{"bytes":%d,"hash":"%s"}} `, len(params), h)
	if got := told(s); len(got) != 1 || got[0] != want {
		t.Errorf("got %.300q, want %s", got, want)
	}
}

func TestSessionSecretsHidden(t *testing.T) {
	const secret = "correct horse battery"
	r := session.New(session.Config{SessionID: "s", Created: noon, Hide: func(text string) string { return strings.ReplaceAll(text, secret, "[secret]") }})
	for _, line := range []string{
		`{"tool":"a","params":{"deep":[{"x":"` + secret + `"}],"password":"hunter22"},"id":"` + secret + `"}`,
		`{"id":"` + secret + `","output":"it is ` + secret + `","side_effects":["file:` + secret + `"]}`,
		`{"note":"` + secret + `"}`, `{"model":"` + secret + `"}`, `{"id":"` + secret + `","output":"again"}`,
		`{"verification":{"commands":["login ` + secret + `","x --password=hunter22"],"exit_codes":[0,0]}}`,
		`{"plan":{"analysis":"` + secret + `"}}`, `{"step":"` + secret + `","status":"Success"}`,
	} {
		if said := r.Line(noon, session.Guild, []byte(line)); strings.Contains(said, secret) {
			t.Errorf("said %q", said)
		}
	}
	s := r.End(noon, replay.Success)
	raw, _, err := session.Encode(s.Events)
	if err != nil {
		t.Fatal(err)
	}
	seen := fmt.Sprintf("%s %+v %+v %+v", raw, s.Effects, s.Report, s.Provenance)
	for _, word := range []string{secret, "hunter22"} {
		if strings.Contains(seen, word) {
			t.Errorf("%q is in %s", word, seen)
		}
	}
	readable(t, s)
}

// FuzzTrace checks that any output of a worker gives a trajectory that can be read back, and a receipt.
func FuzzTrace(f *testing.F) {
	f.Add([]byte(`{"tool":"a","id":"x"}` + "\n" + `{"id":"x","output_part":"a"}` + "\n" + `{"id":"x","exit_code":1}`))
	f.Add([]byte(`{"plan":` + strings.ReplaceAll(plan, "\n", "") + `}`))
	f.Add([]byte(`{"step":"s","status":"Success"}` + "\n" + `{"verification":` + twice + `}` + "\n" + `{"note":"n"}` + "\n" + `{"tokens":{"input":1}}`))
	f.Add([]byte(`{"event":"ToolResult","id":"t","output_hash":"` + guild.Sum(nil).Hex() + `","step_utility":1e9}`))
	f.Fuzz(func(t *testing.T, b []byte) { readable(t, streamed(session.Guild, b)) })
}
