package session_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"guild/replay"
	"guild/replay/session"
)

// logged returns a log that an agent has kept, and its format.
func logged(tb testing.TB, name string) (session.Format, []byte) {
	tb.Helper()
	log, err := os.ReadFile("testdata/logs/" + name + "/commands.jsonl")
	if err != nil {
		tb.Fatal(err)
	}
	if strings.HasPrefix(name, "codex") {
		return session.Codex, log
	}
	return session.ClaudeCode, log
}

func imported(t *testing.T, f session.Format, lines ...string) session.Session {
	t.Helper()
	s, unknown, err := session.Import(f, []byte(strings.Join(lines, "\n")))
	if err != nil || len(unknown) > 0 || s.Report.Faults() > 0 {
		t.Fatalf("%v, unknown %v, %+v", err, unknown, s.Report)
	}
	return s
}

func TestImportedLogs(t *testing.T) {
	for name, want := range map[string]struct {
		deeds, id, producer, model string
		messages                   int64 // each of 1,000 tokens read and 50 written
	}{
		"claude-code": {"Bash Bash!3 Bash", "99e7141f-830f-4e5a-a08d-f44d7e0bceb0", "claude-code@2.1.332", "stub", 4},
		"codex": {
			"exec sub:command_execution exec sub:command_execution!3 exec sub:command_execution",
			"01a21f85-9334-75c0-8b7b-9724607571be", "codex@0.171.0", "gpt-6.2-sol", 4,
		},
		"codex-0.66": {"shell_command shell_command!3 shell_command", "01a21f88-d502-7391-8472-576b4d78b5ce", "codex@0.66.0", "gpt-5.1-codex-max", 4},
		"codex-0.39": {"shell shell!3", "01a21fc3-b57c-7b22-adf5-67242527088d", "codex@0.39.0", "gpt-5", 3},
	} {
		t.Run(name, func(t *testing.T) {
			f, log := logged(t, name)
			s := imported(t, f, string(log))
			if got := deeds(s); got != want.deeds {
				t.Errorf("calls %q", got)
			}
			start, header := s.Events[1].(replay.SessionStart), s.Events[0].(replay.ReplayHeader)
			if start.SessionID != want.id || header.Producer != want.producer || s.Model != want.model {
				t.Errorf("%+v, %+v, model %q", start, header, s.Model)
			}
			if s.Tokens == nil || *s.Tokens != (session.Tokens{Input: 1000 * want.messages, Output: 50 * want.messages}) {
				t.Errorf("tokens %+v", s.Tokens)
			}
			if end := s.Events[len(s.Events)-1].(replay.SessionEnd); end.Status != replay.Success {
				t.Errorf("%+v", end)
			}
			readable(t, s)
			got, _, err := session.Encode(s.Events)
			if err != nil {
				t.Fatal(err)
			}
			golden := "testdata/logs/" + name + "/commands.golden"
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(golden); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%v\ngot  %s\nwant %s", err, got, want)
			}
		})
	}
}

