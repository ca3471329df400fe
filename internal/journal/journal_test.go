package journal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/journal/journaltest"
)

// jobs is a fold that counts the entries under each guard and lists the reasons of closed jobs.
type jobs struct {
	mu       sync.RWMutex
	state    jobsState
	restored uint64 // sequence of the snapshot it began with
}

type jobsState struct {
	Count map[fact.Subject]int
	Order []string
	Last  uint64
}

func newJobs() *jobs { return &jobs{state: jobsState{Count: make(map[fact.Subject]int)}} }

func (*jobs) Name() string { return "jobs" }
func (*jobs) Version() int { return 1 }

func (f *jobs) Apply(e fact.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.Seq != f.state.Last+1 {
		panic(fmt.Sprintf("entry %d after %d", e.Seq, f.state.Last))
	}
	f.state.Last = e.Seq
	f.state.Count[e.Subject]++
	for _, x := range e.Facts {
		if closed, ok := x.(fact.JobClosed); ok {
			f.state.Order = append(f.state.Order, closed.Reason)
		}
	}
}

func (f *jobs) Freeze() func() ([]byte, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	b, err := json.Marshal(f.state)
	return func() ([]byte, error) { return b, err }
}

func (f *jobs) Restore(b []byte) error {
	var s jobsState
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state, f.restored = s, s.Last
	return nil
}

func (f *jobs) reasons() []string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return slices.Clone(f.state.Order)
}

func subject(i int) fact.Subject { return fact.Subject(fmt.Sprintf("job.%d", i)) }

func closing(reason string) func(*journal.Tx) error {
	return func(tx *journal.Tx) error {
		tx.Append(fact.JobClosed{Ending: guild.Ending("x"), Reason: reason})
		return nil
	}
}

func TestDecisionIsFoldedWhenDoReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newJobs()
		j := journaltest.Open(t, f)
		for i := range 100 {
			if err := j.Do(t.Context(), subject(i%3), "cause", closing(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
			if got := len(f.reasons()); got != i+1 || j.Last() != uint64(i+1) {
				t.Fatalf("%d facts folded after decision %d", got, i)
			}
		}
	})
}

func TestJournalInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := journaltest.Open(t, newJobs())
		decide(t, j, 1)
		time.Sleep(10 * time.Minute)
		decide(t, j, 1)
		e, err := j.Entry(t.Context(), 2)
		if err != nil || time.Now().UnixMilli()-e.At > 1000 {
			t.Errorf("got %+v, %v, want an entry of now", e, err)
		}
	})
}

func TestEntryFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := journaltest.Open(t)
		for range 2 {
			if err := j.Do(t.Context(), "job.1", "event", closing("x")); err != nil {
				t.Fatal(err)
			}
		}
		first, err := j.Entry(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		second, err := j.Entry(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		stored, err := j.Stored(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		encoded := bytes.TrimPrefix(stored, []byte("job.1\n"))
		if first.Seq != 1 || first.Subject != "job.1" || first.By != "test" || first.Cause != "event" || first.Prev != "" {
			t.Errorf("the first entry is %+v", first)
		}
		if second.Prev != guild.Sum(encoded).Hex() || second.At < first.At {
			t.Errorf("the second entry is %+v", second)
		}
		if _, err := j.Entry(t.Context(), 3); !errors.Is(err, journal.ErrNoEntry) {
			t.Errorf("got %v, want ErrNoEntry", err)
		}
	})
}

func TestFailedDecisionRecordsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := journaltest.Open(t)
		mind := errors.New("changed my mind")
		err := j.Do(t.Context(), "job.1", "", func(tx *journal.Tx) error {
			tx.Append(fact.JobClosed{})
			return mind
		})
		if err != mind {
			t.Errorf("got %v, want the error as it is", err)
		}
		if err := j.Do(t.Context(), "job.1", "", func(*journal.Tx) error { return nil }); err != nil {
			t.Error(err)
		}
		if j.Last() != 0 {
			t.Errorf("%d entries", j.Last())
		}
	})
}

func TestInvalidDecisionIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := journaltest.Open(t)
		if err := j.Do(t.Context(), "job.1", "", closing(strings.Repeat("x", fact.MaxEntry))); !errors.Is(err, journal.ErrTooLarge) {
			t.Errorf("got %v, want ErrTooLarge", err)
		}
		if err := j.Do(t.Context(), "job.1", "", closing(strings.Repeat("x", fact.MaxEntry-200))); err != nil {
			t.Errorf("an entry just small enough: %v", err)
		}
		for _, guard := range []fact.Subject{"", "job", "job.", ".1", "job.*", "job.>", "job.1.2", "job.1 2", "job.ü",
			fact.Subject("job." + strings.Repeat("1", 300))} {
			if err := j.Do(t.Context(), guard, "", closing("x")); !errors.Is(err, journal.ErrSubject) {
				t.Errorf("%q: got %v, want ErrSubject", guard, err)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := j.Do(ended, "job.1", "", closing("x")); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want Canceled", err)
		}
	})
}

func TestClockBehindJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filled(t, 1)
		var back atomic.Int64
		o := options(dir)
		o.Now = func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }
		j := open(t, o)
		defer closeIt(t, j)
		back.Store(int64(time.Hour))
		if err := j.Do(t.Context(), "job.0", "", closing("x")); !errors.Is(err, journal.ErrClock) || journal.Hint(err) == "" {
			t.Errorf("got %v, want ErrClock and a hint", err)
		}
		back.Store(int64(30 * time.Second))
		if err := j.Do(t.Context(), "job.0", "", closing("x")); err != nil {
			t.Fatal(err)
		}
		first, _ := j.Entry(t.Context(), 1)
		second, err := j.Entry(t.Context(), 2)
		if err != nil || second.At < first.At {
			t.Errorf("%d after %d, %v", second.At, first.At, err)
		}
	})
}

func TestDecisionsUnderOneGuardSeeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newJobs()
		j := journaltest.Open(t, f)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 25 {
					err := j.Do(t.Context(), "job.1", "", func(tx *journal.Tx) error {
						tx.Append(fact.JobClosed{Reason: fmt.Sprint(len(f.reasons()))})
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		for i, reason := range f.reasons() {
			if reason != fmt.Sprint(i) {
				t.Fatalf("decision %d saw %s", i, reason)
			}
		}
	})
}

func TestEntriesAndWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newJobs()
		j := journaltest.Open(t, f)
		decide(t, j, 50)
		var got []uint64
		for e, err := range j.Entries(t.Context(), 11) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Seq)
		}
		if len(got) != 40 || got[0] != 11 || got[39] != 50 {
			t.Errorf("entries from 11: %v", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		next := uint64(1)
		wg.Go(func() {
			for e, err := range j.Watch(ctx, 1) {
				if err != nil || e.Seq != next || len(f.reasons()) < int(e.Seq) {
					t.Errorf("entry %d, want %d, %v", e.Seq, next, err)
				}
				next++
				if next == 81 {
					cancel()
				}
			}
		})
		for range 30 {
			decide(t, j, 1)
			synctest.Wait()
		}
		wg.Wait()
		if next != 81 {
			t.Errorf("watched up to %d", next-1)
		}
	})
}

