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
	"guild/internal/journal/fact"
	"guild/internal/step/steptest"
	"guild/nip90"
)

func TestAnswerProvesTheRequestArrived(t *testing.T) {
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

func TestResultBeforeRelaysOK(t *testing.T) {
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

func TestResultOfStranger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{})
		before, request := w.Journal.Last(), w.attempt(id).ID
		steptest.WantDrop(t, w.delivers(mallory, request, []byte("the work")), guild.Stranger)
		steptest.WantDrop(t, w.says(mallory, feedback(request, nip90.Error, "no")), guild.Stranger)
		steptest.WantDrop(t, w.delivers(alice, nostr.ID{1}, []byte("the work")), guild.Unrequested)
		steptest.WantDrop(t, w.says(alice, nostr.Event{Kind: 6000}), guild.Unrequested)
		steptest.WantDrop(t, w.says(alice, nostr.Event{Kind: 7000, Tags: nostr.Tags{{"e", request.Hex()}, {"amount", "-1"}}}), guild.Malformed)
		w.wants(id, guild.Requested)
		if w.Journal.Last() != before {
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
		before := w.Journal.Last()
		if err := w.delivers(alice, request, []byte("the work")); err != nil {
			t.Errorf("what a relay sends again: %v", err)
		}
		steptest.WantDrop(t, w.delivers(alice, request, []byte("other work")), guild.Second)
		w.pass(time.Second)
		steptest.WantDrop(t, w.says(alice, feedback(request, nip90.Error, "sorry")), guild.Late)
		if w.Journal.Last() != before {
			t.Error("a fact was written")
		}
	})
}

func TestResultAfterEndIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{})
		w.pass(300 * time.Second)
		w.ends(id, guild.JobTimedOut)
		steptest.WantDrop(t, w.delivers(alice, w.attempt(id).ID, []byte("the work")), guild.Late)
		w.wants(id, guild.Expired)
	})
}

func TestDeliveryRacesExpiry(t *testing.T) {
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
		"payment first":  {nip90.Feedback{Status: nip90.PaymentRequired, Amount: 5000}.Event(), "wants 5000 msat first, and the order pays nothing: --settle is free or not given"},
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
				if told := len(w.sent(5)) > 0; told != (name == "payment first") {
					t.Errorf("told to stop: %v; it must be if it waits for its price, and need not be if it refused", told)
				}
				if quoted := slices.Contains(w.facts(id), "attempt.quoted"); quoted != (name == "payment first") {
					t.Errorf("a quote is kept: %v", quoted)
				}
			})
		})
	}
}

func TestProviderOfUnpaidQuoteIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1))
		id := w.opens(Order{})
		first := w.attempt(id).ID
		w.relays(deaf)
		if err := w.says(alice, nip90.Feedback{Request: first, Customer: customer.key, Status: nip90.PaymentRequired, Amount: 5000}.Event()); err != nil {
			t.Fatal(err)
		}
		if w.fold.Open() != 1 {
			t.Error("the job is over before its provider was told")
		}
		w.mu.Lock()
		w.published = nil
		w.mu.Unlock()
		w.relays(nil)
		w.restart()
		w.pass(time.Minute)
		told := w.sent(5)
		if len(told) != 1 || told[0].Tags.FindWithValue("e", first.Hex()) == nil || told[0].Tags.FindWithValue("p", alice.key.Hex()) == nil {
			t.Fatalf("told %v", told)
		}
		w.ends(id, guild.JobUnclaimed)
		w.restart()
		w.pass(time.Minute)
		if len(w.sent(5)) != 1 || w.fold.Open() != 0 {
			t.Errorf("told %d times, %d jobs are open", len(w.sent(5)), w.fold.Open())
		}
	})
}

func TestDecliningDeliveryIsRefusal(t *testing.T) {
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

// TestWhatFeedbackDoes is the table of section 2.1.3 of the partnership protocol.
func TestWhatFeedbackDoes(t *testing.T) {
	words := strings.Repeat("a part of it\n", 150)
	for _, c := range []struct {
		said  nip90.Feedback
		state guild.State
		last  string        // fact
		text  string        // of it
		more  time.Duration // that the patience ends later, when nothing else had been said
	}{
		{nip90.Feedback{Status: nip90.PaymentRequired, Amount: 5000}, guild.Refused, "attempt.refused", "", 0},
		{nip90.Feedback{Status: nip90.Processing, Text: "on it"}, guild.Requested, "attempt.progressed", "on it", 40 * time.Second},
		{nip90.Feedback{Status: nip90.Partial, Text: "1 of 2", Content: words}, guild.Requested, "attempt.progressed", words, 40 * time.Second},
		{nip90.Feedback{Status: nip90.Error, Text: "no compiler"}, guild.Refused, "attempt.refused", "", 0},
		{nip90.Feedback{Status: nip90.Success}, guild.Requested, "attempt.progressed", "", 40 * time.Second},
		{nip90.Feedback{Status: nip90.Other, RawStatus: "payment-rejected"}, guild.Requested, "attempt.progressed", "payment-rejected", 40 * time.Second},
		{nip90.Feedback{Status: nip90.Other, RawStatus: "chain-scheduled", Text: "second"}, guild.Requested, "attempt.progressed", "chain-scheduled: second", 40 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, alice.offers(0))
			id := w.opens(Order{})
			w.pass(280 * time.Second)
			silence := w.attempt(id).Silence
			c.said.Request, c.said.Customer = w.attempt(id).ID, customer.key
			if err := w.says(alice, c.said.Event()); err != nil {
				t.Fatal(err)
			}
			facts := w.facts(id)
			if a := w.attempt(id); a.State != c.state || a.Silence-silence != c.more.Milliseconds() || !slices.Contains(facts, c.last) {
				t.Errorf("%s: %s, %d ms more, %v", c.said.Status, a.State, a.Silence-silence, facts)
			}
			if told := steptest.Facts[fact.AttemptProgressed](w); len(told) > 0 && told[0].Text != c.text {
				t.Errorf("%s: kept %q, want %q", c.said.Status, told[0].Text, c.text)
			}
		})
	}
}

func TestFloodOfFeedback(t *testing.T) {
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
		before := w.Journal.Last()
		for range 20 {
			steptest.WantDrop(t, w.says(alice, feedback(request, nip90.Partial, "more")), guild.Flood)
		}
		if w.Journal.Last() != before {
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