const (
	claudeAsked = `{"type":"user","sessionId":"s1","version":"2.0.1","timestamp":"2026-11-20T10:00:00Z","message":{"role":"user","content":"do it"}}`
	claudeCall  = `{"type":"assistant","sessionId":"s1","timestamp":"2026-11-20T10:00:02Z","message":{"id":"m1","model":"sonnet","stop_reason":"tool_use","content":[{"type":"tool_use","id":"c1","name":"Bash","input":{"command":"ls"}}],"usage":{"input_tokens":10,"cache_read_input_tokens":5,"output_tokens":%d}}}`
	claudeDone  = `{"type":"user","sessionId":"s1","timestamp":"2026-11-20T10:00:05Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"a"}]}}`
	claudeSaid  = `{"type":"assistant","sessionId":"s1","timestamp":"2026-11-20T10:00:09Z","message":{"id":"m2","model":"sonnet","stop_reason":"end_turn","content":[{"type":"text","text":"Done."}],"usage":{"input_tokens":20,"output_tokens":7}}}`
	claudeError = `{"type":"assistant","sessionId":"s1","timestamp":"2026-11-20T10:00:09Z","isApiErrorMessage":true,"message":{"id":"m3","model":"<synthetic>","stop_reason":"stop_sequence","content":[{"type":"text","text":"API Error: 529"}],"usage":{"input_tokens":0,"output_tokens":0}}}`
	claudeStop  = `{"type":"user","sessionId":"s1","timestamp":"2026-11-20T10:00:09Z","message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user]"}]}}`

	codexMeta  = `{"timestamp":"2026-11-20T10:00:00Z","type":"session_meta","payload":{"id":"s2","cli_version":"0.80.0"}}`
	codexAsked = `{"timestamp":"2026-11-20T10:00:00Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"do it"}]}}`
	codexCall  = `{"timestamp":"2026-11-20T10:00:02Z","type":"response_item","payload":{"type":"function_call","name":"shell","arguments":"{\"command\":[\"ls\"]}","call_id":"c1"}}`
	codexSaid  = `{"timestamp":"2026-11-20T10:00:09Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Done."}]}}`
	codexError = `{"timestamp":"2026-11-20T10:00:09Z","type":"event_msg","payload":{"type":"error","message":"no quota"}}`
	codexEnd   = `{"timestamp":"2026-11-20T10:00:09Z","type":"event_msg","payload":{"type":"task_complete","last_agent_message":null}}`
	codexStop  = `{"timestamp":"2026-11-20T10:00:09Z","type":"event_msg","payload":{"type":"turn_aborted","reason":"interrupted"}}`
)

func TestImportedStatus(t *testing.T) {
	for i, c := range []struct {
		format session.Format
		lines  []string
		want   replay.Status
	}{
		{session.ClaudeCode, []string{claudeAsked, claudeSaid}, replay.Success},
		{session.ClaudeCode, []string{claudeAsked, fmt.Sprintf(claudeCall, 1)}, replay.Cancelled},
		{session.ClaudeCode, []string{claudeAsked, fmt.Sprintf(claudeCall, 1), claudeDone}, replay.Cancelled},
		{session.ClaudeCode, []string{claudeAsked, claudeSaid, claudeStop}, replay.Cancelled},
		{session.ClaudeCode, []string{claudeAsked, claudeError}, replay.Failed},
		{session.ClaudeCode, []string{claudeAsked, claudeError, claudeAsked, claudeSaid}, replay.Success},
		{session.Codex, []string{codexMeta, codexAsked, codexSaid}, replay.Success},
		{session.Codex, []string{codexMeta, codexAsked, codexCall}, replay.Cancelled},
		{session.Codex, []string{codexMeta, codexAsked, codexCall, codexEnd}, replay.Success},
		{session.Codex, []string{codexMeta, codexAsked, codexError, codexEnd}, replay.Failed},
		{session.Codex, []string{codexMeta, codexAsked, codexStop}, replay.Cancelled},
	} {
		s := imported(t, c.format, c.lines...)
		if end := s.Events[len(s.Events)-1].(replay.SessionEnd); end.Status != c.want {
			t.Errorf("%d: %s, want %s", i, end.Status, c.want)
		}
	}
}

// Claude Code writes a line for each block of a message, and all of them have the usage of the whole message.
func TestImportedTokensOfAMessageCountOnce(t *testing.T) {
	s := imported(t, session.ClaudeCode, claudeAsked, fmt.Sprintf(claudeCall, 1), strings.ReplaceAll(fmt.Sprintf(claudeCall, 30), `"c1"`, `"c2"`), claudeDone, claudeSaid)
	if *s.Tokens != (session.Tokens{Input: 35, Output: 37}) {
		t.Errorf("%+v", *s.Tokens)
	}
}

func TestImportedTimes(t *testing.T) {
	s := imported(t, session.ClaudeCode, claudeAsked, fmt.Sprintf(claudeCall, 1), claudeDone, claudeSaid, claudeAsked)
	for _, e := range s.Events {
		switch e := e.(type) {
		case replay.ToolCall:
			if e.Tool == "Bash" && e.T != "2026-11-20T10:00:02Z" {
				t.Errorf("call at %s", e.T)
			}
		case replay.ToolResult:
			if e.Preview == "a" && e.LatencyMs != 3000 {
				t.Errorf("latency %d ms", e.LatencyMs)
			}
		case replay.SessionEnd:
			if e.T != "2026-11-20T10:00:09Z" || e.TotalLatencyMs != 9000 { // the last line is older
				t.Errorf("%+v", e)
			}
		}
	}
}

