package jobs

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold/foldtest"
)

// history returns random entries about a few jobs. Not all make sense.
func history(t *rapid.T) (all []fact.Entry) {
	add := func(job guild.JobID, f fact.Fact) {
		seq := len(all) + 1
		all = append(all, fact.Entry{Seq: uint64(seq), At: int64(seq), Subject: fact.JobSubject(job), Facts: []fact.Fact{f}})
	}
	for n := range rapid.IntRange(0, 4).Draw(t, "jobs") {
		job := guild.JobID{byte(n + 1)}
		add(job, fact.JobOpened{Job: job, Task: "python", Providers: []nostr.PubKey{alice.key}, Tries: 3, Unbid: true})
		for m := range rapid.IntRange(0, 3).Draw(t, "attempts") {
			id := nostr.ID{byte(n + 1), byte(m + 1)}
			request := nostr.Event{ID: id, Kind: 5000, PubKey: customer.key, Tags: nostr.Tags{{"p", alice.key.Hex()}}}
			add(job, fact.AttemptPlanned{Attempt: id, Job: job, Provider: alice.service(), Request: request, Relays: []string{"wss://x"}, Bid: 10})
			for _, f := range rapid.SliceOfN(life(id, request), 0, 5).Draw(t, "life") {
				add(job, f)
			}
		}
		for _, f := range rapid.SliceOfN(bids(job), 0, 4).Draw(t, "bids") {
			all = append(all, fact.Entry{Seq: uint64(len(all) + 1), At: int64(len(all) + 1), Subject: fact.BidSubject, Facts: []fact.Fact{f}})
		}
		if rapid.Bool().Draw(t, "cancelled") {
			add(job, fact.JobCancelled{Job: job})
		}
		if rapid.Bool().Draw(t, "closed") {
			add(job, fact.JobClosed{Job: job, Ending: guild.JobRejected, Reason: "x"})
		}
		if rapid.Bool().Draw(t, "closed in quarantine") {
			add(job, fact.JournalClosed{})
		}
	}
	return all
}

func bids(job guild.JobID) *rapid.Generator[fact.Fact] {
	const tomorrow = 25 * 3_600_000
	lent := map[string]guild.Msat{"docs": 5}
	return rapid.SampledFrom([]fact.Fact{
		fact.BidReserved{Job: job, Turn: 1, Task: "python", Amount: 10, At: 7}, fact.BidReserved{Job: job, Turn: 1, Task: "python", Amount: 12, At: 9, Day: lent},
		fact.BidReserved{Job: job, Turn: 2, Task: "python", Amount: 10, At: tomorrow, Month: lent}, fact.BidFreed{Job: job, Turn: 1, Spent: 10},
		fact.BidFreed{Job: job, Turn: 2}, fact.BidFreed{Job: job, Turn: 1, Spent: 1},
	})
}

func life(id nostr.ID, deletion nostr.Event) *rapid.Generator[fact.Fact] {
	return rapid.SampledFrom([]fact.Fact{
		fact.AttemptRequested{Attempt: id, Silence: 7}, fact.AttemptProgressed{Attempt: id, Silence: 9}, fact.AttemptQuoted{Attempt: id},
		fact.AttemptDelivered{Attempt: id, Result: id, Delivery: guild.Hash{1}, Size: 3, Away: &fact.Place{URL: "https://x"}},
		fact.AttemptFetched{Attempt: id}, fact.AttemptRefused{Attempt: id, Reason: "x"},
		fact.AttemptExpired{Attempt: id, Reason: "x", Deletion: &deletion}, fact.AttemptCancelled{Attempt: id, Deletion: &deletion},
		fact.AttemptParked{Attempt: id, Reason: "x"}, fact.AttemptUndecided{Attempt: id, Reason: "x"},
		fact.AttemptJudged{Attempt: id, Verdict: guild.Verdict{Outcome: guild.Success, Tests: []guild.Test{{ID: "a", State: guild.TestFailed}}}},
		fact.AttemptRecorded{Attempt: id, Receipt: "r-1"}, fact.EffectSettled{Effect: withdrawing(id)}, fact.EffectParked{Effect: withdrawing(id)},
		fact.AttemptProgressed{Attempt: id, Status: "success"}, fact.AttemptRefused{Attempt: id, Reason: "busy", Later: true},
		fact.AttemptCompared{Attempt: id, With: id}, fact.EffectSettled{Effect: again(id, 1)}, fact.EffectParked{Effect: again(id, 2)},
		fact.AttemptRefused{Attempt: nostr.ID{99}}, fact.EffectSettled{Effect: "publish x"},
		fact.AttemptDeferred{Attempt: id, Until: 20}, fact.AttemptHeld{Attempt: id, Rail: "cashu", Amount: 5},
		fact.AttemptDisputed{Attempt: id}, fact.AttemptQuoted{Attempt: id, Amount: 5}, fact.AttemptRefused{Attempt: id, Price: 50},
	})
}

func TestFoldRestore(t *testing.T) {
	foldtest.GoesOn(t, NewFold, history, func(t *rapid.T, whole, restored *Fold) {
		if whole.Open() != restored.Open() {
			t.Fatalf("%d open, and %d in the restored fold", whole.Open(), restored.Open())
		}
	})
}

