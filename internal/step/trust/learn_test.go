package trust

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
)

// silent is the life of an attempt that got no answer.
func silent() []fact.Fact {
	return []fact.Fact{fact.AttemptRequested{}, fact.AttemptExpired{Silent: true}}
}

// in returns a delivery after d.
func in(d time.Duration) fact.Fact { return fact.AttemptDelivered{LatencyMs: d.Milliseconds()} }

func (w *world) wantsChange(what string, got fact.TrustChanged, rule string, from, to guild.Trust) {
	w.Helper()
	if got.Rule != rule || got.From != from || got.To != to {
		w.Errorf("%s: %q from %d to %d, want %q from %d to %d: %s", what, got.Rule, got.From, got.To, rule, from, to, got.Rationale)
	}
}

func TestEvidenceHasJobClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.attempt(service(1), judged(guild.Success, 900_000))
		w.hired(fact.JobOpened{Task: "python", Class: "financial"}, service(1), judged(guild.Failure, 0)) // 0.3·(0.6 − 0.225) + 0.42
		w.wants(service(1), 532_500)
		w.hired(fact.JobOpened{Task: "python", Class: "financial", Meeting: &fact.Benchmark{}}, service(1), judged(guild.Failure, 0))
		if c := w.lastChange(); c.Class != "benchmark" || c.To != 487_500 { // −0.15·0.3
			t.Errorf("%+v", c)
		}
	})
}

// The baseline is the median of all providers' accepted deliveries, from the third on.
func TestLatencyBaseline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.attempt(service(1), in(3*time.Second), judged(guild.Success, 900_000))
		w.attempt(service(2), in(2*time.Second), judged(guild.Success, 900_000))
		w.attempt(service(3), in(time.Millisecond), judged(guild.Failure, 0)) // a failure is not part of the baseline
		w.attempt(service(3), in(time.Second), judged(guild.Success, 1_000_000))
		w.wants(service(3), 600_000) // two are too few for a baseline
		w.attempt(service(4), in(999*time.Millisecond), judged(guild.Success, 1_000_000))
		w.wants(service(4), 750_000)
		if c := w.lastChange(); c.LatencyMs != 999 || c.BaselineMs != 2000 {
			t.Errorf("%d ms, usually %d ms", c.LatencyMs, c.BaselineMs)
		}
		w.hired(fact.JobOpened{Task: "other"}, service(4), in(time.Millisecond), judged(guild.Success, 1_000_000))
		if got, _ := w.Trust("other", service(4)); got != 600_000 {
			t.Errorf("another task's latency counted: %d", got)
		}
	})
}

func TestLatenciesAreKeptWithinBounds(t *testing.T) {
	f := newFold(t)
	for n := range 300 {
		id := nostr.ID{9, byte(n), byte(n >> 8)}
		f.Apply(fact.Entry{Seq: uint64(n + 1), Facts: []fact.Fact{fact.JobOpened{Job: jobID(n), Task: "python"}, fact.AttemptPlanned{Attempt: id, Job: jobID(n)},
			fact.AttemptDelivered{Attempt: id, LatencyMs: int64(n + 1)}, about(id, judged(guild.Success, 900_000))}})
	}
	ms := f.inside().Latencies.Of("python")
	if len(ms) != mostLatencies || baseline(ms, numbers()) != 250 { // the 50th of 201 … 300
		t.Errorf("%d latencies, median %d", len(ms), baseline(ms, numbers()))
	}
}

func TestSuccessAfterSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.attempt(service(1), judged(guild.Success, 900_000))
		silence := w.attempt(service(1), silent()...)
		w.wants(service(1), 540_000)
		if got := w.inside().Days.Of("python").Spent; got != 60_000 {
			t.Errorf("%d of the day spent", got)
		}
		w.attempt(service(1), judged(guild.Success, 1_000_000))
		w.wants(service(1), 600_000)
		c := w.lastChange()
		w.wantsChange("taken back", c, fact.RuleContradiction, 540_000, 600_000)
		if c.Reverts != silence || c.EMA != 600_000 || c.Runs != 1 || w.inside().Days.Of("python").Spent != 0 {
			t.Errorf("%+v, %d spent", c, w.inside().Days.Of("python").Spent)
		}
		w.attempt(service(1), judged(guild.Success, 1_000_000)) // the second in a row: 0.3·0.672 + 0.42
		w.wants(service(1), 621_600)
	})
}

func TestNoRefundOfEarlierDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it is midnight UTC
		w := newWorld(t)
		w.attempt(service(1), judged(guild.Success, 900_000))
		w.attempt(service(2), judged(guild.Success, 900_000))
		w.attempt(service(1), silent()...)
		time.Sleep(24 * time.Hour)
		w.attempt(service(2), judged(guild.Failure, 0)) // −0.045
		w.attempt(service(1), judged(guild.Success, 900_000))
		w.wants(service(1), 600_000)
		if got := w.inside().Days.Of("python"); got.Spent != 45_000 {
			t.Errorf("%d of the day spent", got.Spent)
		}
	})
}

func TestDayOfEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it is midnight UTC
		w := stillWorld(t)
		time.Sleep(23*time.Hour + 59*time.Minute)
		w.attempt(service(1), judged(guild.Success, 900_000))
		w.attempt(service(1), judged(guild.Failure, 0))
		time.Sleep(time.Hour) // the node was down
		w.Run(w.step.Due)
		w.attempt(service(2), judged(guild.Success, 900_000))
		if got := w.inside().Days.Of("python"); got != (day{Day: time.Now().UnixMilli()/dayMs - 1, Spent: 45_000}) {
			t.Errorf("%+v", got)
		}
		w.attempt(service(1), judged(guild.Failure, 0)) // 0.555 − 0.045
		if got := w.inside().Days.Of("python"); got != (day{Day: time.Now().UnixMilli() / dayMs, Spent: 45_000}) {
			t.Errorf("%+v", got)
		}
	})
}

// Seven good outcomes, then three bad ones while trust is below 0.7.
func TestMeanOfWeekRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := service(1)
		w.attempt(s, judged(guild.Success, 900_000)) // 0.6
		time.Sleep(6 * time.Hour)
		for range 6 {
			w.attempt(s, judged(guild.Success, 900_000))
		}
		high, _ := w.Trust("python", s)
		time.Sleep(6 * time.Hour)
		for range 3 {
			w.attempt(s, judged(guild.Failure, 0))
		}
		all := w.changes()
		third, mean := all[len(all)-2], all[len(all)-1]
		want := (600_000 + high) / 2 // six hours each
		if third.Rule != "" || third.Consecutive != 3 || third.Attempt != mean.Attempt {
			t.Errorf("%+v", third)
		}
		w.wantsChange("the mean", mean, fact.RuleMean, third.To, want)
		if mean.EMA != want || mean.Runs != 0 || mean.Consecutive != 0 || mean.Action != ActionAlert {
			t.Errorf("%+v", mean)
		}
		w.wants(s, want)
		if c, _ := w.Change(mean.Attempt); c.From != third.From || c.To != want {
			t.Errorf("the attempt changed %+v", c)
		}
		w.attempt(s, judged(guild.Failure, 0)) // earlier changes no longer count
		if c := w.lastChange(); c.Rule != "" || c.Consecutive != 0 {
			t.Errorf("%+v", c)
		}
	})
}

// vote is one provider's part in a job of which several must agree.
type vote struct {
	outcome guild.Outcome
	with    int // the vote whose delivery is the same; −1 if it was not compared
}

func (w *world) voting(c guild.Criticality, chosen int, votes ...vote) []nostr.ID {
	w.Helper()
	w.attempts++
	job := jobID(w.attempts)
	id := func(n int) nostr.ID { return nostr.ID{2, byte(w.attempts), byte(n)} }
	facts := []fact.Fact{fact.JobOpened{Job: job, Task: "python", Criticality: c}}
	var ids []nostr.ID
	for n, v := range votes {
		ids = append(ids, id(n))
		facts = append(facts, fact.AttemptPlanned{Attempt: id(n), Job: job, Provider: service(byte(n + 1))}, about(id(n), judged(v.outcome, 900_000)))
		if v.with >= 0 {
			facts = append(facts, fact.AttemptCompared{Attempt: id(n), With: id(v.with)})
		}
	}
	w.do(fact.JobSubject(job), facts...)
	if w.Settled(job) {
		w.Error("an open job is settled")
	}
	closed := fact.JobClosed{Job: job, Ending: guild.JobRejected}
	if chosen >= 0 {
		closed.Ending, closed.Chosen = guild.JobAccepted, id(chosen)
	}
	w.do(fact.JobSubject(job), closed)
	if !w.Settled(job) || w.inside().Jobs.Has(job) || w.inside().Asked.Len() != 0 {
		w.Errorf("the closed job is not settled: %+v", w.inside().Jobs.Of(job))
	}
	return ids
}

