package hooks_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"guild/internal/hand/hooks"
	"guild/nook"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// described returns events without their ids and times, one on each line.
func described(events []nook.Event) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%s %s %d %s %s\n", e.Type, e.WorkUnitID, e.Tokens, e.State, e.Trigger)
	}
	return b.String()
}

func TestClaudeCodeReports(t *testing.T) {
	for _, c := range []struct{ report, want string }{
		{`{"hook_event_name":"SessionStart","session_id":"s","source":"startup"}`, "agent.started s 0  \n"},
		{`{"hook_event_name":"SessionStart","session_id":"s","source":"compact"}`, ""},
		{`{"hook_event_name":"UserPromptSubmit","session_id":"s","prompt":"secret"}`, "agent.state  0 working \n"},
		{`{"hook_event_name":"PostToolUse","tool_name":"Edit","tool_input":{"file_path":"a"},"tool_response":"text"}`, "agent.heartbeat  0  \n"},
		{`{"hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"command":"gh pr create --fill"},"tool_response":{"stdout":"https://github.com/o/r/pull/12\n"}}`,
			"agent.heartbeat  0  \nagent.completed  0  git.pr\n"},
		{`{"hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"command":"gh pr view"},"tool_response":{"stdout":"https://github.com/o/r/pull/12\n"}}`, "agent.heartbeat  0  \n"},
		{`{"hook_event_name":"SessionEnd","session_id":"s"}`, "agent.idle  0  \n"},
		{`{"hook_event_name":"Notification"}`, ""},
		{`{"hook_event_name":"Stop","session_id":"s","transcript_path":"testdata/claude-2.1.332.jsonl"}`, "agent.completed s 3150  \n"},
	} {
		events, err := hooks.ClaudeCode([]byte(c.report), "a", noon)
		if got := described(events); got != c.want || err != nil {
			t.Errorf("%s: %q, %v", c.report, got, err)
		}
	}
	if _, err := hooks.ClaudeCode([]byte(`{"hook_event_name"`), "a", noon); err == nil {
		t.Error("half a report is read")
	}
}

// stop returns the event of a turn that ends with a transcript.
func stop(t *testing.T, transcript string) nook.Event {
	t.Helper()
	path := filepath.Join(t.TempDir(), "transcript.jsonl")
	if err := os.WriteFile(path, []byte(transcript), 0o600); err != nil {
		t.Fatal(err)
	}
	report, err := json.Marshal(map[string]string{"hook_event_name": "Stop", "session_id": "s", "transcript_path": path})
	if err != nil {
		t.Fatal(err)
	}
	events, err := hooks.ClaudeCode(report, "a", noon)
	if err != nil || len(events) != 1 {
		t.Fatalf("%+v, %v", events, err)
	}
	return events[0]
}

