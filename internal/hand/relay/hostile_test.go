package relay_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"
	"github.com/coder/websocket"

	"guild"
	"guild/internal/hand/relay"
)

func TestRejectedMessages(t *testing.T) {
	good := sign(t, 1, nostr.Now(), "good")
	json := good.Event().String()
	forged := sign(t, 1, nostr.Now(), "forged").Event() // one of good would be dropped unseen if good came first
	forged.Sig[5] ^= 1
	other := good.Event()
	other.Content = "bad"
	wrongKind := sign(t, 2, nostr.Now(), "not asked for").Event()
	tests := []struct {
		name    string
		message func(sub string) string
		want    relay.Reason
	}{
		{"bad signature", func(sub string) string { return event(sub, forged) }, relay.BadSignature},
		{"content of another event", func(sub string) string { return event(sub, other) }, relay.WrongID},
		{"kind that was not asked for", func(sub string) string { return event(sub, wrongKind) }, relay.Unsolicited},
		{"subscription that never was", func(string) string { return event("xyz", good.Event()) }, relay.Unsolicited},
		{"10 MB", func(sub string) string {
			big := good.Event()
			big.Content = strings.Repeat("x", 10<<20)
			return event(sub, big)
		}, relay.TooLarge},
		{"deep JSON", func(sub string) string {
			return `["EVENT","` + sub + `",{"x":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}]`
		}, relay.Malformed},
		{"an OK with a million digits", func(string) string {
			return `["OK","` + strings.Repeat("41", 200_000) + `",true,""]`
		}, relay.Malformed},
		{"no JSON", func(string) string { return "hello" }, relay.Malformed},
		{"unknown label", func(string) string { return `["NEVER","1"]` }, relay.Malformed},
		{"a name twice", func(sub string) string {
			return `["EVENT","` + sub + `",` + strings.Replace(json, `{`, `{"kind":1,`, 1) + `]`
		}, relay.Malformed},
		{"kind beyond 16 bits", func(sub string) string {
			return `["EVENT","` + sub + `",` + strings.Replace(json, `"kind":1,`, `"kind":65537,`, 1) + `]`
		}, relay.Malformed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			url := hostile(t, func(p peer) {
				sub := p.await("REQ")
				p.say(test.message(sub))
				p.event(sub, good.Event()) // must not be masked by what came before
				p.drain()
			})
			box := newInbox()
			p, _ := run(t, config(box, url))
			p.Subscribe("notes", notes())
			if got := await(t, box.rejects); got != test.want {
				t.Errorf("dropped as %q, want %q", got, test.want)
			}
			if got := box.take(t, 1)[0].Event().Content; got != "good" {
				t.Errorf("received %q", got)
			}
			if s := p.Status()[0]; s.Rejected != 1 || s.Events != 1 || !s.Connected {
				t.Errorf("%+v", s)
			}
		})
	}
}

func event(sub string, e nostr.Event) string { return `["EVENT","` + sub + `",` + e.String() + `]` }

func TestOrderOfEvents(t *testing.T) {
	all := signed(t, 500)
	shuffled := slices.Clone(all)
	for i := range shuffled { // any order but that of created_at
		j := i * 7 % len(shuffled)
		shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
	}
	url := hostile(t, func(p peer) {
		sub := p.await("REQ")
		for _, e := range shuffled {
			p.event(sub, e.Event())
			p.event(sub, e.Event())
		}
		p.drain()
	})
	box := newInbox()
	p, _ := run(t, config(box, url))
	p.Subscribe("notes", notes())
	if got := box.take(t, len(all)); !slices.Equal(contents(got), contents(shuffled)) {
		t.Error("the order has changed")
	}
}

func TestForgeryDoesNotHideEvent(t *testing.T) {
	all := signed(t, 200)
	forger := hostile(t, func(p peer) {
		sub := p.await("REQ")
		for _, e := range all {
			forged := e.Event()
			forged.Sig[0] ^= 1
			p.event(sub, forged)
		}
		p.drain()
	})
	truthful := hostile(t, func(p peer) {
		sub := p.await("REQ")
		for _, e := range all {
			p.event(sub, e.Event())
		}
		p.drain()
	})
	box := newInbox()
	p, _ := run(t, config(box, forger, truthful))
	p.Subscribe("notes", notes())
	got, want := contents(box.take(t, len(all))), contents(all)
	slices.Sort(got) // each event comes from the relay that was first
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Error("events are missing")
	}
}

