package node

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"guild"
	"guild/internal/control"
	"guild/nip90"
	"guild/nipae"
)

// TestWrongFileOfADefinition has a definition name a file that is not of the hash in its metadata. Its next version names
// the right one.
func TestWrongFileOfADefinition(t *testing.T) {
	t.Parallel()
	relay := startRelay(t)
	var home string
	client, _ := start(t, relay, func(c *Config) { home = c.Dir })
	publisher, other := newPeer(t, relay), newPeer(t, relay)
	right := publisher.upload(relay, []byte("echo right"))
	wrong := publisher.upload(relay, []byte("echo WRONG"))
	wrong.Hash = guild.Sum([]byte("echo wrong"))
	define := func(ver int, files ...nip90.File) string {
		t.Helper()
		d := nipae.Definition{D: "coder", Ver: ver}
		for _, f := range files {
			d.Files = append(d.Files, nipae.Reference{ID: other.publish(f.Event()).ID}) // of any author: the definition names it by its id
		}
		e, err := d.Event()
		if err != nil {
			t.Fatal(err)
		}
		return publisher.publish(e).ID.Hex()
	}

	_, err := control.InstallAgent.Call(t.Context(), client, control.Install{Definition: define(1, right, wrong)})
	if err == nil || !strings.Contains(err.Error(), "the definition's file") {
		t.Errorf("installed, or refused for another reason: %v", err)
	}
	if all, err := control.Agents.Call(t.Context(), client); err != nil || len(all) > 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := os.Stat(filepath.Join(home, "agents", "coder")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a key of the agent is there: %v", err)
	}
	if claims, _ := publisher.stored(nipae.KindClaims); len(claims) > 0 {
		t.Errorf("claimed: %v", claims)
	}

	if _, err := control.InstallAgent.Call(t.Context(), client, control.Install{Definition: define(2, right)}); err != nil {
		t.Fatal(err)
	}
	c := composed(t, client, control.Compose{Agents: []string{"coder"}})
	if len(c.Files) != 1 || c.Files[0].Hash != right.Hash {
		t.Errorf("%+v", c.Files)
	}
}
