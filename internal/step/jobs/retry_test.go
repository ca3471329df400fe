package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"
	"pgregory.net/rapid"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/step/steptest"
	"guild/nip90"
)

// The table of section 2.3.2 of the partnership protocol, and the cases that it leaves open: a provider that names one relay,
// or none.
func TestTheRungsOfTheLadder(t *testing.T) {
	ours := []string{"wss://near", "wss://far"}
	for _, c := range []struct {
		hints []string
		want  [3][]string
	}{
		{[]string{"wss://first", "wss://second", "wss://third"}, [3][]string{{"wss://first"}, {"wss://second"},
			{"wss://first", "wss://second", "wss://third", "wss://near", "wss://far"}}},
		{[]string{"wss://first"}, [3][]string{{"wss://first"}, {"wss://near"}, {"wss://first", "wss://near", "wss://far"}}},
		{[]string{"wss://far"}, [3][]string{{"wss://far"}, {"wss://near"}, {"wss://far", "wss://near"}}},
		{nil, [3][]string{ours, ours, ours}},
	} {
		got := rungs(c.hints, ours)
		for i := range got {
			if !slices.Equal(got[i], c.want[i]) {
				t.Errorf("hints %v, rung %d: %v, want %v", c.hints, i+1, got[i], c.want[i])
			}
		}
	}
	p := Patience{}.orDefaults()
	if p.Ladder != [3]time.Duration{10 * time.Second, 15 * time.Second, 20 * time.Second} {
		t.Errorf("the rungs last %v", p.Ladder)
	}
}

// Section 2.3.3: at most 3 further attempts after 5, 10 and 20 s ± 20 %, and then quarantine.
func TestSilentProviderGetsThreeRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{})
		w.pass(299 * time.Second)
		w.wants(id, guild.Requested)
		sent := w.sent(5000)
		if len(sent) != 4 {
			t.Fatalf("sent %d times, want 4", len(sent))
		}
		all := []string{"wss://first.example", "wss://second.example", "wss://ours.example"}
		for i, c := range []struct {
			after  time.Duration
			relays []string
		}{{0, all[:1]}, {5 * time.Second, all[1:2]}, {10 * time.Second, all}, {20 * time.Second, all}} {
			if sent[i].ID != sent[0].ID || sent[i].Sig != sent[0].Sig {
				t.Errorf("publication %d is another event", i+1)
			}
			pause := sent[i].at - sent[max(i-1, 0)].at
			if pause < c.after*4/5 || pause > c.after*6/5 {
				t.Errorf("publication %d came after %v, want %v ± 20 %%", i+1, pause, c.after)
			}
			if !slices.Equal(sent[i].relays, c.relays) {
				t.Errorf("publication %d went to %v, want %v", i+1, sent[i].relays, c.relays)
			}
		}
		w.pass(time.Second)
		w.wants(id, guild.Expired)
		if !w.expired(id).Silent {
			t.Error("it is not held for unresponsive")
		}
	})
}

func TestBestRelayIsAskedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		w.slow = map[string]int{"wss://first.example": 1}
		w.opens(Order{})
		w.pass(8 * time.Second)
		sent := w.sent(5000)
		if len(sent) != 2 || !slices.Equal(sent[0].relays, []string{"wss://second.example"}) || !slices.Equal(sent[1].relays, []string{"wss://first.example"}) {
			t.Errorf("%+v", sent)
		}
	})
}

// expired returns the fact by which the first attempt of a job expired.
func (w *world) expired(id guild.JobID) (found fact.AttemptExpired) {
	w.Helper()
	if all := steptest.Facts[fact.AttemptExpired](w); len(all) > 0 {
		found = all[0]
	}
	return found
}

func TestFeedbackEndsRetries(t *testing.T) {
	for _, s := range []nip90.Status{nip90.Processing, nip90.Partial, nip90.Success, nip90.Other} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, alice.offers(0))
			id := w.opens(Order{})
			w.pass(7 * time.Second)
			before := len(w.sent(5000))
			w.says(alice, feedback(w.attempt(id).ID, s, ""))
			w.pass(50 * time.Second)
			if n := len(w.sent(5000)); n != before {
				t.Errorf("%s: %d publications after it spoke", s, n-before)
			}
		})
	}
}

func TestRestartKeepsRetryTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		w.opens(Order{})
		for range 60 {
			w.pass(time.Second)
			w.restart()
		}
		sent := w.sent(5000)
		if len(sent) != 4 {
			t.Fatalf("sent %d times", len(sent))
		}
		for i, pause := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
			if want := jitter(sent[0].ID, i, pause); sent[i+1].at-sent[i].at > want+2*time.Second {
				t.Errorf("retry %d came after %v, want %v", i+1, sent[i+1].at-sent[i].at, want)
			}
		}
	})
}

func TestJitterIsAFifthAtMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var id nostr.ID
		copy(id[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "id"))
		n, d := rapid.IntRange(0, 2).Draw(t, "n"), time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "d"))
		if got := jitter(id, n, d); got < d*4/5 || got > d*6/5+1 || got != jitter(id, n, d) {
			t.Fatalf("%v of %v", got, d)
		}
	})
}

func TestRefusedRetryDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{})
		w.relays(deaf)
		w.pass(299 * time.Second)
		w.wants(id, guild.Requested)
		a := w.attempt(id)
		if a.Again != 3 {
			t.Errorf("%d retries", a.Again)
		}
	})
}

// The tables of sections 2.3.3 and 3.1.3: the length and the meaning of each kind of silence.
func TestHowLongWeWait(t *testing.T) {
	type word struct {
		at time.Duration
		s  nip90.Status
	}
	for _, c := range []struct {
		name   string
		said   []word
		until  time.Duration
		reason string
		silent bool
	}{
		{"no feedback: unresponsive", nil, 300 * time.Second, "no answer", true},
		{"feedback takes nothing away", []word{{10 * time.Second, nip90.Processing}}, 300 * time.Second, "silent for too long", false},
		{"feedback adds a minute", []word{{290 * time.Second, nip90.Processing}}, 350 * time.Second, "silent for too long", false},
		{"each does", []word{{290 * time.Second, nip90.Processing}, {349 * time.Second, nip90.Partial}}, 409 * time.Second, "silent for too long", false},
		{"after success the result is due in a minute", []word{{10 * time.Second, nip90.Success}}, 70 * time.Second,
			"said that it was done, and no result came", false},
		{"and no word after it changes that", []word{{10 * time.Second, nip90.Success}, {60 * time.Second, nip90.Processing}}, 70 * time.Second,
			"said that it was done, and no result came", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, alice.offers(0))
			id := w.opens(Order{})
			for _, word := range c.said {
				w.pass(word.at - time.Since(w.began))
				if err := w.says(alice, feedback(w.attempt(id).ID, word.s, "")); err != nil {
					t.Fatal(err)
				}
			}
			w.pass(c.until - time.Since(w.began) - 2*time.Millisecond)
			w.wants(id, guild.Requested)
			w.pass(2 * time.Millisecond)
			w.wants(id, guild.Expired)
			if got := w.expired(id); got.Reason != c.reason || got.Silent != c.silent {
				t.Errorf("%s: %q, silent %t", c.name, got.Reason, got.Silent)
			}
		})
	}
}

// stored lets the relays have an answer that never reached us.
func (w *world) stored(p person, delivery []byte) func(nostr.ID) ([]guild.Verified, error) {
	return func(request nostr.ID) ([]guild.Verified, error) {
		e := result(w.T, request, nip90.NewParcel(delivery))
		e.CreatedAt = nostr.Timestamp(time.Now().Unix())
		forged, err := guild.Sign(context.Background(), mallory.signer, e)
		if err != nil {
			return nil, err
		}
		v, err := guild.Sign(context.Background(), p.signer, e)
		return []guild.Verified{forged, v}, err
	}
}

func TestMissedResultIsFoundOnRelays(t *testing.T) {
	for name, spoke := range map[string]bool{"after its success": true, "after no word at all": false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, alice.offers(0))
			w.look = w.stored(alice, []byte("the work"))
			w.restart()
			id := w.opens(Order{})
			if spoke {
				w.says(alice, feedback(w.attempt(id).ID, nip90.Success, ""))
				w.pass(60 * time.Second)
			} else {
				w.pass(300 * time.Second)
			}
			if a := w.attempt(id); a.State != guild.Delivered {
				t.Errorf("%s: the attempt is %s: %s", name, a.State, a.Reason)
			}
			if len(w.sent(5)) != 0 {
				t.Errorf("%s: it was taken back", name)
			}
		})
	}
}

func TestMissedFeedbackCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		w.look = func(request nostr.ID) ([]guild.Verified, error) {
			e := feedback(request, nip90.Processing, "half of it")
			e.CreatedAt = nostr.Timestamp(w.began.Unix())
			v, err := guild.Sign(context.Background(), alice.signer, e)
			return []guild.Verified{v}, err
		}
		w.restart()
		id := w.opens(Order{})
		w.pass(359 * time.Second)
		if a := w.attempt(id); a.State != guild.Requested || a.Heard != 1 {
			t.Errorf("%s, %d words heard: the word at 300 s was worth 60 s", a.State, a.Heard)
		}
		w.pass(2 * time.Second)
		if got := w.expired(id); got.Reason != "silent for too long" || got.Silent {
			t.Errorf("%q, silent %t", got.Reason, got.Silent)
		}
	})
}

func TestRepeatedFeedbackGainsNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{})
		e := feedback(w.attempt(id).ID, nip90.Partial, "half of it")
		e.CreatedAt = nostr.Timestamp(time.Now().Unix())
		v, err := guild.Sign(t.Context(), alice.signer, e)
		if err != nil {
			t.Fatal(err)
		}
		for range 7 {
			w.pass(49 * time.Second)
			w.restart()
			if err := w.Observe(t.Context(), v); err != nil && w.attempt(id).State == guild.Requested {
				t.Fatal(err)
			}
		}
		w.wants(id, guild.Expired)
		if a := w.attempt(id); a.Heard != 1 || len(a.Words) != 0 {
			t.Errorf("heard %d times; %d words are kept of who is done", a.Heard, len(a.Words))
		}
	})
}

func TestPatienceLastsWhileRelaysAreSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		var back atomic.Bool
		w.look = func(request nostr.ID) ([]guild.Verified, error) {
			if !back.Load() {
				return nil, errors.New("no relay")
			}
			return w.stored(alice, []byte("the work"))(request)
		}
		w.restart()
		id := w.opens(Order{Timeout: 2 * time.Hour})
		w.pass(time.Hour)
		w.wants(id, guild.Requested)
		back.Store(true)
		w.pass(time.Minute)
		w.wants(id, guild.Delivered)
	})
}

func TestFailedLookEndsAtDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		w.look = func(nostr.ID) ([]guild.Verified, error) { return nil, errors.New("no relay") }
		w.restart()
		id := w.opens(Order{Timeout: 10 * time.Minute})
		w.pass(10 * time.Minute)
		w.ends(id, guild.JobTimedOut)
	})
}

func TestPatienceLastsWhileOffline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		var since atomic.Value
		since.Store(w.began.Add(-time.Hour))
		w.hears = func() time.Time { return since.Load().(time.Time) }
		w.restart()
		id := w.opens(Order{Timeout: 3 * time.Hour})
		w.pass(200 * time.Second)
		since.Store(time.Time{})
		w.pass(time.Hour)
		w.wants(id, guild.Requested)
		since.Store(time.Now())
		w.pass(59 * time.Second)
		w.wants(id, guild.Requested)
		w.pass(time.Minute)
		w.wants(id, guild.Expired)
	})
}

func TestBusyProviderIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1), bob.offers(2))
		id := w.opens(Order{})
		first := w.attempt(id).ID
		w.says(alice, feedback(first, nip90.Error, "at capacity"))
		if a := w.attempt(id); a.Provider.PubKey != bob.key {
			t.Fatal("bob was free")
		}
		w.says(bob, feedback(w.attempt(id).ID, nip90.Error, "no"))
		w.wants(id, guild.Refused, guild.Refused)
		w.ends(id, guild.Open)
		w.pass(60*time.Second - time.Millisecond)
		w.wants(id, guild.Refused, guild.Refused)
		w.pass(time.Millisecond)
		w.wants(id, guild.Refused, guild.Refused, guild.Requested)
		if a := w.attempt(id); a.Provider.PubKey != alice.key || a.ID == first {
			t.Errorf("%v was asked by %v", a.Provider, a.ID)
		}
		w.says(alice, feedback(w.attempt(id).ID, nip90.Error, "busy"))
		w.pass(120*time.Second - time.Millisecond)
		w.wants(id, guild.Refused, guild.Refused, guild.Refused)
		w.pass(time.Millisecond)
		w.delivers(alice, w.attempt(id).ID, []byte("the work"))
		w.judges(id, guild.Success)
		w.ends(id, guild.JobAccepted)
	})
}

func TestPauseAfterDeadlineIsNotAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1))
		id := w.opens(Order{Timeout: 50 * time.Second})
		w.says(alice, feedback(w.attempt(id).ID, nip90.Error, "busy"))
		w.ends(id, guild.JobUnclaimed)
	})
}

func TestBusyProviderIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1))
		id := w.opens(Order{Timeout: 24 * time.Hour})
		for i := range maxBusy {
			a := w.attempt(id)
			if !a.State.Waiting() {
				t.Fatalf("not asked a time %d", i+1)
			}
			w.says(alice, feedback(a.ID, nip90.Error, "overload"))
			w.pass(time.Minute << i)
		}
		w.wants(id, slices.Repeat([]guild.State{guild.Refused}, maxBusy)...)
		job := w.ends(id, guild.JobUnclaimed)
		if want := fmt.Sprintf("refused, overload; no eligible provider among 1 for the task %q: a provider (%.12s…) was asked already (guild job show JOB says how that ended)", "python", nip19.EncodeNpub(alice.key)); job.Reason != want {
			t.Error(job.Reason)
		}
	})
}
