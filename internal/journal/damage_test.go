package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// options returns the options of most tests: no fsync, no log.
func options(dir string, folds ...fold.Fold) journal.Options {
	return journal.Options{Dir: dir, Node: "test", Now: time.Now, Folds: folds,
		NoSync: true, Log: slog.New(slog.DiscardHandler)}
}

func open(t *testing.T, o journal.Options) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func closeIt(t *testing.T, j *journal.Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// decide appends n decisions under seven guards in turn.
func decide(t *testing.T, j *journal.Journal, n int) {
	t.Helper()
	for range n {
		i := int(j.Last())
		if err := j.Do(t.Context(), subject(i%7), "", closing(fmt.Sprint(i+1))); err != nil {
			t.Fatal(err)
		}
	}
}

// filled makes a closed journal with n entries.
func filled(t *testing.T, n int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := journal.Init(dir); err != nil {
		t.Fatal(err)
	}
	j := open(t, options(dir, newJobs()))
	decide(t, j, n)
	closeIt(t, j)
	return dir
}

func stream(dir string, more ...string) string {
	return filepath.Join(append([]string{dir, "stream", "jetstream", "$G", "streams", "FACTS"}, more...)...)
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// edit changes a file.
func edit(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

// flip changes the byte at a fraction of the length.
func flip(part float64) func([]byte) []byte {
	return func(b []byte) []byte {
		b[int(float64(len(b))*part)] ^= 1
		return b
	}
}

// cut keeps a fraction of the length.
func cut(part float64) func([]byte) []byte {
	return func(b []byte) []byte { return b[:int(float64(len(b))*part)] }
}

// contents reads all files below dir.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// refused checks that Open finds the journal damaged and changes no block of it.
func refused(t *testing.T, o journal.Options) {
	t.Helper()
	before := contents(t, filepath.Join(o.Dir, "stream"))
	j, err := journal.Open(t.Context(), o)
	if err == nil {
		closeIt(t, j)
		t.Fatal("a damaged journal was opened")
	}
	damage, ok := errors.AsType[*journal.DamagedError](err)
	if !ok {
		t.Fatalf("got %v, want a *DamagedError", err)
	}
	if damage.Remedy != "guild journal repair" || damage.What == "" || journal.Hint(err) == "" {
		t.Errorf("%+v names no remedy", damage)
	}
	for path, was := range contents(t, filepath.Join(o.Dir, "stream")) {
		if old, known := before[path]; known && old != was && filepath.Ext(path) == ".blk" {
			t.Errorf("%s was changed", path)
		}
	}
}

// repaired repairs a journal of n entries and checks that all lost entries are reported, and no others are lost.
func repaired(t *testing.T, o journal.Options, n int) journal.Report {
	t.Helper()
	report, err := journal.Repair(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if int(report.Kept)+len(report.Dropped) != n {
		t.Errorf("%d kept and %d dropped of %d", report.Kept, len(report.Dropped), n)
	}
	if report.Aside == "" || report.Reason == "" {
		t.Errorf("no copy, or no reason: %+v", report)
	}
	f := newJobs()
	o.Folds = []fold.Fold{f}
	j := open(t, o)
	defer closeIt(t, j)
	for _, reason := range f.reasons() {
		var seq uint64
		if _, err := fmt.Sscan(reason, &seq); err != nil || slices.Contains(report.Dropped, seq) {
			t.Errorf("entry %s is there, and was dropped", reason)
		}
	}
	if len(f.reasons()) != int(report.Kept) {
		t.Errorf("%d entries folded, %d kept", len(f.reasons()), report.Kept)
	}
	last, err := j.Entry(t.Context(), j.Last())
	if err != nil {
		t.Fatal(err)
	}
	told, ok := last.Facts[0].(fact.JournalRepaired)
	if !ok || !slices.Equal(told.Dropped, report.Dropped) || int(last.Seq) <= n {
		t.Errorf("the last entry is %+v", last)
	}
	if !slices.Equal(j.Quarantined(), report.Quarantined) {
		t.Errorf("in quarantine are %v, want %v", j.Quarantined(), report.Quarantined)
	}
	for _, guard := range report.Quarantined {
		if err := j.Do(t.Context(), guard, "", closing("never")); !errors.Is(err, journal.ErrQuarantined) || journal.Hint(err) == "" {
			t.Errorf("%s: %v", guard, err)
		}
	}
	if err := j.Release(t.Context(), report.Quarantined...); err != nil {
		t.Fatal(err)
	}
	decide(t, j, 10)
	return report
}

// markUnknownArchive changes what the mark says of the archive, and leaves how far the journal got.
func markUnknownArchive(t *testing.T, dir string) {
	edit(t, filepath.Join(dir, "high"), func(b []byte) []byte {
		return bytes.Replace(b, []byte(`"archived":0`), []byte(`"archived":3`), 1)
	})
}

func TestDamageIsFoundAndRepaired(t *testing.T) {
	tests := []struct {
		name   string
		damage func(t *testing.T, dir string)
		kept   int // at least, of 700 entries
	}{
		{"a flipped byte in a block", func(t *testing.T, dir string) {
			edit(t, stream(dir, "msgs", "1.blk"), flip(0.5))
		}, 600},
		{"a flipped byte in the last entry", func(t *testing.T, dir string) {
			edit(t, stream(dir, "msgs", "1.blk"), flip(0.9999))
		}, 699},
		{"a flipped byte and no snapshots", func(t *testing.T, dir string) {
			edit(t, stream(dir, "msgs", "1.blk"), flip(0.3))
			remove(t, filepath.Join(dir, "snapshot"))
		}, 600},
		{"a flipped byte in a length", func(t *testing.T, dir string) {
			edit(t, stream(dir, "msgs", "1.blk"), func(b []byte) []byte { b[2] ^= 0x40; return b })
		}, 600},
		{"a flipped byte and no index", func(t *testing.T, dir string) {
			edit(t, stream(dir, "msgs", "1.blk"), flip(0.7))
			remove(t, stream(dir, "msgs", "index.db"))
		}, 600},
		{"a truncated block", func(t *testing.T, dir string) {
			edit(t, stream(dir, "msgs", "1.blk"), cut(0.5))
		}, 340},
		{"a block that is gone", func(t *testing.T, dir string) {
			remove(t, stream(dir, "msgs", "1.blk"))
		}, 0},
		{"a missing meta file", func(t *testing.T, dir string) {
			remove(t, stream(dir, "meta.inf"))
		}, 700},
		{"a missing sum of the meta file", func(t *testing.T, dir string) {
			remove(t, stream(dir, "meta.sum"))
		}, 700},
		{"an emptied stream directory", func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, "stream", "jetstream"))
		}, 0},
		{"a missing marker", func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, "journal.json"))
		}, 700},
		{"a missing high-water mark", func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, "high"))
		}, 700},
		{"a mark of an archive that it does not know", markUnknownArchive, 700},
		{"such a mark and a truncated block", func(t *testing.T, dir string) {
			markUnknownArchive(t, dir)
			edit(t, stream(dir, "msgs", "1.blk"), cut(0.5))
		}, 340},
		{"a mark of another journal", func(t *testing.T, dir string) {
			other := filled(t, 1)
			edit(t, filepath.Join(dir, "high"), func([]byte) []byte { return read(t, filepath.Join(other, "high")) })
		}, 700},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				dir := filled(t, 700)
				tt.damage(t, dir)
				refused(t, options(dir, newJobs()))
				report := repaired(t, options(dir), 700)
				if int(report.Kept) < tt.kept {
					t.Errorf("%d entries kept, want %d at least", report.Kept, tt.kept)
				}
			})
		})
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOldDirectoryIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filled(t, 100)
		old := filepath.Join(t.TempDir(), "old")
		if err := os.CopyFS(old, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		o := options(dir, newJobs())
		o.HighWater = filepath.Join(t.TempDir(), "high")
		j := open(t, o)
		decide(t, j, 100)
		closeIt(t, j)
		remove(t, dir)
		if err := os.CopyFS(dir, os.DirFS(old)); err != nil {
			t.Fatal(err)
		}
		o.Folds = []fold.Fold{newJobs()}
		refused(t, o)
		repaired(t, o, 200)
	})
}

func TestOldStreamIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filled(t, 100)
		old := filepath.Join(t.TempDir(), "old")
		if err := os.CopyFS(old, os.DirFS(filepath.Join(dir, "stream"))); err != nil {
			t.Fatal(err)
		}
		j := open(t, options(dir, newJobs()))
		decide(t, j, 100)
		closeIt(t, j)
		remove(t, filepath.Join(dir, "stream"))
		if err := os.CopyFS(filepath.Join(dir, "stream"), os.DirFS(old)); err != nil {
			t.Fatal(err)
		}
		refused(t, options(dir, newJobs()))
		repaired(t, options(dir), 200)
	})
}

func TestReplacedEntryIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, other := filled(t, 100), filled(t, 30)
		j := open(t, options(other))
		if err := j.Do(t.Context(), subject(30%7), "", closing("a lie")); err != nil { // its checksum fits
			t.Fatal(err)
		}
		decide(t, j, 69)
		closeIt(t, j)
		remove(t, filepath.Join(dir, "stream"))
		if err := os.CopyFS(filepath.Join(dir, "stream"), os.DirFS(filepath.Join(other, "stream"))); err != nil {
			t.Fatal(err)
		}
		refused(t, options(dir, newJobs()))
	})
}

func TestIncompleteLastEntryIsNoDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filled(t, 100)
		path := stream(dir, "msgs", block(t, dir))
		whole := read(t, path)
		half := whole[:150]
		if err := os.WriteFile(path, append(whole, half...), 0o600); err != nil {
			t.Fatal(err)
		}
		f := newJobs()
		j := open(t, options(dir, f))
		decide(t, j, 10)
		closeIt(t, j)
		j = open(t, options(dir, f))
		defer closeIt(t, j)
		if len(f.reasons()) != 110 {
			t.Errorf("%d entries", len(f.reasons()))
		}
	})
}

func TestRepairCopiesDamagedJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filled(t, 50)
		edit(t, stream(dir, "msgs", "1.blk"), flip(0.5))
		block := read(t, stream(dir, "msgs", "1.blk"))
		report, err := journal.Repair(t.Context(), options(dir))
		if err != nil {
			t.Fatal(err)
		}
		aside := read(t, filepath.Join(report.Aside, "stream", "jetstream", "$G", "streams", "FACTS", "msgs", "1.blk"))
		if !bytes.Equal(aside, block) {
			t.Error("the copy is not what was there")
		}
	})
}

func TestIntactJournalIsNotRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filled(t, 50)
		report, err := journal.Repair(t.Context(), options(dir))
		if err != nil || report.Reason != "" || report.Aside != "" {
			t.Errorf("got %+v, %v, want nothing done", report, err)
		}
	})
}

func TestInterruptedRepairIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filled(t, 100)
		edit(t, stream(dir, "msgs", "1.blk"), flip(0.5))
		if err := os.Rename(filepath.Join(dir, "stream"), filepath.Join(dir, "stream.old")); err != nil {
			t.Fatal(err)
		}
		repaired(t, options(dir), 100)
	})
}
