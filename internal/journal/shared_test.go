package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// neighbour is another writer. It appends to the same stream over its own connection to the journal's server.
type neighbour struct {
	t *testing.T
	s *store
}

func shared(t *testing.T, f *tally) (*Journal, *neighbour) {
	t.Helper()
	dir := t.TempDir()
	if err := Init(dir); err != nil {
		t.Fatal(err)
	}
	j, err := Open(t.Context(), Options{Dir: dir, Node: "here", Now: time.Now, Folds: []fold.Fold{f}, NoSync: true, Floor: 1,
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, j) })
	conn, err := nats.Connect("", nats.InProcessServer(j.store.Load().srv))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	facts, err := js.Stream(t.Context(), factsStream)
	if err != nil {
		t.Fatal(err)
	}
	return j, &neighbour{t, &store{conn: conn, js: js, facts: facts}}
}

// append appends an entry under a guard after the last one.
func (n *neighbour) append(guard fact.Subject, reason string) uint64 {
	n.t.Helper()
	for {
		var tip tip
		if seq, err := n.s.lastOf(n.t.Context(), guard); err != nil {
			n.t.Fatal(err)
		} else if seq > 0 {
			m, err := n.s.entry(n.t.Context(), seq)
			if err != nil {
				n.t.Fatal(err)
			}
			tip.seq, tip.at, tip.hash = seq, m.entry.At, guild.Sum(m.data)
		}
		m := message{subject: guard, entry: fact.Entry{V: fact.Version, At: tip.at, By: "there", Prev: tip.prev(),
			Facts: []fact.Fact{fact.JobClosed{Reason: reason}}}}
		if err := m.encode(nil); err != nil {
			n.t.Fatal(err)
		}
		seq, err := n.s.publish(n.t.Context(), m, tip.seq, time.Minute)
		if err == nil {
			return seq
		}
		if !conflicts(err) {
			n.t.Fatal(err)
		}
	}
}

func TestDecisionAfterConflict(t *testing.T) {
	f := newTally()
	j, n := shared(t, f)
	tries := 0
	err := j.Do(t.Context(), "job.1", "", func(tx *Tx) error {
		tries++
		if tries == 1 {
			n.append("job.1", "theirs")
		}
		tx.Append(fact.JobClosed{Reason: fmt.Sprintf("ours after %d of theirs", f.of("theirs"))})
		return nil
	})
	if err != nil || tries != 2 || f.of("ours after 1 of theirs") != 1 || j.Last() != 2 {
		t.Errorf("%d tries, %v, %v", tries, f.times, err)
	}
}

