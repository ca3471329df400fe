package host

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"guild/nutshell"
)

func TestWriteNewReplacesNothing(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	if err := WriteNew(dir, "a/b/c.md", []byte("first"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := WriteNew(dir, "a/b/c.md", []byte("second"), 0o644); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	if err := os.Symlink(filepath.Join(outside, "x"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := WriteNew(dir, "link", []byte("second"), 0o644); !errors.Is(err, ErrExists) {
		t.Error("a link was followed or replaced:", err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if err := WriteNew(dir, "out/x", []byte("second"), 0o644); err == nil {
		t.Error("written through a link out of the directory")
	}
	got, err := os.ReadFile(filepath.Join(dir, "a/b/c.md"))
	if err != nil || string(got) != "first" {
		t.Errorf("%q, %v", got, err)
	}
	left, err := os.ReadDir(filepath.Join(dir, "a/b"))
	if err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	if left, err = os.ReadDir(outside); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestRewriteManifest(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, nutshell.ManifestFile)
	if err := os.WriteFile(file, []byte(`{"id": "nut-1", "mine": 1.00}`), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := RewriteManifest(dir, func(m *nutshell.Manifest) error { return m.Set("id", "nut-2") }); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("no")
	if err := RewriteManifest(dir, func(*nutshell.Manifest) error { return refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
	got, err := os.ReadFile(file)
	if err != nil || string(got) != `{"id": "nut-2", "mine": 1.00}` {
		t.Errorf("%s, %v", got, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
