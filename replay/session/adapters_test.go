package session_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"guild"
	"guild/replay"
	"guild/replay/session"
)

var update = flag.Bool("update", false, "write the golden files again")

// streamed is the session of an agent that prints these lines, one in a second.
func streamed(f session.Format, stream []byte) session.Session {
	r := session.New(session.Config{Producer: "guild@test", SessionID: "s1", PolicyBundleID: "p1", Created: noon})
	at := noon
	lines := session.Lines{To: r, Format: f, Now: func() time.Time { at = at.Add(time.Second); return at }}
	lines.Write(stream)
	lines.Flush()
	return r.End(at.Add(time.Second), replay.Success)
}

func TestAnAgentsStreamBecomesATrajectory(t *testing.T) {
	for name, c := range map[string]struct {
		format  session.Format
		model   string
		in, out int64
		effects []string // all of them
		unknown int64    // lines that say nothing
	}{
		"claude-code": {session.ClaudeCode, "claude-sonnet-4-5", 32100, 450, []string{"file:files/spans.py"}, 2},
		"codex":       {session.Codex, "", 24763, 122, []string{"file:files/spans.py", "file:files/new.py"}, 4},
		"codex-older": {session.Codex, "gpt-5-codex", 9000, 300, []string{"file:/box/bundle/files/spans.py"}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			stream, err := os.ReadFile(filepath.Join("testdata", name+".jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			s := streamed(c.format, stream)
			got, _, err := session.Encode(s.Events)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(golden); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%v\ngot  %s\nwant %s", err, got, want)
			}
			var effects []string
			for _, some := range s.Effects {
				effects = append(effects, some...)
			}
			if strings.Join(effects, " ") != strings.Join(c.effects, " ") {
				t.Errorf("effects %q, want %q", effects, c.effects)
			}
			if s.Model != c.model || s.Tokens == nil || *s.Tokens != (session.Tokens{Input: c.in, Output: c.out}) {
				t.Errorf("model %q, tokens %+v", s.Model, s.Tokens)
			}
			if s.Report.Faults() != 0 || s.Report.Unknown != c.unknown {
				t.Errorf("%+v", s.Report)
			}
			if r := receiptOf(t, s); len(r.ToolCalls) == 0 {
				t.Error("a receipt without calls")
			}
		})
	}
}

func TestAnAgentThatFailsSaysSo(t *testing.T) {
	for line, c := range map[string]struct {
		format session.Format
		want   replay.Status
	}{
		`{"type":"result","subtype":"success","is_error":false}`:        {session.ClaudeCode, replay.Success},
		`{"type":"result","subtype":"error_max_turns","is_error":true}`: {session.ClaudeCode, replay.Failed},
		`{"type":"result","subtype":"error_during_execution"}`:          {session.ClaudeCode, replay.Failed},
		`{"type":"turn.failed","error":{"message":"no quota"}}`:         {session.Codex, replay.Failed},
		`{"id":"1","msg":{"type":"turn_aborted","reason":"replaced"}}`:  {session.Codex, replay.Cancelled},
	} {
		s := streamed(c.format, []byte(line))
		if end := s.Events[len(s.Events)-1].(replay.SessionEnd); end.Status != c.want {
			t.Errorf("%s: %s", line, end.Status)
		}
	}
}

func TestOutputsOfAgentsAreHashedAsTheTextThatTheyAre(t *testing.T) {
	use := `{"type":"assistant","message":{"content":[{"type":"tool_use","id":"a","name":"T","input":{}}]}}` + "\n"
	result := func(content string) string {
		return use + `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"a","content":` + content + `}]}}`
	}
	for stream, want := range map[string]string{
		result(`"plain\n"`):                        "plain\n",
		result(`[{"type":"text","text":"plain"}]`): "plain",
		result(`null`):                             "",
		result(`[{"type":"text","text":"a"},{"type":"text","text":"b"}]`): `[{"text":"a","type":"text"},{"text":"b","type":"text"}]`,
		result(`[{"type":"image","source":{"data":"AA=="}}]`):             `[{"source":{"data":"AA=="},"type":"image"}]`,
	} {
		s := streamed(session.ClaudeCode, []byte(stream))
		if got := s.Events[3].(replay.ToolResult).OutputHash; got != guild.Sum([]byte(want)).String() {
			t.Errorf("%s is not hashed as %q", stream, want)
		}
	}
}

// FuzzAgents: whatever an agent prints, there is a trajectory that can be read back, and a receipt.
func FuzzAgents(f *testing.F) {
	for _, name := range []string{"claude-code", "codex", "codex-older"} {
		stream, err := os.ReadFile(filepath.Join("testdata", name+".jsonl"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(stream)
	}
	f.Add([]byte(`{"type":"item.completed","item":{"id":"","type":"x","a":{"password":"hunter22"}}}`))
	f.Add([]byte(`{"id":1,"msg":{"type":"exec_command_end"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, format := range session.Formats() {
			readable(t, streamed(format, b))
		}
	})
}

// readable wants a session to be whole.
func readable(t *testing.T, s session.Session) {
	t.Helper()
	raw, hash, err := session.Encode(s.Events)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := replay.TrajectoryHash(bytes.NewReader(raw)); err != nil || again != hash {
		t.Fatalf("%s and %s, %v: %s", hash, again, err, raw)
	}
	r, err := session.NewReceipt(s.Events, hash, s.Effects)
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	r.Trace, r.Provenance = &s.Report, &s.Provenance
	if _, err := r.Encode(); err != nil {
		t.Fatal(err)
	}
}
