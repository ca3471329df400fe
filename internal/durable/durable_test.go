package durable_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"guild/internal/durable"
)

func TestWriteReplacesFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, want := range []string{"first and longer", "second"} {
		if err := durable.WriteBytes(path, []byte(want)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
}

func TestFailedWriteChangesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := durable.WriteBytes(path, []byte("kept")); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	err := durable.Write(path, func(w io.Writer) error {
		if _, err := w.Write([]byte("half")); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want the error of the writer", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "kept" {
		t.Errorf("got %q, %v, want what was there", got, err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("%d files in the directory, %v, want 1", len(names), err)
	}
}

func TestCreateKeepsWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := durable.Create(path, []byte("first")); err != nil {
		t.Fatal(err)
	}
	if err := durable.Create(path, []byte("second")); !errors.Is(err, os.ErrExist) {
		t.Errorf("got %v, want ErrExist", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "first" {
		t.Errorf("got %q, %v, want what was there", got, err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("%d files in the directory, %v, want 1", len(names), err)
	}
}

func TestMissingDirectory(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	if err := durable.WriteBytes(filepath.Join(missing, "f"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("write: got %v, want ErrNotExist", err)
	}
	if err := durable.SyncDir(missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("sync: got %v, want ErrNotExist", err)
	}
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-2 * time.Hour)
	for name, at := range map[string]time.Time{".tmp-1": old, ".tmp-2": time.Now(), "kept": old} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	durable.Sweep(dir, filepath.Join(dir, "missing"))
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 || left[0].Name() != ".tmp-2" || left[1].Name() != "kept" {
		t.Errorf("%v, %v", left, err)
	}
}
