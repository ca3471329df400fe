package jobs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/nip90"
)

func TestAJobIsAskedForDeliveredJudgedAndClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{Bid: 21_000})
		w.wants(id, guild.Requested)
		requests := w.sent(5000)
		if len(requests) != 1 || !slices.Equal(requests[0].relays, []string{"wss://first.example"}) {
			t.Fatalf("%d requests: %v", len(requests), requests)
		}
		request, err := nip90.ParseRequest(requests[0].Event, nil)
		if err != nil || *request.Provider != alice.key || request.Job != id.String() || request.Bid != 21_000 ||
			request.Get(nip90.ParamJobType) != "python" || !request.Deadline().Equal(w.began.Add(time.Hour)) {
			t.Errorf("%+v, %v", request, err)
		}
		if bundle, err := request.Bundle(); err != nil || string(bundle.Inline) != "the task" {
			t.Errorf("%v, %v", bundle, err)
		}

		if err := w.says(alice, feedback(requests[0].ID, nip90.Processing, "on it")); err != nil {
			t.Fatal(err)
		}
		if err := w.delivers(alice, requests[0].ID, []byte("the work")); err != nil {
			t.Fatal(err)
		}
		w.wants(id, guild.Delivered)
		a := w.attempt(id)
		if got, err := w.blobs.ReadAll(a.Delivery, 1<<20); err != nil || string(got) != "the work" {
			t.Errorf("the delivery: %q, %v", got, err)
		}
		w.judges(id, guild.Success)
		w.ends(id, guild.JobAccepted)
		w.pass(time.Hour)
		want := []string{"job.opened", "attempt.planned", "effect.claimed", "effect.settled", "attempt.requested",
			"attempt.progressed", "attempt.delivered", "attempt.judged", "job.closed"}
		if got := w.facts(id); !slices.Equal(got, want) {
			t.Errorf("facts %v\nwant  %v", got, want)
		}
		if len(w.published) != 1 || w.fold.Open() != 0 {
			t.Errorf("%d events published, %d jobs open", len(w.published), w.fold.Open())
		}
	})
}

func TestASilentProviderExpiresAfterItsPatienceAndTheNextIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1), bob.offers(2))
		id := w.opens(Order{})
		w.pass(300*time.Second - time.Millisecond)
		w.wants(id, guild.Requested)
		w.pass(time.Millisecond)
		w.wants(id, guild.Expired, guild.Requested)
		job, _ := w.fold.Job(id)
		if a := job.Attempts[0]; a.Provider != alice.service() || a.Reason != "no answer" {
			t.Errorf("%v expired: %s", a.Provider, a.Reason)
		}
		deletions, requests := w.sent(5), w.sent(5000)
		if len(deletions) != 1 || deletions[0].Tags.Find("e")[1] != requests[0].ID.Hex() || deletions[0].Tags.Find("p")[1] != alice.key.Hex() {
			t.Errorf("taken back: %v", deletions)
		}
		if i := slices.IndexFunc(w.published, func(p publication) bool { return p.Kind == 5 }); i != 1 {
			t.Error("the next was asked before the old one was told")
		}
	})
}

func TestFeedbackExtendsThePatienceButNotTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{Timeout: 10 * time.Minute})
		request := w.attempt(id).ID
		w.pass(10 * time.Second)
		for _, s := range []nip90.Status{nip90.Processing, nip90.Partial, nip90.Success, nip90.Other} {
			if err := w.says(alice, feedback(request, s, "")); err != nil {
				t.Fatal(err)
			}
		}
		w.pass(280 * time.Second) // a minute from the feedback would have been over long ago
		w.wants(id, guild.Requested)
		if err := w.says(alice, feedback(request, nip90.Processing, "still")); err != nil {
			t.Fatal(err)
		}
		w.pass(59 * time.Second)
		w.wants(id, guild.Requested)
		for range 4 {
			w.says(alice, feedback(request, nip90.Processing, "still"))
			w.pass(50 * time.Second)
		}
		w.wants(id, guild.Requested)
		for range 2 {
			w.says(alice, feedback(request, nip90.Processing, "still"))
			w.pass(50 * time.Second)
		}
		w.wants(id, guild.Expired)
		if job := w.ends(id, guild.JobTimedOut); job.Closed != w.began.Add(10*time.Minute).UnixMilli() {
			t.Errorf("closed at %d", job.Closed)
		}
		if a := w.attempt(id); a.Reason != "the job's deadline passed" {
			t.Errorf("expired: %s", a.Reason)
		}
	})
}

