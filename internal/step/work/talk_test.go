package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/journal/fact"
	"guild/nip90"
)

// words lists the texts that a customer was told of a request, and their times since the world began.
func (w *world) words(id nostr.ID) (texts []string, at []time.Duration) {
	w.Helper()
	for _, f := range w.told(customer, id) {
		texts = append(texts, f.Text+f.Content)
	}
	for _, p := range w.sent(nip90.KindFeedback, id) {
		at = append(at, p.at)
	}
	return texts, at
}

// wantPatience wants the messages on a request, from one time to another, to be less than a minute apart, and heartbeats
// to be more than 30 s after the message before.
func (w *world) wantPatience(id nostr.ID, from, to time.Duration) {
	w.Helper()
	texts, at := w.words(id)
	last := from
	for i, one := range at {
		if one < from {
			continue
		}
		spoken := strings.HasPrefix(texts[i], "working for") || strings.HasPrefix(texts[i], "waiting for")
		if gap := one - last; gap >= time.Minute || gap <= 30*time.Second && last > from && spoken {
			w.Errorf("%q is told at %v, %v after the last", texts[i], one, gap)
		}
		last = one
	}
	if to-last >= time.Minute {
		w.Errorf("nothing is told from %v to %v", last, to)
	}
}

// wantSilence wants nothing to be told of a request for an hour from now on.
func (w *world) wantSilence(id nostr.ID) {
	w.Helper()
	before, _ := w.words(id)
	w.pass(time.Hour)
	if texts, at := w.words(id); len(texts) != len(before) {
		w.Errorf("told %q at %v", texts[len(before):], at[len(before):])
	}
}

func TestHeartbeatOfSilentWorker(t *testing.T) {
	for _, c := range []struct {
		name  string
		do    func(context.Context, Assignment) error
		until time.Duration
	}{
		{"that delivers", (&runs{takes: 12 * time.Minute}).do, 12 * time.Minute},
		{"that fails", func(context.Context, Assignment) error { time.Sleep(3 * time.Minute); return errors.New("no luck") }, 3 * time.Minute},
		{"that is stuck", (&runs{takes: 100 * time.Hour}).do, 30 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, python(c.do))
				id := w.asks(customer, task(t, bundle(t, nil)))
				w.pass(c.until + time.Second)
				w.wantPatience(id, 0, c.until)
				texts, _ := w.words(id)
				for _, want := range []string{"working for less than a minute", "working for 1 minute", "working for 2 minutes", fmt.Sprintf("working for %d minutes", int(c.until.Minutes())-1)} {
					if !slices.Contains(texts, want) {
						t.Errorf("told %q, want %q too", texts, want)
					}
				}
				if r, _ := w.Work.fold.request(id); r.Ending == "" {
					t.Errorf("it is not finished after %v", c.until)
				}
				w.wantSilence(id)
			})
		})
	}
}

func TestNoHeartbeatForTalkingWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(func(ctx context.Context, a Assignment) error {
			for n := range 20 {
				a.Say(fmt.Sprint("step ", n))
				time.Sleep(20 * time.Second)
			}
			return echo(ctx, a)
		}))
		id := w.asks(customer, task(t, bundle(t, nil)))
		w.pass(7 * time.Minute)
		texts, _ := w.words(id)
		if len(texts) != 21 || slices.ContainsFunc(texts, func(text string) bool { return strings.HasPrefix(text, "working") }) {
			t.Errorf("told %q", texts)
		}
	})
}

func TestHeartbeatOfQueuedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := python((&runs{takes: 10 * time.Minute}).do)
		s.Slots = 1
		w := newWorld(t, s)
		first, second, again := task(t, bundle(t, nil)), task(t, bundle(t, nil)), task(t, bundle(t, nil))
		first.Set(nip90.ParamIdempotencyKey, "one")
		again.Set(nip90.ParamIdempotencyKey, "one")
		second.Job, again.Job = "job-2", "job-3"
		w.asks(customer, first)
		waits, repeats := w.asks(customer, second), w.asks(customer, again)
		w.pass(20*time.Minute + time.Second)
		w.wantPatience(waits, 0, 10*time.Minute)
		w.wantPatience(waits, 10*time.Minute, 20*time.Minute)
		w.wantPatience(repeats, 0, 10*time.Minute)
		texts, _ := w.words(waits)
		for _, want := range []string{"waiting for its turn for less than a minute", "waiting for its turn for 9 minutes", "queue 0, idle 0", "working for 9 minutes"} {
			if !slices.ContainsFunc(texts, func(text string) bool { return strings.HasPrefix(text, want) }) {
				t.Errorf("told %q, want %q too", texts, want)
			}
		}
		if texts, _ := w.words(repeats); !slices.Contains(texts, "working for 9 minutes") {
			t.Errorf("of the one that repeats it was told %q", texts)
		}
		w.wantSilence(waits)
		w.wantSilence(repeats)
	})
}

func TestNoHeartbeatWhilePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := python((&runs{takes: 20 * time.Minute}).do)
		s.Slots = 1
		w := newWorld(t, s)
		first, second := task(t, bundle(t, nil)), task(t, bundle(t, nil))
		second.Job = "job-2"
		runs, waits := w.asks(customer, first), w.asks(customer, second)
		if err := w.Pause(t.Context(), "python", false); err != nil {
			t.Fatal(err)
		}
		w.pass(10 * time.Minute)
		if texts, _ := w.words(waits); len(texts) > 0 {
			t.Errorf("of what waits in a paused service it was told %q", texts)
		}
		w.wantPatience(runs, 0, 10*time.Minute)
		if err := w.Resume(t.Context(), "python"); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		w.wantPatience(waits, 10*time.Minute, 11*time.Minute)
		for _, id := range []nostr.ID{runs, waits} {
			if _, err := w.says(customer, nostr.Event{Kind: 5, Tags: nostr.Tags{{"e", id.Hex()}}}); err != nil {
				t.Fatal(err)
			}
		}
		w.wantSilence(runs)
		w.wantSilence(waits)
	})
}

func TestHeartbeatIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python((&runs{takes: 5 * time.Minute}).do))
		id := w.asks(customer, task(t, bundle(t, nil)))
		w.pass(30 * time.Second)
		w.setDeaf(true)
		w.pass(10 * time.Second)
		tried, _ := w.words(id)
		w.setDeaf(false)
		w.pass(10 * time.Second)
		if again, at := w.words(id); len(tried) != 2 || len(again) != 3 || at[2] > 50*time.Second {
			t.Errorf("told %q at %v", again, at)
		}
	})
}

func TestHeartbeatAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python((&runs{takes: 10 * time.Minute}).do))
		id := w.asks(customer, task(t, bundle(t, nil)))
		w.pass(4 * time.Minute)
		w.restart()
		w.pass(10*time.Minute + time.Second)
		w.wantPatience(id, 4*time.Minute+2*time.Second, 14*time.Minute)
		w.wantSilence(id)
	})
}

// asking is money that is asked for, and arrives only for the requests that are paid.
type asking struct {
	Money
	paid *sync.Map
}

func (asking) Takes(string) bool { return true }

func (m asking) Funded(request nostr.ID) bool {
	if m.paid == nil {
		return false
	}
	_, paid := m.paid.Load(request)
	return paid
}

func (asking) Quote(context.Context, fact.RequestReceived, time.Time, uint64, string, bool) (terms, invoice string, err error) {
	return "creqA", "", nil
}

func TestHeartbeatOfUnpaidRequest(t *testing.T) {
	s := python((&runs{}).do)
	s.Price, s.Unit = 5_000_000, "sat"
	now := time.UnixMilli(1_700_000_000_000)
	r := request{ID: nostr.ID{1}, At: now.Add(-9 * time.Minute).UnixMilli(), Service: "python", Received: &fact.RequestReceived{Deadline: now.Add(time.Hour).UnixMilli()}}
	w := New(Config{Services: []Service{s}, Money: asking{}}, NewFold())
	if text := w.progress(r, now); text != "waiting for its payment for 9 minutes" {
		t.Errorf("told %q", text)
	}
}
