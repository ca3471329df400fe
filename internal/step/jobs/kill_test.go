package jobs

import (
	"slices"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/step/steptest"
)

// A job of high criticality whose process may die after any fact: three are asked, one fails and is replaced,
// two agree, and the last one is cancelled.
func TestReplicatedJobSurvivesKills(t *testing.T) {
	var order guild.JobID
	live := func(t *testing.T) []fact.Entry {
		w, people := trusted(t, 5)
		order = w.opens(Order{Criticality: guild.High})
		w.votes(order, people, "-ba")
		w.votes(order, people, "b")
		w.pass(time.Minute)
		w.ends(order, guild.JobAccepted)
		if n := len(w.FactTypes("")); n < 25 {
			t.Fatalf("%d facts only", n)
		}
		return w.Entries()
	}
	steptest.KillAtEachEntry(t, 1, live, func(t *testing.T, left, _ []fact.Entry) {
		w, people := trusted(t, 5)
		w.revive(left, people)
		w.goOn(order, people)
		job := w.ends(order, guild.JobAccepted)
		if c := job.count(); c.agreeing != 2 || c.waiting != 0 || w.fold.Open() != 0 {
			t.Errorf("%+v, %d open", c, w.fold.Open())
		}
		w.wantsOneOfEach(order)
	})
}

// revive starts a world on the history of a process that died.
func (w *world) revive(history []fact.Entry, people []person) {
	w.Helper()
	w.Stop()
	for i := range people { // what was delivered is in the journal and on the disk
		for _, answer := range "ab-" {
			if _, err := w.blobs.PutBytes(w.Context(), made(w.T, i, map[string]string{"answer.txt": string(answer)})); err != nil {
				w.Fatal(err)
			}
		}
	}
	if _, err := w.blobs.PutBytes(w.Context(), []byte("the task")); err != nil {
		w.Fatal(err)
	}
	w.Relive(history)
	w.restart()
}

// goOn answers and judges until a job is closed, then lets a minute pass.
func (w *world) goOn(id guild.JobID, people []person) {
	w.Helper()
	for range 20 {
		if job, _ := w.fold.Job(id); job.Ending != guild.Open {
			break
		}
		w.pass(time.Second)
		if a, p, ok := w.waiting(id, people); ok && a.State == guild.Requested {
			w.delivers(p, a.ID, made(w.T, 0, map[string]string{"answer.txt": "b"}))
		}
		job, _ := w.fold.Job(id)
		for _, a := range job.Attempts {
			if a.State == guild.Delivered {
				w.rules(id, a, "b")
			}
		}
	}
	w.pass(time.Minute)
}

// wantsOneOfEach checks that nothing was decided twice: no provider asked, no delivery compared, no attempt ended twice.
func (w *world) wantsOneOfEach(id guild.JobID) {
	w.Helper()
	seen := map[string]int{}
	for _, e := range w.Entries() {
		for _, f := range e.Facts {
			switch f := f.(type) {
			case fact.AttemptPlanned:
				seen["asked "+f.Provider.PubKey.Hex()]++
			case fact.AttemptCompared:
				seen["compared "+f.Attempt.Hex()]++
			case fact.AttemptCancelled:
				seen["cancelled "+f.Attempt.Hex()]++
			case fact.JobClosed:
				seen["closed"]++
			case fact.EffectSettled:
				seen["settled "+f.Effect]++
			}
		}
	}
	for what, times := range seen {
		if times != 1 {
			w.Errorf("%s %d times", what, times)
		}
	}
	events := map[string][]nostr.ID{}
	for _, p := range w.sent(5000) {
		to := p.Tags.Find("p")[1]
		if !slices.Contains(events[to], p.ID) {
			events[to] = append(events[to], p.ID)
		}
	}
	for to, ids := range events {
		if len(ids) > 1 {
			w.Errorf("%.8s was asked by %d events", to, len(ids))
		}
	}
	job, _ := w.fold.Job(id)
	for _, a := range job.Attempts {
		withdrawn := seen["settled "+withdrawing(a.ID)] == 1
		if withdrawn != (a.Outcome() == guild.Cancelled || a.Outcome() == guild.Expired) {
			w.Errorf("attempt %s is %s, taken back: %t", a.ID.Hex()[:8], a.Outcome(), withdrawn)
		}
	}
}
