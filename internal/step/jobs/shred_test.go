package jobs

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/step/steptest"
)

// over opens a job and brings it to its end and its record.
func (w *world) over(o Order) guild.JobID {
	w.Helper()
	id := w.opens(o)
	if err := w.delivers(alice, w.attempt(id).ID, delivery(w.T, "completed")); err != nil {
		w.Fatal(err)
	}
	w.judges(id, guild.Success)
	w.ends(id, guild.JobAccepted)
	w.append(id, fact.AttemptRecorded{Attempt: w.attempt(id).ID, Receipt: "r-1"})
	return id
}

// shreds shreds a job and waits until nothing more happens.
func (w *world) shreds(id guild.JobID) error {
	w.Helper()
	err := w.Shred(w.Context(), id)
	w.pass(time.Minute)
	return err
}

func TestShreddedJobForgetsItsWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.over(Order{Bundle: []byte("a bundle of its own")})
		other := w.over(Order{})
		before, _ := w.fold.Job(id)
		if err := w.shreds(id); err != nil {
			t.Fatal(err)
		}
		job, _ := w.fold.Job(id)
		if job.Title != "" || job.Shredded == 0 || job.Erased == 0 || job.Exposed != 0 || w.fold.Open() != 0 {
			t.Errorf("%+v", job)
		}
		a := job.Attempts[0]
		if a.Receipt != "r-1" || a.Delivery.IsZero() || a.Verdict.Outcome != guild.Success {
			t.Errorf("%+v", a)
		}
		if w.blobs.Has(before.Bundle) {
			t.Error("its bundle is still there")
		}
		if !w.blobs.Has(a.Delivery) {
			t.Error("a delivery that another job has, too, is gone")
		}
		if kept, _ := w.fold.Job(other); kept.Title == "" || !w.blobs.Has(kept.Bundle) {
			t.Errorf("the other job lost something: %+v", kept)
		}
		n := len(w.facts(id))
		if err := w.shreds(id); err != nil || len(w.facts(id)) != n {
			t.Errorf("shredded again: %v, %v", err, w.facts(id)[n:])
		}
		if err := w.shreds(other); err != nil || w.blobs.Has(a.Delivery) {
			t.Errorf("%v, the delivery that both had is there: %v", err, w.blobs.Has(a.Delivery))
		}
		w.restart()
		again, _ := w.fold.Job(id)
		if again.Title != "" || again.Erased != job.Erased || w.fold.Open() != 0 {
			t.Errorf("after a restart: %+v", again)
		}
	})
}

func TestJobInUseIsNotShredded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		open := w.opens(Order{})
		if err := w.shreds(open); !errors.Is(err, ErrNotOver) {
			t.Errorf("open: %v", err)
		}
		held := w.over(Order{})
		job, _ := w.fold.Job(held)
		w.append(held, fact.AttemptHeld{Attempt: job.Attempts[0].ID, Rail: "cashu", Amount: 1000})
		if err := w.shreds(held); !errors.Is(err, ErrMoneyHeld) {
			t.Errorf("with money: %v", err)
		}
		input := w.over(Order{})
		w.opens(Order{Inputs: []fact.Input{{Data: input.String(), Type: "job"}}})
		if err := w.shreds(input); !errors.Is(err, ErrInput) {
			t.Errorf("an input: %v", err)
		}
		bench := w.over(Order{Meeting: &fact.Benchmark{Meeting: "m", Run: 1}})
		if err := w.shreds(bench); !errors.Is(err, ErrBenchmark) {
			t.Errorf("a benchmark: %v", err)
		}
		for _, id := range []guild.JobID{open, held, input, bench} {
			if slices.Contains(w.facts(id), "job.shredded") {
				t.Errorf("%s was shredded", id)
			}
		}
	})
}

// The process may die after any fact: what was decided is carried out by the next one.
func TestShreddingSurvivesKills(t *testing.T) {
	var id guild.JobID
	live := func(t *testing.T) []fact.Entry {
		w := newWorld(t, alice.offers(0))
		id = w.over(Order{})
		if err := w.shreds(id); err != nil {
			t.Fatal(err)
		}
		return w.Entries()
	}
	steptest.KillAtEachEntry(t, 1, live, func(t *testing.T, left, _ []fact.Entry) {
		if _, decided := left[len(left)-1].Facts[0].(fact.JobShredded); !decided {
			return // nothing is to be carried out
		}
		w := newWorld(t, alice.offers(0))
		w.revive(left, []person{alice})
		w.pass(time.Minute)
		job, _ := w.fold.Job(id)
		if job.Erased == 0 || w.blobs.Has(job.Bundle) || w.fold.Open() != 0 {
			t.Errorf("%+v", job)
		}
	})
}
