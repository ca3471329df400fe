package journal_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"guild/internal/journal"
)

// Somebody copies the directory, appends other entries to the copy, and puts it back. The mark outside shows it.
func TestForkIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		entries int
		archive bool
	}{
		"as long":              {20, false},
		"longer":               {30, false},
		"longer, and archived": {30, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir, fork := filled(t, 50), filepath.Join(t.TempDir(), "fork")
				if err := os.CopyFS(fork, os.DirFS(dir)); err != nil {
					t.Fatal(err)
				}
				o := options(dir, newJobs())
				o.HighWater = filepath.Join(t.TempDir(), "high")
				j := open(t, o)
				decide(t, j, 20)
				closeIt(t, j)
				j = open(t, options(fork, newJobs()))
				for i := range c.entries {
					if err := j.Do(t.Context(), subject(i%7), "", closing(fmt.Sprint("a lie ", i))); err != nil {
						t.Fatal(err)
					}
				}
				if c.archive {
					archive(t, j, nil)
				}
				closeIt(t, j)
				before := read(t, o.HighWater)
				o = options(fork, newJobs())
				o.HighWater = filepath.Join(filepath.Dir(dir), "high")
				if err := os.WriteFile(o.HighWater, before, 0o600); err != nil {
					t.Fatal(err)
				}
				refused(t, o)
				if string(read(t, o.HighWater)) != string(before) {
					t.Error("the mark outside was overwritten")
				}
			})
		})
	}
}

func TestOlderMarkAfterArchive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filled(t, 50)
		o := options(dir, newJobs())
		o.HighWater = filepath.Join(t.TempDir(), "high")
		closeIt(t, open(t, o))
		j := open(t, options(dir, newJobs()))
		decide(t, j, 20)
		archive(t, j, nil)
		closeIt(t, j)
		o.Folds = nil
		closeIt(t, open(t, o))
	})
}

func TestObstacleIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outside := filepath.Join(t.TempDir(), "high")
		for name, obstruct := range map[string]func(dir string) (path string){
			"a directory of hashes": func(dir string) string {
				path := filepath.Join(dir, "hashes")
				mkdir(t, path)
				return path
			},
			"a file of snapshots": func(dir string) string {
				path := filepath.Join(dir, "snapshot")
				remove(t, path)
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				return path
			},
			"a directory of a mark": func(string) string {
				mkdir(t, outside)
				return outside
			},
		} {
			dir := filled(t, 5)
			path := obstruct(dir)
			o := options(dir)
			o.HighWater = outside
			_, opened := journal.Open(t.Context(), o)
			_, checked := journal.Check(t.Context(), journal.CheckOptions{Dir: dir, HighWater: outside})
			for _, err := range []error{opened, checked} {
				if obstacle, ok := errors.AsType[*journal.ObstacleError](err); !ok || obstacle.Path != path || journal.Hint(err) == "" {
					t.Errorf("%s: %v", name, err)
				}
			}
			remove(t, outside)
		}
	})
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

// Everything in the directory is gone, but somebody has a claim about it.
func TestCheckEmptiedJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		found, err := journal.Check(t.Context(), journal.CheckOptions{Dir: dir, Claims: []journal.Claim{{Size: 42, Root: [32]byte{1}, By: "mine"}}})
		if err != nil || len(found.Faults) == 0 || found.Faults[0].Through != 42 {
			t.Errorf("%+v, %v", found, err)
		}
	})
}

func TestStoredWithoutEarlierArchive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, options(filled(t, 30), newJobs()))
		defer closeIt(t, j)
		first := archive(t, j, nil)
		decide(t, j, 10)
		second := archive(t, j, nil)
		remove(t, first.File)
		if b, err := j.Stored(t.Context(), second.Through); err != nil || len(b) == 0 {
			t.Errorf("the file is there: %v", err)
		}
		_, err := j.Stored(t.Context(), first.Through)
		if _, damaged := errors.AsType[*journal.DamagedError](err); !errors.Is(err, journal.ErrArchiveGone) || damaged || journal.Hint(err) == "" {
			t.Errorf("the file is gone: %v", err)
		}
	})
}

func TestArchivedEntriesOfNoun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, options(filled(t, 30), newJobs()))
		defer closeIt(t, j)
		through := archive(t, j, nil).Through
		got := map[uint64]bool{}
		for e, err := range j.Archived(t.Context(), subject(0)[:3]) {
			if err != nil {
				t.Fatal(err)
			}
			got[e.Seq] = true
		}
		want := map[uint64]bool{}
		for seq := range through {
			want[seq+1] = true
		}
		if !maps.Equal(got, want) {
			t.Errorf("%v, want the entries through %d", got, through)
		}
	})
}
