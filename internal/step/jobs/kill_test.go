package jobs

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
)

// A job of high criticality whose process may die after any fact: three are asked, one fails and is replaced,
// two agree, and the last one is cancelled.
func TestReplicatedJobSurvivesKills(t *testing.T) {
	var whole []fact.Entry
	var order guild.JobID
	synctest.Test(t, func(t *testing.T) {
		w, people := trusted(t, 5)
		order = w.opens(Order{Criticality: guild.High})
		w.votes(order, people, "-ba")
		w.votes(order, people, "b")
		w.pass(time.Minute)
		w.ends(order, guild.JobAccepted)
		whole = w.entries()
	})
	facts := 0
	for _, e := range whole {
		facts += len(e.Facts)
	}
	if facts < 25 {
		t.Fatalf("%d facts only", facts)
	}
	for died := 1; died <= len(whole); died++ {
		synctest.Test(t, func(t *testing.T) {
			w, people := trusted(t, 5)
			w.revive(whole[:died], people)
			for range 20 {
				job, _ := w.fold.Job(order)
				if job.Ending != guild.Open {
					break
				}
				w.goOn(order, people)
			}
			w.pass(time.Minute)
			last := whole[died-1].Facts
			job := w.ends(order, guild.JobAccepted)
			if c := job.count(); c.agreeing != 2 || c.waiting != 0 || w.fold.Open() != 0 {
				t.Errorf("after %s: %+v, %d open", last[len(last)-1].Type(), c, w.fold.Open())
			}
			w.wantsOneOfEach(order, last[len(last)-1].Type())
		})
	}
}

func (w *world) entries() (all []fact.Entry) {
	w.Helper()
	for e, err := range w.journal.Entries(w.Context(), 1) {
		if err != nil {
			w.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// revive starts a world on the history of a process that died.
func (w *world) revive(history []fact.Entry, people []person) {
	w.Helper()
	w.stop()
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
	for _, e := range history {
		err := w.journal.Do(w.Context(), e.Subject, e.Cause, func(tx *journal.Tx) error { tx.Append(e.Facts...); return nil })
		if err != nil {
			w.Fatal(err)
		}
	}
	w.restart()
}

// goOn answers one waiting request and judges one delivery.
func (w *world) goOn(id guild.JobID, people []person) {
	w.Helper()
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

// wantsOneOfEach checks that nothing was decided twice: no provider asked, no delivery compared, no attempt ended twice.
func (w *world) wantsOneOfEach(id guild.JobID, died string) {
	w.Helper()
	seen := map[string]int{}
	for _, e := range w.entries() {
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
			w.Errorf("after %s: %s %d times", died, what, times)
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
			w.Errorf("after %s: %.8s was asked by %d events", died, to, len(ids))
		}
	}
	job, _ := w.fold.Job(id)
	for _, a := range job.Attempts {
		withdrawn := seen["settled "+withdrawing(a.ID)] == 1
		if withdrawn != (a.Outcome() == guild.Cancelled || a.Outcome() == guild.Expired) {
			w.Errorf("after %s: attempt %s is %s, taken back: %t", died, a.ID.Hex()[:8], a.Outcome(), withdrawn)
		}
	}
}