func TestAProviderThatSpokeAndFellSilentExpiresToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{})
		w.pass(299 * time.Second)
		w.says(alice, feedback(w.attempt(id).ID, nip90.Processing, ""))
		w.pass(60 * time.Second)
		w.wants(id, guild.Expired)
		if a := w.attempt(id); a.Reason != "silent for too long" {
			t.Errorf("expired: %s", a.Reason)
		}
	})
}

func TestARequestIsPublishedAgainAsTheSameEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		w.relays(deaf)
		id := w.opens(Order{})
		w.pass(10 * time.Second)
		w.relays(nil)
		w.pass(15 * time.Second)
		w.wants(id, guild.Requested)
		sent := w.sent(5000)
		if len(sent) < 6 {
			t.Fatalf("%d publications", len(sent))
		}
		for _, p := range sent {
			if p.ID != sent[0].ID || p.Sig != sent[0].Sig {
				t.Errorf("published as %s and as %s", sent[0].ID, p.ID)
			}
		}
	})
}

func TestTheLadderGoesFromTheBestRelayToAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		w.relays(slow)
		id := w.opens(Order{})
		w.pass(45 * time.Second)
		sent := w.sent(5000)
		all := []string{"wss://first.example", "wss://second.example", "wss://ours.example"}
		for i, want := range []publication{{relays: all[:1], at: 0}, {relays: all[1:2], at: 10 * time.Second}, {relays: all, at: 25 * time.Second}} {
			if !slices.Equal(sent[i].relays, want.relays) || sent[i].at != want.at {
				t.Errorf("rung %d: %v after %v, want %v after %v", i, sent[i].relays, sent[i].at, want.relays, want.at)
			}
		}
		w.wants(id, guild.Planned)
	})
}

func TestAnEffectIsParkedAfterItsLastTryAndTheNextProviderIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1), bob.offers(2))
		w.relays(func(_ context.Context, e nostr.Event, _ []string) error {
			if e.Tags.FindWithValue("p", alice.key.Hex()) != nil {
				return errNoRelay
			}
			return nil
		})
		id := w.opens(Order{})
		w.pass(2 * time.Minute)
		w.wants(id, guild.Parked, guild.Requested)
		job, _ := w.fold.Job(id)
		if reason := job.Attempts[0].Reason; reason != "no relay took the request: no relay" {
			t.Errorf("parked: %s", reason)
		}
	})
}

func TestAJobIsParkedWhenNoRelayTakesAnything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		w.relays(deaf)
		id := w.opens(Order{})
		w.pass(5 * time.Minute)
		w.ends(id, guild.JobParked)
	})
}

func TestAProviderThatAnswersHasTheRequestWhateverTheRelaySays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		w.relays(deaf)
		id := w.opens(Order{})
		w.wants(id, guild.Planned)
		if err := w.says(alice, feedback(w.attempt(id).ID, nip90.Processing, "on it")); err != nil {
			t.Fatal(err)
		}
		w.wants(id, guild.Planned)
		for range 5 {
			w.pass(30 * time.Second)
			w.says(alice, feedback(w.attempt(id).ID, nip90.Processing, "still"))
		}
		w.wants(id, guild.Requested)
		if err := w.delivers(alice, w.attempt(id).ID, []byte("the work")); err != nil {
			t.Fatal(err)
		}
		w.wants(id, guild.Delivered)
	})
}

func TestAResultMayComeBeforeTheRelaysOK(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		w.relays(func(ctx context.Context, _ nostr.Event, _ []string) error { time.Sleep(5 * time.Second); return nil })
		id := w.opens(Order{})
		if err := w.delivers(alice, w.attempt(id).ID, []byte("the work")); err != nil {
			t.Fatal(err)
		}
		w.wants(id, guild.Delivered)
		w.pass(time.Minute)
		w.wants(id, guild.Delivered)
		if slices.Contains(w.facts(id), "attempt.requested") {
			t.Error("requested after it was delivered")
		}
	})
}

func TestAResultOfAStrangerChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{})
		before, request := w.journal.Last(), w.attempt(id).ID
		wantDrop(t, w.delivers(mallory, request, []byte("the work")), guild.Stranger)
		wantDrop(t, w.says(mallory, feedback(request, nip90.Error, "no")), guild.Stranger)
		wantDrop(t, w.delivers(alice, nostr.ID{1}, []byte("the work")), guild.Unrequested)
		wantDrop(t, w.says(alice, nostr.Event{Kind: 6000}), guild.Unrequested)
		other := result(t, request, nip90.NewParcel([]byte("the work")))
		other.Kind = 6001
		wantDrop(t, w.says(alice, other), guild.WrongKind)
		wantDrop(t, w.says(alice, nostr.Event{Kind: 7000, Tags: nostr.Tags{{"e", request.Hex()}, {"amount", "-1"}}}), guild.Malformed)
		w.wants(id, guild.Requested)
		if w.journal.Last() != before {
			t.Error("a fact was written")
		}
	})
}

func TestOnlyTheFirstResultCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{})
		request := w.attempt(id).ID
		if err := w.delivers(alice, request, []byte("the work")); err != nil {
			t.Fatal(err)
		}
		before := w.journal.Last()
		if err := w.delivers(alice, request, []byte("the work")); err != nil {
			t.Errorf("what a relay sends again: %v", err)
		}
		wantDrop(t, w.delivers(alice, request, []byte("other work")), guild.Second)
		w.pass(time.Second)
		wantDrop(t, w.says(alice, feedback(request, nip90.Error, "sorry")), guild.Late)
		if w.journal.Last() != before {
			t.Error("a fact was written")
		}
	})
}

func TestAResultAfterTheEndIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{})
		w.pass(300 * time.Second)
		w.ends(id, guild.JobTimedOut)
		wantDrop(t, w.delivers(alice, w.attempt(id).ID, []byte("the work")), guild.Late)
		w.wants(id, guild.Expired)
	})
}

func TestADeliveryAndAnExpiryAtTheSameInstantAreOneOfTheTwo(t *testing.T) {
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, alice.offers(0))
			id := w.opens(Order{})
			request := w.attempt(id).ID
			time.Sleep(300 * time.Second)
			err := w.delivers(alice, request, []byte("the work")) // while the runner expires it
			w.pass(time.Second)
			dropped, late := errors.AsType[*guild.DropError](err)
			switch state := w.attempt(id).State; {
			case err == nil && state == guild.Delivered:
			case late && dropped.Reason == guild.Late && state == guild.Expired:
			default:
				t.Errorf("%v, %s", err, state)
			}
			facts := w.facts(id)
			if slices.Contains(facts, "attempt.delivered") == slices.Contains(facts, "attempt.expired") {
				t.Errorf("%v", facts)
			}
		})
	}
}

func TestARefusalLeadsToTheNext(t *testing.T) {
	for name, c := range map[string]struct {
		answer nostr.Event
		reason string
	}{
		"payment first":  {nip90.Feedback{Status: nip90.PaymentRequired, Amount: 5000}.Event(), "wants 5000 msat first, and no way to pay is configured"},
		"an error":       {nip90.Feedback{Status: nip90.Error, Text: "no compiler"}.Event(), "no compiler"},
		"a later moment": {nip90.Feedback{Status: nip90.Error, Text: "at capacity"}.Event(), "at capacity"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, alice.offers(1), bob.offers(2))
				id := w.opens(Order{})
				c.answer.Tags = append(c.answer.Tags, nostr.Tag{"e", w.attempt(id).ID.Hex()})
				if err := w.says(alice, c.answer); err != nil {
					t.Fatal(err)
				}
				w.wants(id, guild.Refused, guild.Requested)
				job, _ := w.fold.Job(id)
				if got := job.Attempts[0].Reason; got != c.reason {
					t.Errorf("refused: %s", got)
				}
				if len(w.sent(5)) != 0 {
					t.Error("a provider that refused need not be told")
				}
			})
		})
	}
}

