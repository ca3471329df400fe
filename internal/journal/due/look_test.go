package due

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"guild/internal/journal"
	"guild/internal/journal/fact"
)

// crowd is a large source. A look at everything takes it 10 ms of the runner's clock.
type crowd struct {
	list
	looks atomic.Int64 // at everything
}

const took = 10 * time.Millisecond

func (c *crowd) now() time.Time { return time.Now().Add(time.Duration(c.looks.Load()) * took) }

func (c *crowd) all(now time.Time) []Work {
	c.looks.Add(1)
	return c.due(now)
}

func (c *crowd) under(guards []fact.Subject, now time.Time) []Work {
	return slices.DeleteFunc(c.due(now), func(w Work) bool { return !slices.Contains(guards, w.of()) })
}

// ending returns work of a job that is not due any more when it was done.
func (c *crowd) ending(job int, ready time.Time, done *calls) Work {
	key := fmt.Sprint("close ", job)
	return Decide(key, jobNumber(job), ready, func(tx *journal.Tx) error {
		done.note()
		c.remove(key)
		tx.Append(fact.JobCancelled{})
		return nil
	})
}

func jobNumber(n int) fact.Subject { return fact.Subject(fmt.Sprintf("job.%02d", n)) }

func (w *world) appendUnder(guard fact.Subject) {
	w.Helper()
	err := w.journal.Do(w.Context(), guard, "", func(tx *journal.Tx) error { tx.Append(fact.JobClosed{}); return nil })
	if err != nil {
		w.Fatal(err)
	}
}

func newCrowd(t *testing.T) (*world, *crowd) {
	w, c := newWorld(t), &crowd{}
	for n := range few + 1 {
		c.add(Work{Key: fmt.Sprint("expire ", n), Guard: fact.Subject(fmt.Sprintf("job.x%d", n)), Ready: w.start.Add(1000 * time.Hour)})
	}
	w.runner.Large, w.runner.Now = []Large{{All: c.all, Under: c.under}}, c.now
	return w, c
}

func TestChangedGuardIsLookedAtAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newCrowd(t)
		done := &calls{}
		w.run()
		w.pass(100 * time.Millisecond)
		looks := c.looks.Load()
		for n := range 50 {
			c.add(c.ending(n, time.Time{}, done))
			w.appendUnder(jobNumber(n))
			w.pass(time.Millisecond)
			if got := len(done.times()); got != n+1 {
				t.Fatalf("%d of %d are done", got, n+1)
			}
		}
		if more := c.looks.Load() - looks; more != 0 {
			t.Errorf("everything was looked at %d times more", more)
		}
	})
}

// The bids of all jobs are reserved under one guard.
func TestWorkUnderAnotherGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newCrowd(t)
		tried, done := &calls{}, &calls{}
		w.runner.Waits = []time.Duration{100 * time.Millisecond}
		w.run()
		w.pass(100 * time.Millisecond)
		looks := c.looks.Load()
		c.add(Work{Key: "reserve", Guard: "bid.all", Of: jobNumber(1), Free: true, Act: func(context.Context) (Decision, error) {
			tried.note()
			if len(tried.times()) == 1 {
				return nil, errors.New("not yet")
			}
			return func(tx *journal.Tx) error {
				c.remove("reserve")
				c.add(c.ending(1, time.Time{}, done))
				tx.Append(fact.BidReserved{})
				return nil
			}, nil
		}})
		w.appendUnder(jobNumber(1))
		w.pass(200 * time.Millisecond)
		if tries, ends := len(tried.times()), len(done.times()); tries != 2 || ends != 1 {
			t.Errorf("tried %d times, want 2; the job that it is for went on %d times, want once", tries, ends)
		}
		if more := c.looks.Load() - looks; more != 0 {
			t.Errorf("everything was looked at %d times more", more)
		}
	})
}

func TestWorkOfLargeSourceWaitsUntilReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newCrowd(t)
		done := &calls{}
		for n, after := range []time.Duration{3 * time.Second, 2 * time.Hour} {
			c.add(c.ending(n, w.start.Add(after), done))
		}
		w.run()
		w.pass(time.Second)
		c.add(c.ending(2, w.start.Add(2*time.Second), done))
		w.appendUnder(jobNumber(2))
		w.pass(3 * time.Hour)
		at := done.times()
		for i, want := range []time.Duration{2 * time.Second, 3 * time.Second, 2 * time.Hour} {
			drift := time.Duration(c.looks.Load()) * took
			if len(at) != 3 || at[i].Sub(w.start) < want-drift || at[i].Sub(w.start) > want {
				t.Fatalf("done at %v after %v", at, w.start)
			}
		}
	})
}

// What is due may depend on more than the entries under its guard.
func TestEverythingIsLookedAtAfterAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newCrowd(t)
		done := &calls{}
		w.run()
		w.pass(100 * time.Millisecond)
		looks := c.looks.Load()
		c.add(c.ending(1, time.Time{}, done))
		for n := range 3000 { // one change each millisecond
			w.appendUnder(jobNumber(n%50 + 2))
			w.pass(time.Millisecond)
		}
		if n := len(done.times()); n != 1 {
			t.Errorf("done %d times", n)
		}
		if more := c.looks.Load() - looks; more < 2 || more > 4 {
			t.Errorf("everything was looked at %d times in 3 s, want 3: 10 ms each, a hundredth of the time", more)
		}
	})
}

func TestFailedWorkOfLargeSourceIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newCrowd(t)
		tried := &calls{}
		w.runner.Waits = []time.Duration{100 * time.Millisecond}
		w.run()
		w.pass(100 * time.Millisecond)
		c.add(Work{Key: "sign", Guard: guard, Free: true, Act: func(context.Context) (Decision, error) {
			tried.note()
			return nil, errors.New("no signer")
		}})
		w.append(fact.JobCancelled{})
		looks := c.looks.Load()
		w.pass(500 * time.Millisecond)
		if n := len(tried.times()); n < 4 || n > 7 {
			t.Errorf("%d tries in 500 ms, want one each 100 ms ± 20 %%", n)
		}
		if more := c.looks.Load() - looks; more != 0 {
			t.Errorf("everything was looked at %d times more", more)
		}
	})
}
