package jobs

import (
	"slices"
	"testing"
	"time"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/step/steptest"
)

// In TestOpenJobSurvivesKills all providers are asked for offers once, one provider for the work
// once, and the solicitation is taken back, whatever fact was the last before the process ended.
func TestOpenJobSurvivesKills(t *testing.T) {
	order := Order{ID: guild.JobID{7}, Open: true, Bundle: []byte("the task")}
	live := func(t *testing.T) []fact.Entry {
		w := newWorld(t, alice.offers(1))
		w.opens(order)
		w.plays(order.ID)
		return w.Entries()
	}
	steptest.KillAtEachEntry(t, 6, live, func(t *testing.T, left, _ []fact.Entry) {
		w := newWorld(t, alice.offers(1))
		w.revive(left, nil)
		w.plays(order.ID)
		facts := w.facts(order.ID)
		for _, once := range []string{"job.solicited", "job.offered", "attempt.planned", "attempt.delivered"} {
			if got := len(slices.DeleteFunc(slices.Clone(facts), func(f string) bool { return f != once })); got != 1 {
				t.Errorf("%d times %s", got, once)
			}
		}
		if job, _ := w.fold.Job(order.ID); !job.Unsought || len(job.Attempts) != 1 || job.Attempts[0].Provider != alice.service() {
			t.Errorf("%+v", job)
		}
	})
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
