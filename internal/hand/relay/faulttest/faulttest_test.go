package faulttest_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"github.com/coder/websocket"

	"guild"
	"guild/internal/hand/key"
	"guild/internal/hand/relay/faulttest"
	"guild/internal/hand/relayd"
)

var alice = key.NewSigner(key.NewSecret(nostr.SecretKey{1}))

// honest runs a real relay until the test ends.
func honest(t *testing.T) (url string) {
	t.Helper()
	r, err := relayd.Open(relayd.Config{Dir: t.TempDir(), Addr: "127.0.0.1:0", Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return r.URL()
}

func event(t *testing.T, kind nostr.Kind, content string) nostr.Event {
	t.Helper()
	v, err := guild.Sign(t.Context(), alice, nostr.Event{Kind: kind, CreatedAt: nostr.Now(), Content: content, Tags: nostr.Tags{{"p", strings.Repeat("ab", 32)}}})
	if err != nil {
		t.Fatal(err)
	}
	return v.Event()
}

// client speaks to a relay message by message.
type client struct {
	t  *testing.T
	ws *websocket.Conn
}

func dial(t *testing.T, url string) client {
	t.Helper()
	ws, _, err := websocket.Dial(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(4 << 20)
	t.Cleanup(func() { ws.CloseNow() })
	return client{t, ws}
}

// heard is a message, or the end of the connection.
type heard struct {
	label string // "" if it is not a message of NIP-01
	parts []json.RawMessage
	err   error
}

func (h heard) event() (e nostr.Event) {
	json.Unmarshal(h.parts[2], &e)
	return e
}

func (h heard) ok() (id nostr.ID, ok bool) {
	json.Unmarshal(h.parts[1], &id)
	return id, string(h.parts[2]) == "true"
}

func (c client) next() (h heard) {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	_, text, err := c.ws.Read(ctx)
	if err != nil {
		return heard{err: err}
	}
	if json.Unmarshal(text, &h.parts) == nil && len(h.parts) > 1 {
		json.Unmarshal(h.parts[0], &h.label)
	}
	return h
}

// ask sends a message and returns the answers up to one with a label, or the end of the connection.
func (c client) ask(until string, parts ...any) (all []heard) {
	c.t.Helper()
	text, err := json.Marshal(parts)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.ws.Write(c.t.Context(), websocket.MessageText, text); err != nil {
		c.t.Fatal(err)
	}
	for {
		h := c.next()
		all = append(all, h)
		if h.label == until || h.err != nil {
			return all
		}
	}
}

// publish returns the relay's answer to an event.
func (c client) publish(e nostr.Event) (ok bool) {
	c.t.Helper()
	all := c.ask("OK", "EVENT", e)
	id, ok := all[len(all)-1].ok()
	if id != e.ID {
		c.t.Errorf("an OK for %s", id)
	}
	return ok
}

// query returns the events of an answer to a REQ.
func (c client) query(filter string) (events []nostr.Event) {
	c.t.Helper()
	for _, h := range c.ask("EOSE", "REQ", "sub", json.RawMessage(filter)) {
		if h.label == "EVENT" {
			events = append(events, h.event())
		}
	}
	return events
}

func (c client) has(e nostr.Event) bool {
	c.t.Helper()
	return len(c.query(`{"ids":["`+e.ID.Hex()+`"]}`)) > 0
}

// TestEachFaultIsCommitted sets each fault alone, with probability 1.
func TestEachFaultIsCommitted(t *testing.T) {
	genuine := func(e nostr.Event) bool { _, err := guild.Verify(e); return err == nil }
	tests := map[faulttest.Fault]func(t *testing.T, c, real client){
		faulttest.Drop: func(t *testing.T, c, real client) {
			e := event(t, 1, "lost")
			text, _ := json.Marshal([]any{"EVENT", e})
			c.ws.Write(t.Context(), websocket.MessageText, text)
			c.ws.Ping(c.ws.CloseRead(t.Context())) // it was read before the ping
			if real.has(e) {
				t.Error("the event has arrived")
			}
		},
		faulttest.Delay:   func(t *testing.T, c, real client) { checkTaken(t, c, real) },
		faulttest.Reorder: func(t *testing.T, c, real client) { checkTaken(t, c, real) },
		faulttest.Duplicate: func(t *testing.T, c, real client) {
			e := event(t, 1, "twice")
			c.publish(e)
			if id, ok := c.next().ok(); id != e.ID || !ok {
				t.Error("the OK comes once")
			}
		},
		faulttest.Forge: func(t *testing.T, c, real client) {
			real.publish(event(t, 1, "true"))
			got := c.query(`{"kinds":[1]}`)
			if len(got) != 4 || slices.ContainsFunc(got[:3], genuine) || !genuine(got[3]) {
				t.Errorf("%d events", len(got))
			}
		},
		faulttest.Strangers: func(t *testing.T, c, real client) {
			c.publish(event(t, 5000, "a request"))
			got := real.query(`{"kinds":[5,6000,7000]}`)
			for _, e := range got {
				if e.PubKey == (nostr.SecretKey{1}).Public() || !genuine(e) {
					t.Errorf("not a stranger's: %s", e)
				}
			}
			if len(got) != 4 {
				t.Errorf("strangers published %d events", len(got))
			}
		},
		faulttest.Unasked: func(t *testing.T, c, real client) {
			c.publish(event(t, 1, "another"))
			real.publish(event(t, 2, "this"))
			if got := c.query(`{"kinds":[2]}`); len(got) != 2 || got[0].Content != "another" {
				t.Errorf("got %v", got)
			}
		},
		faulttest.Ignore: func(t *testing.T, c, real client) {
			real.publish(event(t, 1, "first"))
			real.publish(event(t, 1, "second"))
			if got := c.query(`{"kinds":[1],"limit":1,"since":1,"until":5}`); len(got) != 2 {
				t.Errorf("%d events", len(got))
			}
		},
		faulttest.Withhold: func(t *testing.T, c, real client) {
			real.publish(event(t, 1, "stored"))
			if got := c.query(`{"kinds":[1]}`); len(got) != 0 {
				t.Errorf("%d events", len(got))
			}
		},
		faulttest.Refuse:  func(t *testing.T, c, real client) { checkAnswered(t, c, real, false, false) },
		faulttest.Deny:    func(t *testing.T, c, real client) { checkAnswered(t, c, real, false, true) },
		faulttest.Pretend: func(t *testing.T, c, real client) { checkAnswered(t, c, real, true, false) },
		faulttest.Disconnect: func(t *testing.T, c, real client) {
			if all := c.ask("OK", "EVENT", event(t, 1, "")); all[len(all)-1].err == nil {
				t.Error("the connection goes on")
			}
		},
		faulttest.Cut: func(t *testing.T, c, real client) {
			all := c.ask("OK", "EVENT", event(t, 1, ""))
			if err := all[len(all)-1].err; err == nil || !strings.Contains(err.Error(), "payload") {
				t.Errorf("the message was not cut: %v", err)
			}
		},
		faulttest.Auth: func(t *testing.T, c, real client) {
			all := c.ask("OK", "EVENT", event(t, 1, "before"))
			if _, ok := all[len(all)-1].ok(); ok || all[0].label != "AUTH" {
				t.Fatalf("it was taken from nobody: %v", all)
			}
			var challenge string
			json.Unmarshal(all[0].parts[1], &challenge)
			v, err := guild.Sign(t.Context(), alice, nostr.Event{Kind: 22242, CreatedAt: nostr.Now(), Tags: nostr.Tags{{"challenge", challenge}}})
			if err != nil {
				t.Fatal(err)
			}
			c.ask("OK", "AUTH", v.Event())
			checkTaken(t, c, real)
		},
		faulttest.Garbage: func(t *testing.T, c, real client) {
			if all := c.ask("OK", "EVENT", event(t, 1, "")); len(all) != 2 {
				t.Errorf("%d messages", len(all))
			}
		},
	}
	for _, fault := range faulttest.All() {
		t.Run(string(fault), func(t *testing.T) {
			url := honest(t)
			r := faulttest.Start(t, url, 1)
			r.Set(faulttest.Mix{fault: 1})
			try, ok := tests[fault]
			if !ok {
				t.Fatal("it is not tried")
			}
			try(t, dial(t, r.URL()), dial(t, url))
			if done := r.Committed(); len(done) != 1 || done[fault] == 0 {
				t.Errorf("committed: %v", done)
			}
		})
	}
}

func checkTaken(t *testing.T, c, real client) {
	t.Helper()
	checkAnswered(t, c, real, true, true)
}

// checkAnswered publishes an event and compares the answer with the stored state.
func checkAnswered(t *testing.T, c, real client, said, stored bool) {
	t.Helper()
	e := event(t, 1, "an event")
	if ok := c.publish(e); ok != said {
		t.Errorf("the relay says %v", ok)
	}
	if has := real.has(e); has != stored {
		t.Errorf("the event is stored: %v", has)
	}
}

func TestWithoutFaultsEverythingIsPassedOn(t *testing.T) {
	url := honest(t)
	c, real := dial(t, faulttest.Start(t, url, 1).URL()), dial(t, url)
	checkTaken(t, c, real)
	if got := c.query(`{"kinds":[1]}`); len(got) != 1 {
		t.Errorf("%d events", len(got))
	}
}

func TestSameSeedSameDecisions(t *testing.T) {
	decide := func(seed uint64) (said string) {
		r := faulttest.Start(t, honest(t), seed)
		r.Set(faulttest.Mix{faulttest.Refuse: 0.5})
		c := dial(t, r.URL())
		for range 40 {
			if c.publish(event(t, 1, "again")) {
				said += "1"
			} else {
				said += "0"
			}
		}
		return said
	}
	first := decide(7)
	if again := decide(7); again != first {
		t.Errorf("%s, then %s", first, again)
	}
	if other := decide(8); other == first {
		t.Errorf("another seed says %s too", other)
	}
}
