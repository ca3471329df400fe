package session_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"guild"
	"guild/replay"
	"guild/replay/session"
)

var update = flag.Bool("update", false, "write the golden files again")

// streamed returns the session of an agent that prints these lines, one per second.
func streamed(f session.Format, stream []byte) session.Session {
	r := session.New(session.Config{Producer: "guild@test", SessionID: "s1", PolicyBundleID: "p1", Created: noon})
	at := noon
	lines := session.Lines{To: r, Format: f, Now: func() time.Time { at = at.Add(time.Second); return at }}
	lines.Write(stream)
	lines.Flush()
	return r.End(at.Add(time.Second), replay.Success)
}

// fixtures returns the recorded streams of agents (testdata/README.md).
func fixtures(tb testing.TB) []string {
	tb.Helper()
	paths, err := filepath.Glob("testdata/*/*.jsonl")
	if err != nil || len(paths) < 20 {
		tb.Fatalf("%d fixtures, %v", len(paths), err)
	}
	return paths
}

// formatOf returns the format of a fixture.
func formatOf(path string) session.Format {
	if strings.HasPrefix(path, "testdata/claude-code") {
		return session.ClaudeCode
	}
	if strings.HasPrefix(path, "testdata/opencode") {
		return session.Opencode
	}
	return session.Codex
}

func TestAgentStreamTrajectories(t *testing.T) {
	for _, path := range fixtures(t) {
		t.Run(strings.TrimPrefix(path, "testdata/"), func(t *testing.T) {
			stream, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			s := streamed(formatOf(path), stream)
			if s.Report.Faults() != 0 || s.Report.Unknown != 0 {
				t.Errorf("%+v", s.Report)
			}
			got, _, err := session.Encode(s.Events)
			if err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(path, ".jsonl") + ".golden"
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(golden); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%v\ngot  %s\nwant %s", err, got, want)
			}
			if r := receiptOf(t, s); !strings.HasSuffix(path, "failed.jsonl") && len(r.ToolCalls) == 0 {
				t.Error("a receipt without calls")
			}
			readable(t, s)
		})
	}
}

func TestAgentStatusAndUsage(t *testing.T) {
	const sonnet = "claude-sonnet-5"
	for name, c := range map[string]struct {
		status  replay.Status
		model   string
		in, out int64
		cost    int64    // in millionths of a US dollar
		effects []string // all of them
	}{
		"claude-code/work":              {replay.Success, sonnet, 6612, 301, 8469, []string{"file:/box/bundle/files/spans.py", "file:/box/bundle/files/notes.md"}},
		"claude-code/todos":             {replay.Success, sonnet, 2336, 123, 3670, nil},
		"claude-code/subagent":          {replay.Success, sonnet, 3608, 204, 6186, nil}, // with the sub-agent's tokens
		"claude-code/refused":           {replay.Success, sonnet, 1272, 81, 2516, nil},  // nothing was written
		"claude-code/max-turns":         {replay.Failed, sonnet, 1272, 81, 2516, nil},
		"claude-code/too-long":          {replay.Failed, sonnet, 210, 40, 1380, nil},
		"claude-code/overloaded":        {replay.Failed, sonnet, 0, 0, 0, nil},
		"claude-code/interrupted":       {replay.Cancelled, sonnet, 210, 40, 1380, nil},
		"claude-code/interrupted-reply": {replay.Cancelled, sonnet, 210, 40, 1380, nil},
		"claude-code/ended":             {replay.Success, sonnet, -1, -1, 0, nil}, // no report about the end
		"codex/work":                    {replay.Success, "", 6015, 255, 0, []string{"file:/box/bundle/files/notes.md", "file:/box/bundle/files/spans.py", "file:/box/bundle/files/notes.md", "file:/box/bundle/files/spans.py"}},
		"codex/failed":                  {replay.Failed, "", -1, -1, 0, nil},
		"codex/retried":                 {replay.Failed, "", -1, -1, 0, nil},
		"codex/interrupted":             {replay.Success, "", -1, -1, 0, nil},
		"codex-0.66/work":               {replay.Success, "", 6015, 255, 0, []string{"file:/box/bundle/files/spans.py", "file:/box/bundle/files/notes.md", "file:/box/bundle/files/notes.md", "file:/box/bundle/files/spans.py"}},
		"codex-0.39/work":               {replay.Success, "gpt-5-codex", 6015, 255, 0, []string{"file:/box/bundle/files/notes.md", "file:/box/bundle/files/spans.py", "file:/box/bundle/files/merge.py", "file:/box/bundle/files/notes.md", "file:/box/bundle/files/spans.py"}},
		"codex-0.39/failed":             {replay.Failed, "gpt-5-codex", -1, -1, 0, nil},
		"opencode/work":                 {replay.Success, "", -1, -1, 0, nil},
		"opencode/failed":               {replay.Failed, "", -1, -1, 0, nil},
	} {
		path := filepath.Join("testdata", name+".jsonl")
		stream, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s := streamed(formatOf(path), stream)
		if end := s.Events[len(s.Events)-1].(replay.SessionEnd); end.Status != c.status {
			t.Errorf("%s: %s, want %s", name, end.Status, c.status)
		}
		in, out := int64(-1), int64(-1)
		if s.Tokens != nil {
			in, out = s.Tokens.Input, s.Tokens.Output
		}
		if s.Model != c.model || in != c.in || out != c.out || s.CostMicroUSD != c.cost {
			t.Errorf("%s: model %q, tokens %d and %d, cost %d", name, s.Model, in, out, s.CostMicroUSD)
		}
		var effects []string
		for _, e := range s.Events { // in the order of the calls
			if call, ok := e.(replay.ToolCall); ok {
				effects = append(effects, s.Effects[call.ID]...)
			}
		}
		if !slices.Equal(effects, c.effects) {
			t.Errorf("%s: effects %q, want %q", name, effects, c.effects)
		}
	}
}