func TestEntriesOfSubject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := journaltest.Open(t, newJobs())
		for n := range 30 {
			for _, guard := range []fact.Subject{fact.Subject(fmt.Sprintf("job.%d", n%3)), "provider.1"} {
				if err := j.Do(t.Context(), guard, "", func(tx *journal.Tx) error { tx.Append(fact.JobClosed{}); return nil }); err != nil {
					t.Fatal(err)
				}
			}
		}
		for subject, want := range map[fact.Subject]int{"job.1": 10, "job": 30, "provider": 30, "provider.1": 30, "job.7": 0, "jo": 0} {
			count, last := 0, uint64(0)
			for e, err := range j.Of(t.Context(), subject) {
				if err != nil || e.Seq <= last || !strings.HasPrefix(string(e.Subject), string(subject)) {
					t.Fatalf("%s: entry %d of %s, %v", subject, e.Seq, e.Subject, err)
				}
				count, last = count+1, e.Seq
			}
			if count != want {
				t.Errorf("%s: %d entries, want %d", subject, count, want)
			}
		}
	})
}

func TestWatchEndsAtClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, options(filled(t, 3)))
		var wg sync.WaitGroup
		var last error
		wg.Go(func() {
			for _, err := range j.Watch(t.Context(), 4) {
				last = err
			}
		})
		synctest.Wait()
		closeIt(t, j)
		wg.Wait()
		if !errors.Is(last, journal.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", last)
		}
		if err := j.Do(t.Context(), "job.1", "", closing("x")); !errors.Is(err, journal.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
		if err := j.Close(); err != nil {
			t.Errorf("closed again: %v", err)
		}
	})
}

func TestChangedHoldsOnePulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := journaltest.Open(t)
		ch, stop := j.Changed()
		decide(t, j, 3)
		<-ch
		select {
		case <-ch:
			t.Error("a second pulse for what was there at the first")
		default:
		}
		decide(t, j, 1)
		<-ch
		stop()
		decide(t, j, 1)
		select {
		case <-ch:
			t.Error("a pulse after stop")
		default:
		}
	})
}

func TestAppendedIsCalledInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newJobs()
		o := options(filled(t, 5), f)
		next := uint64(6)
		o.Appended = func(e fact.Entry) {
			if e.Seq != next || len(f.reasons()) != int(e.Seq) {
				t.Errorf("entry %d, want %d, with %d folded", e.Seq, next, len(f.reasons()))
			}
			next++
		}
		j := open(t, o)
		defer closeIt(t, j)
		decide(t, j, 5)
		if next != 11 {
			t.Errorf("called up to %d", next-1)
		}
	})
}

func TestOpenNeedsInit(t *testing.T) {
	dir := t.TempDir()
	_, err := journal.Open(t.Context(), options(dir))
	if !errors.Is(err, journal.ErrNotInitialised) || journal.Hint(err) == "" {
		t.Errorf("got %v, want ErrNotInitialised and a hint", err)
	}
	if err := journal.Init(dir); err != nil {
		t.Fatal(err)
	}
	if err := journal.Init(dir); !errors.Is(err, journal.ErrInitialised) {
		t.Errorf("got %v, want ErrInitialised", err)
	}
}

func TestOpenSweepsUnfinishedWrites(t *testing.T) {
	o := options(filled(t, 1), newJobs())
	o.HighWater = filepath.Join(t.TempDir(), "high")
	old := time.Now().Add(-2 * time.Hour)
	var unfinished []string
	for _, dir := range []string{o.Dir, filepath.Join(o.Dir, "snapshot"), filepath.Join(o.Dir, "archive"), filepath.Dir(o.HighWater)} {
		path := filepath.Join(dir, ".tmp-1")
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(path, nil, 0o600), os.Chtimes(path, old, old)); err != nil {
			t.Fatal(err)
		}
		unfinished = append(unfinished, path)
	}
	closeIt(t, open(t, o))
	for _, path := range unfinished {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: got %v, want ErrNotExist", path, err)
		}
	}
}

func TestDirectoryIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if err := journal.Init(dir); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v, want 0700", info.Mode(), err)
	}
}

