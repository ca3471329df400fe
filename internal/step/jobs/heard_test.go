package jobs

import (
	"testing"
	"testing/synctest"
	"time"

	"guild"
	"guild/nip90"
)

// A new process knows no provider until relays have sent their announcements. A job that it finds open continues with
// the providers heard of in time; it is not given up before, and does not wait for ever.
func TestProvidersHaveTimeToBeHeard(t *testing.T) {
	for _, c := range []struct {
		name     string
		order    Order
		attempts int // before the restart
		asked    int // when those who offer are heard of again
	}{
		{"for the next of those who are asked in turn", Order{}, 1, 2},
		{"for the others of those who are asked at once", Order{Criticality: guild.High}, 2, 3},
		{"for the first", Order{}, 0, 1},
	} {
		for _, comes := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var people []guild.Offer
				for _, p := range []person{alice, bob, carol} {
					o := p.offers(0)
					o.State = guild.Active
					people, w.trust[o.Service] = append(people, o), 900_000
				}
				w.offers = people[:c.attempts]
				id := w.opens(c.order)
				w.wantsAsked(id, c.name, c.attempts)
				w.offers, w.hears = nil, func() time.Time { return w.began.Add(time.Minute) }
				w.Stop()
				time.Sleep(time.Minute)
				w.restart()
				if c.attempts > 0 {
					a := w.attempt(id)
					refuser := alice
					if a.Provider.PubKey == bob.key {
						refuser = bob
					}
					w.says(refuser, feedback(a.ID, nip90.Error, "no"))
				}
				w.pass(9 * time.Second)
				if job := w.ends(id, guild.Open); c.order.Criticality == guild.High && job.Attempts[0].State != guild.Requested {
					t.Errorf("%s: who was asked is %s", c.name, job.Attempts[0].State)
				}
				if comes {
					w.mu.Lock()
					w.offers = people
					w.mu.Unlock()
					w.runner.Wake()
					w.pass(0)
					w.ends(id, guild.Open)
					w.wantsAsked(id, c.name, c.asked)
					return
				}
				w.pass(2 * time.Second)
				if job, _ := w.fold.Job(id); job.Ending == guild.Open {
					t.Errorf("%s: it waits for ever", c.name)
				}
			})
		}
	}
}

func (w *world) wantsAsked(id guild.JobID, name string, n int) {
	w.Helper()
	job, _ := w.fold.Job(id)
	if got := len(job.Attempts); got != n {
		w.Errorf("%s: %d were asked, want %d", name, got, n)
	}
}
