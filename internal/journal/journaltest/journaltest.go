// Package journaltest opens real journals for tests, inside synctest bubbles or outside.
package journaltest

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"

	"guild/internal/fold"
	"guild/internal/journal"
)

// Main runs the tests of a package that opens journals. It is the package's TestMain: the clock that all
// servers of a process share must start outside any bubble.
func Main(m *testing.M) {
	ats.Register()
	os.Exit(m.Run())
}

// Open opens an empty journal in a directory of t, without fsync, and closes it when t ends.
func Open(t *testing.T, folds ...fold.Fold) *journal.Journal {
	t.Helper()
	dir := t.TempDir()
	if err := journal.Init(dir); err != nil {
		t.Fatal(err)
	}
	return Reopen(t, dir, folds...)
}

// Reopen opens the journal in dir, which must not be open, and closes it when t ends.
func Reopen(t *testing.T, dir string, folds ...fold.Fold) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.Context(), journal.Options{
		Dir: dir, Node: "test", Now: time.Now, Folds: folds,
		NoSync: true, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Errorf("close the journal: %v", err)
		}
	})
	return j
}
