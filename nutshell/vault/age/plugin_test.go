package age

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"filippo.io/age"
	"filippo.io/age/plugin"

	"guild/nutshell/vault"
	"guild/nutshell/vault/vaulttest"
)

// The test's own program is also a plugin, under the name that age gives plugins.
const pluginName = "guildtest"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "age-plugin-"+pluginName {
		os.Exit(runPlugin())
	}
	os.Exit(m.Run())
}

// runPlugin is a plugin whose keys are those of X25519, and which asks for a PIN before it opens.
func runPlugin() int {
	p, err := plugin.New(pluginName)
	if err != nil {
		panic(err)
	}
	p.HandleRecipient(func(data []byte) (age.Recipient, error) { return age.ParseX25519Recipient(string(data)) })
	p.HandleIdentity(func(data []byte) (age.Identity, error) {
		id, err := age.ParseX25519Identity(string(data))
		return withPIN{p, id}, err
	})
	return p.Main()
}

type withPIN struct {
	p  *plugin.Plugin
	id age.Identity
}

// Unwrap implements age.Identity.
func (w withPIN) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	if err := w.p.DisplayMessage("look at the key"); err != nil {
		return nil, err
	}
	goOn, err := w.p.Confirm("open it?", "yes", "no")
	if err != nil || !goOn {
		return nil, errors.Join(errors.New("not confirmed"), err)
	}
	who, err := w.p.RequestValue("who", false)
	if err != nil {
		return nil, err
	}
	pin, err := w.p.RequestValue("PIN", true)
	if err != nil || who != "me" || pin != "1234" {
		return nil, errors.Join(fmt.Errorf("wrong PIN"), err)
	}
	return w.id.Unwrap(stanzas)
}

// withPlugin puts the plugin on PATH, and returns a key of its own.
func withPlugin(t *testing.T) (Identity, string) {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "age-plugin-"+pluginName)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	k, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	text := plugin.EncodeIdentity(pluginName, []byte(k.String()))
	return Identity{Name: "plugged", Text: vault.NewSecret([]byte(text))}, plugin.EncodeRecipient(pluginName, []byte(k.Recipient().String()))
}

// present is a person who knows the PIN, and keeps the messages for them.
func present(told *[]string) UI {
	return UI{
		Ask:     func(prompt string) ([]byte, error) { *told = append(*told, prompt); return []byte("1234"), nil },
		Input:   func(prompt string) (string, error) { *told = append(*told, prompt); return "me", nil },
		Confirm: func(prompt, yes, no string) (bool, error) { *told = append(*told, prompt+yes+no); return true, nil },
		Tell:    func(message string) { *told = append(*told, message) },
	}
}

func TestPlugin(t *testing.T) {
	id, recipient := withPlugin(t)
	plain, plainRecipient := fresh(t)
	sealed := sealedFor(t, recipient, plainRecipient)
	var told []string
	s := sealer(t, Config{Identities: []Identity{id}, UI: present(&told)})
	open, err := s.Open(t.Context(), sealed)
	if err != nil || string(open.Reveal()) != vaulttest.Document {
		t.Fatal(err)
	}
	heard := strings.Join(told, "|")
	if want := "age-plugin-guildtest: look at the key|age-plugin-guildtest: open it?yesno|age-plugin-guildtest: who: |age-plugin-guildtest: PIN: "; heard != want {
		t.Errorf("heard %q", heard)
	}
	// A key that needs no person comes first.
	told = nil
	s = sealer(t, Config{Identities: []Identity{id, plain}, UI: present(&told)})
	if _, err := s.Open(t.Context(), sealed); err != nil || len(told) != 0 {
		t.Errorf("asked %q, %v", told, err)
	}
	if all, err := id.Recipients(t.Context(), UI{}); err != nil || len(all) != 0 {
		t.Errorf("the plugin's recipients: %v, %v", all, err)
	}
}

func TestPluginErrors(t *testing.T) {
	id, recipient := withPlugin(t)
	sealed := sealedFor(t, recipient)
	var told []string
	wrong := present(&told)
	wrong.Ask = func(string) ([]byte, error) { return []byte("0000"), nil }
	for name, c := range map[string]struct {
		ui   UI
		says string
	}{"nobody": {UI{}, "guildtest plugin"}, "a wrong PIN": {wrong, "wrong PIN"}} {
		_, err := sealer(t, Config{Identities: []Identity{id}, UI: c.ui}).Open(t.Context(), sealed)
		if !errors.Is(err, vault.ErrNotFor) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Setenv("PATH", t.TempDir())
	_, err := sealer(t, Config{Identities: []Identity{id}}).Open(t.Context(), sealed)
	if !errors.Is(err, vault.ErrNotFor) || !strings.Contains(err.Error(), "age-plugin-guildtest is not installed") {
		t.Errorf("not installed: %v", err)
	}
	_, err = sealer(t, Config{Recipients: []string{recipient}}).Seal(t.Context(), vault.NewSecret([]byte("{}")))
	if err == nil || !strings.Contains(err.Error(), "age-plugin-guildtest is not installed") {
		t.Errorf("sealing: %v", err)
	}
}

func TestPluginIsAbandoned(t *testing.T) {
	dir := t.TempDir()
	// It is silent until its input ends, at the end of the test.
	silent := "#!/bin/sh\necho >\"$SILENT\"\nwhile read -r line; do :; done\n"
	if err := os.WriteFile(filepath.Join(dir, "age-plugin-silent"), []byte(silent), 0o755); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	started, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer started.Close()
	t.Setenv("SILENT", pipe)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	id := Identity{Name: "silent", Text: vault.NewSecret([]byte(plugin.EncodeIdentity("silent", []byte("x"))))}
	_, recipient := fresh(t)
	sealed := sealedFor(t, recipient)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 2)
	go func() {
		_, err := sealer(t, Config{Identities: []Identity{id}}).Open(ctx, sealed)
		done <- err
	}()
	go func() {
		s := sealer(t, Config{Recipients: []string{plugin.EncodeRecipient("silent", []byte("x"))}})
		_, err := s.Seal(ctx, vault.NewSecret([]byte("{}")))
		done <- err
	}()
	if _, err := io.ReadFull(started, make([]byte, 2)); err != nil { // a line of each
		t.Fatal(err)
	}
	cancel()
	for range 2 {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

func TestPluginRecipients(t *testing.T) {
	recipient := plugin.EncodeRecipient("x", bytes.Repeat([]byte{1}, 32))
	if err := CheckRecipients([]string{recipient}); err != nil {
		t.Error(err)
	}
	if IsNative(recipient) {
		t.Error("a program is no key")
	}
	if c, err := Canonical(" " + recipient + "\n"); err != nil || c != recipient {
		t.Errorf("%q, %v", c, err)
	}
}
