package review

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/step/steptest"
	"guild/nipreview"
)

const day = 24 * time.Hour

// The first four tests are the rows of the table of section 4.3.3.

func TestBenchmarkReview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(t, nil), alice.service()
		a := w.works(s, 600_000)
		w.meets(s, "m1", guild.Active, 900_000)
		w.Pass(day - time.Second)
		w.wants(0, "")
		equal(t, states(w.OursOf(s, python)), Waiting)
		w.Pass(2 * time.Second)
		said := w.wants(1, "3.4") // 1 + 4·0.60
		if said.Task != python || said.Subject != alice.key || said.Service != "runner" || said.Relay != "wss://theirs.example" ||
			said.Request != a || said.JobKind != 5000 {
			t.Errorf("%+v", said)
		}
		sets := w.sent(KindSet)
		if len(sets) != 1 || sets[0].Tags.GetD() != alice.key.Hex()+":python" || sets[0].CreatedAt != said.CreatedAt ||
			!slices.Equal(sets[0].relays, []string{"wss://theirs.example", "wss://ours.example"}) {
			t.Errorf("%+v", sets)
		}
		if w.sent(nipreview.KindLabel) != nil || w.sent(nipreview.KindJobReview) != nil {
			t.Error("mirrors were published that nobody wanted")
		}
		w.Pass(day + time.Hour)
		w.wants(1, "3.4")
		equal(t, w.causes(), "benchmark")
		equal(t, states(w.OursOf(s, python)), Published)
	})
}

// A change of more than 0.2 in trust is one of more than 0.8 stars: from 0.60 to 0.80 is not enough, to 0.800001 is.
func TestGreatChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(t, nil), alice.service()
		w.works(s, 600_000)
		w.Pass(day + time.Second)
		w.wants(1, "3.4")
		w.works(s, 700_000)
		w.works(s, 800_000)
		w.Pass(day + time.Hour)
		w.wants(1, "3.4")
		w.works(s, 800_001)
		w.Pass(0)
		w.wants(2, "4.200004")
		w.works(s, 610_000)
		w.Pass(0)
		w.wants(2, "4.200004")
		w.works(s, 600_000) // measured against the last published rating, not the last change
		w.Pass(0)
		w.wants(3, "3.4")
		equal(t, w.causes(), "first", "change", "change")
	})
}

func TestViolationAlert(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(t, nil), alice.service()
		w.works(s, 750_000)
		w.meets(s, "m1", guild.Active, 950_000)
		w.Pass(day + time.Hour)
		w.wants(1, "4")
		id := w.asks(s)
		w.Write(jobOf(id), fact.AttemptJudged{Attempt: id, Hash: guild.Sum(id[:]), Verdict: guild.Verdict{Outcome: guild.Violation}})
		w.Pass(time.Second)
		w.wants(1, "4") // waits for the receipt and the change of trust
		w.Write(jobOf(id), fact.AttemptRecorded{Attempt: id, Receipt: "r-9", Stored: guild.Sum([]byte("r-9"))})
		w.learns(s, id, 600_000)
		w.Pass(0)
		said := w.wants(2, "3.4")
		if !strings.HasPrefix(said.Summary, "ALERT: security violation") || said.Recommendation != "Not recommended for any work" ||
			said.Evidence.Receipt != "r-9" || said.Evidence.ReceiptHash != guild.Sum([]byte("r-9")) || said.Evidence.VerdictHash != guild.Sum(id[:]) {
			t.Errorf("%+v", said)
		}
		w.Write(fact.MeetingSubject, fact.MeetingEnded{Meeting: "m2", Service: s, Task: python, To: guild.Removed})
		w.Pass(day + time.Hour)
		equal(t, w.causes(), "benchmark", "violation")
	})
}

func TestDisputeUntilRejudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(t, nil), alice.service()
		w.works(s, 600_000)
		w.Pass(day + time.Second)
		w.wants(1, "3.4")
		id := w.asks(s)
		w.judges(id, guild.Failure, 100_000)
		w.Write(jobOf(id), fact.AttemptDisputed{Attempt: id, By: "provider", Reason: "the tests are wrong"})
		w.learns(s, id, 300_000)
		w.Pass(day + time.Hour)
		w.wants(1, "3.4")
		equal(t, states(w.OursOf(s, python)), Held, Published)
		w.Write(jobOf(id), fact.AttemptJudged{Attempt: id, Hash: guild.Sum(nil), Verdict: guild.Verdict{Outcome: guild.Success, Score: 950_000}})
		w.Pass(time.Second)
		w.wants(1, "3.4") // trust has not followed the verdict yet
		w.Write(jobOf(id), fact.AttemptRecorded{Attempt: id, Receipt: "r-8", Stored: guild.Sum(nil)})
		w.learns(s, id, 610_000)
		w.Pass(day)
		w.wants(1, "3.4") // nothing to say with the present numbers
		l, _ := w.fold.line(lineKey(python, s))
		if l.Tally.Passed != 2 || l.Tally.Failed != 0 || l.Tally.Scores != 1_900_000 {
			t.Errorf("the verdict that does not stand is counted: %+v", l.Tally)
		}
		w.works(s, 840_000)
		w.Pass(0)
		w.wants(2, "4.36") // 1 + 4·0.84
	})
}

func TestUnrecordedVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(t, nil), alice.service()
		id := w.asks(s)
		w.Write(jobOf(id), fact.AttemptJudged{Attempt: id, Verdict: guild.Verdict{Outcome: guild.Violation}})
		w.Pass(settling - time.Second)
		w.wants(0, "")
		w.Pass(2 * time.Second)
		if said := w.wants(1, "1"); said.Evidence.Receipt != "" || said.Request != (nostr.ID{}) {
			t.Errorf("%+v", said)
		}
	})
}

func TestRatingOfRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(t, nil), alice.service()
		for range 3 {
			w.judges(w.asks(s), guild.Failure, 300_000)
		}
		w.meets(s, "m1", guild.Unqualified, 300_000)
		w.Pass(day + time.Second)
		said := w.wants(1, "2.2") // 1 + 4·0.30
		if *said.Metrics.TestScore != 300_000 || !strings.HasPrefix(said.Summary, "Did not qualify: 0 of 3 deliveries passed every test") {
			t.Errorf("%+v", said)
		}
	})
}

func TestInconclusiveMeeting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(t, nil), alice.service()
		w.meets(s, "m1", "", 0)
		w.Pass(day + time.Hour)
		w.wants(0, "")
		if err := w.Publish(t.Context(), s, python); !errors.Is(err, ErrNothing) {
			t.Errorf("%v", err)
		}
	})
}

func TestTrustWaitsForMeeting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(t, nil), alice.service()
		w.Write(fact.MeetingSubject, fact.MeetingBegan{Meeting: "m1", Service: s, Task: python})
		w.works(s, 600_000)
		w.Pass(day + time.Hour) // the runs of the meeting take a while
		w.wants(0, "")
		w.Write(fact.MeetingSubject, fact.MeetingEnded{Meeting: "m1", Service: s, Task: python, To: guild.Active, Score: 950_000, Runs: 3})
		w.Pass(day - time.Second)
		w.wants(0, "")
		w.Pass(2 * time.Second)
		w.wants(1, "3.4")
		equal(t, w.causes(), "benchmark")
	})
}

func TestSelfAndPrivateNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.works(owner.service(), 600_000)
		w.meets(owner.service(), "m1", guild.Active, 900_000)
		w.Pass(day + time.Hour)
		w.wants(0, "")
		if err := w.Publish(t.Context(), owner.service(), python); !errors.Is(err, ErrNothing) {
			t.Errorf("of ourselves: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.Off = true })
		w.works(alice.service(), 600_000)
		w.Pass(day + time.Hour)
		w.wants(0, "")
		if err := w.Publish(t.Context(), alice.service(), python); !errors.Is(err, ErrOff) {
			t.Errorf("of a private node: %v", err)
		}
	})
}

func TestOwnerHoldsAndPublishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(t, nil), alice.service()
		w.works(s, 600_000)
		for range 2 {
			if err := w.Hold(t.Context(), s, python, "I want to look at it"); err != nil {
				t.Fatal(err)
			}
		}
		w.Pass(day + time.Hour)
		w.wants(0, "")
		if err := w.Publish(t.Context(), s, python); !errors.Is(err, ErrHeld) {
			t.Errorf("while it is held: %v", err)
		}
		w.works(s, 650_000)
		for range 2 {
			if err := w.Resume(t.Context(), s, python, "fine"); err != nil {
				t.Fatal(err)
			}
		}
		w.Pass(0)
		w.wants(1, "3.6") // with the trust at that time
		if err := w.Publish(t.Context(), s, python); err != nil {
			t.Fatal(err)
		}
		w.Pass(0)
		w.wants(2, "3.6")
		equal(t, w.causes(), "first", "owner")
		if held, resumed := steptest.Facts[fact.ReviewHeld](w), steptest.Facts[fact.ReviewResumed](w); len(held) != 1 || len(resumed) != 1 {
			t.Errorf("%+v, %+v", held, resumed)
		}
	})
}