func TestRestartFoldsSameState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filled(t, 0)
		total := 0
		var want []string
		for range 10 {
			f := newJobs()
			j := open(t, options(dir, f))
			if !slices.Equal(f.reasons(), want) || j.Last() != uint64(total) {
				t.Fatalf("%d entries folded, want %d", len(f.reasons()), total)
			}
			n := rand.IntN(40)
			total += n
			decide(t, j, n)
			if rand.IntN(2) == 0 {
				if err := j.Snapshot(t.Context()); err != nil {
					t.Fatal(err)
				}
				decide(t, j, 5)
				total += 5
			}
			want = f.reasons()
			closeIt(t, j)
		}
	})
}

func TestSnapshotsAreTakenEveryFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filled(t, 0)
		j := open(t, options(dir, newJobs()))
		defer closeIt(t, j)
		decide(t, j, 10)
		time.Sleep(5*time.Minute + time.Second)
		names, err := filepath.Glob(filepath.Join(dir, "snapshot", "jobs.*"))
		if err != nil || len(names) != 1 || !strings.Contains(names[0], "10.v1") {
			t.Errorf("snapshots: %v, %v", names, err)
		}
	})
}

func TestDamagedSnapshotFallsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filled(t, 10)
		j := open(t, options(dir, newJobs()))
		decide(t, j, 10)
		closeIt(t, j)
		pattern := filepath.Join(dir, "snapshot", "jobs.*")
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) != 2 {
			t.Fatalf("snapshots: %v, %v", names, err)
		}
		slices.Sort(names)
		for i, from := range []uint64{20, 10, 0} {
			f := newJobs()
			j, err := journal.Open(t.Context(), options(dir, f))
			if err != nil {
				t.Fatal(err)
			}
			if f.restored != from || len(f.reasons()) != 20 {
				t.Errorf("restored from %d, want %d; %d entries", f.restored, from, len(f.reasons()))
			}
			damaged := read(t, names[max(0, 1-i)])
			closeIt(t, j)
			for _, name := range names[max(0, 1-i):] { // Close writes the newest again
				if err := os.WriteFile(name, flip(0.5)(slices.Clone(damaged)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

func TestSnapshotAheadIsDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, longer := filled(t, 10), filled(t, 20)
		remove(t, filepath.Join(dir, "snapshot"))
		if err := os.CopyFS(filepath.Join(dir, "snapshot"), os.DirFS(filepath.Join(longer, "snapshot"))); err != nil {
			t.Fatal(err)
		}
		refused(t, options(dir, newJobs()))
	})
}

func BenchmarkDo(b *testing.B) {
	for _, sync := range []bool{false, true} {
		for _, writers := range []int{1, 8} {
			b.Run(fmt.Sprintf("sync=%v/writers=%d", sync, writers), func(b *testing.B) {
				benchmarkDo(b, !sync, writers)
			})
		}
	}
}

func benchmarkDo(b *testing.B, noSync bool, writers int) {
	o := options(b.TempDir(), newJobs())
	o.NoSync = noSync
	if err := journal.Init(o.Dir); err != nil {
		b.Fatal(err)
	}
	j, err := journal.Open(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := w; i < b.N; i += writers {
				if err := j.Do(context.Background(), subject(w*1000+i%100), "", closing("benchmark")); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
}

// fill makes a journal with n entries.
func fill(b *testing.B, o journal.Options, n int) {
	b.Helper()
	if err := journal.Init(o.Dir); err != nil {
		b.Fatal(err)
	}
	j, err := journal.Open(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range n / 8 {
				if err := j.Do(b.Context(), subject(w*100_000+i/10), "", closing("benchmark")); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkOpen(b *testing.B) {
	const n = 100_000
	o := options(b.TempDir())
	fill(b, o, n)
	for _, replay := range []bool{false, true} {
		b.Run(fmt.Sprintf("entries=%d/replay=%v", n, replay), func(b *testing.B) {
			for b.Loop() {
				if replay {
					if err := os.RemoveAll(filepath.Join(o.Dir, "snapshot")); err != nil {
						b.Fatal(err)
					}
				}
				j, err := journal.Open(b.Context(), o)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := j.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

var _ fold.Fold = (*jobs)(nil)