func TestTwoWritersLoseNothing(t *testing.T) {
	f := newTally()
	j, n := shared(t, f)
	const each = 200
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range each {
			n.append(fact.Subject(fmt.Sprintf("job.%d", i%3)), fmt.Sprintf("theirs %d", i))
		}
	})
	for w := range 3 {
		wg.Go(func() {
			for i := range each {
				guard := fact.Subject(fmt.Sprintf("job.%d", w))
				if err := j.Do(t.Context(), guard, "", closed(fmt.Sprintf("ours %d/%d", w, i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := j.catchUp(t.Context(), j.store.Load(), 4*each); err != nil {
		t.Fatal(err)
	}
	for reason, times := range f.times {
		if times != 1 {
			t.Errorf("%s is folded %d times", reason, times)
		}
	}
	if len(f.times) != 4*each {
		t.Errorf("%d decisions folded, want %d", len(f.times), 4*each)
	}
}

func TestBrokenChainStopsJournal(t *testing.T) {
	j, n := shared(t, newTally())
	m := message{subject: "job.1", entry: fact.Entry{V: fact.Version, Prev: "00", Facts: []fact.Fact{fact.JobClosed{}}}}
	if err := m.encode(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := n.s.publish(t.Context(), m, 0, time.Minute); err != nil {
		t.Fatal(err)
	}
	err := j.Do(t.Context(), "job.1", "", closed("x"))
	if _, ok := errors.AsType[*DamagedError](err); !ok {
		t.Errorf("got %v, want a *DamagedError", err)
	}
	if err := j.Do(t.Context(), "job.2", "", closed("x")); err == nil {
		t.Error("it goes on")
	}
}

// limited returns a context that ends a decision that would be tried for ever.
func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestEmptyConflictIsDamage(t *testing.T) {
	for _, tt := range []struct {
		name  string
		purge []jetstream.StreamPurgeOpt
	}{
		{"all entries are gone", nil},
		{"the last entry of the guard is gone", []jetstream.StreamPurgeOpt{jetstream.WithPurgeSubject(factsPrefix + "job.1")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j, n := shared(t, newTally())
			for _, guard := range []fact.Subject{"job.2", "job.1"} {
				if err := j.Do(t.Context(), guard, "", closed("before")); err != nil {
					t.Fatal(err)
				}
			}
			if err := n.s.facts.Purge(t.Context(), tt.purge...); err != nil {
				t.Fatal(err)
			}
			err := j.Do(limited(t), "job.1", "", closed("after"))
			if _, ok := errors.AsType[*DamagedError](err); !ok {
				t.Errorf("got %v, want a *DamagedError", err)
			}
			err = j.Do(limited(t), "job.3", "", closed("after"))
			if _, ok := errors.AsType[*DamagedError](err); !ok {
				t.Errorf("a decision under another guard: got %v, want a *DamagedError", err)
			}
		})
	}
}

func TestDecisionRetriesAreBounded(t *testing.T) {
	j, n := shared(t, newTally())
	tries := 0
	err := j.Do(limited(t), "job.1", "", func(tx *Tx) error {
		tries++
		n.append("job.1", "theirs")
		tx.Append(fact.JobClosed{})
		return nil
	})
	if err == nil || errors.Is(err, context.DeadlineExceeded) || tries != conflictLimit {
		t.Errorf("%d tries and %v, want %d and an error of its own", tries, err, conflictLimit)
	}
	if err := j.Do(t.Context(), "job.1", "", closed("ours")); err != nil {
		t.Errorf("the next decision: %v", err)
	}
}

func TestCancelledDecisionIsNotRetried(t *testing.T) {
	j, n := shared(t, newTally())
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	err := j.Do(ctx, "job.1", "", func(tx *Tx) error {
		tries++
		n.append("job.1", "theirs")
		cancel()
		tx.Append(fact.JobClosed{})
		return nil
	})
	if !errors.Is(err, context.Canceled) || tries != 1 {
		t.Errorf("%d tries and %v, want 1 and context.Canceled", tries, err)
	}
}

// Another writer's entry comes before ours, under another guard, so there is no conflict.
func TestUnknownEntryIsFolded(t *testing.T) {
	f := newTally()
	j, n := shared(t, f)
	n.append("job.1", "theirs")
	if err := j.Do(limited(t), "job.2", "", closed("ours")); err != nil {
		t.Fatal(err)
	}
	if f.of("theirs") != 1 || f.of("ours") != 1 {
		t.Errorf("got %v folded, want both entries once", f.times)
	}
}

func TestGapBeforeDecisionIsDamage(t *testing.T) {
	j, n := shared(t, newTally())
	n.append("job.1", "theirs")
	if err := n.s.facts.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := j.Do(limited(t), "job.2", "", closed("ours"))
	if _, ok := errors.AsType[*DamagedError](err); !ok {
		t.Errorf("got %v, want a *DamagedError", err)
	}
}

// Archive was interrupted: the entries are archived and still in the stream.
func TestDecisionFinishesFailedCut(t *testing.T) {
	j, _ := shared(t, newTally())
	if err := j.Do(t.Context(), "job.1", "", closed("old")); err != nil {
		t.Fatal(err)
	}
	if err := j.mark.set(func(h *high) { h.Archived = 1 }); err != nil {
		t.Fatal(err)
	}
	if err := j.Do(limited(t), "job.1", "", closed("new")); err != nil || j.Last() != 2 {
		t.Errorf("got %v and %d entries, want 2", err, j.Last())
	}
}
