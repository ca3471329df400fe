package jobs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold/foldtest"
	"guild/internal/step/steptest"
	"guild/nip90"
)

func TestJobFromRequestToClose(t *testing.T) {
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

func TestSilentProviderExpires(t *testing.T) {
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
		if i := slices.IndexFunc(w.published, func(p publication) bool { return p.Kind == 5 }); w.published[i+1].ID != w.attempt(id).ID {
			t.Error("the next was asked before the old one was told")
		}
	})
}

func TestFeedbackExtendsPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{Timeout: 10 * time.Minute})
		request := w.attempt(id).ID
		w.pass(10 * time.Second)
		for _, s := range []nip90.Status{nip90.Processing, nip90.Partial, nip90.Other} {
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

func TestProviderThatFallsSilentExpires(t *testing.T) {
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

func TestRequestIsRepublishedUnchanged(t *testing.T) {
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

func TestDeliveryLadder(t *testing.T) {
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

func TestParkedRequestAsksNextProvider(t *testing.T) {
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

func TestJobIsParkedWithoutRelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		w.relays(deaf)
		id := w.opens(Order{})
		w.pass(5 * time.Minute)
		w.ends(id, guild.JobParked)
	})
}

func TestVerdictDecidesNextAttempt(t *testing.T) {
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

func TestTriesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1), bob.offers(2), carol.offers(3))
		id := w.opens(Order{Tries: 2})
		w.pass(20 * time.Minute)
		w.wants(id, guild.Expired, guild.Expired)
		if job := w.ends(id, guild.JobTimedOut); job.Reason != "2 of 2 tries used; the last: expired, no answer" {
			t.Error(job.Reason)
		}
	})
}

func TestUnofferedJobIsUnclaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.opens(Order{})
		w.pass(10*time.Second - time.Millisecond)
		w.ends(id, guild.Open)
		w.pass(time.Millisecond)
		if job := w.ends(id, guild.JobUnclaimed); job.Reason != `no provider offers the task "python" now (one that is paused offers nothing)` {
			t.Error(job.Reason)
		}
	})
}

func TestAppearingProviderIsAskedAtOnce(t *testing.T) {
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

func TestUnnoticedProviderIsAskedLast(t *testing.T) {
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

func TestPastDeadlineEndsJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{Timeout: time.Nanosecond})
		w.ends(id, guild.JobUnclaimed)
		w.wants(id)
		if len(w.published) != 0 {
			t.Errorf("%d events published", len(w.published))
		}
	})
}

func TestCancelWhilePublishing(t *testing.T) {
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
		steptest.WantDrop(t, w.delivers(alice, w.attempt(id).ID, []byte("the work")), guild.Late)
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

func TestCancelWhileJudging(t *testing.T) {
	for _, state := range []guild.State{guild.Delivered, guild.Undecided} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, alice.offers(1), bob.offers(2))
			id := w.opens(Order{})
			attempt := w.attempt(id).ID
			w.delivers(alice, attempt, []byte("the work"))
			if state == guild.Undecided {
				w.append(id, fact.AttemptUndecided{Attempt: attempt, Reason: "a checklist", Held: guild.Hash{1}})
			}
			w.wants(id, state)
			if err := w.Cancel(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			w.pass(0)
			w.ends(id, guild.JobCancelled)
			w.wants(id, guild.Cancelled)
			w.append(id, fact.AttemptJudged{Attempt: attempt, Verdict: guild.Verdict{Outcome: guild.Success}})
			w.wants(id, guild.Cancelled) // a verdict that comes too late changes nothing
		})
	}
}

func TestCancelBeforeFirstRequest(t *testing.T) {
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

func TestUnpublishedDeletionDelaysJob(t *testing.T) {
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

func TestRestartContinues(t *testing.T) {
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

func TestLostDeliveryIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1))
		id := w.opens(Order{})
		if err := w.delivers(alice, w.attempt(id).ID, []byte("the work")); err != nil {
			t.Fatal(err)
		}
		delivery := w.attempt(id).Delivery
		for name, lose := range map[string]func(string) error{
			"missing": os.Remove,
			"torn":    func(path string) error { return os.Truncate(path, 3) },
			"blank":   func(path string) error { return os.WriteFile(path, make([]byte, len("the work")), 0o600) },
		} {
			if err := lose(filepath.Join(w.blobDir, delivery.Hex())); err != nil {
				t.Fatal(err)
			}
			w.restart()
			if got, err := w.blobs.ReadAll(delivery, 100); string(got) != "the work" {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
		w.judges(id, guild.Success)
		if a := w.attempt(id); a.Answer != nil {
			t.Error("the event is kept after the verdict")
		}
	})
}

func TestStateAfterReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1), bob.offers(2))
		id := w.opens(Order{})
		for _, text := range []string{"\xff\xfe", "a\x00b\u2028", strings.Repeat("ü", 3000) + "\xc3"} { // as it may come out of a ciphertext
			f := nip90.Feedback{Request: w.attempt(id).ID, Status: nip90.Partial, Content: text}.Event()
			f.Content = text
			w.says(alice, f)
		}
		w.says(alice, feedback(w.attempt(id).ID, nip90.Error, "no\xff"))
		w.delivers(bob, w.attempt(id).ID, []byte("the work"))
		w.judges(id, guild.Failure)
		w.pass(time.Hour)
		replayed := NewFold()
		for _, e := range w.Entries() {
			replayed.Apply(e)
		}
		if live, again := foldtest.Snapshot(t, w.fold), foldtest.Snapshot(t, replayed); live != again {
			t.Errorf("live   %s\nreplay %s", live, again)
		}
		job, _ := w.fold.Job(id)
		before, _ := replayed.Job(id)
		for i, a := range job.Attempts {
			if a.Reason != before.Attempts[i].Reason {
				t.Errorf("%q was kept as %q", a.Reason, before.Attempts[i].Reason)
			}
		}
	})
}

func TestClosedJournalTakesNoJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		if err := w.Journal.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Open(t.Context(), Order{Bundle: []byte("x"), Kind: 5000}); !errors.Is(err, journal.ErrClosed) {
			t.Errorf("got %v", err)
		}
		if err := w.Cancel(t.Context(), guild.JobID{}); !errors.Is(err, journal.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}
