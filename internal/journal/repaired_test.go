package journal

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"guild/internal/journal/fact"
)

// after is later than all entries of made.
var after = time.Unix(1_800_000_000, 0)

// repair repairs the journal in a directory, and appends n entries, the last of which is a seal.
func (s *sealedJournal) repair(t *testing.T, dir string, n int) (Report, Claim) {
	t.Helper()
	o := Options{Dir: dir, Node: "test", Now: func() time.Time { return after }, NoSync: true, Log: slog.New(slog.DiscardHandler)}
	report, err := Repair(t.Context(), o)
	if err != nil || report.Reason == "" {
		t.Fatalf("%+v, %v", report, err)
	}
	j, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Release(t.Context(), report.Quarantined...); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		subject, f := fact.Subject(fmt.Sprintf("job.%02d", i%7)), fact.Fact(fact.JobClosed{Ending: "x", Reason: fmt.Sprint("because of ", i)})
		if i == n-1 {
			subject, f = fact.SealSubject, s.sign(t, j)
		}
		if err := j.Do(t.Context(), subject, "", func(tx *Tx) error { tx.Append(f); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	s.all = nil
	for seq := uint64(1); seq <= j.Last(); seq++ {
		m, err := j.stored(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		s.all = append(s.all, m)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return report, s.latest
}

// damage flips a bit of an entry in the stream.
func (s *sealedJournal) damage(t *testing.T, dir string, seq int) {
	t.Helper()
	alter(t, theBlock(t, files(dir)), func(b []byte) []byte {
		at := strings.Index(string(b), string(s.all[seq-1].data))
		b[at+len(s.all[seq-1].data)/2] ^= 1
		return b
	})
}

func TestRepairIsReportedUntilKnown(t *testing.T) {
	for name, seq := range map[string]int{"a seal": 50, "a job's entry": 30} {
		t.Run(name, func(t *testing.T) {
			s := made(t, 160, false)
			dir := s.copy(t)
			s.damage(t, dir, seq)
			report, latest := s.repair(t, dir, 20)
			found := s.check(t, dir)
			if len(found.Repairs) != 1 || len(found.Faults) != 1 {
				t.Fatalf("%+v", found)
			}
			r, f := found.Repairs[0], found.Faults[0]
			if r.From != uint64(seq) || r.Dropped != len(report.Dropped) || r.Entry != 161 || r.At != after.UnixMilli() || r.Known || r.Reason == "" {
				t.Errorf("%+v", r)
			}
			if f.Entry != uint64(seq) || !strings.Contains(f.What, "repaired in entry 161") {
				t.Errorf("%+v", f)
			}
			latest.By = "kept since"
			if found := s.check(t, dir, latest); len(found.Faults) != 0 || !found.Repairs[0].Known || found.Covered < latest.Size {
				t.Errorf("%+v", found)
			}
		})
	}
}

func TestChangeAfterRepairIsFound(t *testing.T) {
	s := made(t, 160, false)
	dir := s.copy(t)
	s.damage(t, dir, 30)
	s.repair(t, dir, 20)
	honest := s.check(t, dir)
	all := slices.Clone(s.all)
	all[169] = changed(all[169])
	all = relink(t, all)
	s.write(t, dir, all)
	s.remember(t, dir, all)
	rehash(t, dir, all)
	found := s.check(t, dir)
	if len(found.Faults) <= len(honest.Faults) {
		t.Fatalf("%+v", found.Faults)
	}
	if !slices.ContainsFunc(found.Faults, func(f Fault) bool { return f.Entry <= 170 && f.Through >= 170 }) {
		t.Errorf("%+v", found.Faults)
	}
}

// The repair does not explain an earlier change.
func TestRepairHidesNothingElse(t *testing.T) {
	s := made(t, 160, false)
	dir := s.copy(t)
	s.damage(t, dir, 60)
	_, latest := s.repair(t, dir, 20)
	all := slices.Clone(s.all)
	all[9] = changed(all[9])
	all = relink(t, all)
	s.write(t, dir, all)
	s.remember(t, dir, all)
	rehash(t, dir, all)
	found := s.check(t, dir)
	if len(found.Faults) < 2 || found.Faults[0].Entry > 10 || found.Faults[0].Through < 10 {
		t.Errorf("%+v", found.Faults)
	}
	if found := s.check(t, dir, latest); len(found.Faults) == 0 {
		t.Error("a checkpoint from elsewhere hides it")
	}
}
