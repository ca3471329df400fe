package journal_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"guild/internal/journal"
	"guild/internal/journal/fact"
)

// archivedOf returns the sequences of a subject's archived entries.
func archivedOf(t *testing.T, j *journal.Journal, s fact.Subject) (seqs []uint64, err error) {
	t.Helper()
	for e, err := range j.Archived(t.Context(), s) {
		if err != nil {
			return seqs, err
		}
		if e.Subject != s || len(e.Facts) == 0 {
			t.Errorf("%+v", e)
		}
		seqs = append(seqs, e.Seq)
	}
	return seqs, nil
}

func TestArchivedEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, options(filled(t, 50), newJobs()))
		defer closeIt(t, j)
		if seqs, err := archivedOf(t, j, subject(3)); err != nil || len(seqs) != 0 {
			t.Errorf("nothing is archived: %v, %v", seqs, err)
		}
		archive(t, j, nil)
		through := archive(t, j, nil).Through // 1-50 and 51-61
		all := []fact.Subject{fact.JournalSubject}
		for i := range 7 {
			all = append(all, subject(i))
		}
		archived, stored := 0, 0
		for _, s := range all {
			seqs, err := archivedOf(t, j, s)
			if err != nil || !slices.IsSorted(seqs) || len(seqs) > 0 && seqs[len(seqs)-1] > through {
				t.Errorf("of %s: %v, %v", s, seqs, err)
			}
			archived += len(seqs)
			for _, err := range j.Of(t.Context(), s) {
				if err != nil {
					t.Fatal(err)
				}
				stored++
			}
		}
		if archived != int(through) || archived+stored != int(j.Last()) {
			t.Errorf("%d archived of %d, and %d stored of %d", archived, through, stored, j.Last())
		}
		for e, err := range j.Archived(t.Context(), subject(0)) {
			if err != nil || e.Seq != 1 {
				t.Errorf("%+v, %v", e, err)
			}
			break // and nothing more is read
		}
	})
}

func TestMovedArchiveIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filled(t, 20)
		j := open(t, options(dir, newJobs()))
		defer closeIt(t, j)
		first, second := archive(t, j, nil), archive(t, j, nil)
		for _, file := range []string{second.File, first.File} {
			if err := os.Rename(file, filepath.Join(t.TempDir(), "elsewhere")); err != nil {
				t.Fatal(err)
			}
			seqs, err := archivedOf(t, j, subject(3))
			begins, _, _ := strings.Cut(filepath.Base(file), "-")
			if !errors.Is(err, journal.ErrArchiveGone) || !strings.Contains(err.Error(), filepath.Join(dir, "archive", begins)) {
				t.Errorf("%v, want ErrArchiveGone of %s", err, file)
			}
			if file == second.File && len(seqs) != 3 { // 4, 11 and 18 are in the other
				t.Errorf("%v", seqs)
			}
		}
	})
}

func TestArchivedFindsChangedFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, options(filled(t, 200), newJobs()))
		defer closeIt(t, j)
		edit(t, archive(t, j, nil).File, flip(0.5))
		if _, err := archivedOf(t, j, subject(3)); err == nil || errors.Is(err, journal.ErrArchiveGone) {
			t.Errorf("%v, want that it is damaged", err)
		}
	})
}
