// Package nwctest runs a Lightning wallet of others for tests: Alby's NWCWalletService, behind a relay. The money is not real.
package nwctest

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"fiatjaf.com/nostr"
	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/go-json-experiment/json"

	"guild"
	"guild/bolt11"
)

// Invoice is one that the wallet knows: it makes the first over an amount, and can pay each.
type Invoice struct {
	Text     string // BOLT 11
	Hash     guild.Hash
	Preimage string // in hex
	Amount   guild.Msat
	Fate     string // of its payment: "failed", or "pending" for ever; it is made if empty
}

// Sign signs an invoice with a key for tests, and fills what every invoice has.
func Sign(t *testing.T, inv bolt11.Invoice) string {
	t.Helper()
	private, _ := btcec.PrivKeyFromBytes([]byte{31: 9})
	inv.Secret, inv.Features = [32]byte{1}, []int{8, 14}
	text, err := inv.Sign(private)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Start runs interop/wallet-alby.mjs, with an account for each client, until the test ends. It returns the lines that the wallet
// prints for each payment.
func Start(t *testing.T, relay string, secret nostr.SecretKey, invoices []Invoice, clients ...nostr.PubKey) *bufio.Scanner {
	t.Helper()
	const hint = "install what these tests need with 'scripts/needs test'"
	_, here, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(here), "..", "..", "..", "..")
	packages := filepath.Join(root, ".cache", "interop")
	wanted, err := os.ReadFile(filepath.Join(root, "interop", "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	if there, err := os.ReadFile(filepath.Join(packages, "installed")); err != nil || !bytes.Equal(there, wanted) {
		t.Fatalf("Alby's SDK is not there in the version of interop/package-lock.json: %s", hint)
	}
	dir := t.TempDir() // Node.js looks for modules beside the program
	program := filepath.Join(dir, "wallet.mjs")
	text, err := os.ReadFile(filepath.Join(root, "interop", "wallet-alby.mjs"))
	if err == nil {
		err = os.WriteFile(program, text, 0o600)
	}
	if err == nil {
		err = os.Symlink(filepath.Join(packages, "node_modules"), filepath.Join(dir, "node_modules"))
	}
	if err != nil {
		t.Fatal(err)
	}
	config := map[string]any{"relay": relay, "secret": secret.Hex(), "invoices": known(invoices)}
	var keys []string
	for _, c := range clients {
		keys = append(keys, c.Hex())
	}
	config["clients"] = keys
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), "node", program, string(raw))
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(errors.Join(err, errors.New(hint)))
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the wallet has ended")
	}
	return lines
}

// known returns invoices as the program reads them.
func known(invoices []Invoice) []map[string]any {
	all := []map[string]any{}
	for _, i := range invoices {
		all = append(all, map[string]any{"invoice": i.Text, "hash": i.Hash.Hex(), "preimage": i.Preimage, "amount": i.Amount, "fate": i.Fate})
	}
	return all
}