// deeds lists the calls of a session except notes. Marks show failed calls, with their exit code if known, calls
// without a result, and calls of a sub-agent.
func deeds(s session.Session) string {
	results := map[string]replay.ToolResult{}
	for _, e := range s.Events {
		if r, ok := e.(replay.ToolResult); ok {
			results[r.ID] = r
		}
	}
	var all []string
	for _, e := range s.Events {
		c, ok := e.(replay.ToolCall)
		if !ok || c.Tool == "note" {
			continue
		}
		r, over := results[c.ID]
		word := c.Tool
		if c.StepID != "" {
			word = "sub:" + word
		}
		switch {
		case !over:
			word += "?"
		case r.StepUtility < 0 && r.ExitCode != nil:
			word += fmt.Sprint("!", *r.ExitCode)
		case r.StepUtility < 0:
			word += "!"
		}
		all = append(all, word)
	}
	return strings.Join(all, " ")
}

func TestAgentCallsRecorded(t *testing.T) {
	want := map[string]string{
		"claude-code/background":          "Bash Bash",
		"claude-code/ended":               "Bash?",
		"claude-code/interrupted-reply":   "Bash",
		"claude-code/interrupted":         "Bash!",
		"claude-code/max-turns":           "Bash Bash",
		"claude-code/mcp":                 "WaitForMcpServers mcp__tiny__add mcp__tiny__fail!",
		"claude-code/refused":             "Write! Bash!",
		"claude-code/subagent-background": "Agent Bash sub:Bash sub:Bash!1",
		"claude-code/subagent":            "Agent sub:Bash sub:Bash!1",
		"claude-code/todos":               "TodoWrite TodoWrite",
		"claude-code/too-long":            "Bash",
		"claude-code/work":                "Bash TaskCreate TaskCreate TaskUpdate Read Edit Write Bash!3 Read! Edit! Nonesuch! Bash! TaskUpdate Bash Read",
		"codex/background":                "command_execution? command_execution",
		"codex/failed":                    "command_execution",
		"codex/interrupted":               "command_execution?",
		"codex/mcp":                       "tiny.add tiny.fail!",
		"codex/subagent":                  "spawn_agent wait",
		"codex/work":                      "command_execution todo_list command_execution file_change command_execution!3 command_execution file_change web_search todo_list",
		"codex-0.39/work":                 "exec_command update_plan exec_command patch_apply exec_command!3 exec_command patch_apply web_search tiny.add tiny.fail!",
		"codex-0.66/work":                 "command_execution command_execution todo_list command_execution file_change command_execution!3 file_change web_search tiny.add tiny.fail!",
		"opencode/work":                   "bash bash!3 bash",
	}
	for _, path := range fixtures(t) {
		stream, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(strings.TrimPrefix(path, "testdata/"), ".jsonl")
		if got := deeds(streamed(formatOf(path), stream)); got != want[name] {
			t.Errorf("%q: %q,", name, got)
		}
	}
}

