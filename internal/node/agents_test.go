package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild/internal/control"
	"guild/internal/hand/bunker/bunkertest"
	"guild/internal/hand/key"
	"guild/internal/journal"
	"guild/internal/step/agents"
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
		text, err := os.ReadFile(filepath.Join(c.Dir, "agents", "near", key.File))
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
