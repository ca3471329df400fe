package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestWorkerMounts(t *testing.T) {
	place := t.TempDir()
	home, agent := filepath.Join(place, "home"), filepath.Join(place, "agent")
	for _, dir := range []string{filepath.Join(home, "journal"), agent} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(home, filepath.Join(place, "link")); err != nil {
		t.Fatal(err)
	}
	n := &Node{c: Config{Dir: home, JournalDir: filepath.Join(home, "journal")}}

	for _, dir := range []string{place, home, filepath.Join(home, "journal"), filepath.Join(place, "link"), "/"} {
		_, err := n.mounts("", Worker{Mounts: []string{dir}})
		if _, ok := errors.AsType[*MountError](err); !ok {
			t.Errorf("%s is shown to a worker: %v", dir, err)
		}
	}
	if shown, err := n.mounts("", Worker{Mounts: []string{agent}}); err != nil || !slices.Equal(shown, []string{agent}) {
		t.Errorf("%v, %v", shown, err)
	}

	beside, apart := filepath.Join(place, "worker.sh"), filepath.Join(agent, "worker.sh")
	for program, want := range map[string]string{beside: beside, apart: agent} {
		if shown, err := n.mounts(program, Worker{}); err != nil || !slices.Equal(shown, []string{want}) {
			t.Errorf("for the program %s a worker sees %v, %v; want %s", program, shown, err, want)
		}
	}
}

func TestServiceSecretVariables(t *testing.T) {
	t.Setenv("AGENT_API_KEY", "sk-test-0123456789")
	t.Setenv("AGENT_MODEL", "small-model-4")
	s := new(Node).service(Worker{Task: "echo", Kind: 5000, Env: []string{"AGENT_API_KEY", "AGENT_MODEL", "AGENT_ABSENT"}}, nil)
	if len(s.Secrets) != 1 || s.Secrets[0].What != "the value of the variable AGENT_API_KEY" || string(s.Secrets[0].Text.Reveal()) != "sk-test-0123456789" {
		t.Errorf("got %+v, want the key alone", s.Secrets)
	}
	if shown := fmt.Sprintf("%v %+v %#v", s, s, s.Secrets); strings.Contains(shown, "sk-test-0123456789") {
		t.Errorf("it is printed: %s", shown)
	}
}
