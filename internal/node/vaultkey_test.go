package node

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"guild/nutshell/vault"
)

func TestVaultKeyIsMadeOnce(t *testing.T) {
	dir := t.TempDir()
	k := &vaultKey{path: filepath.Join(dir, vaultKeyFile), now: time.Now}
	var all sync.Map
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			recipient, err := k.recipient()
			if err != nil {
				t.Error(err)
			}
			all.Store(recipient, true)
		})
	}
	running.Wait()
	again, err := (&vaultKey{path: k.path, now: time.Now}).recipient()
	if _, same := all.Load(again); err != nil || !same {
		t.Errorf("after a restart it is %s, %v", again, err)
	}
	n := 0
	all.Range(func(any, any) bool { n++; return true })
	info, err := os.Stat(k.path)
	if err != nil || info.Mode() != 0o600 || n != 1 {
		t.Errorf("%d keys, %v, %v", n, info.Mode(), err)
	}
}

func TestSealForAnotherNode(t *testing.T) {
	ours, theirs := &vaultKey{path: filepath.Join(t.TempDir(), "k"), now: time.Now}, &vaultKey{path: filepath.Join(t.TempDir(), "k"), now: time.Now}
	recipient, err := theirs.recipient()
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := ours.sealFor(t.Context(), recipient, vault.NewSecret([]byte("hunter2")))
	if err != nil || bytes.Contains(sealed, []byte("hunter2")) {
		t.Fatal(err)
	}
	if got, err := theirs.open(t.Context(), sealed); err != nil || string(got.Reveal()) != "hunter2" {
		t.Errorf("whom it is for: %v", err)
	}
	if _, err := ours.open(t.Context(), sealed); !errors.Is(err, vault.ErrNotFor) {
		t.Errorf("who sealed it: %v", err)
	}
	for _, strange := range []string{"", "age1yubikey1qwqsdf", "ssh-ed25519 AAAA", "passphrase"} {
		if _, err := ours.sealFor(t.Context(), strange, vault.NewSecret([]byte("x"))); err == nil {
			t.Errorf("sealed for %q", strange)
		}
	}
}

func TestInvalidKeyFileStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), vaultKeyFile)
	if err := os.WriteFile(path, []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	k := &vaultKey{path: path, now: time.Now}
	if recipient, err := k.recipient(); err == nil {
		t.Errorf("it is %s", recipient)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "something else" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestLeftoverCredentialsAreRemoved(t *testing.T) {
	n := &Node{c: Config{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}}
	dir, err := n.secretsDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	left := filepath.Join(dir, "vault-1", "vault.json")
	if err := errors.Join(os.Mkdir(filepath.Dir(left), 0o700), os.WriteFile(left, []byte("hunter2"), 0o600)); err != nil {
		t.Fatal(err)
	}
	again, err := n.secretsDir()
	if _, gone := os.Stat(left); err != nil || again != dir || !errors.Is(gone, os.ErrNotExist) {
		t.Errorf("%s after %s, %v, %v", again, dir, err, gone)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestForeignSecretsDirectory(t *testing.T) {
	place := t.TempDir()
	open, link, file := filepath.Join(place, "open"), filepath.Join(place, "link"), filepath.Join(place, "file")
	if err := errors.Join(os.Mkdir(open, 0o777), os.Chmod(open, 0o777), os.Symlink(place, link), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{open, link, file} {
		if err := emptyOwn(dir); err == nil {
			t.Errorf("%s is taken", dir)
		}
	}
	if _, err := os.Stat(open); err != nil {
		t.Error("it was touched")
	}
}
