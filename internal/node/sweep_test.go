package node

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"guild/internal/journal"
)

func TestOpenSweepsUnfinishedWrites(t *testing.T) {
	n := &Node{c: Config{Dir: t.TempDir(), NookDir: t.TempDir(), Now: time.Now, NoSync: true, Log: slog.New(slog.DiscardHandler)}.withDefaults()}
	if err := journal.Init(n.c.JournalDir); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * time.Hour)
	var unfinished []string
	for _, dir := range []string{n.c.Dir, filepath.Join(n.c.Dir, "agents"), n.c.NookDir} {
		path := filepath.Join(dir, ".tmp-1")
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(path, nil, 0o600), os.Chtimes(path, old, old)); err != nil {
			t.Fatal(err)
		}
		unfinished = append(unfinished, path)
	}
	if err := n.openJournal(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	defer n.journal.Close()
	for _, path := range unfinished {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: got %v, want ErrNotExist", path, err)
		}
	}
}
