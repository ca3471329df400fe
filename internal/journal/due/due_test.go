package due

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/journal/fold/foldtest"
	"guild/internal/journal/journaltest"
)

func TestMain(m *testing.M) { journaltest.Main(m) }

const guard fact.Subject = "job.00"

// list is a source with work that a test adds and removes.
type list struct {
	mu   sync.Mutex
	work []Work
}

func (l *list) due(time.Time) []Work {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.work)
}

func (l *list) add(w Work) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.work = append(l.work, w)
}

func (l *list) remove(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.work = slices.DeleteFunc(l.work, func(w Work) bool { return w.Key == key })
}

// world is a journal and a runner with one list of work.
type world struct {
	*testing.T
	journal *journal.Journal
	claims  *Claims
	list    *list
	runner  *Runner
	start   time.Time
	stop    func()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := journaltest.Dir(t)
	if err := journal.Init(dir); err != nil {
		t.Fatal(err)
	}
	return newWorldOf(t, dir)
}

// newWorldOf returns a world with the journal in dir.
func newWorldOf(t *testing.T, dir string) *world {
	t.Helper()
	w := &world{T: t, claims: NewClaims(), list: &list{}, start: time.Now()}
	w.journal = journaltest.Reopen(t, dir, w.claims)
	w.runner = &Runner{Journal: w.journal, Claims: w.claims, Node: "test", Now: time.Now,
		Sources: []Source{w.list.due}, Log: slog.New(slog.DiscardHandler)}
	return w
}

// run runs the runner until the test ends or stop is called.
func (w *world) run() {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error, 1)
	go func() { done <- w.runner.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("the runner ended with: %v", err)
		}
	})
	w.Cleanup(w.stop)
}

// pass lets time pass, and waits for everything that happens then.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) append(facts ...fact.Fact) {
	w.Helper()
	err := w.journal.Do(w.Context(), guard, "", func(tx *journal.Tx) error { tx.Append(facts...); return nil })
	if err != nil {
		w.Fatal(err)
	}
}

// facts lists the types of all facts so far.
func (w *world) facts() (types []string) {
	w.Helper()
	for e, err := range w.journal.Entries(w.Context(), 1) {
		if err != nil {
			w.Fatal(err)
		}
		for _, f := range e.Facts {
			types = append(types, f.Type())
		}
	}
	return types
}

// calls notes the times of calls.
type calls struct {
	mu sync.Mutex
	at []time.Time
}

func (c *calls) note() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = append(c.at, time.Now())
}

func (c *calls) times() []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.at)
}

// acting returns an effect that notes each try and then returns err.
func acting(key string, c *calls, err error) Work {
	return Work{Key: key, Guard: guard, Act: func(context.Context) (Decision, error) {
		c.note()
		return func(*journal.Tx) error { return nil }, err
	}}
}

func TestEffectIsDoneOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, done := newWorld(t), &calls{}
		effect := acting("publish", done, nil)
		effect.Act = func(context.Context) (Decision, error) {
			done.note()
			return func(tx *journal.Tx) error {
				w.list.remove("publish")
				tx.Append(fact.AttemptRequested{})
				return nil
			}, nil
		}
		w.list.add(effect)
		w.run()
		w.pass(time.Hour)
		want := []string{"effect.claimed", "effect.settled", "attempt.requested"}
		if got := w.facts(); !slices.Equal(got, want) || len(done.times()) != 1 {
			t.Errorf("facts %v after %d tries, want %v", got, len(done.times()), want)
		}
		open := fold.Read(w.claims.State, func(s *claims) int { return s.Open.Len() })
		if open != 0 || len(w.runner.acted) != 0 || len(w.runner.failed) != 0 || len(w.runner.running) != 0 {
			t.Errorf("something is kept: %d claims, %v %v", open, w.runner.acted, w.runner.failed)
		}
	})
}

func TestWorkWaitsUntilReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, done := newWorld(t), &calls{}
		for i, after := range []time.Duration{3 * time.Second, 2 * time.Hour} {
			key := fmt.Sprint("expire ", i)
			w.list.add(Decide(key, guard, w.start.Add(after), func(tx *journal.Tx) error {
				done.note()
				w.list.remove(key)
				tx.Append(fact.JobCancelled{})
				return nil
			}))
		}
		w.run()
		w.pass(3 * time.Hour)
		at := done.times()
		if len(at) != 2 || at[0].Sub(w.start) != 3*time.Second || at[1].Sub(w.start) != 2*time.Hour {
			t.Errorf("done at %v", at)
		}
	})
}

func TestFailedEffectIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, tried := newWorld(t), &calls{}
		effect := acting("publish", tried, errors.New("no relay"))
		parked := ""
		effect.Park = func(tx *journal.Tx, reason string) {
			parked = reason
			tx.Append(fact.AttemptParked{Reason: reason})
		}
		w.list.add(effect)
		w.run()
		w.pass(2 * time.Hour)
		at := tried.times()
		if len(at) != tries {
			t.Fatalf("%d tries, want %d", len(at), tries)
		}
		for i, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
			if pause := at[i+1].Sub(at[i]); pause < want*4/5 || pause > want*6/5+time.Millisecond {
				t.Errorf("pause %d was %v, want %v ± 20 %%", i+1, pause, want)
			}
		}
		if parked != "no relay" || w.claims.Parked()["publish"] != "no relay" {
			t.Errorf("parked for %q, %v", parked, w.claims.Parked())
		}
		facts := w.facts()
		if last := facts[len(facts)-2:]; !slices.Equal(last, []string{"effect.parked", "attempt.parked"}) {
			t.Errorf("the last facts are %v", last)
		}
	})
}

func TestParkedEffectIsNotTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, tried := newWorld(t), &calls{}
		w.append(fact.EffectParked{Effect: "publish", Reason: "no relay"})
		w.list.add(acting("publish", tried, nil))
		w.run()
		w.pass(2 * time.Hour)
		if n := len(tried.times()); n != 0 {
			t.Errorf("%d tries", n)
		}
	})
}

func TestClaimOfAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, done := newWorld(t), &calls{}
		w.append(fact.EffectClaimed{Effect: "publish", Node: "another", Until: w.start.Add(2 * time.Minute).UnixMilli()})
		w.list.add(acting("publish", done, nil))
		w.run()
		w.pass(2*time.Minute - time.Millisecond)
		if n := len(done.times()); n != 0 {
			t.Fatalf("%d tries before the other's claim ended", n)
		}
		w.pass(time.Second)
		if n := len(done.times()); n == 0 {
			t.Error("not taken over when it ended")
		}
	})
}

func TestClaimIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, mine, theirs := newWorld(t), &calls{}, &calls{}
		long := acting("judge", mine, nil)
		act := long.Act
		long.Act = func(ctx context.Context) (Decision, error) {
			select {
			case <-time.After(10 * time.Minute):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return act(ctx)
		}
		w.list.add(long)
		w.run()
		other := &Runner{Journal: w.journal, Claims: w.claims, Node: "another", Now: time.Now, Log: w.runner.Log,
			Sources: []Source{(&list{work: []Work{acting("judge", theirs, nil)}}).due}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		w.pass(time.Second)
		go func() { ended <- other.Run(ctx) }()
		w.pass(9 * time.Minute)
		if n := len(theirs.times()); n != 0 {
			t.Errorf("%d tries by another node while the first was at it", n)
		}
		w.pass(2 * time.Minute)
		if n := len(mine.times()); n != 1 {
			t.Errorf("done %d times, want once", n)
		}
		cancel()
		<-ended
	})
}

func TestLostClaimStopsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, stopped := newWorld(t), make(chan error, 1)
		w.list.add(Work{Key: "judge", Guard: guard, Act: func(ctx context.Context) (Decision, error) {
			<-ctx.Done()
			stopped <- context.Cause(ctx)
			return nil, ctx.Err()
		}})
		w.run()
		w.pass(time.Second)
		w.append(fact.EffectClaimed{Effect: "judge", Node: "another", Until: w.start.Add(time.Hour).UnixMilli()})
		w.pass(time.Minute)
		select {
		case err := <-stopped:
			if !errors.Is(err, errNotOurs) {
				t.Errorf("stopped by %v", err)
			}
		default:
			t.Error("it goes on, though another node does it")
		}
	})
}

func TestClaimOfDeadProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, done := newWorld(t), &calls{}
		w.append(fact.EffectClaimed{Effect: "publish", Node: "test", Until: w.start.Add(time.Hour).UnixMilli()})
		w.list.add(acting("publish", done, nil))
		w.run()
		w.pass(time.Millisecond)
		if n := len(done.times()); n == 0 {
			t.Fatal("not taken over")
		}
		if got := w.facts(); got[1] != "effect.claimed" {
			t.Errorf("%v: a second process must claim anew, or it cannot be told from the first", got)
		}
	})
}

func TestEffectSettledByAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, done := newWorld(t), &calls{}
		settled := false
		w.runner.Sources = []Source{func(time.Time) []Work {
			if settled {
				return nil
			}
			settled = true
			w.append(fact.EffectClaimed{Effect: "publish", Node: "second"}, fact.EffectSettled{Effect: "publish"})
			return []Work{acting("publish", done, nil)} // as it was due a moment ago
		}}
		w.run()
		w.pass(time.Minute)
		if n := len(done.times()); n != 0 {
			t.Errorf("done %d times more", n)
		}
	})
}

func TestDeathsCountLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, done := newWorld(t), &calls{}
		for range tries + 1 { // as many processes died at it
			w.append(fact.EffectClaimed{Effect: "work", Node: "test"})
		}
		lethal := acting("lethal", done, nil)
		lethal.Deaths = 3
		for range lethal.Deaths {
			w.append(fact.EffectClaimed{Effect: "lethal", Node: "test"})
		}
		w.list.add(acting("work", done, nil))
		w.list.add(lethal)
		w.run()
		w.pass(time.Millisecond)
		if len(done.times()) == 0 {
			t.Error("parked, though it never failed")
		}
		if reason := w.claims.Parked()["lethal"]; reason != "the node died 3 times at it" {
			t.Errorf("what kills the node was parked for %q", reason)
		}
	})
}

// The node died of one of three works that ran beside each other. Each gets its last try alone.
func TestLastTryIsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, done := newWorld(t), &calls{}
		for _, key := range []string{"a", "b", "c"} {
			slow := acting(key, done, nil)
			slow.Deaths = 3
			act := slow.Act
			slow.Act = func(ctx context.Context) (Decision, error) {
				time.Sleep(time.Minute)
				w.list.remove(key)
				return act(ctx)
			}
			w.list.add(slow)
			for range slow.Deaths - 1 {
				w.append(fact.EffectClaimed{Effect: key, Node: "test"})
			}
		}
		w.run()
		for n := range 3 {
			w.pass(30 * time.Second)
			if got := len(done.times()); got != n {
				t.Errorf("after %d minutes and a half %d are done", n, got)
			}
			w.pass(30 * time.Second)
		}
		if len(done.times()) != 3 || len(w.claims.Parked()) > 0 {
			t.Errorf("%d done, parked %v", len(done.times()), w.claims.Parked())
		}
	})
}

func TestClaimMadeByStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, done := newWorld(t), &calls{}
		w.run()
		w.pass(0)
		w.list.add(acting("publish", done, nil))
		err := w.journal.Do(t.Context(), guard, "", func(tx *journal.Tx) error {
			tx.Append(fact.JobCancelled{})
			Claim(tx, "publish", "test")
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		w.pass(0)
		w.list.remove("publish")
		if got := w.facts()[:3]; got[2] != "effect.settled" {
			t.Errorf("%v: claimed twice", got)
		}
	})
}

func TestFreeWorkIsTriedUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, tried := newWorld(t), &calls{}
		w.list.add(Work{Key: "sign", Guard: guard, Free: true, Act: func(context.Context) (Decision, error) {
			tried.note()
			if len(tried.times()) < 20 {
				return nil, errors.New("the signer is away")
			}
			return func(tx *journal.Tx) error {
				w.list.remove("sign")
				tx.Append(fact.JobCancelled{})
				return nil
			}, nil
		}})
		w.run()
		w.pass(time.Hour)
		if got := w.facts(); len(tried.times()) != 20 || !slices.Equal(got, []string{"job.cancelled"}) {
			t.Errorf("%d tries, facts %v", len(tried.times()), got)
		}
	})
}

func TestDecisionWithoutFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, tried := newWorld(t), &calls{}
		w.list.add(Decide("close", guard, time.Time{}, func(*journal.Tx) error { tried.note(); return nil }))
		w.run()
		w.pass(time.Minute)
		if n := len(tried.times()); n == 0 || n > 70 {
			t.Errorf("tried %d times in a minute, want about one a second", n)
		}
		if got := w.facts(); len(got) != 0 {
			t.Errorf("facts: %v", got)
		}
	})
}

func TestFailingJournalIsNotHammered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, tried := newWorld(t), &calls{}
		w.run()
		w.pass(0)
		if err := w.journal.Close(); err != nil {
			t.Fatal(err)
		}
		w.list.add(Decide("close", guard, time.Time{}, func(*journal.Tx) error { return nil }))
		w.list.add(acting("publish", tried, nil))
		w.runner.Wake()
		w.pass(time.Hour)
		if n := len(tried.times()); n != 0 {
			t.Errorf("%d effects without a claim", n)
		}
		if n := w.runner.failed["close"].times; n < 100 || n > 300 {
			t.Errorf("%d tries in an hour, want about one in 20 seconds", n)
		}
	})
}

func TestWakeIsNeverLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, done := newWorld(t), &calls{}
		w.runner.Wake() // before it runs
		w.run()
		for i := range 100 {
			key := fmt.Sprint(i)
			w.list.add(Decide(key, guard, time.Time{}, func(tx *journal.Tx) error {
				done.note()
				w.list.remove(key)
				tx.Append(fact.JobCancelled{})
				return nil
			}))
			w.runner.Wake()
			w.pass(0)
			if len(done.times()) != i+1 {
				t.Fatalf("%d of %d were done without waiting", len(done.times()), i+1)
			}
		}
		if time.Since(w.start) > time.Second {
			t.Errorf("it took %v", time.Since(w.start))
		}
	})
}

func TestClassLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.runner.Limits = map[string]int{"judge": 2}
		var mu sync.Mutex
		var order []string
		running, most := 0, 0
		add := func(key, class string, takes time.Duration) {
			w.list.add(Work{Key: key, Guard: guard, Class: class, Free: true, Act: func(context.Context) (Decision, error) {
				mu.Lock()
				order = append(order, key)
				if class == "judge" {
					running++
					most = max(most, running)
				}
				mu.Unlock()
				time.Sleep(takes)
				mu.Lock()
				defer mu.Unlock()
				if class == "judge" {
					running--
				}
				w.list.remove(key)
				return func(tx *journal.Tx) error { tx.Append(fact.JobCancelled{}); return nil }, nil
			}})
		}
		for i := range 5 {
			add(fmt.Sprint("judge ", i), "judge", time.Duration(i+1)*time.Minute)
		}
		add("publish", "", time.Second)
		w.run()
		w.pass(time.Second)
		mu.Lock()
		first := slices.Sorted(slices.Values(order))
		mu.Unlock()
		if !slices.Equal(first, []string{"judge 0", "judge 1", "publish"}) {
			t.Errorf("began with %v, want the first two of the class and what has none", first)
		}
		w.pass(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		if most != 2 || len(order) != 6 || !slices.Equal(order[3:], []string{"judge 2", "judge 3", "judge 4"}) {
			t.Errorf("%d at a time, in the order %v", most, order)
		}
	})
}

func TestStopRecordsResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.list.add(Work{Key: "pay", Guard: guard, Act: func(context.Context) (Decision, error) {
			time.Sleep(20 * time.Second) // it cannot be interrupted
			return func(tx *journal.Tx) error { tx.Append(fact.JobCancelled{}); return nil }, nil
		}})
		w.run()
		w.pass(time.Second)
		w.stop()
		if got := w.facts(); !slices.Equal(got, []string{"effect.claimed", "effect.settled", "job.cancelled"}) {
			t.Errorf("facts: %v", got)
		}
	})
}

func TestEffectThatStaysDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, done := newWorld(t), &calls{}
		w.list.add(acting("publish", done, nil))
		w.run()
		w.pass(time.Minute)
		if n := len(done.times()); n > 61 {
			t.Errorf("done %d times in a minute", n)
		}
	})
}

func TestFinishedWorkIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, tried := newWorld(t), &calls{}
		for i := range 50 {
			w.list.add(acting(fmt.Sprint("publish ", i), tried, errors.New("no relay")))
		}
		w.run()
		w.pass(time.Second)
		if len(w.runner.failed) != 50 || len(w.runner.acted) != 50 {
			t.Fatalf("%d failed, %d acted", len(w.runner.failed), len(w.runner.acted))
		}
		for i := range 50 {
			w.list.remove(fmt.Sprint("publish ", i))
		}
		w.runner.Wake()
		w.pass(0)
		if len(w.runner.failed) != 0 || len(w.runner.acted) != 0 {
			t.Errorf("%d failed, %d acted", len(w.runner.failed), len(w.runner.acted))
		}
	})
}

// entries draws entries about a few effects.
func entries(t *rapid.T) (all []fact.Entry) {
	effect, node := rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{"test", "another"})
	one := rapid.Custom(func(t *rapid.T) fact.Fact {
		switch e := effect.Draw(t, "effect"); rapid.IntRange(0, 4).Draw(t, "type") {
		case 0:
			return fact.EffectSettled{Effect: e}
		case 1:
			return fact.EffectParked{Effect: e, Reason: "x"}
		default:
			failed := rapid.SampledFrom([]string{"", "no relay"}).Draw(t, "failed")
			return fact.EffectClaimed{Effect: e, Node: node.Draw(t, "node"), Until: 5, Failed: failed}
		}
	})
	for i, f := range rapid.SliceOfN(one, 0, 30).Draw(t, "facts") {
		all = append(all, fact.Entry{Seq: uint64(i + 1), Subject: guard, Facts: []fact.Fact{f}})
	}
	return all
}

func TestClaimsRestore(t *testing.T) { foldtest.GoesOn(t, NewClaims, entries, nil) }

func TestGarbledSnapshotIsRefused(t *testing.T) {
	f := NewClaims()
	f.Apply(fact.Entry{Seq: 1, Facts: []fact.Fact{fact.EffectParked{Effect: "a", Reason: "x"}}})
	more := []string{`{"a":1}`, `{"a":`, `7`, `{"open":{},"more":1}`}
	foldtest.Refuses(t, f, append(more, foldtest.Partial(t, f)...)...)
}

// The lost entry of a guard in quarantine may have said that the effect was done.
func TestQuarantineStopsDueWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, withoutEntry(t, 2, fact.EffectClaimed{Effect: "x"}, fact.EffectSettled{Effect: "x"}, fact.JobClosed{}))
		var held, other, through calls
		w.list.add(acting("x", &held, nil))
		elsewhere := acting("y", &other, nil)
		elsewhere.Guard = "job.01"
		w.list.add(elsewhere)
		nested := acting("z", &through, nil)
		nested.Guard, nested.Act = "job.02", func(ctx context.Context) (Decision, error) {
			through.note()
			err := w.journal.Do(ctx, guard, "", func(tx *journal.Tx) error { tx.Append(fact.JobClosed{}); return nil })
			return func(*journal.Tx) error { return nil }, err
		}
		w.list.add(nested)
		w.run()
		w.pass(time.Hour)
		if n := len(held.times()); n != 0 {
			t.Errorf("done %d times in quarantine", n)
		}
		if len(other.times()) == 0 || len(through.times()) == 0 || len(w.claims.Parked()) != 0 {
			t.Errorf("others were done %d and %d times, and parked are %v", len(other.times()), len(through.times()), w.claims.Parked())
		}
		if err := w.journal.Release(t.Context(), guard); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		if len(held.times()) == 0 {
			t.Error("not done once it is released")
		}
		w.stop()
	})
}

// withoutEntry makes a journal with an entry for each fact, which has lost one of them and was repaired.
func withoutEntry(t *testing.T, seq uint64, facts ...fact.Fact) (dir string) {
	t.Helper()
	dir = journaltest.Dir(t)
	if err := journal.Init(dir); err != nil {
		t.Fatal(err)
	}
	o := journal.Options{Dir: dir, Node: "test", Now: time.Now, NoSync: true, Log: slog.New(slog.DiscardHandler)}
	j, err := journal.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range facts {
		if err := j.Do(t.Context(), guard, "", func(tx *journal.Tx) error { tx.Append(f); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	journaltest.Lose(t, dir, seq)
	if r, err := journal.Repair(t.Context(), o); err != nil || !slices.Equal(r.Quarantined, []fact.Subject{guard}) {
		t.Fatalf("%+v, %v", r, err)
	}
	return dir
}
