package meet

import (
	"testing"
	"testing/synctest"
	"time"

	"guild"
	"guild/internal/journal/fact"
)

// checkups returns checkups of partners, one for each purpose.
func checkups(purposes ...string) func(time.Time) []guild.Checkup {
	return func(time.Time) (all []guild.Checkup) {
		for n, purpose := range purposes {
			all = append(all, guild.Checkup{Service: service(byte(50 + n)), Purpose: purpose, Task: "python"})
		}
		return all
	}
}

// partners announces n partners and a number of newcomers.
func (w *world) partners(n, newcomers int) {
	for i := range n {
		o := seen(byte(50+i), 1)
		o.State = guild.Active
		w.offers["python"] = append(w.offers["python"], o)
	}
	for i := range newcomers {
		w.offers["python"] = append(w.offers["python"], seen(byte(100+i), 1))
	}
}

// TestLookIsOneRun: a heartbeat and a probe are lightweight (section 3.4.1 of the partnership protocol), a
// re-verification and a retry are complete evaluations (section 3.4.3).
func TestLookIsOneRun(t *testing.T) {
	for _, c := range []struct {
		purpose string
		verdict guild.Verdict
		runs    int
		want    guild.ProviderState
	}{
		{guild.PurposeHeartbeat, success950(), 1, guild.Active},
		{guild.PurposeHeartbeat, guild.Verdict{Outcome: guild.Partial, Score: 700_000}, 1, guild.Conditional},
		{guild.PurposeHeartbeat, guild.Verdict{Outcome: guild.Failure}, 1, guild.Unqualified},
		{guild.PurposeProbe, success950(), 1, guild.Active},
		{guild.PurposeProbe, guild.Verdict{Outcome: guild.Violation}, 1, guild.Removed},
		{guild.PurposeReverify, success950(), 3, guild.Active},
		{guild.PurposeRetry, guild.Verdict{Outcome: guild.Failure}, 3, guild.Unqualified},
	} {
		t.Run(c.purpose+" "+string(c.want), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Config{Auto: true, Checkups: checkups(c.purpose)})
				w.partners(1, 0)
				w.Meet.c.Checkups = func(now time.Time) []guild.Checkup {
					if len(w.fold.All()) > 0 {
						return nil
					}
					return checkups(c.purpose)(now)
				}
				w.Run(w.Due)
				for range c.runs {
					synctest.Wait()
					r, _, ok := w.pending()
					if !ok {
						t.Fatal("no run is under way")
					}
					w.writeEach(r.Job, life(r.Job, c.verdict)...)
				}
				synctest.Wait()
				m := w.only()
				if m.Ended == nil || m.Ended.To != c.want || m.Ended.Runs != c.runs || m.Ended.Cause == "" || m.Purpose != c.purpose || m.Asked {
					t.Errorf("%+v: %+v", m.MeetingBegan, m.Ended)
				}
				if short := len(m.Modules) == 1; short != (c.runs == 1) {
					t.Errorf("modules %v", m.Modules)
				}
			})
		})
	}
}

// TestShareForNewcomers: a day has 8 meetings of 5 runs. A quarter of that, 10 runs, is reserved for newcomers, so that
// known providers get at most 30 heartbeats or 6 retries.
func TestShareForNewcomers(t *testing.T) {
	for _, c := range []struct {
		purpose        string
		due, newcomers int
		known, met     int // meetings of the day
	}{
		{guild.PurposeHeartbeat, 40, 20, 30, 2},
		{guild.PurposeHeartbeat, 5, 20, 5, 7},
		{guild.PurposeRetry, 40, 20, 6, 2},
		{guild.PurposeRetry, 0, 20, 0, 8},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Config{Auto: true, Count: 8, Daily: 40_000})
			w.partners(c.due, c.newcomers)
			purposes := make([]string, c.due)
			for i := range purposes {
				purposes[i] = c.purpose
			}
			w.Meet.c.Checkups = checkups(purposes...)
			known, met := 0, 0
			for {
				began, ok := w.candidate(time.Now())
				if !ok {
					break
				}
				if began.Purpose == "" {
					met++
				} else if known++; met > 0 {
					t.Errorf("%s after a newcomer", began.Purpose)
				}
				w.writeEach(guild.JobID{}, began, fact.MeetingEnded{Meeting: began.Meeting, Service: began.Service})
				// The meeting ends after the largest possible number of runs.
				w.fold.Change(func(s *state) {
					s.change(began.Meeting, func(m *Meeting) { m.Runs = make([]Result, runsOf(began.Purpose)) })
				})
			}
			if known != c.known || met != c.met {
				t.Errorf("%d %s: %d of them and %d newcomers, want %d and %d", c.due, c.purpose, known, met, c.known, c.met)
			}
		})
	}
}

func TestOneLookAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Auto: true, Checkups: checkups(guild.PurposeProbe)})
		if _, ok := w.candidate(time.Now()); ok {
			t.Error("a benchmark for a service that is not announced")
		}
		w.partners(1, 0)
		began, ok := w.candidate(time.Now())
		if !ok || began.Purpose != guild.PurposeProbe || began.Task != "python" {
			t.Fatalf("%+v", began)
		}
		w.writeEach(guild.JobID{}, began)
		if _, ok := w.candidate(time.Now()); ok {
			t.Error("a second meeting while one is under way")
		}
		w.writeEach(guild.JobID{}, fact.MeetingEnded{Meeting: began.Meeting, Service: began.Service})
		if _, ok := w.candidate(time.Now()); ok {
			t.Error("another look right after an inconclusive one")
		}
		time.Sleep(again)
		if _, ok := w.candidate(time.Now()); !ok {
			t.Error("no other look a day later")
		}
	})
}