// rests returns a verdict of today, which counts its strengths.
func rests(o guild.Outcome, score guild.Score, s guild.Strength) fact.Fact {
	return fact.AttemptJudged{Verdict: guild.Verdict{Outcome: o, Score: score, Strength: s, Strengths: &guild.Strengths{}}}
}

func TestLearnFromStrength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.attempt(service(1), rests(guild.Success, 900_000, guild.Unverified))
		w.wants(service(1), 0)
		w.attempt(service(1), rests(guild.Success, 900_000, guild.Strong))
		w.wants(service(1), 600_000)
		n := len(w.changes())
		for _, o := range []guild.Outcome{guild.Success, guild.Partial, guild.Failure} {
			w.attempt(service(1), rests(o, 900_000, guild.Unverified))
		}
		w.wants(service(1), 600_000)
		if len(w.changes()) != n {
			t.Errorf("an unverified verdict is a change of trust: %+v", w.lastChange())
		}
		w.attempt(service(1), rests(guild.Success, 900_000, guild.Weak))
		w.wants(service(1), 602_025) // 0.03·0.9·0.25·0.3
		if c := w.lastChange(); c.Strength != guild.Weak || c.Reason != "SUCCESS, score 0.90, weak" {
			t.Errorf("%+v", c)
		}
		ruled := rests(guild.Success, 900_000, guild.Unverified).(fact.AttemptJudged)
		ruled.Verdict.Ruling = &guild.Ruling{By: "us"}
		w.attempt(service(2), ruled)
		w.wants(service(2), 600_000)
		w.attempt(service(3), judged(guild.Success, 900_000)) // from before strengths were counted
		w.wants(service(3), 600_000)
	})
}

func TestAgreementIsWeakEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, agree := range []bool{true, false} {
			w := newWorld(t)
			id := func(n int) nostr.ID { return nostr.ID{2, 1, byte(n)} }
			facts := []fact.Fact{fact.JobOpened{Job: jobID(1), Task: "python", Criticality: guild.High}}
			for n := range 3 {
				facts = append(facts, fact.AttemptPlanned{Attempt: id(n), Job: jobID(1), Provider: service(byte(n + 1))},
					about(id(n), rests(guild.Success, 900_000, guild.Unverified)))
				if agree {
					facts = append(facts, fact.AttemptCompared{Attempt: id(n), With: id(n / 2 * 2)}) // 0 and 1 agree
				}
			}
			w.do(fact.JobSubject(jobID(1)), facts...)
			closed := fact.JobClosed{Job: jobID(1), Ending: guild.JobRejected}
			if agree {
				closed = fact.JobClosed{Job: jobID(1), Ending: guild.JobAccepted, Chosen: id(0)}
			}
			w.do(fact.JobSubject(jobID(1)), closed)
			if !agree {
				w.wants(service(1), 0)
				continue
			}
			w.wants(service(1), 450_000)
			w.wants(service(2), 450_000)
			if c := w.lastChange(); c.Pattern != failed || c.Strength != guild.Weak {
				t.Errorf("the minority: %+v", c)
			}
		}
	})
}

func TestMinorityWasWrong(t *testing.T) {
	yes, no := guild.Success, guild.Failure
	for name, c := range map[string]struct {
		level  guild.Criticality
		votes  []vote
		chosen int
		want   []string
	}{
		"two of three":                 {guild.High, []vote{{yes, 0}, {yes, 1}, {yes, 0}}, 0, []string{success, failed, success}},
		"the majority may come second": {guild.High, []vote{{yes, 0}, {yes, 1}, {yes, 1}}, 1, []string{failed, success, success}},
		"one failed by itself":         {guild.High, []vote{{yes, 0}, {no, -1}, {yes, 0}}, 0, []string{success, failed, success}},
		"nobody agrees":                {guild.High, []vote{{yes, 0}, {yes, 1}, {yes, 2}}, -1, []string{success, success, success}},
		"three of five against two":    {guild.Critical, []vote{{yes, 0}, {yes, 1}, {yes, 0}, {yes, 1}, {yes, 0}}, 0, []string{success, failed, success, failed, success}},
		"one came too late to compare": {guild.High, []vote{{yes, 0}, {yes, 0}, {yes, -1}}, 0, []string{success, success, success}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				ids := w.voting(c.level, c.chosen, c.votes...)
				got := map[nostr.ID]fact.TrustChanged{}
				for _, change := range w.changes() {
					if _, twice := got[change.Attempt]; twice {
						t.Errorf("attempt %v was learned from twice", change.Attempt)
					}
					got[change.Attempt] = change
				}
				for n, id := range ids {
					if got[id].Pattern != c.want[n] {
						t.Errorf("vote %d: %s, want %s", n, got[id].Pattern, c.want[n])
					}
				}
			})
		})
	}
}

func TestNotChosenIsNotWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		job := jobID(1)
		facts := []fact.Fact{fact.JobOpened{Job: job, Task: "python", Criticality: guild.High, Compare: "merge"}}
		for n := range byte(3) {
			id := nostr.ID{2, 1, n}
			facts = append(facts, fact.AttemptPlanned{Attempt: id, Job: job, Provider: service(n + 1)}, about(id, judged(guild.Success, 900_000)))
		}
		w.do(fact.JobSubject(job), facts...)
		if changes := w.changes(); len(changes) != 3 || changes[0].Pattern != success || changes[2].Pattern != success {
			t.Errorf("what is looked at together waits to be compared: %+v", changes)
		}
	})
}

func (w *world) judgeAgain(n int, id nostr.ID, o guild.Outcome) {
	w.Helper()
	w.do(fact.JobSubject(jobID(n)), fact.AttemptDisputed{Attempt: id, By: "provider"})
	w.do(fact.JobSubject(jobID(n)), about(id, judged(o, 900_000)))
}

func TestVerdictReplacesFirst(t *testing.T) {
	for name, c := range map[string]struct {
		life    func(w *world) (int, nostr.ID) // also returns which attempt is disputed
		outcome guild.Outcome
		rule    string
		want    guild.Trust
		spent   guild.Trust
	}{
		// Without −0.045 it is 0.6 again, and the success adds 0.3·0.03 = 0.009.
		"a wrong answer was right": {func(w *world) (int, nostr.ID) {
			w.attempt(service(1), judged(guild.Success, 900_000))
			return 2, w.attempt(service(1), judged(guild.Failure, 0))
		}, guild.Success, fact.RuleRejudged, 609_000, 9_000},
		"the same outcome changes nothing": {func(w *world) (int, nostr.ID) {
			w.attempt(service(1), judged(guild.Success, 900_000))
			return 2, w.attempt(service(1), judged(guild.Failure, 0))
		}, guild.Failure, "", 555_000, 45_000},
		// 0.6, 0.555, then −0.06·(0.555 … 0.3·0.355 + 0.7·0.555 = 0.495): without −0.045 it is 0.54, and 0.3·(0.036) = 0.0108
		// more
		"what came later stays": {func(w *world) (int, nostr.ID) {
			w.attempt(service(1), judged(guild.Success, 900_000))
			id := w.attempt(service(1), judged(guild.Failure, 0))
			w.attempt(service(1), silent()...)
			return 2, id
		}, guild.Success, fact.RuleRejudged, 550_800, 70_800},
		// Without +0.0081 it is 0.6, and a wrong answer takes 0.045.
		"a success was wrong": {func(w *world) (int, nostr.ID) {
			w.attempt(service(1), judged(guild.Success, 900_000))
			return 2, w.attempt(service(1), judged(guild.Success, 900_000))
		}, guild.Failure, fact.RuleRejudged, 555_000, 45_000},
		"the first trust is founded anew": {func(w *world) (int, nostr.ID) {
			return 1, w.attempt(service(1), judged(guild.Success, 900_000))
		}, guild.Partial, fact.RuleRejudged, 450_000, 0},
		"the first trust is withdrawn": {func(w *world) (int, nostr.ID) {
			return 1, w.attempt(service(1), judged(guild.Success, 900_000))
		}, guild.Failure, fact.RuleRejudged, 0, 0},
		"a first trust is founded late": {func(w *world) (int, nostr.ID) {
			return 1, w.attempt(service(1), judged(guild.Failure, 0))
		}, guild.Success, fact.RuleRejudged, 600_000, 0},
		// 0.6 and 0.6081; later changes build on the first, so the failure only takes 0.045.
		"a first trust that others build upon stays": {func(w *world) (int, nostr.ID) {
			id := w.attempt(service(1), judged(guild.Success, 900_000))
			w.attempt(service(1), judged(guild.Success, 900_000))
			return 1, id
		}, guild.Failure, fact.RuleRejudged, 563_100, 53_100},
		// The success took 0.03 back; without that it is 0.57, and a wrong answer takes 0.045. Both count for the day again.
		"a success that took back a crash was wrong": {func(w *world) (int, nostr.ID) {
			w.attempt(service(1), judged(guild.Success, 900_000))
			w.attempt(service(1), judged(guild.Error, 0))
			return 3, w.attempt(service(1), judged(guild.Success, 900_000))
		}, guild.Failure, fact.RuleRejudged, 525_000, 75_000},
		// It is taken back already: 0.6, and the success adds 0.009.
		"a crash that was taken back was wrong": {func(w *world) (int, nostr.ID) {
			w.attempt(service(1), judged(guild.Success, 900_000))
			id := w.attempt(service(1), judged(guild.Error, 0))
			w.attempt(service(1), judged(guild.Success, 900_000))
			return 2, id
		}, guild.Success, fact.RuleRejudged, 609_000, 9_000},
		// The owner's value does not depend on the first verdict: 0.7 + 0.3·0.02.
		"what the owner set stays": {func(w *world) (int, nostr.ID) {
			w.attempt(service(1), judged(guild.Success, 900_000))
			id := w.attempt(service(1), judged(guild.Failure, 0))
			if err := w.step.Set(w.Context(), "python", service(1), 700_000, "I know them"); err != nil {
				w.Fatal(err)
			}
			return 2, id
		}, guild.Success, fact.RuleRejudged, 706_000, 51_000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				n, id := c.life(w)
				before := len(w.changes())
				w.judgeAgain(n, id, c.outcome)
				if c.rule == "" {
					if len(w.changes()) != before {
						t.Errorf("%+v", w.lastChange())
					}
				} else if got := w.lastChange(); len(w.changes()) != before+1 || got.Rule != c.rule || got.Reverts != id {
					t.Errorf("%d changes: %+v", len(w.changes())-before, got)
				}
				w.wants(service(1), c.want)
				if got := w.inside().Days.Of("python").Spent; got != c.spent || w.inside().Owing.Len() != 0 {
					t.Errorf("%d of the day spent, want %d", got, c.spent)
				}
			})
		})
	}
}

