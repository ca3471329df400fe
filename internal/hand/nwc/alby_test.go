package nwc

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"guild"
)

// startAlby runs interop/wallet-alby.mjs, and returns the lines that it prints after the first.
func startAlby(t *testing.T, url string, invoices ...object) *bufio.Scanner {
	t.Helper()
	const hint = "install what these tests need with 'scripts/needs test'"
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
	secret := them.Reveal()
	config, err := json.Marshal(object{"relay": url, "secret": secret.Hex(), "client": us.PubKey().Hex(), "invoices": invoices})
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), "node", program, string(config))
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
		t.Fatalf("%v: %s", err, hint)
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

func TestAlbyWallet(t *testing.T) {
	url, bill := startRelay(t), invoice(t, 5000, hash)
	other := invoice(t, 6000, guild.Hash{1})
	lines := startAlby(t, url,
		object{"invoice": bill, "hash": hash.Hex(), "preimage": preimage, "amount": 5000},
		object{"invoice": other, "hash": guild.Hash{1}.Hex(), "preimage": preimage, "amount": 6000})
	w, err := open(t, url)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if info, err := w.Info(ctx); err != nil || info.Alias != "Alby" || info.Network != "regtest" || len(info.Methods) != 2 {
		t.Error(info, err)
	}
	if balance, err := w.Balance(ctx); err != nil || balance != 21000 {
		t.Error(balance, err)
	}
	if _, inv, err := w.MakeInvoice(ctx, 5000, "work", time.Hour); err != nil || inv.PaymentHash != hash {
		t.Error(inv, err)
	}

	prepared, err := w.Prepare(ctx, bill, time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := w.Pay(ctx, prepared); err != nil || p.Preimage[0] != 1 || p.Fees != 2 {
		t.Fatal(p, err)
	}
	if !lines.Scan() || !strings.Contains(lines.Text(), bill) {
		t.Error("the wallet was not asked:", lines.Text())
	}
	w.config.Timeout = 200 * time.Millisecond
	if p, err := w.Pay(ctx, prepared); !errors.Is(err, ErrNoAnswer) { // this wallet passes over what it knows
		t.Error(p, err)
	}
	w.config.Timeout = time.Minute
	if found, err := w.Lookup(ctx, hash); err != nil || !found.Outgoing || !found.Settled || found.Amount != 5000 || found.Preimage[0] != 1 {
		t.Error(found, err)
	}
	if prepared, err = w.Prepare(ctx, other, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if p, err := w.Pay(ctx, prepared); !errors.Is(err, ErrUnproven) {
		t.Error("paid with the preimage of another invoice:", p, err)
	}
	if !lines.Scan() || !strings.Contains(lines.Text(), other) {
		t.Error("the first invoice was paid twice:", lines.Text())
	}
	_, err = w.Lookup(ctx, guild.Hash{2})
	if refused, ok := errors.AsType[*RefusedError](err); !ok || refused.Code != "NOT_FOUND" {
		t.Error(err)
	}
}
