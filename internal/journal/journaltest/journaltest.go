// Package journaltest opens real journals for tests, inside synctest bubbles or outside.
package journaltest

import (
	"encoding/binary"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"

	"guild/internal/journal"
	"guild/internal/journal/fold"
)

// Main is the TestMain of a package whose tests open journals. All servers of a process share a clock, which must start outside
// of any bubble.
func Main(m *testing.M) {
	ats.Register()
	os.Exit(m.Run())
}

// Dir returns an empty directory that is removed when t ends. It is in memory if there is enough: the tests of a package open and
// close hundreds of journals, none of which needs to survive a power failure.
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

// Open opens an empty journal without fsync, and closes it when t ends.
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

// Lose flips a bit in the facts of an entry of the journal in dir, which must not be open, so that Repair drops the entry.
func Lose(t *testing.T, dir string, seq uint64) {
	t.Helper()
	alter(t, dir, seq, func(b []byte, at, size int) []byte {
		const sum = 8
		b[at+size-sum-3] ^= 1
		return b
	})
}

// CutOff removes an entry of the journal in dir, which must not be open, and all that follow it in the same file.
func CutOff(t *testing.T, dir string, seq uint64) {
	t.Helper()
	alter(t, dir, seq, func(b []byte, at, _ int) []byte { return b[:at] })
}

// alter changes the file with an entry. change gets the offset and the size of its record.
func alter(t *testing.T, dir string, seq uint64, change func(b []byte, at, size int) []byte) {
	t.Helper()
	const head, header = 22, 1 << 31 // of a record in the server's block files
	blocks, err := filepath.Glob(filepath.Join(dir, "stream", "jetstream", "$G", "streams", "FACTS", "msgs", "*.blk"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range blocks {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at+head <= len(b); {
			size := int(binary.LittleEndian.Uint32(b[at:]) &^ header)
			if binary.LittleEndian.Uint64(b[at+4:]) == seq {
				if err := os.WriteFile(path, change(b, at, size), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			at += size
		}
	}
	t.Fatalf("there is no entry %d", seq)
}
