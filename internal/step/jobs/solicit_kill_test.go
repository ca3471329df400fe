package jobs

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
)

// In TestOpenJobSurvivesKills all providers are asked for offers once, one provider for the work
// once, and the solicitation is taken back, whatever fact was the last before the process ended.
func TestOpenJobSurvivesKills(t *testing.T) {
	order := Order{ID: guild.JobID{7}, Open: true, Bundle: []byte("the task")}
	var whole []fact.Entry
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1))
		w.opens(order)
		w.plays(order.ID)
		for e, err := range w.journal.Entries(t.Context(), 1) {
			if err != nil {
				t.Fatal(err)
			}
			whole = append(whole, e)
		}
	})
	if len(whole) < 6 {
		t.Fatalf("%d entries only", len(whole))
	}
	for n := range len(whole) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, alice.offers(1))
			w.stop()
			if _, err := w.blobs.PutBytes(t.Context(), order.Bundle); err != nil {
				t.Fatal(err)
			}
			for _, e := range whole[:n+1] {
				time.Sleep(time.Until(time.UnixMilli(e.At)))
				err := w.journal.Do(t.Context(), e.Subject, "", func(tx *journal.Tx) error { tx.Append(e.Facts...); return nil })
				if err != nil {
					t.Fatal(err)
				}
			}
			w.restart()
			w.plays(order.ID)
			facts := w.facts(order.ID)
			for _, once := range []string{"job.solicited", "job.offered", "attempt.planned", "attempt.delivered"} {
				if got := len(slices.DeleteFunc(slices.Clone(facts), func(f string) bool { return f != once })); got != 1 {
					t.Errorf("killed after entry %d: %d times %s", n+1, got, once)
				}
			}
			if job, _ := w.fold.Job(order.ID); !job.Unsought || len(job.Attempts) != 1 || job.Attempts[0].Provider != alice.service() {
				t.Errorf("killed after entry %d: %+v", n+1, job)
			}
		})
	}
}

// plays lets alice act on an open job for a minute: she makes an offer, and delivers when she is asked.
func (w *world) plays(id guild.JobID) {
	w.Helper()
	for range 60 {
		job, _ := w.fold.Job(id)
		switch {
		case job.Solicited != nil && len(job.Offers) == 0:
			if err := w.says(alice, offers(job.Solicited.Request.ID, 5)); err != nil {
				w.Fatal(err)
			}
		case len(job.Attempts) > 0 && job.Attempts[0].State.Waiting():
			if err := w.delivers(alice, job.Attempts[0].ID, []byte("the work")); err != nil {
				w.Fatal(err)
			}
		}
		w.pass(time.Second)
	}
}
