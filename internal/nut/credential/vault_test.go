package credential

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/cli"
	"guild/internal/hand/key"
	"guild/internal/hand/workdir"
	"guild/nutshell"
	"guild/nutshell/vault"
)

var march = time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC)

// keeper returns a person with a key, at a fixed time, and a directory with a manifest.
func keeper(t *testing.T) (p program, dir string, k nostr.PubKey) {
	t.Helper()
	p, _ = person(t)
	secret := nostr.Generate()
	p.Now = func() time.Time { return march }
	p.Signer = func(context.Context) (nostr.Keyer, error) { return key.NewSigner(key.NewSecret(secret)), nil }
	dir = t.TempDir()
	manifest := `{"nutshell_version": "0.2.0", "bundle_type": "request", "id": "nut-1", "task": {"title": "x"}}`
	if err := os.WriteFile(filepath.Join(dir, nutshell.ManifestFile), []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	return p, dir, secret.Public()
}

// add puts a credential into the vault of a directory.
func add(t *testing.T, p program, dir, name, value string) {
	t.Helper()
	p.In = strings.NewReader(value)
	_, err := p.addCredential(t.Context(), credentialFlags{vaultFlags: vaultFlags{dir: dir}, name: name, expires: "30d"})
	if err != nil {
		t.Fatal(err)
	}
}

// valueIn returns a value in the vault of a directory.
func valueIn(t *testing.T, p program, dir, name string) string {
	t.Helper()
	s, err := p.openVault(t.Context(), vaultFlags{dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	c, _ := s.v.Credential(name)
	value, _ := c.Field("")
	return string(value.Reveal())
}

func TestParseExpiry(t *testing.T) {
	for text, want := range map[string]nutshell.Timestamp{
		"never": "", "2026-03-21": "2026-03-21T23:59:59Z", "2026-03-21T10:00:00+02:00": "2026-03-21T08:00:00Z",
		"36h": "2026-03-15T22:00:00Z", "7d": "2026-03-21T10:00:00Z", "2w": "2026-03-28T10:00:00Z", "2026-03-14": "2026-03-14T23:59:59Z",
	} {
		if got, err := parseExpiry(text, march); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "soon", "-1h", "0d", "-3d", "2026-03-13", "2026-03-14T10:00:00Z", "99999999d", "1.5d", "7"} {
		if got, err := parseExpiry(text, march); err == nil || cli.CodeOf(err) != cli.ExitUsage {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}

// edits makes a shell script the editor.
func edits(t *testing.T, script string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "editor")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("VISUAL", "")
	t.Setenv("EDITOR", "exec "+path)
}

func TestEditLeavesNoPlaintext(t *testing.T) {
	p, dir, _ := keeper(t)
	add(t, p, dir, "db", "hunter2")
	for _, c := range []struct {
		name, script, value string
		want                error
	}{
		{"changed, with a copy beside it", `cp "$1" "$1~"; sed -i s/hunter2/hunter3/ "$1"`, "hunter3", nil},
		{"Ctrl-C is the editor's", `kill -INT $PPID; sed -i s/hunter3/hunter4/ "$1"`, "hunter4", nil},
		{"stopped", `kill -TERM $PPID; read never`, "hunter4", context.Canceled},
		{"hung up", `kill -HUP $PPID; read never`, "hunter4", context.Canceled},
	} {
		edits(t, c.script)
		scratch := t.TempDir()
		pipe, end, err := os.Pipe() // what the editor reads never comes
		if err != nil {
			t.Fatal(err)
		}
		p.In = pipe
		edit := cli.Root(p.vaultEditCommand())
		edit.SetArgs([]string{"--dir", dir, "--scratch", scratch})
		err = edit.ExecuteContext(t.Context())
		end.Close()
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if left, _ := os.ReadDir(scratch); len(left) != 0 {
			t.Errorf("%s: left %v", c.name, left)
		}
		if got := valueIn(t, p, dir, "db"); got != c.value {
			t.Errorf("%s: the value is %q", c.name, got)
		}
	}
}

func TestEditLocksTheVault(t *testing.T) {
	p, dir, _ := keeper(t)
	add(t, p, dir, "db", "hunter2")
	p.In = strings.NewReader("x")
	f := credentialFlags{vaultFlags: vaultFlags{dir: dir}, name: "second"}
	_, err := p.edit(t.Context(), vaultFlags{dir: dir}, sealing{}, func(*safe) error {
		if _, err := p.addCredential(t.Context(), f); err == nil || cli.HintOf(err) != "wait until it is done" {
			t.Errorf("a second edit at the same time: got %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.addCredential(t.Context(), f); err != nil {
		t.Error(err)
	}
}

func TestAddFollowsNoLink(t *testing.T) {
	p, dir, _ := keeper(t)
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "credentials")); err != nil {
		t.Fatal(err)
	}
	p.In = strings.NewReader("hunter2")
	if _, err := p.addCredential(t.Context(), credentialFlags{vaultFlags: vaultFlags{dir: dir}, name: "db"}); err == nil {
		t.Error("written through a link")
	}
	if left, _ := os.ReadDir(outside); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

func TestVaultAndKeyArePrivate(t *testing.T) {
	p, dir, _ := keeper(t)
	add(t, p, dir, "db", "hunter2")
	path, err := p.ageKeyPath()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{path, filepath.Join(dir, vault.File)} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v", file, info.Mode())
		}
	}
}

// packed returns a bundle with a vault. k may issue newer ones, which are fetched from the server at.
func packed(t *testing.T, p program, dir string, k nostr.PubKey, at string) (bundle string) {
	t.Helper()
	add(t, p, dir, "db", "hunter2")
	if _, err := p.nameIssuer(dir, k, at+"/task.nut.vault"); err != nil {
		t.Fatal(err)
	}
	tree, err := workdir.FS(dir, nutshell.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	var b bytes.Buffer
	if _, err := nutshell.Pack(t.Context(), tree, &b, nutshell.Options{}); err != nil {
		t.Fatal(err)
	}
	bundle = filepath.Join(t.TempDir(), "task.nut")
	if err := os.WriteFile(bundle, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return bundle
}

func TestFetchNewestVault(t *testing.T) {
	p, dir, k := keeper(t)
	served := map[string][]byte{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, ok := served[r.URL.Path]; ok {
			w.Write(body)
			return
		}
		http.NotFound(w, r)
	}))
	defer server.Close()
	bundle := packed(t, p, dir, k, server.URL)
	fetch := func() error {
		_, err := p.fetchVault(t.Context(), server.Client().Transport, bundle)
		return err
	}
	if err := fetch(); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("nothing there: %v", err)
	}

	rotated := func(value string) []byte {
		p.In = strings.NewReader(value)
		f := rotateFlags{vaultFlags: vaultFlags{dir: dir}, bundle: bundle}
		if _, err := p.rotate(t.Context(), f, "db"); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(bundle + vault.RevisionSuffix)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	first, second := rotated("hunter3"), rotated("hunter4")
	if err := os.Remove(bundle + vault.RevisionSuffix); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, value string
		body        []byte
		want        error
	}{
		{"the first", "hunter3", first, nil},
		{"the second", "hunter4", second, nil},
		{"the first again", "hunter4", first, vault.ErrRollback},
		{"words", "hunter4", []byte("hello"), vault.ErrNotRevision},
		{"a changed one", "hunter4", bytes.Replace(second, []byte(`"created_at": 1`), []byte(`"created_at": 2`), 1), guild.ErrWrongID},
		{"too much", "hunter4", make([]byte, vault.MaxRevision+1), vault.ErrTooLarge},
	} {
		served["/task.nut.vault"] = c.body
		if err := fetch(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := valueIn(t, p, bundle, "db"); got != c.value {
			t.Errorf("%s: the value is %q", c.name, got)
		}
	}
}

func TestFetchNeedsHTTPS(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	server := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	defer server.Close()
	if _, err := get(t.Context(), server.Client().Transport, server.URL); err == nil || !strings.Contains(err.Error(), "is not an https address") {
		t.Errorf("led elsewhere: %v", err)
	}
	for _, at := range []string{"http://example.com", "https://", "ftp://x", "https://me:secret@example.com/x", "//example.com"} {
		if checkVaultURL(at) == nil {
			t.Errorf("%s is taken", at)
		}
	}
}
