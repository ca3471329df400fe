package credential

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestEditWipesKilledEdits(t *testing.T) {
	place := t.TempDir()
	left := filepath.Join(place, privateName+"left")
	err := errors.Join(os.Mkdir(left, 0o700), os.WriteFile(filepath.Join(left, "vault.json"), []byte("secret"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	first, held, err := privateDir(place)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was left is still there: %v", err)
	}
	_, other, err := privateDir(place)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := os.Stat(first); err != nil {
		t.Errorf("an edit under way was wiped: %v", err)
	}
}
