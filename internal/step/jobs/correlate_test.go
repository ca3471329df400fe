package jobs

import (
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

// answer returns a delivery in clear with these tags.
func answer(t *testing.T, tags nostr.Tags, content string) nostr.Event {
	t.Helper()
	e := result(t, nostr.ID{1}, nip90.NewParcel([]byte("the work")))
	e.Tags = tags
	if content != "" {
		e.Content = content
	}
	return e
}

func toUs(more ...nostr.Tag) nostr.Tags {
	return append(nostr.Tags{{"p", customer.key.Hex()}}, more...)
}

// TestResultsAreCorrelatedByThreeStrategies is the table of section 3.1.2 of the partnership protocol.
func TestResultsAreCorrelatedByThreeStrategies(t *testing.T) {
	for _, c := range []struct {
		strategy string
		answer   func(t *testing.T, request nostr.ID) nostr.Event
	}{
		{"primary: the e tag", func(t *testing.T, id nostr.ID) nostr.Event {
			return answer(t, nostr.Tags{{"e", id.Hex()}}, "")
		}},
		{"primary: an e tag among others", func(t *testing.T, id nostr.ID) nostr.Event {
			return answer(t, nostr.Tags{{"e", nostr.ID{9}.Hex(), "", "root"}, {"e", id.Hex(), "", "reply"}}, "")
		}},
		{"secondary: the p tag, the provider and the time", func(t *testing.T, _ nostr.ID) nostr.Event {
			return answer(t, toUs(), "")
		}},
		{"tertiary: a reference in the content", func(t *testing.T, id nostr.ID) nostr.Event {
			return answer(t, nil, `{"request_id":"`+id.Hex()+`","answer":42}`)
		}},
		{"tertiary: the request tag", func(t *testing.T, id nostr.ID) nostr.Event {
			return answer(t, nostr.Tags{{"request", `{"id":"` + id.Hex() + `"}`}}, "")
		}},
		{"tertiary, whatever its e tag names", func(t *testing.T, id nostr.ID) nostr.Event {
			return answer(t, nostr.Tags{{"e", nostr.ID{9}.Hex()}}, `{"request":"`+id.Hex()+`"}`)
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, alice.offers(0))
			id := w.opens(Order{})
			if err := w.says(alice, c.answer(t, w.attempt(id).ID)); err != nil {
				t.Errorf("%s: %v", c.strategy, err)
			}
			w.wants(id, guild.Delivered)
		})
	}
}

func TestReferenceInsideCiphertext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := alice.offers(0)
		reader.Encrypts = true
		w := newWorld(t, reader)
		id := w.opens(Order{})
		text, err := alice.signer.Encrypt(t.Context(), `[["e","`+w.attempt(id).ID.Hex()+`"],["status","processing","on it"]]`, customer.key)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.says(alice, nostr.Event{Kind: 7000, Content: text, Tags: nostr.Tags{{"encrypted"}}}); err != nil {
			t.Fatal(err)
		}
		if a := w.attempt(id); a.Heard != 1 {
			t.Errorf("heard %d times", a.Heard)
		}
	})
}

func TestAnswerCountsOnlyFromAskedProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{})
		request := w.attempt(id).ID
		before := w.Journal.Last()
		steptest.WantDrop(t, w.says(mallory, answer(t, nostr.Tags{{"e", request.Hex()}}, "")), guild.Stranger)
		steptest.WantDrop(t, w.says(mallory, answer(t, toUs(), "")), guild.Unrequested)
		steptest.WantDrop(t, w.says(mallory, answer(t, toUs(), `{"request_id":"`+request.Hex()+`"}`)), guild.Stranger)
		if w.Journal.Last() != before {
			t.Error("a fact was written")
		}
	})
}

func TestAnswerToAnotherRequestIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{})
		steptest.WantDrop(t, w.says(alice, answer(t, toUs(nostr.Tag{"e", nostr.ID{9}.Hex()}), "")), guild.Unrequested)
		steptest.WantDrop(t, w.says(alice, answer(t, nostr.Tags{{"p", mallory.key.Hex()}}, "")), guild.Unrequested)
		w.wants(id, guild.Requested)
	})
}

func TestAmbiguousAnswerIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		first, second := w.opens(Order{}), w.opens(Order{})
		before := w.Journal.Last()
		err := w.says(alice, answer(t, toUs(), ""))
		steptest.WantDrop(t, err, guild.Ambiguous)
		if !strings.Contains(err.Error(), "2 requests") || w.Journal.Last() != before {
			t.Errorf("%v", err)
		}
		if err := w.says(alice, answer(t, toUs(), `{"request_id":"`+w.attempt(second).ID.Hex()+`"}`)); err != nil {
			t.Errorf("a reference tells: %v", err)
		}
		w.wants(first, guild.Requested)
		w.wants(second, guild.Delivered)
	})
}

