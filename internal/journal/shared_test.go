package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"guild"
	"guild/internal/fact"
	"guild/internal/fold"
)

// neighbour is another process of the team: it appends to the same stream over a connection of its own.
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
		Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, j) })
	conn, err := nats.Connect(j.store.Load().srv.ClientURL())
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

// append appends under a guard after what is stored there.
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
		if err := m.encode(); err != nil {
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

func TestWhatAnotherProcessAppendsIsFolded(t *testing.T) {
	f := newTally()
	j, n := shared(t, f)
	changed, stop := j.Changed()
	defer stop()
	seq := n.append("job.1", "theirs")
	for j.Last() < seq {
		<-changed
	}
	if f.of("theirs") != 1 {
		t.Error("it is not folded")
	}
	if err := j.Do(t.Context(), "job.1", "", closed("ours")); err != nil || f.of("ours") != 1 {
		t.Errorf("after it nothing is appended: %v", err)
	}
}

func TestADecisionIsTakenAgainWhenAnotherProcessDecidedFirst(t *testing.T) {
	f := newTally()
	j, n := shared(t, f)
	tries := 0
	err := j.Do(t.Context(), "job.1", "", func(tx *Tx) error {
		if tries++; tries == 1 {
			n.append("job.1", "theirs")
		}
		tx.Append(fact.JobClosed{Reason: fmt.Sprintf("ours after %d of theirs", f.of("theirs"))})
		return nil
	})
	if err != nil || tries != 2 || f.of("ours after 1 of theirs") != 1 || j.Last() != 2 {
		t.Errorf("%d tries, %v, %v", tries, f.times, err)
	}
}

func TestTwoProcessesThatDecideAtOnceLoseNothing(t *testing.T) {
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
	if err := j.state.reach(t.Context(), 4*each); err != nil {
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

func TestAnEntryThatDoesNotFollowStopsTheJournal(t *testing.T) {
	j, n := shared(t, newTally())
	m := message{subject: "job.1", entry: fact.Entry{V: fact.Version, Prev: "00", Facts: []fact.Fact{fact.JobClosed{}}}}
	if err := m.encode(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.s.publish(t.Context(), m, 0, time.Minute); err != nil {
		t.Fatal(err)
	}
	err := j.state.reach(t.Context(), 1)
	if _, ok := errors.AsType[*DamagedError](err); !ok {
		t.Errorf("got %v, want a *DamagedError", err)
	}
	if err := j.Do(t.Context(), "job.2", "", closed("x")); err == nil {
		t.Error("it goes on")
	}
}