func TestTurnCountsItsOwnTokens(t *testing.T) {
	const (
		prompt  = `{"type":"user","message":{"role":"user","content":"go on"}}` + "\n"
		result  = `{"type":"user","message":{"role":"user","content":[{"type":"tool_result","content":"x"}]}}` + "\n"
		stopped = `{"type":"system","subtype":"stop_hook_summary"}` + "\n"
		first   = `{"type":"assistant","uuid":"u1","requestId":"r1","message":{"id":"m1","usage":{"input_tokens":100,"output_tokens":1}}}` + "\n"
		second  = `{"type":"assistant","uuid":"u2","requestId":"r1","message":{"id":"m1","usage":{"input_tokens":100,"output_tokens":10}}}` + "\n"
		third   = `{"type":"assistant","uuid":"u3","requestId":"r2","message":{"id":"m2","usage":{"input_tokens":5,"cache_creation_input_tokens":20,"cache_read_input_tokens":300}}}` + "\n"
	)
	for _, c := range []struct {
		name, transcript string
		want             int64
	}{
		{"a message on two lines", prompt + first + second, 110},
		{"with a tool", prompt + first + second + result + third, 435},
		{"after another turn", prompt + first + stopped + prompt + third, 325},
		{"the hook's own line is there already", prompt + first + stopped, 101},
		{"a stop that was not the end", prompt + first + stopped + third, 325},
		{"no answer", prompt, 0},
		{"broken lines", "{\n\x00\n" + prompt + `{"type":"assistant","message":{"usage":"none"}}` + "\n" + third[:40] + "\n" + first, 101},
		{"no line feed at the end", prompt + strings.TrimSpace(first), 101},
		{"empty", "", 0},
	} {
		if got := stop(t, c.transcript).Tokens; got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	if a, b := stop(t, prompt+first), stop(t, prompt+first+stopped); a.ID != b.ID || a.ID == "" {
		t.Errorf("one turn has the ids %q and %q", a.ID, b.ID)
	}
	if a, b := stop(t, prompt+first), stop(t, prompt+first+stopped+prompt+third); a.ID == b.ID {
		t.Error("two turns have one id")
	}
}

func TestTranscriptMustBeAFile(t *testing.T) {
	for _, path := range []string{"/dev/zero", "/nowhere", t.TempDir()} {
		report := fmt.Sprintf(`{"hook_event_name":"Stop","session_id":"s","transcript_path":%q}`, path)
		events, err := hooks.ClaudeCode([]byte(report), "a", noon)
		if err == nil || len(events) != 1 || events[0].Tokens != 0 {
			t.Errorf("%s: %+v, %v", path, events, err)
		}
	}
}

func TestCodexReportsTurns(t *testing.T) {
	const thread, turn = "01a21aff-800c-7032-acad-e48045ba7484", "01a21aff-8090-7510-8f02-4e2636959570"
	home := filepath.Join(t.TempDir(), "[codex]*")
	session, err := os.ReadFile("testdata/codex-0.171.0.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	count := func(n int) string {
		return fmt.Sprintf(`{"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":%d,"output_tokens":0}}}}`+"\n", n)
	}
	older := `{"type":"event_msg","payload":{"type":"user_message"}}` + "\n" + count(10) + `{"type":"event_msg","payload":{"type":"user_message"}}` + "\n" + count(25)
	for _, c := range []struct {
		name, session, turn string
		want                int64
	}{
		{"first turn", string(session), turn, 3150},
		{"after another", count(100) + string(session), turn, 3050},
		{"older version", older, "9", 15},
		{"nothing counted", "{}\n", "9", 0},
	} {
		file := filepath.Join(home, "sessions", "2026", "11", "27", "rollout-2026-11-27T03-14-41-"+thread+".jsonl")
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(c.session), 0o600); err != nil {
			t.Fatal(err)
		}
		payload := fmt.Sprintf(`{"type":"agent-turn-complete","thread-id":%q,"turn-id":%q,"input-messages":["secret"]}`, thread, c.turn)
		events, err := hooks.Codex([]byte(payload), "a", home, noon)
		if want := fmt.Sprintf("agent.completed %s %d  \n", thread, c.want); described(events) != want || err != nil {
			t.Errorf("%s: %s %v", c.name, described(events), err)
		}
	}
	for _, payload := range []string{`{"type":"approval-requested"}`, `{}`} {
		if events, err := hooks.Codex([]byte(payload), "a", home, noon); len(events) > 0 || err != nil {
			t.Errorf("%s: %+v, %v", payload, events, err)
		}
	}
	events, err := hooks.Codex([]byte(`{"type":"agent-turn-complete","thread-id":"../../etc","turn-id":"1"}`), "a", home, noon)
	if err != nil || len(events) != 1 || events[0].Tokens != 0 {
		t.Errorf("a thread with a path: %+v, %v", events, err)
	}
}

func TestGitHubReports(t *testing.T) {
	for _, c := range []struct{ payload, want string }{
		{`{"action":"opened","number":1,"pull_request":{"html_url":"https://github.com/o/r/pull/1","title":"t"}}`, "agent.completed  0  git.pr\n"},
		{`{"action":"synchronize","pull_request":{"html_url":"https://github.com/o/r/pull/1"}}`, ""},
		{`{"action":"opened","issue":{"html_url":"https://github.com/o/r/issues/1"}}`, ""},
		{`{"action":"published","release":{"html_url":"https://github.com/o/r/releases/tag/v1"}}`, "agent.completed  0  git.release\n"},
		{`{"ref":"refs/heads/main","commits":[]}`, ""},
	} {
		path := filepath.Join(t.TempDir(), "event.json")
		if err := os.WriteFile(path, []byte(c.payload), 0o600); err != nil {
			t.Fatal(err)
		}
		s := newSpool(t)
		call := hooks.Call{Tool: "github", AgentID: "a", Now: noon, Getenv: func(name string) string {
			return map[string]string{"GITHUB_EVENT_PATH": path}[name]
		}}
		if err := call.Run(s); err != nil {
			t.Errorf("%s: %v", c.payload, err)
		}
		if got := described(drain(t, s)); got != c.want {
			t.Errorf("%s: %q", c.payload, got)
		}
	}
	opened := []byte(`{"action":"opened","pull_request":{"html_url":"https://github.com/o/r/pull/12"}}`)
	created := []byte(`{"hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"command":"gh pr create"},"tool_response":{"stdout":"https://github.com/o/r/pull/12"}}`)
	a, err := hooks.GitHub(opened, "a", noon)
	if err != nil {
		t.Fatal(err)
	}
	b, err := hooks.ClaudeCode(created, "a", noon)
	if err != nil {
		t.Fatal(err)
	}
	if a[0].ID != b[1].ID {
		t.Error("one pull request has two ids")
	}
}