func TestSecondDispute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.attempt(service(1), judged(guild.Success, 900_000))
		id := w.attempt(service(1), judged(guild.Failure, 0))
		w.judgeAgain(2, id, guild.Success)
		w.wants(service(1), 609_000)
		w.judgeAgain(2, id, guild.Failure)
		w.wants(service(1), 555_000)
		if got := w.inside().Days.Of("python").Spent; got != 45_000 {
			t.Errorf("%d of the day spent", got)
		}
	})
}

func TestQueuedVerdictIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stillWorld(t)
		id := w.attempt(service(1), judged(guild.Failure, 0))
		w.judgeAgain(1, id, guild.Success)
		w.Run(w.step.Due)
		synctest.Wait()
		if all := w.changes(); len(all) != 1 || all[0].To != 600_000 || all[0].Rule != "" {
			t.Errorf("%+v", all)
		}
	})
}

func TestVerdictBecomesFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.attempt(service(1), judged(guild.Success, 900_000))
		late := w.attempt(service(1), judged(guild.Failure, 0))
		disputed := w.attempt(service(1), judged(guild.Failure, 0))
		w.do(fact.JobSubject(jobID(3)), fact.AttemptDisputed{Attempt: disputed})
		time.Sleep(24 * time.Hour)
		w.attempt(service(2), judged(guild.Success, 900_000))
		if w.inside().Judged.Len() != 2 || len(w.inside().Young) != 1 {
			t.Errorf("%d verdicts may be contested", w.inside().Judged.Len())
		}
		before := len(w.changes())
		w.do(fact.JobSubject(jobID(2)), about(late, judged(guild.Success, 900_000)))
		if len(w.changes()) != before {
			t.Error("a final verdict was contested")
		}
		w.do(fact.JobSubject(jobID(3)), about(disputed, judged(guild.Success, 900_000))) // it took longer than a day
		if len(w.changes()) != before+1 {
			t.Error("a dispute was forgotten")
		}

		again := w.attempt(service(1), judged(guild.Failure, 0))
		w.do(fact.JobSubject(jobID(5)), fact.AttemptDisputed{Attempt: again})
		w.do(fact.JobSubject(jobID(5)), fact.AttemptParked{Attempt: again}, fact.AttemptRecorded{Attempt: again}) // it could not be judged again
		time.Sleep(24 * time.Hour)
		w.attempt(service(2), judged(guild.Success, 900_000))
		if w.inside().Judged.Has(again.Hex()) {
			t.Error("a dispute that came to nothing is kept for ever")
		}
	})
}