func TestSlowReceiver(t *testing.T) {
	all := signed(t, 300)
	var slow string
	gate := make(chan struct{})
	slow = hostile(t, func(p peer) {
		sub := p.await("REQ")
		for _, e := range all {
			p.event(sub, e.Event())
		}
		p.drain()
	})
	quick := honest(t)
	c := config(newInbox(), slow, quick)
	first := make(chan struct{}, len(all))
	received := make(chan string, len(all)+1)
	c.Receive = func(_ context.Context, from string, e guild.Verified) {
		if from == slow {
			first <- struct{}{}
			<-gate
		}
		received <- from
	}
	p, _ := run(t, c)
	p.Subscribe("notes", notes())
	await(t, first)
	if _, err := p.Publish(t.Context(), sign(t, 1, nostr.Now(), "quick"), quick); err != nil {
		t.Error(err)
	}
	if from := await(t, received); from != quick {
		t.Errorf("received from %s", from)
	}
	close(gate)
	for range all {
		await(t, received)
	}
}

func TestBrokenFrameReconnects(t *testing.T) {
	e := sign(t, 1, nostr.Now(), "second time")
	var connections atomic.Int32
	url := hostile(t, func(p peer) {
		sub := p.await("REQ")
		if connections.Add(1) == 1 {
			w, _ := p.ws.Writer(p.ctx, websocket.MessageText)
			w.Write([]byte(`["EVENT","` + sub + `",{"id":"`))
			return // CloseNow
		}
		p.event(sub, e.Event())
		p.drain()
	})
	box := newInbox()
	p, _ := run(t, config(box, url))
	p.Subscribe("notes", notes())
	box.take(t, 1)
}

func TestConnectionLostBeforeOK(t *testing.T) {
	url := hostile(t, func(p peer) { p.await("EVENT") })
	p, _ := run(t, config(newInbox()))
	_, err := p.Publish(t.Context(), sign(t, 1, nostr.Now(), "lost"), url)
	if !errors.Is(err, relay.ErrNoRelay) {
		t.Errorf("got %v", err)
	}
}

func TestVisitsAreLimited(t *testing.T) {
	silent := make([]string, 40)
	for i := range silent {
		silent[i] = hostile(t, func(p peer) { p.drain() })
	}
	p, _ := run(t, config(newInbox()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	acks, err := p.Publish(ctx, sign(t, 1, nostr.Now(), "everywhere"), silent...)
	if err == nil || len(acks) != len(silent) {
		t.Fatalf("%d acks, err %v", len(acks), err)
	}
	n := 0
	for _, a := range acks {
		if strings.Contains(a.Message, "other relays are in use") {
			n++
		}
	}
	if n != 8 {
		t.Errorf("%d relays were too many, want 8", n)
	}
	url := honest(t)
	if _, err := p.Publish(t.Context(), sign(t, 1, nostr.Now(), "later"), url); err != nil {
		t.Errorf("no idle relay gave way: %v", err)
	}
}

// world is a relay that the test plays, on a pipe inside a synctest bubble.
func world(t *testing.T, box *inbox, marks *relay.Marks, play func(p peer)) (pool *relay.Pool) {
	c := config(box, "ws://localhost")
	listener := newPiped()
	serve(t, listener, playing(play))
	c.Dial = listener.dial
	c.Watermarks = marks
	pool, _ = run(t, c)
	return pool
}

func TestReconnectBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var times []time.Duration
		began := time.Now()
		c := config(newInbox(), "ws://localhost")
		c.Dial = func(context.Context, string, string) (net.Conn, error) {
			times = append(times, time.Since(began))
			return nil, errors.New("refused")
		}
		_, stop := run(t, c)
		time.Sleep(2 * time.Hour)
		stop()
		if n := len(times); n < 2*60 || n > 8*60 {
			t.Errorf("%d tries in two hours", n)
		}
		for i := 1; i < len(times); i++ {
			if wait, most := times[i]-times[i-1], min(time.Minute, 500*time.Millisecond<<min(i-1, 8)); wait > most {
				t.Errorf("wait %d was %v, more than %v", i, wait, most)
			}
		}
	})
}

func TestBackoffOfDeadRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const silence = 12 * time.Second
		var tries atomic.Int64
		c := config(newInbox(), "ws://localhost")
		c.Dial = func(context.Context, string, string) (net.Conn, error) {
			tries.Add(1)
			time.Sleep(silence)
			return nil, errors.New("no answer")
		}
		_, stop := run(t, c)
		time.Sleep(time.Hour)
		stop()
		time.Sleep(silence) // the last try ends
		if n := tries.Load(); n < 60 || n > 130 {
			t.Errorf("%d tries in an hour", n)
		}
	})
}