func TestUnknownToolIsRefused(t *testing.T) {
	if err := (hooks.Call{Tool: "emacs"}).Run(newSpool(t)); err == nil {
		t.Error("no error")
	}
}

var config = hooks.Config{Program: []string{"/opt/it's here/guild", "nook"}, AgentID: "a"}

func TestClaudeSettingsStayAsTheyAre(t *testing.T) {
	for _, before := range []string{
		"{}\n",
		"{\n  \"model\": \"opus\"\n}\n",
		"{\n\t\"permissions\": {\"allow\": [\"Bash(ls)\"]},\n\t\"hooks\": {\n\t\t\"Stop\": [\n\t\t\t{\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]}\n\t\t],\n\t\t\"PreToolUse\": [ ]\n\t},\n\t\"n\": 1.50\n}",
		`{"hooks":{"Stop":[{"hooks":[]},{"matcher":"x","hooks":[{"type":"command","command":"x"}]}],"\u0053essionEnd":[1]},"env":{"A":"\u00e4"}}`,
	} {
		path := filepath.Join(t.TempDir(), ".claude", "settings.json")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(before), 0o640); err != nil {
			t.Fatal(err)
		}
		if changed, err := hooks.InstallClaudeCode(path, config); err != nil || !changed {
			t.Fatalf("%v, %v", changed, err)
		}
		after := installed(t, path)
		for _, name := range []string{"SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd"} {
			if n := strings.Count(string(after[name]), `'/opt/it'\\''s here/guild' 'nook' 'hook' 'claude-code' 'a'`); n != 1 {
				t.Errorf("%s has %d of our hooks: %s", name, n, after[name])
			}
		}
		first, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !isSubsequence(before, string(first)) {
			t.Errorf("more than insertions:\n%s\nwas\n%s", first, before)
		}
		if changed, err := hooks.InstallClaudeCode(path, config); err != nil || changed {
			t.Errorf("installed twice: %v, %v", changed, err)
		}
		if changed, err := hooks.UninstallClaudeCode(path); err != nil || !changed {
			t.Errorf("%v, %v", changed, err)
		}
		if before == "{}\n" {
			if _, err := os.Stat(path); err == nil {
				t.Error("empty settings are left")
			}
			continue
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != before {
			t.Errorf("not restored: %v\n%s\nwas\n%s", err, got, before)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
}

// isSubsequence reports whether a text becomes another one by insertions alone.
func isSubsequence(text, other string) bool {
	for i := range len(other) {
		if text != "" && text[0] == other[i] {
			text = text[1:]
		}
	}
	return text == ""
}

// installed returns the hooks in settings.
func installed(t *testing.T, path string) map[string]json.RawMessage {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var s struct{ Hooks map[string]json.RawMessage }
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return s.Hooks
}

func TestMissingSettingsAreMadeAndRemoved(t *testing.T) {
	home := t.TempDir()
	for path, install := range map[string]func(string, hooks.Config) (bool, error){
		filepath.Join(home, ".claude", "settings.json"): hooks.InstallClaudeCode,
		filepath.Join(home, ".codex", "config.toml"):    hooks.InstallCodex,
	} {
		if changed, err := install(path, config); err != nil || !changed {
			t.Errorf("%s: %v, %v", path, changed, err)
		}
	}
	for path, uninstall := range map[string]func(string) (bool, error){
		filepath.Join(home, ".claude", "settings.json"): hooks.UninstallClaudeCode,
		filepath.Join(home, ".codex", "config.toml"):    hooks.UninstallCodex,
	} {
		if changed, err := uninstall(path); err != nil || !changed {
			t.Errorf("%s: %v, %v", path, changed, err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is left", path)
		}
		if changed, err := uninstall(path); err != nil || changed {
			t.Errorf("%s: removed twice: %v, %v", path, changed, err)
		}
	}
}

func TestUnreadableSettingsStay(t *testing.T) {
	for _, text := range []string{"{", "[]", "{} {}", "// a comment\n{}", `{"hooks":[]}`, `{"hooks":{"Stop":{}}}`, `{"a":1,"a":2}`, "null"} {
		path := filepath.Join(t.TempDir(), "settings.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := hooks.InstallClaudeCode(path, config); err == nil {
			t.Errorf("%s: no error", text)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%s became %s", text, got)
		}
	}
}

func TestSettingsBehindALinkAreChanged(t *testing.T) {
	dir := t.TempDir()
	path, real := filepath.Join(dir, "settings.json"), filepath.Join(dir, "dotfiles.json")
	if err := os.WriteFile(real, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, path); err != nil {
		t.Fatal(err)
	}
	if _, err := hooks.InstallClaudeCode(path, config); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(real); err != nil || !bytes.Contains(b, []byte("claude-code")) {
		t.Errorf("%s, %v", b, err)
	}
	if to, err := os.Readlink(path); err != nil || to != real {
		t.Errorf("the link is gone: %s, %v", to, err)
	}
}

func TestCodexConfigurationStaysAsItIs(t *testing.T) {
	for _, c := range []struct{ before, runs string }{
		{"model = \"gpt\"\n\n[mcp_servers.x]\nnotify = [\"not this\"]\n", ""},
		{"# mine\nmodel = 'gpt'\nnotify = [\"say\", \"it's \\\"done\\\"\"] # loud\n[tui]\nnotifications = true\n", `"--","say","it's \"done\""`},
		{"text = \"\"\"\nnotify = [\"in a text\"]\n\"\"\"\n  notify = [ # why\n    'say', # [\n    \"]\",\n  ]\r\nx = 1", `"--","say","]"`},
		{"a = ['''x''', \"\"\"y\"\"\"\"]\nb = {c = \"#\"} # notify = []\n", ""},
		{"\"notify\" = []", `"hook","codex","a","--"`},
	} {
		path := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(path, []byte(c.before), 0o600); err != nil {
			t.Fatal(err)
		}
		if changed, err := hooks.InstallCodex(path, config); err != nil || !changed {
			t.Errorf("%q: %v, %v", c.before, changed, err)
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(got), `notify = ["/opt/it's here/guild","nook","hook","codex","a"`) || !strings.Contains(string(got), c.runs) {
			t.Errorf("installed\n%s", got)
		}
		if changed, err := hooks.InstallCodex(path, config); err != nil || changed {
			t.Errorf("installed twice: %v, %v", changed, err)
		}
		if changed, err := hooks.UninstallCodex(path); err != nil || !changed {
			t.Errorf("%v, %v", changed, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != c.before {
			t.Errorf("not restored: %v\n%s\nwas\n%s", err, got, c.before)
		}
	}
	for _, text := range []string{"notify = 3\n", "notify = [1]\n", "notify.x = 1\n", "= \n", "a = \"\n"} {
		path := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := hooks.InstallCodex(path, config); err == nil {
			t.Errorf("%s: no error", text)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%s became %s", text, got)
		}
	}
}

func TestEarlierNotifyStillRuns(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	s := newSpool(t)
	payload := `{"type":"agent-turn-complete","thread-id":"t-1","turn-id":"1"}`
	call := hooks.Call{Tool: "codex", AgentID: "a", Now: noon, Getenv: func(string) string { return dir },
		Args: []string{"--", "sh", "-c", `printf %s "$1|$2" >"$0.new" && mv "$0.new" "$0"`, out, "first", payload}}
	if err := call.Run(s); err != nil {
		t.Fatal(err)
	}
	if got := described(drain(t, s)); got != "agent.completed t-1 0  \n" {
		t.Errorf("%q", got)
	}
	for {
		b, err := os.ReadFile(out)
		if err != nil {
			continue // it is not waited for
		}
		if string(b) != "first|"+payload {
			t.Errorf("%s", b)
		}
		break
	}
}