func TestOwnersTimeIsNotTheProviders(t *testing.T) {
	f, job, id := NewFold(), guild.JobID{1}, nostr.ID{1}
	apply := func(at int64, facts ...fact.Fact) Attempt {
		f.Apply(fact.Entry{Subject: fact.JobSubject(job), At: at, Facts: facts})
		a, _, _ := f.Attempt(id)
		return a
	}
	apply(1000, fact.JobOpened{Job: job, Task: "python"}, fact.AttemptPlanned{Job: job, Attempt: id},
		fact.AttemptRequested{Attempt: id, Silence: 301_000}, fact.AttemptQuoted{Attempt: id})
	if a := apply(11_000, fact.AttemptDeferred{Attempt: id, Until: 431_000}); a.Silence != 721_000 {
		t.Errorf("silence until %d", a.Silence)
	}
	if a := apply(111_000, fact.AttemptHeld{Attempt: id, Rail: "cashu", Amount: 5}); a.Idle != 100_000 || a.Deferred != 0 {
		t.Errorf("idle for %d ms, since %d", a.Idle, a.Deferred)
	}
}

func TestOnlyAllowedTransitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := NewFold()
		before := map[nostr.ID]guild.State{}
		for _, e := range history(t) {
			f.Apply(e)
			for _, job := range f.All() {
				for _, a := range job.Attempts {
					if was, ok := before[a.ID]; ok && was != a.State && !was.CanBecome(a.State) {
						t.Fatalf("%T took an attempt from %s to %s", e.Facts[0], was, a.State)
					}
					before[a.ID] = a.State
				}
			}
		}
	})
}

func TestEndedBidsFollowTheJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, all := NewFold(), history(t)
		if rapid.Bool().Draw(t, "bids first") {
			slices.SortStableFunc(all, func(a, b fact.Entry) int { return cmp.Compare(a.Subject.Noun(), b.Subject.Noun()) })
		}
		for _, e := range all {
			f.Apply(e)
			f.View(func(s *state) {
				for turn := range s.Bids.All() {
					if _, over := s.owed(turn); over != s.ended[turn] {
						t.Fatalf("after %T: reservation %v has ended: %t, and is listed so: %t", e.Facts[0], turn, over, s.ended[turn])
					}
				}
				if len(s.ended) > s.Bids.Len() {
					t.Fatalf("%d ended of %d reservations", len(s.ended), s.Bids.Len())
				}
			})
		}
	})
}

func TestReturnedJobNeverChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := NewFold()
		all := history(t)
		for i, e := range all {
			held := f.All()
			states := map[*Job]string{}
			for _, job := range held {
				states[job] = show(t, job)
			}
			f.Apply(e)
			for _, job := range held {
				if show(t, job) != states[job] {
					t.Fatalf("entry %d changed a job that somebody holds", i+1)
				}
			}
		}
	})
}

func show(t interface{ Fatal(...any) }, job *Job) string {
	f := NewFold()
	f.Change(func(s *state) { s.Jobs.Set(job.Job, job) })
	return foldtest.Snapshot(t, f)
}

func TestFoldRefusesGarbledSnapshots(t *testing.T) {
	f := NewFold()
	f.Apply(fact.Entry{Seq: 1, Subject: fact.JobSubject(guild.JobID{1}), Facts: []fact.Fact{fact.JobOpened{Job: guild.JobID{1}, Task: "python"}}})
	whole := foldtest.Snapshot(t, f)
	emptied := whole[:strings.Index(whole, `":{"job"`)] + `":null},` + whole[strings.Index(whole, `"deals"`):]
	foldtest.Refuses(t, f, append(foldtest.Partial(t, f), `{"x":{}}`, `{"`+strings.Repeat("0", 32)+`":null}`, emptied)...)
	if f.Open() != 1 {
		t.Errorf("%d open, want 1", f.Open())
	}
}

func TestFinishedJobIsSlim(t *testing.T) {
	f, job, attempt := NewFold(), guild.JobID{1}, nostr.ID{2}
	event := nostr.Event{ID: attempt, Kind: 5000, PubKey: customer.key, Content: strings.Repeat("x", 60_000)}
	for i, one := range []fact.Fact{
		fact.JobOpened{Job: job, Task: "python", Open: true, Providers: []nostr.PubKey{alice.key}, Quality: &fact.Quality{},
			Inputs: []fact.Input{{Data: strings.Repeat("x", 30_000), Type: "text"}}, Release: &fact.Release{Names: []string{"db"}, Vaults: []fact.Sealed{{}}}},
		fact.JobSolicited{Job: job, Request: event},
		fact.JobOffered{Job: job, Provider: alice.key, Text: strings.Repeat("x", 500)},
		fact.AttemptPlanned{Attempt: attempt, Job: job, Provider: alice.service(), Request: event},
		fact.AttemptRequested{Attempt: attempt},
		fact.AttemptProgressed{Attempt: attempt, Event: attempt},
		fact.AttemptDelivered{Attempt: attempt, Result: attempt, Delivery: guild.Hash{1}, Answer: &event},
		fact.AttemptJudged{Attempt: attempt, Verdict: guild.Verdict{Outcome: guild.Success}},
		fact.JobClosed{Job: job, Ending: guild.JobAccepted, Chosen: attempt},
		fact.EffectSettled{Effect: unseeking + attempt.Hex()},
	} {
		f.Apply(fact.Entry{Seq: uint64(i + 1), Subject: fact.JobSubject(job), Facts: []fact.Fact{one}})
	}
	kept, _ := f.Job(job)
	if n := len(show(t, kept)); n > 1500 || f.Open() != 0 {
		t.Errorf("%d bytes, %d open", n, f.Open())
	}
	if a := kept.Attempts[0]; a.Delivery.IsZero() || a.Verdict == nil || a.Provider != alice.service() || kept.Release.Names[0] != "db" {
		t.Errorf("%+v", kept)
	}
	if _, ok := f.solicitation(attempt); ok {
		t.Error("an offer would still be taken for one")
	}
}