func TestReviewDatesIncrease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(t, nil), alice.service()
		other := guild.Service{PubKey: alice.key, D: "other"} // shares the address
		w.works(s, 600_000)
		w.works(other, 450_000)
		for range 3 { // within one second
			for _, s := range []guild.Service{s, other} {
				if err := w.Publish(t.Context(), s, python); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
		}
		last := nostr.Timestamp(0)
		sets := w.sent(KindSet)
		for _, p := range sets {
			if p.CreatedAt <= last {
				t.Errorf("%d after %d", p.CreatedAt, last)
			}
			last = p.CreatedAt
		}
		if len(sets) != 6 || sets[0].Tags.Find("service")[1] != "runner" || sets[1].Tags.Find("service")[1] != "other" ||
			sets[0].Tags.GetD() != sets[1].Tags.GetD() {
			t.Errorf("%d opinions", len(sets))
		}
		w.restart()
		if err := w.Publish(t.Context(), s, python); err != nil {
			t.Fatal(err)
		}
		w.Pass(0)
		if sets := w.sent(KindSet); sets[len(sets)-1].CreatedAt <= last {
			t.Error("a restart forgets the date of the last one")
		}
	})
}

func TestOutdatedDraft(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(*world, guild.Service)
		count   int
		stars   string
	}{
		"trust has changed": {func(w *world, s guild.Service) { w.works(s, 801_000) }, 1, "4.204"},
		"a violation":       {func(w *world, s guild.Service) { w.judges(w.asks(s), guild.Violation, 0) }, 1, "3.4"},
		"it is held":        {func(w *world, s guild.Service) { w.Hold(w.Context(), s, python, "wait") }, 0, ""},
		"a verdict is doubted": {func(w *world, s guild.Service) {
			w.Write(jobOf(nostr.ID{0xa, 1}), fact.AttemptDisputed{Attempt: nostr.ID{0xa, 1}, By: "owner"})
		}, 0, ""},
		"the owner publishes": {func(w *world, s guild.Service) { w.Publish(w.Context(), s, python) }, 1, "3.4"},
		"a small change":      {func(w *world, s guild.Service) { w.works(s, 799_000) }, 1, "3.4"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, s := newWorld(t, nil), alice.service()
				w.works(s, 600_000)
				w.relays(errNoRelay)
				w.Pass(day + time.Second)
				equal(t, states(w.OursOf(s, python)), Drafted)
				c.happens(w, s)
				w.Pass(0)
				w.relays(nil)
				w.Pass(2 * time.Minute)
				w.wants(c.count, c.stars)
				if dropped := len(steptest.Facts[fact.ReviewDropped](w)) > 0; dropped != (name != "a small change") {
					t.Errorf("dropped: %t", dropped)
				}
			})
		})
	}
}

func TestPublishAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(t, nil), alice.service()
		w.works(s, 600_000)
		w.relays(errNoRelay)
		w.Pass(day + 10*time.Minute)
		w.relays(nil)
		w.Pass(day - 10*time.Minute)
		w.wants(0, "")
		w.works(s, 620_000)
		w.Pass(10 * time.Minute)
		w.wants(1, "3.48")
		equal(t, w.causes(), "first", "first")
	})
}

func TestMirrorsAndLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(t, func(c *Config) { c.Mirrors, c.CID = true, "QmAbCdEf" }), alice.service()
		a := w.works(s, 750_000)
		w.Pass(day + time.Hour)
		if said := w.wants(1, "4"); said.Evidence.CID != "QmAbCdEf" {
			t.Errorf("%+v", said.Evidence)
		}
		jobs, labels := w.sent(nipreview.KindJobReview), w.sent(nipreview.KindLabel)
		if len(jobs) != 1 || jobs[0].Tags.GetD() != a.Hex() || jobs[0].Tags.Find("rating")[1] != "4" ||
			len(labels) != 1 || labels[0].Tags.Find("rating")[1] != "0.75" {
			t.Errorf("%+v %+v", jobs, labels)
		}
	})
}