func TestBackoffOfShortConnections(t *testing.T) {
	tests := []struct {
		serves      time.Duration
		least, most int // connections in an hour
	}{
		{0, 60, 60 * 3},
		{9 * time.Second, 60, 60 * 3},
		{12 * time.Second, 250, 300},
		{30 * time.Second, 100, 120},
	}
	for _, test := range tests {
		t.Run(test.serves.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var connected atomic.Int64
				listener := newPiped()
				serve(t, listener, playing(func(peer) {
					connected.Add(1)
					time.Sleep(test.serves)
				}))
				c := config(newInbox(), "ws://localhost")
				c.Dial = listener.dial
				_, stop := run(t, c)
				time.Sleep(time.Hour)
				stop()
				time.Sleep(test.serves) // the last connection ends
				if n := int(connected.Load()); n < test.least || n > test.most {
					t.Errorf("%d connections in an hour, not %d to %d", n, test.least, test.most)
				}
			})
		})
	}
}

func TestPingFindsDeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connected := make(chan time.Time, 10)
		mute := &websocket.AcceptOptions{OnPingReceived: func(context.Context, []byte) bool { return false }}
		listener := newPiped()
		serve(t, listener, playingWith(mute, func(p peer) {
			connected <- time.Now()
			p.drain()
		}))
		c := config(newInbox(), "ws://localhost")
		c.Dial = listener.dial
		run(t, c)
		first := <-connected
		second := <-connected
		if d := second.Sub(first); d < 40*time.Second || d > 41*time.Second {
			t.Errorf("given up after %v", d)
		}
	})
}

func TestWatermarkIsNotInFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := nostr.Now()
		tests := []struct {
			at, want nostr.Timestamp
		}{{now - 500, now - 500}, {now - 100, now - 100}, {now - 300, now - 100}, {now + 9999, now}}
		next := make(chan guild.Verified)
		marks := &relay.Marks{}
		box := newInbox()
		p := world(t, box, marks, func(p peer) {
			sub := p.await("REQ")
			p.say(`["EOSE","` + sub + `"]`)
			p.say(`["EOSE","` + p.await("REQ") + `"]`)
			for e := range next {
				p.event(sub, e.Event())
			}
		})
		p.Subscribe("notes", notes())
		for _, test := range tests {
			next <- sign(t, 1, test.at, fmt.Sprint(test.at))
			box.take(t, 1)
			synctest.Wait()
			if got := marks.Get("ws://localhost", "notes"); got != test.want {
				t.Errorf("after an event at %d: mark %d, want %d", test.at-now, got-now, test.want-now)
			}
		}
		close(next)
	})
}

func TestWatermarkMovesWhenCurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		marks := &relay.Marks{}
		box := newInbox()
		now := nostr.Now()
		end := make(chan struct{})
		p := world(t, box, marks, func(p peer) {
			sub := p.await("REQ")
			p.event(sub, sign(t, 1, now-10, "newest").Event())
			<-end
			p.event(sub, sign(t, 1, now-20, "older").Event())
			p.say(`["EOSE","` + sub + `"]`)
			p.say(`["EOSE","` + p.await("REQ") + `"]`)
			p.drain()
		})
		p.Subscribe("notes", notes())
		box.take(t, 1)
		synctest.Wait()
		if got := marks.Get("ws://localhost", "notes"); got != 0 {
			t.Errorf("mark %d in the middle of the stored events", got)
		}
		close(end)
		box.take(t, 1)
		synctest.Wait()
		if got := marks.Get("ws://localhost", "notes"); got != now-10 {
			t.Errorf("mark %d, want %d", got, now-10)
		}
	})
}

func TestIgnoredEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box, now := newInbox(), nostr.Now()
		c := config(box, "ws://localhost")
		c.Ignore = func(e nostr.Event) bool { return e.Content == "for others" }
		c.Watermarks = &relay.Marks{}
		listener := newPiped()
		serve(t, listener, playing(func(p peer) {
			sub := p.await("REQ")
			p.say(`["EOSE","` + sub + `"]`)
			p.say(`["EOSE","` + p.await("REQ") + `"]`)
			forged := sign(t, 1, now-10, "for others").Event()
			forged.Sig[0] ^= 1
			p.event(sub, sign(t, 1, now-20, "for us").Event())
			p.event(sub, forged)
			p.drain()
		}))
		c.Dial = listener.dial
		p, _ := run(t, c)
		p.Subscribe("notes", notes())
		if got := box.take(t, 1)[0].Event().Content; got != "for us" {
			t.Errorf("got %q", got)
		}
		synctest.Wait()
		if len(box.events) != 0 || len(box.rejects) != 0 {
			t.Errorf("%d more events, %d rejected", len(box.events), len(box.rejects))
		}
		if got := c.Watermarks.Get("ws://localhost", "notes"); got != now-10 {
			t.Errorf("mark %d, want that of the ignored event, %d: it would be read again and again", got, now-10)
		}
	})
}

func TestOverlapOfWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		marks := &relay.Marks{}
		marks.Set("ws://localhost", "notes", nostr.Now()-1000)
		asked := make(chan string, 1)
		p := world(t, newInbox(), marks, func(p peer) {
			asked <- string(p.next()[2])
			p.drain()
		})
		p.Subscribe("notes", notes())
		if got, want := <-asked, fmt.Sprintf(`{"kinds":[1],"since":%d}`, nostr.Now()-1000-120); got != want {
			t.Errorf("asked for %s, want %s", got, want)
		}
	})
}

func TestOverlapOfGiftWraps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		marks := &relay.Marks{}
		marks.Set("ws://localhost", "letters", nostr.Now()-1000)
		asked := make(chan string, 1)
		p := world(t, newInbox(), marks, func(p peer) {
			asked <- string(p.next()[2])
			p.drain()
		})
		p.Subscribe("letters", []nostr.Filter{{Kinds: []nostr.Kind{1059}}})
		if got, want := <-asked, fmt.Sprintf(`{"kinds":[1059],"since":%d}`, nostr.Now()-1000-120-2*24*60*60); got != want {
			t.Errorf("asked for %s, want %s", got, want)
		}
	})
}

func TestSecondLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := newInbox()
		p := world(t, box, nil, func(p peer) {
			p.say(`["EOSE","` + p.await("REQ") + `"]`)
			again := p.await("REQ")
			p.event(again, sign(t, 1, nostr.Now(), "in the gap").Event())
			p.say(`["EOSE","` + again + `"]`)
			p.drain()
		})
		p.Subscribe("notes", notes())
		box.take(t, 1)
	})
}

func TestClosedSubscriptionRestarts(t *testing.T) {
	for _, why := range []string{"error: shutting down", "rate-limited: slow down"} {
		synctest.Test(t, func(t *testing.T) {
			box := newInbox()
			began := time.Now()
			p := world(t, box, nil, func(p peer) {
				for range 6 {
					p.say(`["CLOSED","` + p.await("REQ") + `","` + why + `"]`)
				}
				p.event(p.await("REQ"), sign(t, 1, nostr.Now(), "at last").Event())
				p.drain()
			})
			p.Subscribe("notes", notes())
			box.take(t, 1)
			if d := time.Since(began); d < time.Second || d > 64*time.Second {
				t.Errorf("six refusals took %v", d)
			}
			if s := p.Status()[0]; !strings.Contains(s.LastError, why) || !s.Connected {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestSilentRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := world(t, newInbox(), nil, func(p peer) { p.drain() })
		began := time.Now()
		_, err := p.Publish(t.Context(), sign(t, 1, nostr.Now(), "hello?"))
		if !errors.Is(err, relay.ErrNoRelay) || time.Since(began) != 10*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		began = time.Now()
		if _, err := p.Query(t.Context(), notes()); err == nil || time.Since(began) != 10*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

func TestIdleVisitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := newPiped()
		serve(t, listener, playing(func(p peer) {
			for m := p.next(); m != nil; m = p.next() {
				p.say(`["OK","` + eventID(m[1]) + `",true,""]`)
			}
		}))
		c := config(newInbox())
		c.Dial = listener.dial
		p, _ := run(t, c)
		if _, err := p.Publish(t.Context(), sign(t, 1, nostr.Now(), "hello"), "ws://localhost"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Second)
		if n := len(p.Status()); n != 1 {
			t.Errorf("%d relays after 50 s", n)
		}
		time.Sleep(time.Minute)
		if n := len(p.Status()); n != 0 {
			t.Errorf("%d relays after two minutes", n)
		}
	})
}

// TestFloodIsReadAgain fills the queue while Receive blocks. The events that are dropped then must be asked for again.
func TestFloodIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := make([]guild.Verified, 200)
		for i := range all {
			all[i] = sign(t, 1, nostr.Now(), fmt.Sprint(i, strings.Repeat(" ", 50_000)))
		}
		flood := func(p peer) {
			sub := p.await("REQ")
			for _, e := range all {
				p.event(sub, e.Event())
			}
			p.say(`["NOTICE","all sent"]`)
			sub = p.await("REQ")
			for _, e := range all {
				p.event(sub, e.Event())
			}
			p.drain()
		}
		gate := make(chan struct{})
		box := newInbox()
		c := config(box, "ws://localhost")
		listener := newPiped()
		serve(t, listener, playing(flood))
		c.Dial = listener.dial
		c.Receive = func(ctx context.Context, from string, e guild.Verified) { <-gate; box.receive(ctx, from, e) }
		p, _ := run(t, c)
		p.Subscribe("notes", notes())
		time.Sleep(30 * time.Second)
		close(gate)
		got := box.take(t, len(all))
		seen := make(map[nostr.ID]bool)
		for _, e := range got {
			seen[e.Event().ID] = true
		}
		if len(seen) != len(all) {
			t.Errorf("%d of %d events", len(seen), len(all))
		}
	})
}
