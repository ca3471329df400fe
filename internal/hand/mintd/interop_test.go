package mintd

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A wallet that others wrote (interop/wallet-cashu-ts.mjs) does all that the mint can.
func TestForeignWallet(t *testing.T) {
	const hint = "install what these tests need with 'scripts/needs test'"
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("there is no Node.js: %s (%v)", hint, err)
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	packages := filepath.Join(root, ".cache", "interop")
	wanted, err := os.ReadFile(filepath.Join(root, "interop", "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	if there, err := os.ReadFile(filepath.Join(packages, "installed")); err != nil || !bytes.Equal(there, wanted) {
		t.Fatalf("cashu-ts is not there in the version of interop/package-lock.json: %s", hint)
	}
	program, err := os.ReadFile(filepath.Join(root, "interop", "wallet-cashu-ts.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir() // Node.js looks for modules beside the program
	file := filepath.Join(dir, "wallet.mjs")
	if err := os.WriteFile(file, program, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(packages, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	_, w := start(t, t.TempDir(), Options{Faucet: 1 << 16})
	command := exec.CommandContext(t.Context(), node, file, `{"mint":"`+w.url+`"}`)
	var complaints bytes.Buffer
	command.Stderr = &complaints
	out, err := command.Output()
	t.Logf("%s", out)
	if err != nil || !strings.Contains(string(out), `"restore"`) {
		t.Errorf("cashu-ts: %v\n%.4000s", err, complaints.String())
	}
}