func TestRetract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(t, func(c *Config) { c.Mirrors = true }), alice.service()
		w.works(s, 600_000)
		w.Pass(day + time.Hour)
		first := w.wants(1, "3.4").ID
		if err := w.Publish(t.Context(), s, python); err != nil {
			t.Fatal(err)
		}
		w.Pass(time.Hour)
		second := w.wants(2, "3.4").ID
		for _, id := range []nostr.ID{first, second} {
			if err := w.Retract(t.Context(), id, "wrong"); err != nil {
				t.Fatal(err)
			}
			w.Pass(time.Second)
		}
		deletions := w.sent(KindDeletion)
		if len(deletions) != 2 {
			t.Fatalf("%d deletions", len(deletions))
		}
		if a := deletions[0].Tags.Find("a"); a != nil {
			t.Errorf("the older review's deletion would take the newer one back: %v", a)
		}
		if a := deletions[1].Tags.Find("a"); a == nil || a[1] != "32020:"+owner.key.Hex()+":"+alice.key.Hex()+":python" {
			t.Errorf("%v", a)
		}
		for i, id := range []nostr.ID{first, second} {
			e := 0
			for range deletions[i].Tags.FindAll("e") {
				e++
			}
			if deletions[i].Tags.FindWithValue("e", id.Hex()) == nil || e != 4 || deletions[i].Tags.FindWithValue("k", "2020") == nil {
				t.Errorf("%v", deletions[i].Tags)
			}
		}
		equal(t, states(w.OursOf(s, python)), Retracted, Retracted)
		for _, id := range []nostr.ID{first, {7}} {
			if err := w.Retract(t.Context(), id, "again"); !errors.Is(err, ErrUnknown) {
				t.Errorf("%v", err)
			}
		}
		w.Pass(day + time.Hour)
		w.wants(2, "3.4") // it is not published again
		w.works(s, 801_000)
		w.Pass(time.Second)
		w.wants(3, "4.204")
		if sets := w.sent(KindSet); sets[2].CreatedAt <= deletions[1].CreatedAt {
			t.Error("the deletion covers what was said after it")
		}
	})
}

func TestOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(t, nil), alice.service()
		w.works(s, 600_000)
		w.works(bob.service(), 450_000)
		w.Pass(day + time.Second)
		w.works(carol.service(), 750_000)
		all := w.Ours("")
		equal(t, states(all), Waiting, Published, Published)
		if all[0].Service != carol.service() || all[0].Stars.String() != "4" || all[0].Cause != "first" || all[0].At != time.Now().Add(day).UnixMilli() {
			t.Errorf("%+v", all[0])
		}
		if got := w.Ours("rust"); got != nil {
			t.Errorf("%v", got)
		}
		events, err := w.Events(t.Context(), all[1].Review)
		if err != nil || len(events) != 2 || events[0].ID != all[1].Review || events[1].Kind != KindSet {
			t.Errorf("%v, %v", events, err)
		}
		r, err := nipreview.Parse(events[0])
		if err != nil || r.Summary != all[1].Summary {
			t.Errorf("%q, want %q, %v", all[1].Summary, r.Summary, err)
		}
		if _, err := w.Events(t.Context(), nostr.ID{1}); !errors.Is(err, ErrUnknown) {
			t.Errorf("%v", err)
		}
	})
}

func TestTrustFromOtherGuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(t, nil), alice.service()
		for _, rule := range []string{fact.RuleMerged, fact.RuleRestored} {
			w.Write(fact.TrustSubject(python), fact.TrustChanged{Task: python, Service: bob.service(), To: 600_000, First: true, Rule: rule})
		}
		w.works(s, 600_000)
		w.Pass(day + time.Hour)
		w.wants(1, "3.4")
		w.Write(fact.TrustSubject(python), fact.TrustChanged{Task: python, Service: s, From: 600_000, To: 300_000, Rule: fact.RuleMerged})
		w.Pass(time.Hour)
		w.wants(1, "3.4")
		w.works(s, 320_000) // now this node has found the same itself
		w.Pass(0)
		w.wants(2, "2.28")
	})
}
