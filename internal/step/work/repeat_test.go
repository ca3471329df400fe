package work

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild/nip90"
)

// once returns a request with an idempotency key.
func once(t *testing.T, job, key string) nip90.Request {
	r := task(t, bundle(t, []byte("hello")))
	r.Job = job
	r.Set(nip90.ParamIdempotencyKey, key)
	return r
}

func TestRepetitionGetsDelivery(t *testing.T) {
	for name, sealed := range map[string]bool{"in clear": false, "encrypted": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				worker := &runs{takes: time.Minute}
				w := newWorld(t, python(worker.do))
				send := w.sends
				if sealed {
					send = w.sendsSealed
				}
				ask := func(job string) nostr.ID {
					t.Helper()
					id, err := send(customer, once(t, job, "k1"))
					if err != nil {
						t.Fatal(err)
					}
					return id
				}
				first := ask("first")
				w.pass(time.Second)
				meanwhile := ask("meanwhile")
				w.pass(time.Hour)
				w.restart()
				after := ask("after")
				w.pass(time.Hour)
				want, err := w.opened(customer, first).ReadFile("delivery/artifacts/out.txt")
				if err != nil {
					t.Fatal(err)
				}
				for _, id := range []nostr.ID{meanwhile, after} {
					got, err := w.opened(customer, id).ReadFile("delivery/artifacts/out.txt")
					if err != nil || string(got) != string(want) {
						t.Errorf("%q, %v", got, err)
					}
					if e := w.sent(6000, id); len(e) != 1 || e[0].Tags.Has("encrypted") != sealed || e[0].ID == w.sent(6000, first)[0].ID {
						t.Errorf("%d results: %v", len(e), e)
					}
				}
				if st := w.Services()[0]; len(worker.list()) != 1 || st.Delivered != 1 || len(w.fold.pending()) != 0 {
					t.Errorf("done %d times, %+v", len(worker.list()), st)
				}
			})
		})
	}
}

func TestKeyBelongsToCustomer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worker := &runs{}
		w := newWorld(t, python(worker.do))
		w.asks(customer, once(t, "a", "k1"))
		w.asks(mallory, once(t, "a", "k1"))
		w.asks(customer, once(t, "b", "k2"))
		w.asks(customer, task(t, bundle(t, nil)))
		w.asks(customer, once(t, "c", ""))
		if n := len(worker.list()); n != 5 {
			t.Errorf("%d were done", n)
		}
	})
}

func TestFailedRequestIsDoneAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, fails := 0, true
		w := newWorld(t, python(func(ctx context.Context, a Assignment) error {
			if tries++; fails {
				return errors.New("no compiler")
			}
			return echo(ctx, a)
		}))
		id := w.asks(customer, once(t, "first", "k1"))
		w.wantError(id, "no compiler")
		fails = false
		again := w.asks(customer, once(t, "second", "k1"))
		w.opened(customer, again)
		w.restart()
		w.opened(customer, w.asks(customer, once(t, "third", "k1")))
		if tries != 2 {
			t.Errorf("%d tries", tries)
		}
	})
}

func TestRepetitionOfWithdrawnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worker := &runs{takes: time.Hour}
		w := newWorld(t, python(worker.do))
		first := w.asks(customer, once(t, "first", "k1"))
		second := w.asks(customer, once(t, "second", "k1"))
		if _, err := w.says(customer, nostr.Event{Kind: 5, Tags: nostr.Tags{{"e", first.Hex()}}}); err != nil {
			t.Fatal(err)
		}
		w.wantError(second, "the request "+first.Hex()[:8]+", which it repeats, was taken back")
		w.asks(customer, once(t, "third", "k1"))
		if n := len(worker.list()); n != 2 {
			t.Errorf("%d were begun", n)
		}
	})
}

func TestRepetitionGetsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := python((&runs{takes: time.Hour}).do)
		s.Limit = time.Minute
		w := newWorld(t, s)
		w.asks(customer, once(t, "first", "k1"))
		second := w.asks(customer, once(t, "second", "k1"))
		w.pass(2 * time.Minute)
		w.wantError(second, "the worker ran over its 1m0s")
	})
}

func TestEncryptedRepetitionOfClearRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(echo))
		w.asks(customer, once(t, "first", "k1"))
		second, err := w.sendsSealed(customer, once(t, "second", "k1"))
		if err != nil {
			t.Fatal(err)
		}
		told := w.told(customer, second)
		if len(told) != 1 || told[0].Encrypted == "" || !strings.Contains(told[0].Text, "which it repeats, was in clear") || len(w.sent(6000, second)) != 0 {
			t.Errorf("told %+v", told)
		}
	})
}

func TestReaddressedAnswer(t *testing.T) {
	to := nostr.Event{ID: nostr.ID{2}, Kind: 5000, Content: "second"}
	e := readdressed(nostr.Event{Kind: 6000, Content: "done", Tags: nostr.Tags{
		{"e", nostr.ID{1}.Hex()}, {"p", customer.key.Hex()}, {"request", `{"content":"first"}`}, {"amount", "7"}}}, to)
	if e.Tags.FindWithValue("e", to.ID.Hex()) == nil || !strings.Contains(e.Tags.Find("request")[1], "second") ||
		e.Tags.FindWithValue("amount", "7") == nil || e.Content != "done" || e.Kind != 6000 {
		t.Errorf("%v", e)
	}
}
