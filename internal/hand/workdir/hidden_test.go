package workdir_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"guild/internal/hand/workdir"
	"guild/nutshell"
)

// hiddenTest is a directory with one hidden test.
func hiddenTest(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, nutshell.HiddenDir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, nutshell.HiddenDir, "a.sh"), []byte("true\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCommitKeepsSalts(t *testing.T) {
	dir := hiddenTest(t)
	first, err := workdir.Commit(t.Context(), dir, rand.Reader)
	if err != nil || len(first) != 1 {
		t.Fatalf("%v, %v", first, err)
	}
	again, err := workdir.Commit(t.Context(), dir, rand.Reader)
	if err != nil || len(again) != 1 || again[0] != first[0] {
		t.Errorf("committing again gives %v, not %v; %v", again, first, err)
	}
	left, err := os.ReadDir(filepath.Join(dir, nutshell.HiddenDir))
	if err != nil || len(left) != 2 {
		t.Errorf("%v, %v: want the test and the salts", left, err)
	}
	info, err := os.Stat(filepath.Join(dir, nutshell.SaltsFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the salts: %v, %v", info, err)
	}
}

func TestCommitRefusesLinks(t *testing.T) {
	elsewhere := hiddenTest(t)
	for name, link := range map[string]string{"the folder": nutshell.HiddenDir, "the folder above": "tests"} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, link)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(elsewhere, link), filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
		if all, err := workdir.Commit(t.Context(), dir, rand.Reader); err == nil {
			t.Errorf("%s: committed to %v", name, all)
		}
	}
	if _, err := os.Lstat(filepath.Join(elsewhere, nutshell.SaltsFile)); err == nil {
		t.Error("the salts are elsewhere")
	}
}

func TestCommitRefusesOddSalts(t *testing.T) {
	for name, put := range map[string]func(string) error{
		"a pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a link": func(path string) error { return os.Symlink("/etc/passwd", path) },
	} {
		dir := hiddenTest(t)
		if err := put(filepath.Join(dir, nutshell.SaltsFile)); err != nil {
			t.Fatal(err)
		}
		if _, err := workdir.Commit(t.Context(), dir, rand.Reader); err == nil {
			t.Errorf("%s was taken for salts", name)
		}
	}
}
