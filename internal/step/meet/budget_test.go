package meet

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
)

// begin writes an automatic meeting with a number of runs, and its end if wanted.
func (w *world) begin(n byte, runs int, ended bool) {
	w.Helper()
	began := w.meeting(guild.Offer{Service: service(n)}, "python")
	w.writeEach(guild.JobID{n}, began)
	for i := range runs {
		job := jobOf(began.Meeting, i+1)
		w.writeEach(job, append([]fact.Fact{fact.JobOpened{Job: job, Meeting: &fact.Benchmark{Meeting: began.Meeting, Run: i + 1}}}, life(job, success950())...)...)
	}
	if ended {
		w.writeEach(guild.JobID{n}, fact.MeetingEnded{Meeting: began.Meeting, Service: service(n), Runs: runs, To: guild.Active})
	}
}

func TestDailyBudget(t *testing.T) {
	for _, c := range []struct {
		name   string
		config Config
		before func(w *world)
		want   bool
	}{
		{"no meetings", Config{}, func(*world) {}, true},
		{"as many at once as allowed", Config{AtOnce: 1}, func(w *world) { w.begin(1, 1, false) }, false},
		{"one less at once", Config{AtOnce: 2}, func(w *world) { w.begin(1, 1, false) }, true},
		{"as many on a day as allowed", Config{Count: 1}, func(w *world) { w.begin(1, 3, true) }, false},
		{"one less on a day", Config{Count: 2}, func(w *world) { w.begin(1, 3, true) }, true},
		{"a meeting may come to five runs of 1000 msat", Config{Daily: 4_999}, func(*world) {}, false},
		{"five runs of 1000 msat are affordable", Config{Daily: 5_000}, func(*world) {}, true},
		{"an ended meeting has cost its runs", Config{Daily: 8_000}, func(w *world) { w.begin(1, 3, true) }, true},
		{"a millisatoshi less is not enough", Config{Daily: 7_999}, func(w *world) { w.begin(1, 3, true) }, false},
		{"a meeting under way may cost five runs", Config{Daily: 9_999}, func(w *world) { w.begin(1, 1, false) }, false},
		{"a person's meeting is not counted", Config{Daily: 5_000, Count: 1}, func(w *world) {
			began := w.meeting(guild.Offer{Service: service(1)}, "python")
			began.Asked = true
			w.writeEach(guild.JobID{1}, began)
		}, true},
		{"the next UTC day has its own budget", Config{Daily: 5_000, Count: 1}, func(w *world) {
			w.begin(1, 3, true)
			time.Sleep(time.Until(time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)))
		}, true},
		{"a second before the next UTC day", Config{Daily: 5_000, Count: 1}, func(w *world) {
			w.begin(1, 3, true)
			time.Sleep(time.Until(time.Now().UTC().Truncate(24*time.Hour).Add(24*time.Hour)) - time.Second)
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, c.config)
				c.before(w)
				if got := w.affords(time.Now(), "", w.c.Bid); got != c.want {
					t.Errorf("affords: %v", got)
				}
			})
		})
	}
}

func TestBudgetWithManyCandidates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Auto: true, Daily: 20_000, Count: 100, AtOnce: 3})
		for n := range byte(60) {
			w.offers["shell"] = append(w.offers["shell"], seen(100+n, 1))
		}
		w.Run(w.Due)
		began := time.Now().UTC().Truncate(24 * time.Hour)
		for time.Now().UTC().Before(began.Add(23 * time.Hour)) {
			synctest.Wait()
			if going := len(w.fold.underWay()); going > 3 {
				t.Fatalf("%d meetings at once", going)
			}
			if r, _, ok := w.pending(); ok {
				w.writeEach(r.Job, life(r.Job, success950())...)
			} else {
				time.Sleep(10 * time.Minute)
			}
		}
		spent := guild.Msat(0)
		for _, r := range w.opened {
			spent += r.Bid
		}
		if spent > 20_000 || spent < 15_000 {
			t.Errorf("%s were bid, want at most 20000 msat", spent)
		}
		for _, m := range w.fold.All() {
			if m.Ended == nil || m.Ended.To != guild.Active {
				t.Errorf("%+v", m)
			}
		}
	})
}

