package jobs

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold/foldtest"
)

func TestLimitAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1))
		var jobs []guild.JobID
		for range 20 {
			id, err := w.Open(t.Context(), Order{Task: "python", Kind: 5000, Bundle: []byte("the task"), Timeout: 5 * time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			jobs = append(jobs, id)
		}
		w.pass(0)
		if n := len(w.sent(5000)); n != 8 {
			t.Fatalf("%d requests at once, want 8", n)
		}
		for done := range 20 {
			for _, id := range jobs {
				job, _ := w.fold.Job(id)
				if len(job.Attempts) == 1 && job.Attempts[0].State.Waiting() {
					w.delivers(alice, job.Attempts[0].ID, []byte("the work"))
					w.judges(id, guild.Success)
					break
				}
			}
			if waiting, _ := w.fold.asked(alice.key, time.Now()); waiting > 8 || waiting != min(8, 19-done) {
				t.Errorf("%d wait after %d are done", waiting, done+1)
			}
			w.pass(time.Second) // thirty a minute are enough for all of them
		}
		for _, id := range jobs {
			w.ends(id, guild.JobAccepted)
		}
	})
}

// keys returns the keys of work that is ready, sorted.
func keys(all []due.Work) (keys []string) {
	for _, w := range all {
		if !w.Ready.After(time.Now()) {
			keys = append(keys, w.Key)
		}
	}
	slices.Sort(keys)
	return keys
}

func TestFreePlaceIsSeenUnderTheGuardThatFreedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1))
		w.limits = Limits{AtOnce: 2}
		w.restart()
		var jobs []guild.JobID
		for range 30 {
			jobs = append(jobs, w.opens(Order{}))
		}
		w.pass(0)
		w.Stop()
		if ready := keys(w.Due(time.Now())); len(ready) != 0 {
			t.Fatalf("due are %v", ready)
		}
		for i, id := range jobs[:2] {
			w.delivers(alice, w.attempt(id).ID, []byte("the work"))
			w.judges(id, guild.Success)
			work := w.DueUnder([]fact.Subject{fact.JobSubject(id)}, time.Now())
			for _, want := range []string{"close " + id.String(), "plan " + jobs[2+i].String()} {
				if !slices.Contains(keys(work), want) {
					t.Errorf("%q is not due: %v", want, keys(work))
				}
			}
			if len(work) > 2*lineEnd+1 {
				t.Errorf("%d of %d jobs were looked at", len(work), len(jobs))
			}
		}
		var all []fact.Subject
		for _, id := range jobs {
			all = append(all, fact.JobSubject(id))
		}
		if some, every := keys(w.DueUnder(all, time.Now())), keys(w.Due(time.Now())); !slices.Equal(some, every) {
			t.Errorf("due are %v under all guards, and %v", some, every)
		}
	})
}

func TestLimitPerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1))
		w.limits = Limits{AtOnce: 100, PerMinute: 3}
		w.restart()
		for range 8 {
			w.opens(Order{})
			w.pass(time.Second)
		}
		w.pass(5 * time.Minute)
		var first []time.Duration
		seen := map[nostr.ID]bool{}
		for _, p := range w.sent(5000) {
			if !seen[p.ID] {
				seen[p.ID], first = true, append(first, p.at)
			}
		}
		if len(first) != 8 {
			t.Fatalf("%d jobs were asked for", len(first))
		}
		for i := range first[3:] {
			if first[i+3]-first[i] < time.Minute {
				t.Errorf("requests %d to %d came within %v", i+1, i+4, first[i+3]-first[i])
			}
			if first[i+3]-first[i] > 61*time.Second {
				t.Errorf("request %d came after %v, and there was room after a minute", i+4, first[i+3]-first[i])
			}
		}
	})
}

func TestFullProviderIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1), bob.offers(2))
		w.limits = Limits{AtOnce: 1}
		w.restart()
		w.trust[alice.service()] = 900_000
		for _, want := range []person{alice, bob} {
			if a := w.attempt(w.opens(Order{})); a.Provider.PubKey != want.key {
				t.Errorf("%v was asked", a.Provider)
			}
		}
		third := w.opens(Order{Timeout: time.Minute})
		w.wants(third)
		w.pass(59 * time.Second)
		w.ends(third, guild.Open)
		w.pass(time.Second)
		if job := w.ends(third, guild.JobUnclaimed); job.Reason != "all eligible providers are at their limit of requests, at once or in a minute" {
			t.Error(job.Reason)
		}
	})
}

func TestLastPlaceIsGivenOnce(t *testing.T) {
	j := New(Config{Limits: Limits{AtOnce: 2, PerMinute: 3}}, NewFold())
	now := time.UnixMilli(1_000_000)
	plan := func(n byte, p person) fact.AttemptPlanned {
		return fact.AttemptPlanned{Attempt: nostr.ID{n}, Job: guild.JobID{n}, Provider: p.service()}
	}
	for _, c := range []struct {
		plan  fact.AttemptPlanned
		after time.Duration
		want  bool
	}{
		{plan(1, alice), 0, true}, {plan(2, alice), 0, true}, {plan(3, alice), 0, false}, {plan(4, bob), 0, true},
		{plan(2, alice), 0, true},                 // decided once more
		{plan(3, alice), 59 * time.Second, false}, // still on the way
		{plan(3, alice), 2 * time.Minute, true},   // they came to nothing
	} {
		if got := j.admit(c.plan, now.Add(c.after)); got != c.want {
			t.Errorf("attempt %d after %v: %t", c.plan.Attempt[0], c.after, got)
		}
	}
	j.fold.Apply(fact.Entry{Seq: 1, At: now.Add(2 * time.Minute).UnixMilli(), Subject: fact.JobSubject(guild.JobID{3}),
		Facts: []fact.Fact{fact.JobOpened{Job: guild.JobID{3}}, plan(3, alice)}})
	if !j.admit(plan(5, alice), now.Add(2*time.Minute)) || j.admit(plan(6, alice), now.Add(2*time.Minute)) {
		t.Error("what is in the fold is counted twice, or not at all")
	}
}

func TestTrafficAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1), bob.offers(2))
		w.limits = Limits{AtOnce: 3}
		w.restart()
		for range 5 {
			w.opens(Order{})
			w.pass(10 * time.Second)
		}
		for _, p := range []person{alice, bob} {
			waiting, minute := w.fold.asked(p.key, time.Now())
			again := NewFold()
			if err := again.Restore([]byte(foldtest.Snapshot(t, w.fold))); err != nil {
				t.Fatal(err)
			}
			if n, times := again.asked(p.key, time.Now()); n != waiting || len(times) != len(minute) || n == 0 {
				t.Errorf("%d waiting and %d in a minute were %d and %d", n, len(times), waiting, len(minute))
			}
		}
	})
}
