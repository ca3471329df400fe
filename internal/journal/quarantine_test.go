package journal

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"guild/internal/journal/fact"
)

func quietly(dir string) Options {
	return Options{Dir: dir, Node: "test", Now: func() time.Time { return after }, NoSync: true, Log: slog.New(slog.DiscardHandler)}
}

// wreck changes the records of entries in the stream.
func wreck(t *testing.T, dir string, how func(record []byte), seqs ...int) {
	t.Helper()
	path := theBlock(t, files(dir))
	alter(t, path, func(b []byte) []byte {
		sum, err := block{stream: factsStream, path: path, index: 1}.checksum()
		if err != nil {
			t.Fatal(err)
		}
		for rest := b; len(rest) > 0; {
			rec, size := parseRecord(rest, sum)
			if size == 0 {
				t.Fatal("the block is damaged already")
			}
			if slices.Contains(seqs, int(rec.seq)) {
				defer how(rest[:size])
			}
			rest = rest[size:]
		}
		return b
	})
}

func flipIn(part string) func([]byte) {
	return func(record []byte) { record[bytes.Index(record, []byte(part))+len(part)-1] ^= 1 }
}

func zero(record []byte) { clear(record) }

// guardsOf returns the guards of entries, sorted.
func (s *sealedJournal) guardsOf(seqs ...int) []fact.Subject {
	var all []fact.Subject
	for _, seq := range seqs {
		all = append(all, s.all[seq-1].subject)
	}
	return union(all)
}

func union(guards ...[]fact.Subject) []fact.Subject {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(guards...))))
}

// withoutLater returns the guards whose last entry is not after a sequence, sorted.
func (s *sealedJournal) withoutLater(seq int) (all []fact.Subject) {
	last := map[fact.Subject]int{}
	for i, m := range s.all {
		last[m.subject] = i + 1
	}
	for guard, at := range last {
		if at <= seq {
			all = append(all, guard)
		}
	}
	slices.Sort(all)
	return all
}

func TestRepairQuarantinesDamagedGuards(t *testing.T) {
	s := made(t, 40, false)
	for name, c := range map[string]struct {
		how  func([]byte)
		seqs []int // that are damaged
		want []fact.Subject
	}{
		"a flipped bit in its facts":                     {flipIn(`"ending":"x"`), []int{12}, s.guardsOf(12)},
		"in the first entry":                             {flipIn(`"ending":"x"`), []int{1}, s.guardsOf(1)},
		"in the last entry under its guard":              {flipIn(`"ending":"x"`), []int{38}, s.guardsOf(38)},
		"in the last entry of all":                       {flipIn(`"facts"`), []int{40}, s.guardsOf(40)},
		"in the subject":                                 {flipIn("fact.job.0"), []int{12}, s.guardsOf(12)},
		"in the subject of the last under its guard":     {flipIn("fact.job.0"), []int{38}, s.guardsOf(38)},
		"in what it names before it":                     {flipIn(`"prev":"`), []int{38}, s.guardsOf(38)},
		"in the length":                                  {func(b []byte) { b[1] ^= 1 }, []int{38}, s.guardsOf(38)},
		"in the sequence":                                {func(b []byte) { b[6] ^= 1 }, []int{38}, s.guardsOf(38)},
		"in the last word of its subject":                {flipIn("fact.jo"), []int{38}, s.guardsOf(38)},
		"in several in a row":                            {flipIn(`"ending":"x"`), []int{35, 36, 37, 38}, s.guardsOf(35, 36, 37, 38)},
		"in two under one guard":                         {flipIn(`"prev":"`), []int{30, 37}, s.guardsOf(30, 37)},
		"nothing legible, and a later one shows":         {zero, []int{12}, s.guardsOf(12)},
		"several not legible, and later ones show":       {zero, []int{11, 12, 13}, s.guardsOf(11, 12, 13)},
		"nothing legible, and no later one":              {zero, []int{38}, s.withoutLater(38)},
		"one shows what was not legible, another cannot": {zero, []int{24, 38}, union(s.guardsOf(24), s.withoutLater(38))},
	} {
		t.Run(name, func(t *testing.T) {
			dir := s.copy(t)
			wreck(t, dir, c.how, c.seqs...)
			erase(t, files(dir).snapshots())
			report, err := Repair(t.Context(), quietly(dir))
			if err != nil {
				t.Fatal(err)
			}
			var dropped []int
			for _, seq := range report.Dropped {
				dropped = append(dropped, int(seq))
			}
			if !slices.Equal(dropped, c.seqs) || int(report.Kept) != len(s.all)-len(c.seqs) {
				t.Errorf("dropped %v and kept %d, want only %v dropped of %d", dropped, report.Kept, c.seqs, len(s.all))
			}
			if !slices.Equal(report.Quarantined, c.want) {
				t.Errorf("in quarantine are %v, want %v", report.Quarantined, c.want)
			}
			j, err := Open(t.Context(), quietly(dir))
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			for i := range 7 {
				guard := fact.Subject(fmt.Sprintf("job.%02d", i))
				err := j.Do(t.Context(), guard, "", func(tx *Tx) error { tx.Append(fact.JobClosed{}); return nil })
				if held := slices.Contains(c.want, guard); held != errors.Is(err, ErrQuarantined) || !held && err != nil {
					t.Errorf("%s: %v", guard, err)
				}
			}
		})
	}
}