func TestAnswerIsMatchedByTime(t *testing.T) {
	at := func(e nostr.Event, d time.Duration) nostr.Event {
		e.CreatedAt = nostr.Timestamp(time.Now().Add(d).Unix())
		return e
	}
	for _, c := range []struct {
		name string
		said time.Duration // after the request
		want guild.Reason  // "" for none
	}{
		{"after the request", time.Second, ""},
		{"by a clock that is a little slow", -30 * time.Second, ""},
		{"long before the request", -2 * time.Minute, guild.Unrequested},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, alice.offers(0))
			w.opens(Order{})
			v, err := guild.Sign(t.Context(), alice.signer, at(answer(t, toUs(), ""), c.said))
			if err != nil {
				t.Fatal(err)
			}
			switch err := w.Observe(t.Context(), v); {
			case c.want == "" && err != nil:
				t.Errorf("%s: %v", c.name, err)
			case c.want != "":
				steptest.WantDrop(t, err, c.want)
			}
		})
	}
}

func TestLateAnswerIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		first := w.opens(Order{})
		w.pass(6 * time.Minute)
		w.wants(first, guild.Expired)
		second := w.opens(Order{})
		steptest.WantDrop(t, w.says(alice, answer(t, toUs(), "")), guild.Ambiguous)
		w.wants(second, guild.Requested)
		if err := w.delivers(alice, w.attempt(second).ID, []byte("the work")); err != nil {
			t.Fatal(err)
		}
		w.pass(10 * time.Minute)
		third := w.opens(Order{})
		if err := w.says(alice, answer(t, toUs(), "")); err != nil {
			t.Errorf("ten minutes later: %v", err)
		}
		w.wants(third, guild.Delivered)
	})
}

func TestRepeatedResultIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		first := w.opens(Order{})
		e := answer(t, toUs(), "")
		e.CreatedAt = nostr.Timestamp(time.Now().Unix())
		v, err := guild.Sign(t.Context(), alice.signer, e)
		if err != nil {
			t.Fatal(err)
		}
		refusal := nip90.Feedback{Customer: customer.key, Status: nip90.Error, Text: "no compiler"}.Event()
		refusal.CreatedAt = e.CreatedAt
		no, err := guild.Sign(t.Context(), alice.signer, refusal)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Observe(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		second := w.opens(Order{})
		if err := w.Observe(t.Context(), v); err != nil {
			t.Errorf("what a relay sends again: %v", err)
		}
		w.wants(first, guild.Delivered)
		w.wants(second, guild.Requested)
		if err := w.Observe(t.Context(), no); err != nil {
			t.Fatal(err)
		}
		w.wants(second, guild.Refused)
		third := w.opens(Order{})
		w.Observe(t.Context(), no)
		w.pass(0)
		w.wants(third, guild.Requested)
		w.restart()
		w.Observe(t.Context(), v)
		w.Observe(t.Context(), no)
		w.pass(0)
		w.wants(third, guild.Requested)
	})
}

func TestWrongKindIsFaultOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{})
		other := result(t, w.attempt(id).ID, nip90.NewParcel([]byte("the work")))
		other.Kind = 6001
		silence := w.attempt(id).Silence
		for range 3 {
			steptest.WantDrop(t, w.says(alice, other), guild.WrongKind)
			w.pass(time.Second)
		}
		if n := len(steptest.Facts[fact.AttemptProgressed](w)); n != 1 {
			t.Errorf("recorded %d times", n)
		}
		if a := w.attempt(id); a.Silence != silence || a.State != guild.Requested {
			t.Errorf("%s until %d, want %d", a.State, a.Silence, silence)
		}
		if err := w.delivers(alice, w.attempt(id).ID, []byte("the work")); err != nil {
			t.Fatal(err)
		}
		w.wants(id, guild.Delivered)
	})
}

func TestWrongKindIsReasonOfExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{})
		other := result(t, w.attempt(id).ID, nip90.NewParcel([]byte("the work")))
		other.Kind = 6001
		w.says(alice, other)
		w.pass(time.Hour)
		if a := w.attempt(id); a.State != guild.Expired || a.Reason != "answered in kind 6001 instead of 6000, and nothing else" {
			t.Errorf("%s: %s", a.State, a.Reason)
		}
	})
}

func TestAZapReceiptIsNeverTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{})
		before := w.Journal.Last()
		zap := nostr.Event{Kind: 9735, Tags: toUs(nostr.Tag{"e", w.attempt(id).ID.Hex()}, nostr.Tag{"bolt11", "lnbc1"})}
		steptest.WantDrop(t, w.says(alice, zap), guild.Unexpected)
		if w.Journal.Last() != before || slices.Contains(w.facts(id), "attempt.progressed") {
			t.Error("a fact was written")
		}
	})
}