func TestImportCountsWhatItDoesNotKnow(t *testing.T) {
	for _, c := range []struct {
		format session.Format
		lines  []string
		want   map[string]int
	}{
		{session.ClaudeCode, []string{claudeAsked, `{"type":"dream"}`, `{"type":"dream"}`, `{}`, claudeSaid}, map[string]int{"dream": 2, "without a type": 1}},
		{session.Codex, []string{
			codexMeta, `{"type":"response_item","payload":{"type":"dream"}}`, `{"type":"event_msg","payload":{"type":"item_completed","item":{"type":"Dream"}}}`, codexSaid,
		}, map[string]int{"response_item/dream": 1, "event_msg/item_completed/Dream": 1}},
	} {
		s, unknown, err := session.Import(c.format, []byte(strings.Join(c.lines, "\n")))
		if err != nil || !maps.Equal(unknown, c.want) || s.Report.Faults() > 0 || deeds(s) != "" {
			t.Errorf("%v, %v, %+v", err, unknown, s.Report)
		}
	}
}

func TestImportRefusesOtherFiles(t *testing.T) {
	_, stream := session.ClaudeCode, []byte(`{"type":"system","subtype":"init","session_id":"s1","model":"sonnet"}`)
	_, rollout := logged(t, "codex")
	for i, err := range []error{
		importError(session.ClaudeCode, stream), importError(session.ClaudeCode, rollout), importError(session.Codex, []byte(claudeAsked)),
		importError(session.ClaudeCode, nil), importError(session.Opencode, []byte(claudeAsked)),
	} {
		if !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func importError(f session.Format, log []byte) error {
	_, _, err := session.Import(f, log)
	return err
}

func TestImportHidesSecrets(t *testing.T) {
	const secret = "sk-ant-api03-aaaabbbbccccdddd1111"
	for _, c := range []struct {
		format session.Format
		lines  []string
	}{
		{session.ClaudeCode, []string{claudeAsked, strings.Replace(fmt.Sprintf(claudeCall, 1), `"ls"`, `"curl -H x-api-key:`+secret+`"`, 1), claudeDone, strings.Replace(claudeSaid, "Done.", secret, 1)}},
		{session.Codex, []string{codexMeta, strings.Replace(codexCall, "ls", secret, 1), strings.Replace(codexSaid, "Done.", secret, 1)}},
	} {
		s := imported(t, c.format, c.lines...)
		b, _, err := session.Encode(s.Events)
		if err != nil || bytes.Contains(b, []byte(secret)) {
			t.Errorf("%v: %s", err, b)
		}
	}
}

func FuzzImport(f *testing.F) {
	for _, name := range []string{"claude-code", "codex", "codex-0.66", "codex-0.39"} {
		format, log := logged(f, name)
		for line := range bytes.Lines(log) {
			f.Add(format == session.Codex, line)
		}
	}
	f.Add(false, []byte(claudeError))
	f.Add(true, []byte(codexError))
	f.Fuzz(func(t *testing.T, codex bool, line []byte) {
		format, first := session.ClaudeCode, claudeAsked
		if codex {
			format, first = session.Codex, codexMeta
		}
		s, unknown, err := session.Import(format, append([]byte(first+"\n"), line...))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, many := range unknown {
			n += many
		}
		if int64(n) != s.Report.Unknown {
			t.Errorf("%v, and %d lines are unknown", unknown, s.Report.Unknown)
		}
		if s.Tokens != nil && (s.Tokens.Input < 0 || s.Tokens.Output < 0) {
			t.Errorf("%+v", *s.Tokens)
		}
		readable(t, s)
		if _, err := json.Marshal(receiptOf(t, s)); err != nil {
			t.Error(err)
		}
	})
}
