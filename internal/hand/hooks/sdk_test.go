package hooks_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"guild/internal/hand/hooks"
)

// TestJavaScriptClient runs the tests of sdk/js without a node, and reads what they spool.
func TestJavaScriptClient(t *testing.T) {
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "node", "--test", "test/")
	cmd.Dir = "../../../sdk/js"
	cmd.Env = append(os.Environ(), "NOOK_HOME="+home, "TMPDIR="+t.TempDir()) // they leave what they make
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "# fail 0") {
		t.Fatalf("%v\n%s", err, out)
	}
	tokens, once := int64(0), 0
	all := drain(t, hooks.Spool{Dir: filepath.Join(home, "spool")})
	for _, e := range all {
		tokens += e.Tokens
		if e.ID == "once" {
			once++
		}
	}
	if len(all) != 2+5+1+2500 || tokens != 5000+25_000 || once != 1 {
		t.Errorf("%d events with %d tokens, %d times the same one", len(all), tokens, once)
	}
}
