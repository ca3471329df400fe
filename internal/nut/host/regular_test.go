package host

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"guild/nutshell"
)

// hostile returns a directory whose manifest is made by put.
func hostile(t *testing.T, put func(path string) error) string {
	t.Helper()
	dir := t.TempDir()
	if err := put(filepath.Join(dir, nutshell.ManifestFile)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func pipe(path string) error { return syscall.Mkfifo(path, 0o600) }

func TestPipesDoNotBlock(t *testing.T) {
	p := &Program{Name: "nutshell", In: &bytes.Buffer{}}
	dir := hostile(t, pipe)
	path := filepath.Join(dir, nutshell.ManifestFile)
	if _, err := p.OpenBundle(path); err == nil {
		t.Error("a pipe was opened as a bundle")
	}
	if _, _, err := p.OwnTree(dir); err == nil {
		t.Error("a pipe was read as a manifest")
	}
	if err := RewriteManifest(dir, func(m *nutshell.Manifest) error { return m.Set("id", "nut-2") }); err == nil {
		t.Error("a pipe was rewritten")
	}
	if f, err := ownDir(dir).Open(nutshell.ManifestFile); err != nil {
		t.Error(err)
	} else {
		f.Close()
	}
}

func TestRewriteManifestFollowsNoLink(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "private")
	if err := os.WriteFile(elsewhere, []byte(`{"id": "nut-1"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := hostile(t, func(path string) error { return os.Symlink(elsewhere, path) })
	if err := RewriteManifest(dir, func(m *nutshell.Manifest) error { return m.Set("id", "nut-2") }); err == nil {
		t.Error("a link was followed")
	}
	info, err := os.Lstat(filepath.Join(dir, nutshell.ManifestFile))
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v, %v", info, err)
	}
}

func TestIgnoredIsBounded(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".nutignore"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, ".nutignore"), 1<<40); err != nil {
		t.Fatal(err)
	}
	if _, err := Ignored(ownDir(dir)); err == nil {
		t.Error("a terabyte of patterns was taken")
	}
}
