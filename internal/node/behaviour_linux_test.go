package node_test

import (
	"bytes"
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"guild"
	"guild/internal/hand/agent"
	"guild/internal/hand/model"
	"guild/internal/hand/model/modeltest"
	"guild/internal/node"
	"guild/internal/step/work"
	"guild/nip90"
	"guild/nutshell"
	"guild/nutshell/vault"
)

// greeting is a bundle.
func greeting(t *testing.T) []byte {
	t.Helper()
	var packed bytes.Buffer
	_, err := nutshell.Pack(t.Context(), fstest.MapFS{"nutshell.json": {Data: []byte(
		`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"Say hello"}}`)}}, &packed, nutshell.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// behave returns a Behave that always returns b.
func behave(b work.Behaviour) func(context.Context, nip90.Request) (*work.Behaviour, error) {
	b.ID = guild.Sum([]byte(b.Prompt))
	return func(context.Context, nip90.Request) (*work.Behaviour, error) { return &b, nil }
}

// TestAgentsHaveTheirBehavioursToolsOnly has real agents speak to a model that first calls a tool that the behaviour does not
// have, and then one that it has.
func TestAgentsHaveTheirBehavioursToolsOnly(t *testing.T) {
	const prompt = "Say \"quux\" to $(id)."
	for name, c := range map[string]struct {
		path      string // of the program, below node_modules
		api       string
		tools     []string
		forbidden modeltest.Call
		allowed   modeltest.Call
		refused   string // what the model is told
	}{
		"claude-code": {
			"@anthropic-ai/claude-code-linux-*/claude", "", []string{"read", "write"},
			modeltest.Call{Tool: "Bash", Arguments: `{"command":"echo no >/box/delivery/no.txt"}`},
			modeltest.Call{Tool: "Write", Arguments: `{"file_path":"/box/delivery/hello.txt","content":"hello\n"}`},
			"No such tool available: Bash",
		},
		"codex": {
			"@openai/codex-linux-*/vendor/*/bin/codex", "/v1", []string{"edit"},
			modeltest.Call{Tool: "exec", Arguments: `text(await tools.exec_command({"cmd":"echo no >/box/delivery/no.txt"}))`},
			modeltest.Call{Tool: "exec", Arguments: `text(await tools.apply_patch("*** Begin Patch\n*** Add File: /box/delivery/hello.txt\n+hello\n*** End Patch"))`},
			"exec_command is not a function",
		},
		"opencode": {
			"opencode-linux-*/bin/opencode", "", []string{"read", "write"},
			modeltest.Call{Tool: "bash", Arguments: `{"command":"echo no >/box/delivery/no.txt","description":"x"}`},
			modeltest.Call{Tool: "write", Arguments: `{"filePath":"/box/delivery/hello.txt","content":"hello\n"}`},
			"unavailable tool",
		},
	} {
		if name != "claude-code" && os.Getenv("GUILD_SOAK") == "" {
			continue // it takes ten seconds
		}
		t.Run(name, func(t *testing.T) {
			program, err := filepath.Glob("../../.cache/agents/node_modules/" + c.path)
			if err != nil || len(program) != 1 {
				t.Fatalf("%q, %v: scripts/needs test installs it", program, err)
			}
			var mu sync.Mutex
			var heard strings.Builder
			api := httptest.NewServer(&modeltest.Model{Calls: []modeltest.Call{c.forbidden, c.allowed}, Text: "It is done.", Heard: func(r modeltest.Request) {
				mu.Lock()
				defer mu.Unlock()
				heard.WriteString(r.Body)
			}})
			defer api.Close()
			w := agentWorker(t, name, program[0], api.URL+c.api)
			w.Behave = behave(work.Behaviour{Prompt: prompt, Tools: c.tools})
			trial, err := node.Try(t.Context(), node.Config{Dir: t.TempDir()}, w, greeting(t), func(string) {})
			if err != nil {
				t.Fatalf("%v: %s", err, trial.Stderr)
			}
			b, err := nutshell.Open(bytes.NewReader(trial.Delivery), int64(len(trial.Delivery)), nutshell.DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, f := range b.Files() {
				names = append(names, f.Path)
			}
			if all := strings.Join(names, " "); strings.Contains(all, "no.txt") || !strings.Contains(all, "hello.txt") {
				t.Errorf("delivered %s", all)
			}
			for _, want := range []string{c.refused, `Say \"quux\" to $(id).`} {
				if !strings.Contains(heard.String(), want) {
					t.Errorf("the model was not told %q", want)
				}
			}
			id := `"behaviour_id":"` + guild.Sum([]byte(prompt)).String() + `"`
			if !bytes.Contains(trial.Replay, []byte(id)) || !bytes.Contains(trial.Receipt, []byte(id)) {
				t.Errorf("no %s in %s or in %s", id, trial.Replay, trial.Receipt)
			}
			if !bytes.Contains(trial.Receipt, []byte(`"tokens":{"input":3000`)) && !bytes.Contains(trial.Receipt, []byte(`"tokens":{"input":4000`)) {
				t.Errorf("no tokens in %s", trial.Receipt)
			}
		})
	}
}

// agentWorker returns the worker that runs the program of an agent.
func agentWorker(t *testing.T, name, program, url string) node.Worker {
	t.Helper()
	dir, err := filepath.Abs(filepath.Dir(program))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	preset, err := agent.Named(name, "")
	if err != nil {
		t.Fatal(err)
	}
	found, err := preset.Find()
	if err != nil {
		t.Fatal(err)
	}
	return node.Worker{
		Task: "greeting", Limit: 2 * time.Minute, Command: found.Command, Trace: preset.Trace,
		Agent: &node.Agent{Name: name, Mounts: found.Mounts, API: &model.API{URL: url, Key: vault.NewSecret([]byte("k")), Header: preset.API.Header}},
	}
}

func TestAgentThatCannotBeLimitedRefusesTools(t *testing.T) {
	program := filepath.Join(t.TempDir(), "aider")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho ran >\"$GUILD_DELIVERY/ran\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	w := agentWorker(t, "aider", program, "http://127.0.0.1:1")
	w.Behave = behave(work.Behaviour{Prompt: "Be kind.", Tools: []string{"read"}})
	_, err := node.Try(t.Context(), node.Config{Dir: t.TempDir()}, w, greeting(t), func(string) {})
	failed, ok := errors.AsType[*work.FailedError](err)
	if !ok || !strings.Contains(failed.Stderr, "the agent aider cannot be limited to some of its tools") {
		t.Errorf("%v", err)
	}
	w.Behave = behave(work.Behaviour{Prompt: "Be kind."})
	if _, err := node.Try(t.Context(), node.Config{Dir: t.TempDir()}, w, greeting(t), func(string) {}); err != nil {
		t.Errorf("a prompt alone: %v", err)
	}
}
