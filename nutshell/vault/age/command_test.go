package age

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"guild/nutshell/vault/vaulttest"
)

// command is the original age program.
func command(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("age")
	if err != nil {
		t.Fatal("the age command is not installed: scripts/needs test installs it")
	}
	return path
}

// runAge runs age with some input.
func runAge(t *testing.T, in []byte, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command(t), args...)
	var out, told bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &told
	if err := cmd.Run(); err != nil {
		t.Fatalf("age %s: %v: %s", strings.Join(args, " "), err, told.String())
	}
	return out.Bytes()
}

// bothWays checks that age opens what we seal, and we open what age seals, armoured and not.
func bothWays(t *testing.T, id Identity, recipient string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "identity")
	if err := os.WriteFile(file, id.Text.Reveal(), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := runAge(t, sealedFor(t, recipient), "-d", "-i", file); string(got) != vaulttest.Document {
		t.Errorf("age opened %q", got)
	}
	s := sealer(t, Config{Identities: []Identity{id}})
	for _, args := range [][]string{{"-r", recipient}, {"-a", "-r", recipient}} {
		open, err := s.Open(t.Context(), runAge(t, []byte(vaulttest.Document), args...))
		if err != nil || string(open.Reveal()) != vaulttest.Document {
			t.Errorf("age %v: %v", args, err)
		}
	}
}

func TestAgeCommandInterop(t *testing.T) {
	id, recipient := fresh(t)
	bothWays(t, id, recipient)
}
