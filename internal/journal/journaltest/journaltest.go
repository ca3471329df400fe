// Package journaltest opens real journals for tests, inside synctest bubbles or outside.
package journaltest

import (
	"log/slog"
	"os"
	"syscall"
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

// Dir returns an empty directory that is gone when t ends: in memory where the machine has plenty of that, for hundreds
// of journals are opened and closed by the tests of one package, and none of them has to outlive a power failure.
func Dir(t *testing.T) string {
	t.Helper()
	const memory, plenty = "/dev/shm", 1 << 30 // bytes
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memory, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < plenty {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "guild-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the test's directory: %v", err)
		}
	})
	return dir
}

// Open opens an empty journal in a directory of t, without fsync, and closes it when t ends.
func Open(t *testing.T, folds ...fold.Fold) *journal.Journal {
	t.Helper()
	dir := Dir(t)
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
