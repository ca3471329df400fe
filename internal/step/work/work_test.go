package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold/foldtest"
	"guild/internal/step/steptest"
	"guild/nip90"
)

func TestRequestIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(echo))
		packed := bundle(t, []byte("hello"))
		id := w.asks(customer, task(t, packed))
		w.pass(time.Hour)
		results := w.sent(6000, id)
		if len(results) != 1 || !slices.Equal(results[0].relays, []string{"wss://from.example", "wss://theirs.example"}) {
			t.Fatalf("%d results: %v", len(results), results)
		}
		if results[0].Tags.FindWithValue("p", customer.key.Hex()) == nil {
			t.Error("the result does not name the customer")
		}
		b := w.opened(customer, id)
		if out, err := b.ReadFile("delivery/artifacts/out.txt"); err != nil || string(out) != "hello" {
			t.Errorf("%q, %v", out, err)
		}
		want := []string{"request.received", "effect.claimed", "effect.settled", "request.finished", "effect.claimed", "effect.settled"}
		if got := w.facts(id); !slices.Equal(got, want) {
			t.Errorf("facts %v", got)
		}
		if !w.blobs.Has(guild.Sum(packed)) {
			t.Error("the request's bundle is not kept")
		}
		if s := w.Services()[0]; s.Delivered != 1 || s.Running != 0 || s.Queued != 0 || s.Failed != 0 {
			t.Errorf("%+v", s)
		}
		if left, _ := os.ReadDir(w.c.Scratch); len(left) != 0 {
			t.Errorf("left in scratch: %v", left)
		}
	})
}

func TestPayoutOfARequestIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(echo))
		r := task(t, bundle(t, nil))
		want := nip90.Payout{How: nip90.Escrow, Mixed: 40, Weak: 500_000}
		r.SetPayout(want)
		w.asks(customer, r)
		if all := steptest.Facts[fact.RequestReceived](w); len(all) != 1 || all[0].Payout == nil || *all[0].Payout != want {
			t.Errorf("%+v", all)
		}
	})
}

func TestSameRequestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worker := &runs{}
		w := newWorld(t, python(worker.do))
		r := task(t, bundle(t, nil))
		w.asks(customer, r)
		last := w.Journal.Last()
		w.asks(customer, r)
		w.restart()
		w.asks(customer, r)
		if n := len(worker.list()); n != 1 || w.Journal.Last() != last {
			t.Errorf("done %d times, entry %d after %d", n, w.Journal.Last(), last)
		}
	})
}

func TestForeignRequestsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(echo))
		packed := bundle(t, nil)
		foreign := task(t, packed)
		foreign.Provider = &mallory.key
		_, err := w.sends(customer, foreign)
		steptest.WantDrop(t, err, guild.Misdirected)
		past := task(t, packed)
		past.Set(nip90.ParamDeadline, fmt.Sprint(time.Now().Unix()))
		_, err = w.sends(customer, past)
		steptest.WantDrop(t, err, guild.Late)
		_, err = w.says(customer, nostr.Event{Kind: 5000, CreatedAt: nostr.Timestamp(time.Now().Add(-oldest).Unix()), Tags: nostr.Tags{{"p", us.key.Hex()}}})
		steptest.WantDrop(t, err, guild.Late)
		_, err = w.says(customer, nostr.Event{Kind: 5000, Tags: nostr.Tags{{"bid", "x"}}})
		steptest.WantDrop(t, err, guild.Malformed)
		if w.Journal.Last() != 0 || len(w.published) != 0 {
			t.Errorf("%d entries, %d answers", w.Journal.Last(), len(w.published))
		}
	})
}

func TestRequestWithoutServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, err := w.sends(customer, task(t, bundle(t, nil)))
		steptest.WantDrop(t, err, guild.Misdirected)
	})
}

func TestRefusalIsNoFact(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*nip90.Request)
		want   guild.Reason
		says   string
	}{
		"another task": {func(r *nip90.Request) { r.Set(nip90.ParamJobType, "cobol") }, guild.Misdirected, `this provider does not offer the task "cobol" in kind 5000`},
		"another kind": {func(r *nip90.Request) { r.Kind = 5001 }, guild.Misdirected, `this provider does not offer the task "python" in kind 5001`},
		"no bundle":    {func(r *nip90.Request) { r.Inputs = nil }, guild.Malformed, "there is nothing to do: no input, no content and no bundle"},
		"too large": {func(r *nip90.Request) { r.Content = strings.Repeat("x", 300<<10) }, guild.Malformed,
			"the request is too large: send the bundle by URL"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, python(echo))
				r := task(t, bundle(t, nil))
				c.change(&r)
				id, err := w.sends(customer, r)
				steptest.WantDrop(t, err, c.want)
				w.wantError(id, c.says)
				if w.Journal.Last() != 0 {
					t.Error("a fact was written")
				}
			})
		})
	}
}

func TestEncryptedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(func(ctx context.Context, a Assignment) error {
			a.Say("half way")
			return echo(ctx, a)
		}))
		id, err := w.sendsSealed(customer, task(t, bundle(t, []byte("hello"))))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range append(w.sent(6000, id), w.sent(7000, id)...) {
			if !p.Tags.Has("encrypted") || strings.Contains(p.Content, "delivery") || strings.Contains(p.String(), "half way") {
				t.Errorf("in clear: %s", p)
			}
		}
		if out, err := w.opened(customer, id).ReadFile("delivery/artifacts/out.txt"); err != nil || string(out) != "hello" {
			t.Errorf("%q, %v", out, err)
		}
		if _, err := nip90.ParseResult(w.sent(6000, id)[0].Event, mallory.opener()); err == nil {
			t.Error("a stranger read it")
		}
	})
}

func TestSlotsAndQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worker := &runs{takes: time.Minute}
		s := python(worker.do)
		s.Slots, s.Queue, s.Terms.Each = 2, 3, 5
		w := newWorld(t, s)
		packed := bundle(t, nil)
		ask := func(n int, at time.Duration) (nostr.ID, error) {
			r := task(t, packed)
			r.Job = fmt.Sprint(n)
			e, _ := r.Event()
			e.CreatedAt = nostr.Timestamp(time.Now().Add(at).Unix())
			return w.says(customer, e)
		}
		for n := range 5 { // each claims to be older than the one before
			if _, err := ask(n, -time.Duration(n)*time.Minute); err != nil {
				t.Fatal(err)
			}
			w.pass(time.Second)
		}
		if got := w.Services()[0]; got.Running != 2 || got.Queued != 3 {
			t.Errorf("%d running, %d queued", got.Running, got.Queued)
		}
		id, err := ask(5, 0)
		steptest.WantDrop(t, err, guild.Flood)
		told := w.told(customer, id)
		if len(told) != 1 || !told[0].Busy() {
			t.Errorf("told %v", told)
		}
		w.pass(time.Hour)
		if got := worker.list(); worker.most != 2 || !slices.Equal(got, []string{"0", "1", "2", "3", "4"}) {
			t.Errorf("%d at a time, in the order %v", worker.most, got)
		}
	})
}

func TestWithdrawalWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worker := &runs{takes: time.Minute}
		w := newWorld(t, python(worker.do))
		id := w.asks(customer, task(t, bundle(t, nil)))
		deletion := nostr.Event{Kind: 5, Tags: nostr.Tags{{"e", "x"}, {"e"}, {"e", id.Hex()}, {"k", "5000"}}}
		_, err := w.says(mallory, deletion)
		steptest.WantDrop(t, err, guild.Misdirected)
		if worker.interrupted != 0 {
			t.Fatal("a stranger withdrew it")
		}
		if _, err := w.says(customer, deletion); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Hour)
		if worker.interrupted != 1 || len(worker.list()) != 1 {
			t.Errorf("%d of %d runs interrupted", worker.interrupted, len(worker.list()))
		}
		if len(w.sent(6000, id)) != 0 || w.count(id, "request.finished") != 0 || w.count(id, "request.cancelled") != 1 {
			t.Errorf("facts %v", w.facts(id))
		}
		_, err = w.says(customer, deletion)
		steptest.WantDrop(t, err, guild.Misdirected)
		w.restart()
		if _, err := w.sends(customer, task(t, bundle(t, nil))); err != nil {
			t.Fatal(err)
		}
		if s := w.Services()[0]; s.Running+s.Queued+s.Delivered+s.Failed > 1 {
			t.Errorf("a withdrawn request still counts: %+v", s)
		}
	})
}

func TestWithdrawalWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worker := &runs{takes: time.Minute}
		s := python(worker.do)
		s.Slots = 1
		w := newWorld(t, s)
		first, second := task(t, bundle(t, nil)), task(t, bundle(t, nil))
		second.Job = "job-2"
		w.asks(customer, first)
		id := w.asks(customer, second)
		if _, err := w.says(customer, nostr.Event{Kind: 5, Tags: nostr.Tags{{"e", id.Hex()}}}); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Hour)
		if got := worker.list(); !slices.Equal(got, []string{"job-1"}) {
			t.Errorf("begun: %v", got)
		}
	})
}

func TestFailuresAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		service Service
		change  func(*nip90.Request)
		says    string
	}{
		"the worker's error":  {python(func(context.Context, Assignment) error { return errors.New("no compiler") }), nil, "no compiler"},
		"nothing delivered":   {python(func(context.Context, Assignment) error { return nil }), nil, "the worker left nothing in GUILD_DELIVERY"},
		"the service's limit": {Service{Task: "python", Limit: 10 * time.Minute, Do: (&runs{takes: time.Hour}).do}, nil, "the worker ran over its 10m0s"},
		"the customer's limit": {python((&runs{takes: time.Hour}).do), func(r *nip90.Request) {
			r.Set(nip90.ParamDeadline, fmt.Sprint(time.Now().Add(5*time.Minute).Unix()))
		}, "the worker ran over its 5m0s"},
		"an invalid bundle": {python(echo), func(r *nip90.Request) {
			if err := r.SetBundle(nip90.NewParcel([]byte("NUT"))); err != nil {
				panic(err)
			}
		}, ""},
		"a missing bundle": {python(echo), func(r *nip90.Request) {
			r.SetBundle(nip90.Parcel{Hash: guild.Hash{1}, Size: 5, URL: "https://blob.example/nothing"})
		}, "the bundle: 404"},
		"a bundle that is too large": {python(echo), func(r *nip90.Request) {
			r.SetBundle(nip90.Parcel{Hash: guild.Hash{1}, Size: maxBundle + 1, URL: "https://blob.example/nothing"})
		}, "the bundle: 67108865 bytes are too many"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, c.service)
				r := task(t, bundle(t, nil))
				if c.change != nil {
					c.change(&r)
				}
				id := w.asks(customer, r)
				w.pass(time.Hour)
				told := w.told(customer, id)
				last := told[len(told)-1]
				if last.Status != nip90.Error || c.says != "" && last.Text != c.says || w.count(id, "request.finished") != 1 {
					t.Errorf("told %v, facts %v", told, w.facts(id))
				}
				if s := w.Services()[0]; s.Failed != 1 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

func TestDeadlineWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worker := &runs{takes: 10 * time.Minute}
		s := python(worker.do)
		s.Slots = 1
		w := newWorld(t, s)
		first, second := task(t, bundle(t, nil)), task(t, bundle(t, nil))
		second.Job = "job-2"
		second.Set(nip90.ParamDeadline, fmt.Sprint(time.Now().Add(time.Minute).Unix()))
		w.asks(customer, first)
		id := w.asks(customer, second)
		w.pass(time.Hour)
		if got := worker.list(); !slices.Equal(got, []string{"job-1"}) {
			t.Errorf("begun: %v", got)
		}
		w.wantError(id, "its deadline passed before its turn came")
	})
}

func TestPriceRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worker := &runs{}
		s := python(worker.do)
		s.Price = 21_000
		w := newWorld(t, s)
		id := w.asks(customer, task(t, bundle(t, nil)))
		told := w.told(customer, id)
		if len(told) != 1 || told[0].Status != nip90.PaymentRequired || told[0].Amount != 21_000 || len(worker.list()) != 0 {
			t.Errorf("told %v, %d runs", told, len(worker.list()))
		}
	})
}

func TestAnswerIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(echo))
		w.setDeaf(true)
		id := w.asks(customer, task(t, bundle(t, nil)))
		w.pass(20 * time.Second)
		w.restart()
		w.setDeaf(false)
		w.pass(time.Minute)
		results := w.sent(6000, id)
		for _, p := range results {
			if p.ID != results[0].ID {
				t.Errorf("answered as %s and as %s", results[0].ID, p.ID)
			}
		}
		if len(results) < 3 || w.count(id, "request.finished") != 1 {
			t.Errorf("%d publications", len(results))
		}
		n := len(results)
		w.pass(time.Hour)
		if len(w.sent(6000, id)) != n {
			t.Error("published again after a relay took it")
		}
	})
}

func TestUnsentAnswerIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(echo))
		w.setDeaf(true)
		id := w.asks(customer, task(t, bundle(t, nil)))
		w.pass(time.Hour)
		if n := len(w.sent(6000, id)); n != 8 || w.count(id, "effect.parked") != 1 {
			t.Errorf("%d publications, facts %v", n, w.facts(id))
		}
		if len(w.fold.pending()) != 0 {
			t.Error("it is still pending")
		}
	})
}

func TestRestartDuringWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worker := &runs{takes: time.Minute}
		w := newWorld(t, python(worker.do))
		id := w.asks(customer, task(t, bundle(t, nil)))
		w.pass(30 * time.Second)
		w.restart()
		w.pass(2 * time.Minute)
		if len(worker.list()) != 2 || len(w.sent(6000, id)) != 1 {
			t.Errorf("%d runs, %d results", len(worker.list()), len(w.sent(6000, id)))
		}
	})
}

func TestDeadlyWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worker := &runs{takes: time.Minute}
		w := newWorld(t, python(worker.do))
		id := w.asks(customer, task(t, bundle(t, nil)))
		for range 4 {
			w.pass(time.Second)
			w.restart()
		}
		w.pass(10 * time.Minute)
		if n := len(worker.list()); n != 3 {
			t.Errorf("%d runs", n)
		}
		w.wantError(id, "the node died 3 times at it")
		if len(w.fold.pending()) != 0 || w.Services()[0].Failed != 1 {
			t.Errorf("%+v", w.Services()[0])
		}
	})
}

func TestDrainNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worker := &runs{takes: time.Minute}
		s := python(worker.do)
		s.Slots = 1
		w := newWorld(t, s)
		var ids []nostr.ID
		for n := range 2 {
			r := task(t, bundle(t, nil))
			r.Job = fmt.Sprint(n)
			ids = append(ids, w.asks(customer, r))
		}
		drained := make(chan error, 1)
		go func() {
			grace, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			drained <- w.Drain(grace)
		}()
		w.pass(time.Second)
		late := task(t, bundle(t, nil))
		late.Job = "late"
		id, err := w.sends(customer, late)
		steptest.WantDrop(t, err, guild.Flood)
		if told := w.told(customer, id); len(told) != 1 || !told[0].Busy() {
			t.Errorf("a request while the node closes was told %v", told)
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
		w.pass(0)
		if len(w.sent(6000, ids[0])) != 1 {
			t.Error("what was running was not finished")
		}
		if len(worker.list()) != 1 {
			t.Errorf("begun while closing: %v", worker.list())
		}
		w.wantError(ids[1], "the provider is closing: busy, try again later")
	})
}

func TestDrainInterruptsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python((&runs{takes: time.Hour}).do))
		id := w.asks(customer, task(t, bundle(t, nil)))
		grace, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := w.Drain(grace); err != nil {
			t.Error(err)
		}
		w.pass(0)
		w.wantError(id, "the provider is closing: busy, try again later")
		w.pass(time.Second)
		w.restart()
		if len(w.fold.pending()) != 0 {
			t.Error("it is taken up again after the customer was told")
		}
	})
}

func TestLargeBundles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(echo))
		noise := make([]byte, 2*nip90.MaxInline) // cannot be compressed
		for i, x := 0, uint32(1); i < len(noise); i++ {
			x = x*1664525 + 1013904223
			noise[i] = byte(x >> 24)
		}
		packed := bundle(t, noise)
		w.remote["https://blob.example/bundle"] = packed
		r := task(t, bundle(t, nil))
		if err := r.SetBundle(nip90.Parcel{Hash: guild.Sum(packed), Size: int64(len(packed)), URL: "https://blob.example/bundle", Key: &[32]byte{9}}); err != nil {
			t.Fatal(err)
		}
		id, err := w.sendsSealed(customer, r)
		if err != nil {
			t.Fatal(err)
		}
		out, err := w.opened(customer, id).ReadFile("delivery/artifacts/out.txt")
		if err != nil || string(out) != string(noise) {
			t.Errorf("%d bytes, %v", len(out), err)
		}
	})
}

func TestLinesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(func(ctx context.Context, a Assignment) error {
			for range 10_000 {
				a.Say(strings.Repeat("ü", 3000))
				time.Sleep(time.Millisecond)
			}
			return echo(ctx, a)
		}))
		id := w.asks(customer, task(t, bundle(t, []byte("x"))))
		w.pass(time.Minute)
		told := w.told(customer, id)
		if len(told) < 10 || len(told) > 22 {
			t.Errorf("%d events in 10 seconds", len(told))
		}
		if text := told[1].Content; len(text) > 2000 || told[1].Status != nip90.Partial {
			t.Errorf("%d bytes", len(text))
		}
	})
}

func TestWorkerDirectories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(func(ctx context.Context, a Assignment) error {
			if _, err := os.Stat(filepath.Join(a.Bundle, "files", "in.txt")); err != nil {
				return err
			}
			if filepath.Dir(a.Bundle) != filepath.Dir(a.Delivery) || a.Job != "job-1" || a.Limit != 30*time.Minute {
				return fmt.Errorf("%+v", a)
			}
			return echo(ctx, a)
		}))
		id := w.asks(customer, task(t, bundle(t, []byte("x"))))
		w.opened(customer, id)
	})
}

func TestReplayEqualsLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := python(func(_ context.Context, a Assignment) error { return errors.New("no \xff compiler for " + a.Job) })
		s.Slots = 1
		w := newWorld(t, s)
		for n := range 3 {
			r := task(t, bundle(t, nil))
			r.Job = fmt.Sprint(n)
			w.asks(customer, r)
		}
		w.setDeaf(true)
		r := task(t, bundle(t, nil))
		r.Job = "unanswered"
		w.asks(customer, r)
		w.pass(time.Minute)
		replayed := NewFold()
		for _, e := range w.Entries() {
			replayed.Apply(e)
		}
		if live, again := foldtest.Snapshot(t, w.fold), foldtest.Snapshot(t, replayed); live != again {
			t.Errorf("live   %s\nreplay %s", live, again)
		}
	})
}
