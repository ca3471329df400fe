package hooks_test

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"guild/internal/hand/hooks"
	"guild/internal/hand/model/modeltest"
	"guild/nook"
)

// agentProgram returns the path of an agent that scripts/needs has installed.
func agentProgram(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob("../../../.cache/agents/node_modules/" + pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v %v; scripts/needs test installs it", pattern, found, err)
	}
	path, err := filepath.Abs(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// world is a home of an agent with our hooks, and a stub of its API.
type world struct {
	t     *testing.T
	home  string
	spool hooks.Spool
	api   string
	self  hooks.Config
}

func newWorld(t *testing.T) *world {
	t.Helper()
	program, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	model := httptest.NewServer(&modeltest.Model{Commands: []string{"ls", "echo hello; false"}, Text: "It is done."})
	t.Cleanup(model.Close)
	home := t.TempDir()
	return &world{t, home, hooks.Spool{Dir: filepath.Join(home, ".nook", "spool")}, model.URL, hooks.Config{Program: []string{program}, AgentID: "tester"}}
}

// run runs the agent in an empty environment, and fails if it fails.
func (w *world) run(env []string, args ...string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), args[0], args[1:]...)
	cmd.Dir = w.t.TempDir()
	cmd.Env = append([]string{"HOME=" + w.home, "NOOK_HOME=" + filepath.Join(w.home, ".nook"), "PATH=/usr/local/bin:/usr/bin:/bin"}, env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%v\n%s", err, out)
	}
}

// reported waits until an event of each type is spooled, as hooks run in the background, and returns all events.
func (w *world) reported(types ...string) []nook.Event {
	w.t.Helper()
	var all []nook.Event
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		all = append(all, drain(w.t, w.spool)...)
		if !slices.ContainsFunc(types, func(each string) bool {
			return !slices.ContainsFunc(all, func(e nook.Event) bool { return e.Type == each })
		}) {
			return all
		}
	}
	w.t.Fatalf("not reported: %v of %+v", types, all)
	return nil
}

func TestRealClaudeCodeReports(t *testing.T) {
	w := newWorld(t)
	program := agentProgram(t, "@anthropic-ai/claude-code-linux-*/claude")
	if _, err := hooks.InstallClaudeCode(filepath.Join(w.home, ".claude", "settings.json"), w.self); err != nil {
		t.Fatal(err)
	}
	w.run([]string{"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "IS_SANDBOX=1", "ANTHROPIC_BASE_URL=" + w.api, "ANTHROPIC_API_KEY=sk-none"},
		program, "-p", "--dangerously-skip-permissions", "--setting-sources", "user", "do it")
	all := w.reported(nook.TypeStarted, nook.TypeState, nook.TypeHeartbeat, nook.TypeCompleted, nook.TypeIdle)
	for _, e := range all {
		if e.AgentID != "tester" {
			t.Errorf("%+v", e)
		}
		if e.Type == nook.TypeCompleted && (e.Tokens != 3150 || e.WorkUnitID == "") {
			t.Errorf("%+v, want 3150 tokens, as the API reported", e)
		}
	}
}

func TestRealCodexReports(t *testing.T) {
	w := newWorld(t)
	program := agentProgram(t, "@openai/codex-linux-*/vendor/*/bin/codex")
	if _, err := hooks.InstallCodex(filepath.Join(w.home, ".codex", "config.toml"), w.self); err != nil {
		t.Fatal(err)
	}
	base, err := json.Marshal(w.api + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{program, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"}
	for _, set := range []string{"model_provider=stub", "model_providers.stub.name=stub", "model_providers.stub.wire_api=responses",
		"model_providers.stub.base_url=" + string(base), "model_providers.stub.env_key=KEY", "web_search=disabled", "check_for_update_on_startup=false"} {
		args = append(args, "-c", set)
	}
	w.run([]string{"KEY=none"}, append(args, "do it")...)
	all := w.reported(nook.TypeCompleted)
	if len(all) != 1 || all[0].Tokens != 3150 || strings.Count(all[0].WorkUnitID, "-") != 4 {
		t.Errorf("%+v, want one turn of 3150 tokens, as the API reported", all)
	}
}