// silence returns the facts of a job that the provider never answered.
func silence(job guild.JobID) []fact.Fact {
	return []fact.Fact{planned(job), fact.AttemptExpired{Attempt: attempt(job), Silent: true, Reason: "no answer"},
		fact.JobClosed{Job: job, Ending: guild.JobTimedOut}}
}

func TestOneMeetingPerKeyADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Auto: true})
		for n := range byte(60) {
			w.offers["shell"] = append(w.offers["shell"], guild.Offer{
				Service: guild.Service{PubKey: key(100), D: string('A' + rune(n))}, State: guild.Seen, Confidence: 1})
		}
		for n := range byte(3) {
			w.offers["shell"] = append(w.offers["shell"], seen(101+n, 0.3))
		}
		w.Run(w.Due)
		midnight := time.Now().UTC().Truncate(24 * time.Hour)
		for day := 1; day <= 2; day++ {
			evening := midnight.Add(time.Duration(day)*24*time.Hour - 15*time.Minute) // the next meeting begins at midnight
			for time.Now().UTC().Before(evening) {
				synctest.Wait()
				if r, _, ok := w.pending(); ok {
					w.writeEach(r.Job, silence(r.Job)...)
				} else {
					time.Sleep(10 * time.Minute)
				}
			}
			met := map[nostr.PubKey]int{}
			for _, m := range w.fold.All() {
				met[m.Service.PubKey]++
			}
			if len(met) != 4 || met[key(100)] != day {
				t.Errorf("day %d: %v meetings by key", day, met)
			}
		}
	})
}

func TestNewKeyComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Auto: true})
		w.begin(1, 3, true)
		time.Sleep(48 * time.Hour)
		other := seen(1, 1)
		other.Service.D = "another"
		w.offers["shell"] = []guild.Offer{other, seen(2, 0.3)}
		if began, ok := w.candidate(time.Now()); !ok || began.Service != service(2) {
			t.Errorf("%+v", began.Service)
		}
		w.offers["shell"] = []guild.Offer{other}
		if began, ok := w.candidate(time.Now()); !ok || began.Service != other.Service {
			t.Errorf("%+v, want the only other candidate", began.Service)
		}
	})
}

func TestAskedMeetingBlocksKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Auto: true})
		other := seen(1, 1)
		other.Service.D = "another"
		w.offers["shell"] = []guild.Offer{other}
		began := w.meeting(guild.Offer{Service: service(1)}, "python")
		began.Asked = true
		w.writeEach(guild.JobID{1}, began)
		if c, ok := w.candidate(time.Now()); ok {
			t.Errorf("%+v is met at the same time", c.Service)
		}
		w.writeEach(guild.JobID{1}, fact.MeetingEnded{Meeting: began.Meeting, Service: service(1), To: guild.Active})
		if _, ok := w.candidate(time.Now()); !ok {
			t.Error("not met, although an asked meeting does not count")
		}
	})
}

func TestConcurrentDecisions(t *testing.T) {
	w := newWorld(t, Config{Auto: true, AtOnce: 10, Daily: 10_000})
	var ready sync.WaitGroup
	for n := range byte(8) {
		w.offers["python"] = []guild.Offer{seen(100+n/2, 1)} // pairs choose the same service
		work := w.pick()
		decide, err := work.Act(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ready.Go(func() {
			if err := w.Journal.Do(t.Context(), work.Guard, work.Key, decide); err != nil {
				t.Error(err)
			}
		})
	}
	ready.Wait()
	all := w.fold.All()
	if len(all) != 2 || all[0].Service == all[1].Service {
		t.Errorf("%d meetings, want the 2 of 5 runs that 10000 msat pay for", len(all))
	}
}