// Lost entries at the end may have been of any guard that is not finished.
func TestLostEndQuarantinesUnfinished(t *testing.T) {
	s := made(t, 40, false)
	dir := s.copy(t)
	alter(t, theBlock(t, files(dir)), func(b []byte) []byte { return b[:len(b)*3/4] })
	o := quietly(dir)
	o.Finished = func(guard fact.Subject) bool { return guard == "job.03" }
	report, err := Repair(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.DeleteFunc(s.withoutLater(40), func(guard fact.Subject) bool { return guard == "job.03" })
	if !slices.Equal(report.Quarantined, want) {
		t.Errorf("in quarantine are %v, want %v", report.Quarantined, want)
	}
}

func TestHashesRevealChangedEntry(t *testing.T) {
	s := made(t, 40, false)
	for _, known := range []bool{true, false} {
		dir := s.copy(t)
		all := slices.Clone(s.all)
		all[11] = changed(all[11]) // its checksum fits
		s.write(t, dir, all)
		want := uint64(12)
		if !known {
			erase(t, files(dir).hashes())
			want = 19 // names another than the one that is there
		}
		report, err := Repair(t.Context(), quietly(dir))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(report.Dropped, []uint64{want}) || !slices.Equal(report.Quarantined, s.guardsOf(12)) {
			t.Errorf("with the hashes %v: dropped %v, in quarantine %v", known, report.Dropped, report.Quarantined)
		}
	}
}

func TestUnexplainedHoleIsDamage(t *testing.T) {
	s := made(t, 40, false)
	dir := s.copy(t)
	s.damage(t, dir, 12)
	if _, err := Repair(t.Context(), quietly(dir)); err != nil {
		t.Fatal(err)
	}
	s.read(t, dir)
	if found := s.check(t, dir); len(found.Faults) != 1 || !strings.Contains(found.Faults[0].What, "repaired") {
		t.Errorf("%+v", found.Faults)
	}
	told := &s.all[len(s.all)-1]
	repaired := told.entry.Facts[0].(fact.JournalRepaired)
	repaired.Quarantined = []fact.Subject{"job.99"}
	told.entry.Facts[0] = repaired
	var err error
	if told.data, err = told.entry.Encode(); err != nil {
		t.Fatal(err)
	}
	s.write(t, dir, s.all)
	s.remember(t, dir, s.all)
	erase(t, files(dir).snapshots())
	erase(t, files(dir).hashes())
	_, err = Open(t.Context(), quietly(dir))
	if damage, ok := errors.AsType[*DamagedError](err); !ok || !strings.Contains(damage.What, "no repair says why") {
		t.Errorf("got %v", err)
	}
	found := s.check(t, dir)
	if !slices.ContainsFunc(found.Faults, func(f Fault) bool { return strings.Contains(f.What, "does not name the one before it") }) {
		t.Errorf("%+v", found.Faults)
	}
}

// read replaces s.all by the entries of the journal in dir.
func (s *sealedJournal) read(t *testing.T, dir string) {
	t.Helper()
	j, err := Open(t.Context(), quietly(dir))
	if err != nil {
		t.Fatal(err)
	}
	s.all = nil
	for seq := uint64(1); seq <= j.Last(); seq++ {
		m, err := j.stored(t.Context(), seq)
		if err == nil {
			m, err = j.keys.read(m.seq, m.subject, m.data)
		}
		if err != nil {
			t.Fatal(err)
		}
		s.all = append(s.all, m)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestQuarantineLastsUntilRelease(t *testing.T) {
	s := made(t, 40, false)
	dir := s.copy(t)
	s.damage(t, dir, 12)
	s.damage(t, dir, 13)
	if _, err := Repair(t.Context(), quietly(dir)); err != nil {
		t.Fatal(err)
	}
	both, one, other := s.guardsOf(12, 13), s.guardsOf(12)[0], s.guardsOf(13)[0]
	holds := func(what string, want ...fact.Subject) {
		t.Helper()
		j, err := Open(t.Context(), quietly(dir))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := j.Quarantined(); !slices.Equal(got, want) {
			t.Errorf("%s: in quarantine are %v, want %v", what, got, want)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	holds("from the beginning", both...)
	holds("from a snapshot", both...)

	j, err := Open(t.Context(), quietly(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Release(t.Context(), one, "job.99"); !errors.Is(err, ErrNotQuarantined) || Hint(err) == "" {
		t.Errorf("got %v", err)
	}
	if err := j.Release(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if err := j.Do(t.Context(), one, "", func(tx *Tx) error { tx.Append(fact.JobClosed{}); return nil }); err != nil {
		t.Error(err)
	}
	if err := j.Release(t.Context(), one); !errors.Is(err, ErrNotQuarantined) {
		t.Errorf("released twice: %v", err)
	}
	if _, err := j.Archive(t.Context(), after, nil); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	holds("from a snapshot after an archive", other)
	erase(t, files(dir).snapshots())
	holds("from the archive", other)
}

func TestClosedGuardStaysClosed(t *testing.T) {
	s := made(t, 40, false)
	dir := s.copy(t)
	s.damage(t, dir, 12)
	s.damage(t, dir, 13)
	report, err := Repair(t.Context(), quietly(dir))
	if err != nil {
		t.Fatal(err)
	}
	one, other := s.guardsOf(12)[0], s.guardsOf(13)[0]
	cancel := func(tx *Tx) error { tx.Append(fact.JobCancelled{}); return nil }
	j, err := Open(t.Context(), quietly(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := j.CloseGuard(t.Context(), "job.99", cancel); !errors.Is(err, ErrNotQuarantined) {
		t.Errorf("got %v", err)
	}
	last := j.Last()
	for range 2 { // the second time, it is closed already
		if err := j.CloseGuard(t.Context(), one, cancel); err != nil {
			t.Fatal(err)
		}
		if j.Last() != last+1 {
			t.Errorf("%d entries more, want one", j.Last()-last)
		}
	}
	if e, err := j.Entry(t.Context(), j.Last()); err != nil || e.Subject != one || len(e.Facts) != 2 {
		t.Errorf("%+v, %v", e, err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	holds := func(what string) {
		t.Helper()
		j, err := Open(t.Context(), quietly(dir))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		defer j.Close()
		if got := j.Quarantined(); !slices.Equal(got, []fact.Subject{other}) || j.InQuarantine(one) || !j.Held(one) {
			t.Errorf("%s: in quarantine are %v; it is held: %v", what, got, j.Held(one))
		}
		if err := j.Do(t.Context(), one, "", cancel); !errors.Is(err, ErrQuarantined) || Hint(err) != "" {
			t.Errorf("%s: decided, %v", what, err)
		}
		if err := j.Release(t.Context(), one); !errors.Is(err, ErrNotQuarantined) {
			t.Errorf("%s: released, %v", what, err)
		}
	}
	holds("from a snapshot")
	erase(t, files(dir).snapshots())
	holds("from the beginning")
	erase(t, files(dir).damaged())
	wreck(t, dir, flipIn(`"facts"`), int(report.Kept)+3) // what the repair has said
	if again, err := Repair(t.Context(), quietly(dir)); err != nil || !slices.Contains(again.Quarantined, other) {
		t.Fatalf("%+v, %v", again, err)
	}
	holds("after another repair")
}

func TestSecondRepairKeepsQuarantine(t *testing.T) {
	s := made(t, 40, false)
	dir := s.copy(t)
	wreck(t, dir, zero, 38) // nothing shows whose it was
	first, err := Repair(t.Context(), quietly(dir))
	if err != nil {
		t.Fatal(err)
	}
	s.read(t, dir)
	one := first.Quarantined[0]
	for name, c := range map[string]struct {
		seq      int
		released fact.Subject // before that; none if empty
		want     []fact.Subject
	}{
		"an entry":                          {12, "", union(first.Quarantined, s.guardsOf(12))},
		"what stands for the lost one":      {38, "", first.Quarantined},
		"what the first repair has said":    {41, "", first.Quarantined},
		"the same, and one was released":    {41, one, first.Quarantined},
		"that one was released":             {42, one, first.Quarantined},
		"an entry of another than released": {12, one, union(first.Quarantined[1:], s.guardsOf(12))},
		"an entry of one that was released": {12, s.all[11].subject, first.Quarantined},
	} {
		t.Run(name, func(t *testing.T) {
			again := (&sealedJournal{dir: dir}).copy(t)
			erase(t, files(again).damaged())
			if c.released != "" {
				release(t, again, c.released)
			}
			wreck(t, again, flipIn(`"facts"`), c.seq)
			report, err := Repair(t.Context(), quietly(again))
			if err != nil || !slices.Equal(report.Dropped, []uint64{uint64(c.seq)}) {
				t.Fatalf("%+v, %v", report, err)
			}
			j, err := Open(t.Context(), quietly(again))
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			if got := j.Quarantined(); !slices.Equal(got, c.want) {
				t.Errorf("in quarantine are %v, want %v", got, c.want)
			}
		})
	}
}

func release(t *testing.T, dir string, guard fact.Subject) {
	t.Helper()
	j, err := Open(t.Context(), quietly(dir))
	if err == nil {
		err = errors.Join(j.Release(t.Context(), guard), j.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}