// A hundred verdicts arrive at once on ten providers. Each would take 0.045, but the daily limit is 0.3.
func TestDailyLimitOfConcurrentVerdicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for n := range byte(10) {
			w.attempt(service(n+1), judged(guild.Success, 900_000))
		}
		var all sync.WaitGroup
		for n := range 100 {
			all.Go(func() {
				id, job := nostr.ID{7, byte(n)}, guild.JobID{7, byte(n)}
				err := w.Journal.Do(t.Context(), fact.JobSubject(job), "", func(tx *journal.Tx) error {
					tx.Append(fact.JobOpened{Job: job, Task: "python"}, fact.AttemptPlanned{Attempt: id, Job: job, Provider: service(byte(n%10 + 1))},
						about(id, judged(guild.Failure, 0)), fact.JobClosed{Job: job})
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		synctest.Wait()
		var moved guild.Trust
		learned := map[nostr.ID]bool{}
		for _, c := range w.changes() {
			if !c.First {
				moved += abs(c.To - c.From)
				learned[c.Attempt] = true
			}
		}
		if moved != 300_000 || len(learned) != 100 || w.inside().Days.Of("python").Spent != 300_000 || w.inside().Owing.Len() != 0 {
			t.Errorf("%d attempts moved trust by %d", len(learned), moved)
		}
	})
}

func TestOldChangesAreForgotten(t *testing.T) {
	f := newFold(t)
	const most = maxChanges + 10
	for n := range most {
		f.Apply(fact.Entry{Seq: uint64(n + 1), Facts: []fact.Fact{fact.TrustChanged{Task: "python", Service: service(1), From: 500_000, To: 500_000,
			Job: guild.JobID{byte(n), byte(n >> 8), byte(n >> 16)}, Attempt: nostr.ID{byte(n), byte(n >> 8), byte(n >> 16)}}}})
	}
	if f.inside().Moved.Len() != maxChanges || f.inside().Lasts.Len() != maxChanges || len(f.inside().Order) != maxChanges {
		t.Errorf("%d changes are kept", f.inside().Moved.Len())
	}
	if _, ok := f.Change(nostr.ID{9}); ok {
		t.Error("the tenth is kept")
	}
	if c, ok := f.Change(nostr.ID{10}); !ok || c.To != 500_000 || f.Last(guild.JobID{10}) != 11 {
		t.Errorf("%+v", c)
	}
	if got := f.History("python", service(1)); len(got) != maxPast || got[maxPast-1].Seq != most {
		t.Errorf("%d changes in the history", len(got))
	}
}

func TestHistoryOfOneService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.attempt(service(1), judged(guild.Success, 900_000))
		w.attempt(service(2), judged(guild.Success, 900_000))
		w.hired(fact.JobOpened{Task: "other"}, service(1), judged(guild.Success, 900_000))
		w.attempt(service(1), judged(guild.Failure, 0))
		if past := w.History("python", service(1)); len(past) != 2 || past[1].Seq != 9 || past[1].Pattern != failed || past[1].From != 600_000 {
			t.Errorf("%+v", past)
		}
	})
}

func BenchmarkLearning(b *testing.B) {
	f := newFold(b)
	s := at(600_000, 3)
	r := row{Standing: s.Standing, Task: "python", Service: service(1), Past: moves("+++-+++++-+++"), Areas: addArea(nil, 600_000, 0, 6*dayMs)}
	f.inside().Table.Set(key("python", service(1)), r)
	o := owed{Task: "python", Service: service(1), Evidence: within(800, won(960_000)), Reason: "SUCCESS, score 0.96"}
	o.At = 7 * dayMs
	for b.Loop() {
		if facts := f.decide(f.inside(), o); len(facts) != 1 {
			b.Fatal(len(facts))
		}
	}
}
