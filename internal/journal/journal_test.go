package journal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"guild"
	"guild/internal/fact"
	"guild/internal/fold"
	"guild/internal/journal"
	"guild/internal/journal/journaltest"
)

// jobs is a fold that counts the entries under each guard and lists the reasons of closed jobs.
type jobs struct {
	mu    sync.RWMutex
	state jobsState
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

func (f *jobs) Snapshot() ([]byte, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return json.Marshal(f.state)
}

func (f *jobs) Restore(b []byte) error {
	var s jobsState
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = s
	return nil
}

func (f *jobs) count(s fact.Subject) int {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.state.Count[s]
}

func (f *jobs) reasons() []string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return append([]string(nil), f.state.Order...)
}

var _ fold.Fold = (*jobs)(nil)

func subject(i int) fact.Subject { return fact.Subject(fmt.Sprintf("job.%d", i)) }

func closing(reason string) func(*journal.Tx) error {
	return func(tx *journal.Tx) error {
		tx.Append(fact.JobClosed{Ending: guild.Ending("x"), Reason: reason})
		return nil
	}
}

func TestADecisionIsFoldedWhenDoReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newJobs()
		j := journaltest.Open(t, f)
		for i := range 100 {
			if err := j.Do(t.Context(), subject(i%3), "cause", closing(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
			if got := len(f.reasons()); got != i+1 {
				t.Fatalf("%d facts folded after decision %d", got, i)
			}
		}
		time.Sleep(10 * time.Minute)
	})
}

func BenchmarkDo(b *testing.B) {
	for _, sync := range []bool{false, true} {
		for _, writers := range []int{1, 8} {
			b.Run(fmt.Sprintf("sync=%v/writers=%d", sync, writers), func(b *testing.B) {
				benchmarkDo(b, !sync, writers, "")
			})
		}
	}
	b.Run("shared", func(b *testing.B) { benchmarkDo(b, true, 8, "127.0.0.1:0") })
}

func benchmarkDo(b *testing.B, noSync bool, writers int, listen string) {
	dir := b.TempDir()
	if err := journal.Init(dir); err != nil {
		b.Fatal(err)
	}
	j, err := journal.Open(b.Context(), journal.Options{Dir: dir, Node: "bench", Now: time.Now,
		Folds: []fold.Fold{newJobs()}, NoSync: noSync, Listen: listen, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
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
}
