package hooks_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"guild/internal/hand/hooks"
	"guild/nook"
)

// TestHooksUnlockAchievements does in a scratch repository what each achievement of git and of tokens asks for, and does it
// again. What the hooks report unlocks each of them once.
func TestHooksUnlockAchievements(t *testing.T) {
	r := newRepository(t)
	r.install()
	account := nook.New("root")
	had := map[string]int64{}
	// unlocked records what is spooled, as a node does, and returns the achievements that this unlocked.
	unlocked := func() string {
		for _, e := range drain(t, r.spool) {
			now := time.Now().UnixMilli()
			e, err := e.Received(now)
			if err != nil {
				t.Fatal(err)
			}
			if e.Type != nook.TypeHeartbeat {
				account.Add(nook.Recorded{Event: e, Arrived: now})
			}
		}
		var names []string
		for _, a := range account.Achievements() {
			if a.UnlockedAt != 0 && had[a.ID] == 0 {
				names = append(names, a.ID)
			}
			if had[a.ID] != 0 && a.UnlockedAt != had[a.ID] {
				t.Errorf("%s moved from %d to %d", a.ID, had[a.ID], a.UnlockedAt)
			}
			had[a.ID] = a.UnlockedAt
		}
		return strings.Join(names, " ")
	}
	pull := func(number string) {
		path := filepath.Join(t.TempDir(), "event.json")
		payload := `{"action":"opened","pull_request":{"html_url":"https://github.com/o/r/pull/` + number + `"}}`
		if err := os.WriteFile(path, []byte(payload), 0o600); err != nil {
			t.Fatal(err)
		}
		call := hooks.Call{Tool: "github", AgentID: "a", Now: time.Now(), Getenv: func(string) string { return path }}
		if err := call.Run(r.spool); err != nil {
			t.Fatal(err)
		}
	}
	run := func(tokens string) {
		if _, err := command("echo", `{"type":"turn.completed","usage":{"input_tokens":`+tokens+`}}`).Run(t.Context(), r.spool); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		does func()
		want string
	}{
		{func() { r.commit("begin") }, "first_commit"},
		{func() { r.commit("fix: the beginning") }, "first_bug_fix"},
		{func() { r.git("tag", "v1.0.0") }, "first_release"},
		{func() { pull("1") }, "first_pr"},
		{func() { r.commit("go on"); r.commit("fixes #1"); r.git("tag", "v1.0.1"); pull("1"); pull("2") }, ""},
		{func() { run("999") }, ""},
		{func() { run("1") }, "tokens_1k"},
		{func() { run("99000") }, "tokens_100k"},
		{func() { run("900000") }, "tokens_1m"},
		{func() { run("900000") }, ""},
	} {
		step.does()
		if got := unlocked(); got != step.want {
			t.Errorf("unlocked %q, want %q", got, step.want)
		}
	}
}