func TestADeliveryThatIsNoneByItsOwnWordIsARefusal(t *testing.T) {
	for _, status := range []string{"blocked", "failed"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, alice.offers(0))
			id := w.opens(Order{})
			if err := w.delivers(alice, w.attempt(id).ID, delivery(t, status)); err != nil {
				t.Fatal(err)
			}
			w.wants(id, guild.Refused)
			if got := w.attempt(id).Reason; got != "delivered as "+status+": no compiler here" {
				t.Error(got)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{})
		if err := w.delivers(alice, w.attempt(id).ID, delivery(t, "partial")); err != nil {
			t.Fatal(err)
		}
		w.wants(id, guild.Delivered)
	})
}

func TestAResultWithoutADeliveryEndsTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{})
		empty := nostr.Event{Kind: 6000, Content: "done!", Tags: nostr.Tags{{"e", w.attempt(id).ID.Hex()}}}
		if err := w.says(alice, empty); err != nil {
			t.Fatal(err)
		}
		w.wants(id, guild.Refused)
	})
}

func TestAVerdictDecidesWhetherAnotherIsAsked(t *testing.T) {
	for outcome, asked := range map[guild.Outcome]bool{
		guild.Success: false, guild.Partial: true, guild.Failure: true, guild.Error: true, guild.Violation: true,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, alice.offers(1), bob.offers(2))
			id := w.opens(Order{})
			if err := w.delivers(alice, w.attempt(id).ID, []byte("the work")); err != nil {
				t.Fatal(err)
			}
			w.judges(id, outcome)
			job, _ := w.fold.Job(id)
			if got := len(job.Attempts) == 2; got != asked || (job.Ending == guild.JobAccepted) == asked {
				t.Errorf("%s: %d attempts, %q", outcome, len(job.Attempts), job.Ending)
			}
		})
	}
}

func TestTheTriesOfAJobAreItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1), bob.offers(2), carol.offers(3))
		id := w.opens(Order{Tries: 2})
		w.pass(20 * time.Minute)
		w.wants(id, guild.Expired, guild.Expired)
		if job := w.ends(id, guild.JobTimedOut); job.Reason != "2 of 2 tries used" {
			t.Error(job.Reason)
		}
	})
}

func TestAJobThatNobodyOffersIsUnclaimedAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.opens(Order{})
		w.pass(10*time.Second - time.Millisecond)
		w.ends(id, guild.Open)
		w.pass(time.Millisecond)
		if job := w.ends(id, guild.JobUnclaimed); job.Reason != `nobody offers the task "python"` {
			t.Error(job.Reason)
		}
	})
}

func TestAProviderThatAppearsMeanwhileIsAskedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.opens(Order{})
		w.pass(4 * time.Second)
		w.mu.Lock()
		w.offers = append(w.offers, alice.offers(0))
		w.mu.Unlock()
		w.runner.Wake()
		w.pass(0)
		w.wants(id, guild.Requested)
	})
}

func TestAProviderThatAppearsUnnoticedIsAskedBeforeTheJobIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.opens(Order{})
		w.mu.Lock()
		w.offers = append(w.offers, alice.offers(0))
		w.mu.Unlock()
		w.pass(11 * time.Second)
		w.wants(id, guild.Requested)
	})
}

func TestADeadlineThatIsPastAtOnceEndsTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{Timeout: -time.Second})
		w.ends(id, guild.JobUnclaimed)
		w.wants(id)
		if len(w.published) != 0 {
			t.Errorf("%d events published", len(w.published))
		}
	})
}

func TestCancelWhileTheRequestIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1), bob.offers(2))
		w.relays(func(_ context.Context, e nostr.Event, _ []string) error {
			if e.Kind == 5000 {
				time.Sleep(5 * time.Second)
			}
			return nil
		})
		id := w.opens(Order{})
		w.wants(id, guild.Planned)
		if err := w.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		w.pass(0)
		w.wants(id, guild.Cancelled)
		w.ends(id, guild.JobCancelled)
		w.pass(time.Hour)
		w.wants(id, guild.Cancelled)
		if deletions := w.sent(5); len(deletions) != 1 {
			t.Errorf("%d deletions: the relay took the request after all, and nobody takes it back", len(deletions))
		}
		wantDrop(t, w.delivers(alice, w.attempt(id).ID, []byte("the work")), guild.Late)
	})
}

func TestCancelTellsTheProviderOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{})
		for range 2 {
			if err := w.Cancel(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		w.pass(time.Hour)
		w.ends(id, guild.JobCancelled)
		if err := w.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, f := range w.facts(id) {
			if f == "job.cancelled" {
				n++
			}
		}
		if n != 1 || len(w.sent(5)) != 1 || w.fold.Open() != 0 {
			t.Errorf("%d cancellations, %d deletions, %d jobs open", n, len(w.sent(5)), w.fold.Open())
		}
	})
}

func TestADeliveryThatIsHereIsJudgedAlthoughTheJobIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1), bob.offers(2))
		id := w.opens(Order{})
		w.delivers(alice, w.attempt(id).ID, []byte("the work"))
		if err := w.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		w.pass(0)
		w.ends(id, guild.Open)
		w.judges(id, guild.Failure)
		w.ends(id, guild.JobCancelled)
		w.wants(id, guild.Rejected)
	})
}

func TestAJobThatIsCancelledBeforeAnybodyWasAskedAsksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.opens(Order{})
		if err := w.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		w.pass(0)
		w.ends(id, guild.JobCancelled)
	})
}

func TestADeletionThatNoRelayTakesHoldsTheJobUpForAWhileOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1), bob.offers(2))
		w.relays(func(_ context.Context, e nostr.Event, _ []string) error {
			if e.Kind == 5 {
				return errNoRelay
			}
			return nil
		})
		id := w.opens(Order{})
		w.pass(300*time.Second + time.Minute)
		w.wants(id, guild.Expired, guild.Requested)
	})
}

func TestAFloodOfFeedbackIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{})
		request := w.attempt(id).ID
		for range maxHeard {
			w.pass(time.Second)
			if err := w.says(alice, feedback(request, nip90.Partial, strings.Repeat("ü", 3000))); err != nil {
				t.Fatal(err)
			}
		}
		w.pass(time.Second)
		before := w.journal.Last()
		for range 20 {
			wantDrop(t, w.says(alice, feedback(request, nip90.Partial, "more")), guild.Flood)
		}
		if w.journal.Last() != before {
			t.Error("it is kept all the same")
		}
		w.pass(slowly)
		if err := w.says(alice, feedback(request, nip90.Processing, "still there")); err != nil {
			t.Error(err)
		}
		w.pass(59 * time.Second)
		w.wants(id, guild.Requested)
	})
}

func TestARestartGoesOnWhereItStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1), bob.offers(2))
		w.relays(deaf)
		id := w.opens(Order{})
		planned := w.attempt(id).ID
		w.relays(nil)
		w.restart()
		w.wants(id, guild.Requested)
		if sent := w.sent(5000); sent[len(sent)-1].ID != planned || w.attempt(id).ID != planned {
			t.Errorf("asked again as %s", sent[len(sent)-1].ID)
		}
		w.pass(200 * time.Second)
		w.restart()
		w.pass(time.Until(time.UnixMilli(w.attempt(id).Silence)) - time.Millisecond)
		w.wants(id, guild.Requested)
		w.pass(time.Millisecond)
		w.wants(id, guild.Expired, guild.Requested)
		if err := w.delivers(bob, w.attempt(id).ID, []byte("the work")); err != nil {
			t.Fatal(err)
		}
		w.restart()
		w.wants(id, guild.Expired, guild.Delivered)
		w.judges(id, guild.Success)
		w.ends(id, guild.JobAccepted)
	})
}

func TestAClosedJournalTakesNoMoreJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		if err := w.journal.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Open(t.Context(), Order{Bundle: []byte("x")}); !errors.Is(err, journal.ErrClosed) {
			t.Errorf("got %v", err)
		}
		if err := w.Cancel(t.Context(), guild.JobID{}); !errors.Is(err, journal.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}
