package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"guild/internal/config"
	"guild/internal/node"
)

func TestShippedExamplesAreThoseOfTheDirectory(t *testing.T) {
	for task, dir := range map[string]string{"python": "brackets", "javascript": "durations", "go": "spans", "shell": "top-words"} {
		packed, _, err := packBundle(t.Context(), filepath.Join("../../examples", dir), nil)
		if err != nil {
			t.Fatal(err)
		}
		file := "tries/" + task + ".nut"
		if *update {
			if err := os.WriteFile(file, packed, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if shipped, err := examples.ReadFile(file); err != nil || !bytes.Equal(packed, shipped) {
			t.Errorf("%s is not %s as it is now (%v): go test ./cmd/guild -run %s -update", file, dir, err, t.Name())
		}
	}
}

func TestChangedWorkerIsAnother(t *testing.T) {
	c := config.Config{Paths: config.Paths{State: t.TempDir()}}
	s := service{D: "python", Exec: "solve", Env: []string{"A", "B"}, Network: "none"}
	if passedTry(c, s) {
		t.Error("it passed before any try")
	}
	if err := recordTry(c, s, true); err != nil {
		t.Fatal(err)
	}
	same := service{D: "other", Exec: "solve", Env: []string{"B", "A"}, Jobs: 9, PriceMsat: 3}
	if !passedTry(c, s) || !passedTry(c, same) {
		t.Error("the same worker for another service is untried")
	}
	for what, change := range map[string]func(*service){
		"command": func(s *service) { s.Exec = "solve -v" }, "variables": func(s *service) { s.Env = []string{"A"} },
		"mounts": func(s *service) { s.Mounts = []string{"/opt"} }, "network": func(s *service) { s.Network = "full" },
		"sandbox": func(s *service) { s.Unsandboxed = true }, "trace": func(s *service) { s.Trace = "codex" },
	} {
		other := s
		change(&other)
		if passedTry(c, other) {
			t.Errorf("a worker with another %s passed", what)
		}
	}
	claude := func(version string) service {
		return service{D: "java", Exec: "exec '/home/me/.local/share/claude/versions/" + version + "' -p", Agent: &node.Agent{Name: "claude-code"}}
	}
	if err := recordTry(c, claude("2.1.332"), true); err != nil || !passedTry(c, claude("2.1.333")) {
		t.Errorf("an agent that was updated is untried (%v)", err)
	}
	codex := claude("2.1.332")
	codex.Agent = &node.Agent{Name: "codex"}
	if passedTry(c, codex) {
		t.Error("another agent passed")
	}
	if err := recordTry(c, s, false); err != nil || passedTry(c, s) {
		t.Errorf("after a failed try it passes (%v)", err)
	}
}
