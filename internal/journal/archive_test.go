package journal_test

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"

	"guild/internal/journal"
	"guild/internal/journal/fact"
)

// archive archives everything older than an hour, and appends some entries before and after that.
func archive(t *testing.T, j *journal.Journal, sign journal.Sign) journal.Report {
	t.Helper()
	time.Sleep(2 * time.Hour)
	decide(t, j, 5)
	report, err := j.Archive(t.Context(), time.Now().Add(-time.Hour), sign)
	if err != nil {
		t.Fatal(err)
	}
	decide(t, j, 5)
	return report
}

func TestArchiveKeepsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filled(t, 50)
		f := newJobs()
		j := open(t, options(dir, f))
		report := archive(t, j, nil) // 1-50 go; 51-55, the fact, 57-61 stay
		if report.Through != 50 || report.Kept != 6 {
			t.Errorf("report %+v", report)
		}
		told, err := j.Entry(t.Context(), 56)
		if err != nil {
			t.Fatal(err)
		}
		if a, ok := told.Facts[0].(fact.JournalArchived); !ok || a.Through != 50 || a.Root != report.Root {
			t.Errorf("entry 56 is %+v", told)
		}
		second := archive(t, j, nil) // 51-61 go
		if second.Through != 61 {
			t.Errorf("report %+v", second)
		}
		if _, err := j.Entry(t.Context(), 50); !errors.Is(err, journal.ErrNoEntry) {
			t.Errorf("an archived entry: got %v, want ErrNoEntry", err)
		}
		want := len(f.reasons())
		closeIt(t, j)
		for _, snapshots := range []bool{true, false} {
			if !snapshots {
				remove(t, filepath.Join(dir, "snapshot"))
			}
			f := newJobs()
			j := open(t, options(dir, f))
			if len(f.reasons()) != want {
				t.Errorf("snapshots %v: %d facts folded, want %d", snapshots, len(f.reasons()), want)
			}
			n := 0
			for _, err := range j.Entries(t.Context(), 1) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			if n != int(j.Last())-61 {
				t.Errorf("%d entries stored, want those after 61 of %d", n, j.Last())
			}
			if err := j.Do(t.Context(), subject(3), "", closing("after")); err != nil {
				t.Errorf("a guard whose entries are archived: %v", err)
			}
			want++
			closeIt(t, j)
		}
		edit(t, stream(dir, "msgs", block(t, dir)), flip(0.5))
		refused(t, options(dir, newJobs()))
		if _, err := journal.Repair(t.Context(), options(dir)); err != nil {
			t.Fatal(err)
		}
		j = open(t, options(dir, newJobs()))
		decide(t, j, 5)
		closeIt(t, j)
	})
}

// block returns the name of the last block file.
func block(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(stream(dir, "msgs", "*.blk"))
	if err != nil || len(names) == 0 {
		t.Fatalf("blocks: %v, %v", names, err)
	}
	return filepath.Base(names[len(names)-1])
}

func TestMissingArchiveNeedsSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filled(t, 20)
		j := open(t, options(dir, newJobs()))
		archive(t, j, nil)
		closeIt(t, j)
		remove(t, filepath.Join(dir, "archive"))
		closeIt(t, open(t, options(dir, newJobs())))
		remove(t, filepath.Join(dir, "snapshot"))
		refused(t, options(dir, newJobs()))
		if _, err := journal.Repair(t.Context(), options(dir)); err == nil {
			t.Error("repaired without the archive")
		}
	})
}

func TestChangedArchiveIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filled(t, 200)
		j := open(t, options(dir, newJobs()))
		report := archive(t, j, nil)
		closeIt(t, j)
		edit(t, report.File, flip(0.5))
		remove(t, filepath.Join(dir, "snapshot"))
		refused(t, options(dir, newJobs()))
	})
}

func TestCheckpointIsSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		public, private, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		j := open(t, options(filled(t, 20)))
		defer closeIt(t, j)
		report := archive(t, j, func(_ context.Context, b []byte) ([]byte, error) {
			return ed25519.Sign(private, b), nil
		})
		line := lastLine(t, report.File)
		if !ed25519.Verify(public, line.Checkpoint, line.Signature) {
			t.Error("the signature does not fit the checkpoint")
		}
		var point journal.Checkpoint
		if err := json.Unmarshal(line.Checkpoint, &point); err != nil {
			t.Fatal(err)
		}
		if point.From != 1 || point.Through != 20 || hex.EncodeToString(point.Root[:]) != report.Root {
			t.Errorf("checkpoint %+v, report %+v", point, report)
		}
	})
}

type line struct {
	Checkpoint json.RawMessage
	Signature  []byte
}

func lastLine(t *testing.T, path string) (last line) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for lines := json.NewDecoder(z); lines.More(); {
		last = line{}
		if err := lines.Decode(&last); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

func TestArchiveDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, options(filled(t, 20)))
		defer closeIt(t, j)
		if report, err := j.Archive(t.Context(), time.Now().Add(-time.Hour), nil); err != nil || report.Through != 0 || report.Kept != 20 {
			t.Errorf("got %+v, %v, want nothing archived", report, err)
		}
		time.Sleep(time.Second)
		locked := errors.New("the key is locked")
		_, err := j.Archive(t.Context(), time.Now(), func(context.Context, []byte) ([]byte, error) { return nil, locked })
		if !errors.Is(err, locked) {
			t.Errorf("got %v, want the signer's error", err)
		}
		if _, err := j.Entry(t.Context(), 1); err != nil {
			t.Errorf("the first entry: %v", err)
		}
	})
}
