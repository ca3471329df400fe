package review

import (
	"fmt"
	"testing"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold/foldtest"
)

// history draws entries that a journal could hold, and some that it could not.
func history(t *rapid.T) (all []fact.Entry) {
	pick := rapid.IntRange(0, 2)
	for seq := range rapid.IntRange(0, 60).Draw(t, "entries") {
		s := []person{alice, bob, carol}[pick.Draw(t, "who")].service()
		id, job := nostr.ID{byte(pick.Draw(t, "attempt"))}, guild.JobID{byte(pick.Draw(t, "job"))}
		review := nostr.ID{9, byte(pick.Draw(t, "review"))}
		outcome := rapid.SampledFrom([]guild.Outcome{guild.Success, guild.Failure, guild.Violation}).Draw(t, "outcome")
		event := nostr.Event{ID: review, Kind: Kind, CreatedAt: nostr.Timestamp(seq)}
		f := rapid.SampledFrom([]fact.Fact{
			fact.JobOpened{Job: job, Task: python}, fact.JobClosed{Job: job},
			fact.AttemptPlanned{Attempt: id, Job: job, Provider: s, Request: nostr.Event{Kind: 5000}}, fact.AttemptRequested{Attempt: id},
			fact.AttemptJudged{Attempt: id, Verdict: guild.Verdict{Outcome: outcome, Score: 500_000}}, fact.AttemptDisputed{Attempt: id},
			fact.AttemptRecorded{Attempt: id, Receipt: "r-1"}, fact.AttemptExpired{Attempt: id}, fact.AttemptRefused{Attempt: id, Fault: true},
			fact.AttemptCancelled{Attempt: id}, fact.AttemptParked{Attempt: id},
			fact.TrustChanged{Task: python, Service: s, To: guild.Trust(seq), First: true, Attempt: id},
			fact.TrustChanged{Task: python, Service: s, Unfounded: true, Attempt: id},
			fact.MeetingBegan{Meeting: "m", Service: s, Task: python},
			fact.MeetingEnded{Meeting: "m", Service: s, Task: python, To: guild.Active, Score: 900_000},
			fact.ProviderMoved{Service: s, To: guild.Removed}, fact.ProviderMoved{Service: s, From: guild.Removed, To: guild.Seen},
			fact.ReviewDrafted{Review: review, Service: s, Task: python, Trust: guild.Trust(seq), Cause: causeFirst, Events: []nostr.Event{event}},
			fact.ReviewPublished{Review: review}, fact.ReviewDropped{Review: review, Failed: true},
			fact.ReviewDropped{Review: review, Deletion: &event}, fact.EffectSettled{Effect: due.Publishing(review)},
			fact.ReviewHeld{Service: s, Task: python, By: "owner"}, fact.ReviewResumed{Service: s, Task: python},
		}).Draw(t, "fact")
		all = append(all, fact.Entry{Seq: uint64(seq + 1), At: int64(seq) * 1000, Facts: []fact.Fact{f}})
	}
	return all
}

func TestFoldSnapshot(t *testing.T) {
	foldtest.GoesOn(t, NewFold, history, nil)
}

func TestBadSnapshot(t *testing.T) {
	f := NewFold()
	f.Apply(fact.Entry{Seq: 1, Facts: []fact.Fact{fact.TrustChanged{Task: python, Service: alice.service(), To: 600_000, First: true}}})
	foldtest.Refuses(t, f, foldtest.Partial(t, f)...)
}

func TestLineIsBounded(t *testing.T) {
	f := NewFold()
	seq := uint64(0)
	apply := func(facts ...fact.Fact) {
		seq++
		f.Apply(fact.Entry{Seq: seq, Facts: facts})
	}
	for n := range 100 {
		id, job, review := nostr.ID{byte(n + 1)}, guild.JobID{byte(n + 1)}, nostr.ID{9, byte(n)}
		apply(fact.JobOpened{Job: job, Task: python}, fact.AttemptPlanned{Attempt: id, Job: job, Provider: alice.service()})
		apply(fact.AttemptJudged{Attempt: id, Verdict: guild.Verdict{Outcome: guild.Success, Score: guild.Micro}}, fact.JobClosed{Job: job})
		apply(fact.ReviewDrafted{Review: review, Service: alice.service(), Task: python, Events: []nostr.Event{{ID: review, Kind: Kind}}})
		apply(fact.ReviewPublished{Review: review})
		other := nostr.ID{byte(n + 1), 1}
		apply(fact.AttemptPlanned{Attempt: other, Job: job, Provider: alice.service()}, fact.AttemptCancelled{Attempt: other})
	}
	s := f.Copy()
	if s.Attempts.Len() != maxRecent || s.Reviews.Len() != maxSaid || s.Jobs.Len() != 0 || s.Undoing.Len() != 0 {
		t.Errorf("%d attempts, %d reviews, %d jobs", s.Attempts.Len(), s.Reviews.Len(), s.Jobs.Len())
	}
	if l, _ := f.line(lineKey(python, alice.service())); l.Tally.Passed != 100 || len(l.Said) != maxSaid || len(l.Recent) != maxRecent {
		t.Errorf("%+v", l.Tally)
	}
}

func TestReviewerWeightOfKey(t *testing.T) {
	f := NewFold()
	learn := func(task, d string, to guild.Trust) {
		f.Apply(fact.Entry{Facts: []fact.Fact{fact.TrustChanged{Task: task, Service: guild.Service{PubKey: alice.key, D: d}, To: to}}})
	}
	wants := func(want guild.Trust) {
		t.Helper()
		if got := f.Esteem(alice.key); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	wants(0)
	learn(python, "a", 600_000)
	learn("rust", "b", 750_000)
	wants(750_000)
	learn("rust", "b", 300_000)
	wants(600_000)
	f.Apply(fact.Entry{Facts: []fact.Fact{fact.ProviderMoved{Service: alice.service(), From: guild.Active, To: guild.Removed}}})
	wants(0)
	f.Apply(fact.Entry{Facts: []fact.Fact{fact.ProviderMoved{Service: alice.service(), From: guild.Removed, To: guild.Seen}}})
	wants(600_000)
}

func BenchmarkSnapshot(b *testing.B) {
	f := NewFold()
	for n := range 100_000 {
		s := guild.Service{PubKey: nostr.PubKey{byte(n >> 16), byte(n >> 8), byte(n)}, D: "x"}
		f.Apply(fact.Entry{Facts: []fact.Fact{fact.TrustChanged{Task: fmt.Sprint(python, n%3), Service: s, To: 600_000, First: true}}})
	}
	for b.Loop() {
		f.Freeze()
		f.Apply(fact.Entry{Facts: []fact.Fact{fact.TrustChanged{Task: python, Service: alice.service(), To: 600_000}}})
	}
}
