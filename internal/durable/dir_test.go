package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"guild/internal/durable"
)

func TestLockedDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	first, err := durable.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := durable.LockDir(dir); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("locked twice: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Errorf("a locked directory cannot be filled: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := durable.LockDir(dir)
	if err != nil {
		t.Fatalf("still locked: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestLockedDirectoryMovesOverAnEmptyOne(t *testing.T) {
	parent := t.TempDir()
	from, to := filepath.Join(parent, "from"), filepath.Join(parent, "to")
	for _, dir := range []string{from, to} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(from, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	lock, err := durable.LockDir(from)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := durable.MoveDir(from, to); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(to, "file")); err != nil {
		t.Error(err)
	}
}

func TestMoveRefuses(t *testing.T) {
	parent := t.TempDir()
	from, full, file := filepath.Join(parent, "from"), filepath.Join(parent, "full"), filepath.Join(parent, "full", "file")
	if err := errors.Join(os.Mkdir(from, 0o700), os.Mkdir(full, 0o700), os.WriteFile(file, []byte("kept"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{full, file} {
		if err := durable.MoveDir(from, to); err == nil {
			t.Errorf("%s was replaced", to)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "kept" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestOnlyDirectoriesAreLocked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if d, err := durable.LockDir(file); err == nil {
		d.Close()
		t.Error("a file was locked as a directory")
	}
}