func TestAgentFailureStatus(t *testing.T) {
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

// The customer must not see trouble with an agent's account. The record has it, for the provider.
func TestAccountTroubleHiddenFromCustomer(t *testing.T) {
	for name, want := range map[string][]string{
		"claude-code/work":        {"I look at what is there.", "Three things at once.", "Done: `merge` sorts now.\n\nThe tests were not run."},
		"claude-code/overloaded":  nil,
		"claude-code/too-long":    {"One moment."},
		"claude-code/interrupted": {"This takes long."},
		"codex/failed":            {"One moment."},
		"codex/retried":           nil,
		"codex/subagent":          {"Another shall count.", "There is one file."},
		"codex-0.39/failed":       nil,
	} {
		path := filepath.Join("testdata", name+".jsonl")
		stream, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		r := session.New(session.Config{SessionID: "s1", Created: noon})
		lines := session.Lines{To: r, Format: formatOf(path), Now: func() time.Time { return noon }, Say: func(note string) { told = append(told, note) }}
		lines.Write(stream)
		if !slices.Equal(told, want) {
			t.Errorf("%s: the customer is told %q, want %q", name, told, want)
		}
	}
}

func TestUnknownAgentLinesCounted(t *testing.T) {
	for _, c := range []struct {
		format session.Format
		line   string
		want   string // its calls
	}{
		{session.ClaudeCode, `{"type":"novelty"}`, ""},
		{session.ClaudeCode, `{"type":"system","subtype":"novelty"}`, ""},
		{session.ClaudeCode, `{"type":"assistant","message":{"content":[{"type":"novelty"},{"type":"tool_use","id":"a","name":"T","input":{}}]}}`, "T?"},
		{session.Codex, `{"type":"turn.novelty"}`, ""},
		{session.Codex, `{"id":"0","msg":{"type":"novelty"}}`, ""},
		{session.Codex, `{"id":"0","msg":{"type":"novelty_begin","call_id":"a"}}`, ""},
	} {
		s := streamed(c.format, []byte(c.line))
		if s.Report.Unknown != 1 || s.Report.Faults() != 0 || deeds(s) != c.want {
			t.Errorf("%s: %q, %+v", c.line, deeds(s), s.Report)
		}
	}
}

// An item of an unknown type is still an action of the agent.
func TestUnknownItemTypeIsCall(t *testing.T) {
	for stream, want := range map[string]string{
		`{"type":"item.completed","item":{"id":"a","type":"novelty","x":1,"status":"failed"}}`:                   "novelty!",
		`{"type":"item.started","item":{"id":"a","type":"novelty","tool":"look"}}`:                               "look?",
		`{"type":"assistant","message":{"content":[{"type":"mcp_tool_use","id":"a","name":"look","input":{}}]}}`: "look?",
		`{"type":"assistant","message":{"content":[{"type":"server_tool_use","id":"a","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"a","content":{"type":"web_search_tool_result_error","error_code":"unavailable"}}]}}`: "web_search!",
	} {
		format := session.Codex
		if strings.Contains(stream, "tool_use") {
			format = session.ClaudeCode
		}
		if s := streamed(format, []byte(stream)); deeds(s) != want || s.Report.Unknown+s.Report.Faults() != 0 {
			t.Errorf("%s: %q, %+v", stream, deeds(s), s.Report)
		}
	}
}

func TestAgentOutputsHashedAsText(t *testing.T) {
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

// FuzzAgents checks that any output of an agent gives a trajectory that can be read back, and a receipt.
func FuzzAgents(f *testing.F) {
	for _, path := range fixtures(f) {
		stream, err := os.ReadFile(path)
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

// readable checks that a session is complete and can be read back.
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
