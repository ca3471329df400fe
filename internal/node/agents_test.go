package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"fiatjaf.com/nostr"
	"golang.org/x/sync/errgroup"

	"guild"
	"guild/internal/control"
	"guild/internal/hand/bunker/bunkertest"
	"guild/internal/hand/chat"
	"guild/internal/hand/key"
	"guild/internal/hand/model"
	"guild/internal/journal"
	"guild/internal/step/agents"
	"guild/nutshell/vault"
)

const definitionFile = "+++\nslug = 'fixer'\ntitle = 'Fixer'\n+++\nFix it.\n"

// An agent's key may be at a remote signer. A key of this node's own is encrypted, and survives a restart.
func TestKeysOfAgents(t *testing.T) {
	url := startRelay(t)
	remote := key.NewSecret(nostr.Generate())
	address := bunkertest.Start(t, url, remote, bunkertest.Options{})
	home := t.TempDir()
	if err := journal.Init(filepath.Join(home, "journal")); err != nil {
		t.Fatal(err)
	}
	var c Config
	var near agents.Agent
	t.Run("before", func(t *testing.T) {
		client, _ := start(t, url, func(made *Config) {
			made.Dir = home
			c = *made
		})
		v, err := control.PublishDefinition.Call(t.Context(), client, strings.NewReader(definitionFile))
		if err != nil {
			t.Fatal(err)
		}
		far, err := control.InstallAgent.Call(t.Context(), client, control.Install{Definition: v.ID.Hex(), Name: "far", Bunker: address})
		if err != nil || far.PubKey != remote.PubKey() || far.Waiting != 0 {
			t.Fatalf("%+v, %v", far, err)
		}
		if near, err = control.InstallAgent.Call(t.Context(), client, control.Install{Definition: v.ID.Hex(), Name: "near"}); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(c.Dir, "agents", "keys", "near-*", key.File))
		if err != nil || len(files) != 1 {
			t.Fatalf("%v, %v", files, err)
		}
		text, err := os.ReadFile(files[0])
		if err != nil || !strings.HasPrefix(string(text), "ncryptsec1") {
			t.Errorf("%.20s, %v", text, err)
		}
	})

	client, _ := start(t, url, func(made *Config) { made.Dir, made.Identity = c.Dir, c.Identity })
	for _, a := range []string{"far", "near"} {
		l, err := control.TeachAgent.Call(t.Context(), client, control.Draft{Agent: a, Text: "what " + a + " learned"})
		if err != nil || !l.Applies {
			t.Errorf("%s: %+v, %v", a, l, err)
		}
	}
	again, err := control.OneAgent.Call(t.Context(), client, "near")
	if err != nil || again.PubKey != near.PubKey || again.Lessons != 2 {
		t.Errorf("%+v, %v", again, err)
	}
}

// Agents that are made at once each have a key that can be opened, and all are claimed.
func TestAgentsMadeAtOnce(t *testing.T) {
	client, _ := start(t, startRelay(t), func(*Config) {})
	v, err := control.PublishDefinition.Call(t.Context(), client, strings.NewReader(definitionFile))
	if err != nil {
		t.Fatal(err)
	}
	var all errgroup.Group
	for i := range 6 {
		all.Go(func() error {
			_, err := control.InstallAgent.Call(t.Context(), client, control.Install{Definition: v.ID.Hex(), Name: fmt.Sprint("a", i)})
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	made, err := control.Agents.Call(t.Context(), client)
	if err != nil || len(made) != 6 {
		t.Fatalf("%d agents, %v", len(made), err)
	}
	for _, a := range made {
		o, err := control.Owners.Call(t.Context(), client, a.Npub)
		if err != nil || len(o.Owners) != 1 || !o.Owners[0].Verified {
			t.Errorf("%s: %+v, %v", a.Name, o, err)
		}
	}
}

// The model that did a job writes the lesson once the customer has judged, and the lesson waits for the owner.
func TestModelWritesLesson(t *testing.T) {
	calls := []string{`{"name":"write","arguments":"{\"path\":\"delivery/lesson.md\",\"content\":\"Say it twice\"}"}`, `{"name":"finish","arguments":"{\"summary\":\"done\"}"}`}
	var mu sync.Mutex
	var prompts []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Messages []struct{ Role, Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || len(asked.Messages) < 2 {
			http.Error(w, "what?", http.StatusBadRequest)
			return
		}
		mu.Lock()
		prompts = append(prompts, asked.Messages[1].Content)
		mu.Unlock()
		told := len(asked.Messages) > 2
		call := calls[0]
		if told {
			call = calls[1]
		}
		fmt.Fprintf(w, `{"choices":[{"message":{"tool_calls":[{"id":"c","type":"function","function":%s}]}}]}`, call)
	}))
	t.Cleanup(server.Close)
	url := startRelay(t)
	provider, _ := start(t, url, func(c *Config) {
		c.Agents.Learn = LearnByModel
		c.Workers = []Worker{{Task: "echo", Agents: []string{"fixer"}, Chat: &chat.Model{
			API: model.API{URL: server.URL + "/v1", Key: vault.NewSecret([]byte("test-key-0123"))}, Name: "m",
			Brief: func(context.Context, fs.FS) (string, error) { return "Do it.", nil },
		}}}
	})
	v, err := control.PublishDefinition.Call(t.Context(), provider, strings.NewReader(definitionFile))
	if err == nil {
		_, err = control.InstallAgent.Call(t.Context(), provider, control.Install{Definition: v.ID.Hex()})
	}
	if err != nil {
		t.Fatal(err)
	}
	customer, _ := start(t, url, func(*Config) {})
	if job := hire(t, customer, control.Hire{}); job.Ending != guild.JobAccepted {
		t.Fatalf("%s", job.Ending)
	}
	eventually(t, "the lesson waits for the owner", func() bool {
		all, err := control.Lessons.Call(t.Context(), provider)
		return err == nil && len(all) == 1 && all[0].Draft != "" && all[0].Title == "Say it twice"
	})
	mu.Lock()
	defer mu.Unlock()
	if !slices.Contains(prompts, learnTask) || !slices.Contains(prompts, "Do it.") {
		t.Errorf("asked %q", prompts)
	}
}
