package relayd

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"github.com/coder/websocket"

	"guild"
)

func TestStoreAndSubscribe(t *testing.T) {
	r, _ := start(t, testConfig(t))
	alice, bob, key := connect(t, r), connect(t, r), nostr.Generate()
	bob.send(`["REQ","live",{"kinds":[5050]},{"kinds":[5050],"limit":0}]`)
	bob.expect("EOSE", "live")
	e := sign(t, key, nostr.Event{Kind: 5050, Content: "<work> & ünïcode \n\"quoted\" \u2028", Tags: nostr.Tags{{"t", "code"}}})
	alice.mustPublish(e)
	got := decodeEvent(t, bob.expect("EVENT", "live")[2])
	if _, err := guild.Verify(got); err != nil || got.ID != e.ID || got.Content != e.Content {
		t.Errorf("delivered as %v, %v", got, err)
	}
	if ok, reason := alice.publish(e); !ok || !strings.HasPrefix(reason, "duplicate:") {
		t.Errorf("the second time: %v %q", ok, reason)
	}
	alice.mustPublish(sign(t, key, nostr.Event{Kind: 5051}), sign(t, key, nostr.Event{Kind: 5050, Content: "next"}))
	if next := decodeEvent(t, bob.expect("EVENT")[2]); next.Content != "next" {
		t.Errorf("the next one is %q: a copy or a stranger came through", next.Content)
	}
	bob.send(`["CLOSE","live"]`)
	if got := bob.stored(`{"ids":["` + e.ID.Hex() + `"]}`); len(got) != 1 {
		t.Errorf("by its id: %d events", len(got))
	}
}

func TestInvalidEventsAreRefused(t *testing.T) {
	r, _ := start(t, testConfig(t))
	p, key := connect(t, r), nostr.Generate()
	wrongID := sign(t, key, nostr.Event{Kind: 1, Content: "a"})
	wrongID.Content = "b"
	wrongSig := sign(t, key, nostr.Event{Kind: 1, Content: "c"})
	wrongSig.Sig[10] ^= 1
	for name, e := range map[string]nostr.Event{
		"invalid: event":      wrongID,
		"invalid: the event ": sign(t, key, nostr.Event{Kind: 1, Tags: nostr.Tags{{"expiration", "1700000000"}}}),
		"invalid: a proof":    sign(t, key, nostr.Event{Kind: 22242}),
		"invalid: created":    sign(t, key, nostr.Event{Kind: 1, CreatedAt: -5}),
		"auth-required":       sign(t, key, nostr.Event{Kind: 1, Tags: nostr.Tags{{"-"}}}),
		"invalid: an event":   sign(t, key, nostr.Event{Kind: 1, Content: strings.Repeat("x", 512<<10)}),
	} {
		p.send(`["EVENT",` + encode(t, e) + `]`)
		answer := p.read()
		if answer[0] == "AUTH" {
			answer = p.read()
		}
		if answer[0] != "OK" || answer[2] != "false" || !strings.HasPrefix(answer[3], name) {
			t.Errorf("%s: got %q", name, answer)
		}
	}
	if ok, reason := p.publish(wrongSig); ok || !strings.Contains(reason, "signature") {
		t.Errorf("a bad signature: %v %q", ok, reason)
	}
	if got := p.stored(`{}`); len(got) != 0 {
		t.Errorf("stored: %q", got)
	}
}

func TestReplaceableEvents(t *testing.T) {
	r, _ := start(t, testConfig(t))
	p, key := connect(t, r), nostr.Generate()
	for _, kind := range []nostr.Kind{0, 3, 10002, 31990} {
		version := func(content string, at nostr.Timestamp, d string) nostr.Event {
			return sign(t, key, nostr.Event{Kind: kind, Content: content, CreatedAt: at, Tags: nostr.Tags{{"d", d}}})
		}
		a, b := version("a", 2000, "x"), version("b", 2000, "x")
		low, high := a, b
		if slices.Compare(a.ID[:], b.ID[:]) > 0 {
			low, high = b, a
		}
		p.mustPublish(version("old", 1000, "x"), high, low, high, version("older", 500, "x"))
		filter := fmt.Sprintf(`{"kinds":[%d]}`, kind)
		if got := p.stored(filter); len(got) != 1 || got[0] != low.Content {
			t.Errorf("kind %d: %q stands, want the lowest id of the newest, %q", kind, got, low.Content)
		}
		p.mustPublish(version("other d", 3000, "y"))
		want := 1
		if kind.IsAddressable() {
			want = 2
		}
		if got := p.stored(filter); len(got) != want {
			t.Errorf("kind %d: %q stand after another d", kind, got)
		}
	}
}

func TestReplaceableWithoutD(t *testing.T) {
	r, _ := start(t, testConfig(t))
	p, key := connect(t, r), nostr.Generate()
	for _, d := range []nostr.Tags{nil, {{"d", ""}}, {{"d", strings.Repeat("long", 100)}}} {
		p.mustPublish(
			sign(t, key, nostr.Event{Kind: 31990, Content: "old", CreatedAt: 1000, Tags: d}),
			sign(t, key, nostr.Event{Kind: 31990, Content: "new", CreatedAt: 2000, Tags: d}),
		)
	}
	if got := p.stored(`{"kinds":[31990]}`); slices.Contains(got, "old") {
		t.Errorf("an old version stands: %q", got)
	}
}

func TestDeletionByAuthor(t *testing.T) {
	r, _ := start(t, testConfig(t))
	p, alice, mallory := connect(t, r), nostr.Generate(), nostr.Generate()
	note := sign(t, alice, nostr.Event{Kind: 1, Content: "note", CreatedAt: 1000})
	card := sign(t, alice, nostr.Event{Kind: 31990, Content: "card", CreatedAt: 1000, Tags: nostr.Tags{{"d", "a:b"}}})
	address := "31990:" + nostr.GetPublicKey(alice).Hex() + ":a:b"
	deletion := nostr.Event{Kind: 5, CreatedAt: 2000, Tags: nostr.Tags{{"e", note.ID.Hex()}, {"a", address}, {"e", "nonsense"}, {"a", "x"}, {"e"}}}
	p.mustPublish(note, card, sign(t, mallory, deletion))
	if got := p.stored(`{"kinds":[1,31990]}`); len(got) != 2 {
		t.Fatalf("a stranger deleted: %q left", got)
	}
	own := sign(t, alice, deletion)
	p.mustPublish(own)
	if got := p.stored(`{"kinds":[1,31990]}`); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
	for _, e := range []nostr.Event{note, card} {
		if ok, reason := p.publish(e); ok || !strings.HasPrefix(reason, "blocked:") {
			t.Errorf("kind %d came back: %v %q", e.Kind, ok, reason)
		}
	}
	p.mustPublish(sign(t, alice, nostr.Event{Kind: 31990, Content: "newer", CreatedAt: 3000, Tags: nostr.Tags{{"d", "a:b"}}}))
	p.mustPublish(sign(t, alice, nostr.Event{Kind: 5, Content: "undo", Tags: nostr.Tags{{"e", own.ID.Hex()}}}))
	if got := p.stored(`{"kinds":[5],"authors":["` + nostr.GetPublicKey(alice).Hex() + `"]}`); len(got) != 2 {
		t.Errorf("a deletion was deleted: %q", got)
	}
	if got := p.stored(`{"kinds":[31990]}`); len(got) != 1 || got[0] != "newer" {
		t.Errorf("a version after the deletion: %q", got)
	}
}

func TestExpiredEvents(t *testing.T) {
	var c clock
	config := testConfig(t)
	config.Now = c.now
	r, _ := start(t, config)
	p := connect(t, r)
	soon := fmt.Sprint(time.Now().Add(time.Hour).Unix())
	p.mustPublish(sign(t, nostr.Generate(), nostr.Event{Kind: 1, Content: "brief", Tags: nostr.Tags{{"expiration", soon}}}))
	if got := p.stored(`{"kinds":[1]}`); len(got) != 1 {
		t.Fatalf("before: %q", got)
	}
	c.advance(2 * time.Hour)
	if got := p.stored(`{"kinds":[1]}`); len(got) != 0 {
		t.Errorf("after: %q", got)
	}
	p.send(`["COUNT","c",{"kinds":[1]}]`)
	p.expect("COUNT", "c", `{"count":0}`)
	for want := 1; want >= 0; want-- {
		if n, err := r.store.sweep(r.store.stamp()); n != want || err != nil {
			t.Errorf("swept %d, %v, want %d", n, err, want)
		}
	}
}

func TestEphemeralEvents(t *testing.T) {
	r, _ := start(t, testConfig(t))
	alice, bob := connect(t, r), connect(t, r)
	bob.send(`["REQ","live",{"kinds":[20001]}]`)
	bob.expect("EOSE")
	alice.mustPublish(sign(t, nostr.Generate(), nostr.Event{Kind: 20001, Content: "now"}))
	bob.expect("EVENT", "live")
	if got := alice.stored(`{"kinds":[20001]}`); len(got) != 0 {
		t.Errorf("stored: %q", got)
	}
}

func TestCountOfUnion(t *testing.T) {
	r, _ := start(t, testConfig(t))
	p, key := connect(t, r), nostr.Generate()
	for i := range 7 {
		p.mustPublish(sign(t, key, nostr.Event{Kind: nostr.Kind(1 + i%2), Content: fmt.Sprint(i), Tags: nostr.Tags{{"t", "x"}}}))
	}
	for filters, want := range map[string]string{
		`{"kinds":[1]}`:                        `{"count":4}`,
		`{"kinds":[1],"limit":2}`:              `{"count":4}`,
		`{"kinds":[1]},{"#t":["x"]}`:           `{"count":7}`,
		`{"kinds":[7],"#e":["` + zeros + `"]}`: `{"count":0}`,
	} {
		p.send(`["COUNT","c",` + filters + `]`)
		p.expect("COUNT", "c", want)
	}
}

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

func TestRequiredAuthentication(t *testing.T) {
	config := testConfig(t)
	config.RequireAuth = true
	r, _ := start(t, config)
	p, key := connect(t, r), nostr.Generate()
	challenge := p.expect("AUTH")[1]
	e := sign(t, key, nostr.Event{Kind: 1, Content: "x"})
	p.send(`["EVENT",` + encode(t, e) + `]`)
	p.expect("AUTH", challenge)
	p.expect("OK", e.ID.Hex(), "false", "auth-required:")
	for _, verb := range []string{"REQ", "COUNT"} {
		p.send(`["` + verb + `","q",{}]`)
		p.expect("AUTH", challenge)
		p.expect("CLOSED", "q", "auth-required:")
	}
	proof := func(kind nostr.Kind, challenge, relay string, at nostr.Timestamp) nostr.Event {
		return sign(t, key, nostr.Event{Kind: kind, CreatedAt: at, Tags: nostr.Tags{{"relay", relay}, {"challenge", challenge}}})
	}
	now := nostr.Now()
	forged := proof(22242, challenge, r.URL(), now)
	forged.Sig[0] ^= 1
	for name, bad := range map[string]nostr.Event{
		"another kind":      proof(1, challenge, r.URL(), now),
		"another challenge": proof(22242, "guess", r.URL(), now),
		"another relay":     proof(22242, challenge, "wss://example.com", now),
		"another scheme":    proof(22242, challenge, strings.Replace(r.URL(), "ws", "wss", 1), now),
		"no tags":           sign(t, key, nostr.Event{Kind: 22242, Tags: nostr.Tags{{"challenge"}, {"relay"}}}),
		"old":               proof(22242, challenge, r.URL(), now-3600),
		"forged":            forged,
	} {
		p.send(`["AUTH",` + encode(t, bad) + `]`)
		if answer := p.expect("OK", bad.ID.Hex(), "false"); answer[2] != "false" {
			t.Errorf("%s: accepted", name)
		}
	}
	good := proof(22242, challenge, r.URL()+"/", now)
	p.send(`["AUTH",` + encode(t, good) + `]`)
	p.expect("OK", good.ID.Hex(), "true")
	p.mustPublish(e, sign(t, key, nostr.Event{Kind: 1, Content: "protected", Tags: nostr.Tags{{"-"}}}))
	if got := p.stored(`{}`); len(got) != 2 {
		t.Errorf("stored: %q", got)
	}
}

func TestRelayInformation(t *testing.T) {
	config := testConfig(t)
	config.Name = "test relay"
	r, _ := start(t, config)
	req, err := http.NewRequest("GET", r.HTTP(), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/nostr+json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var doc struct {
		Name       string         `json:"name"`
		NIPs       []int          `json:"supported_nips"`
		Limitation map[string]any `json:"limitation"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	if doc.Name != "test relay" || !slices.Equal(doc.NIPs, []int{1, 9, 11, 40, 42, 45, 70}) || doc.Limitation["auth_required"] != false {
		t.Errorf("document: %+v", doc)
	}
	if kind := resp.Header.Get("Content-Type"); kind != "application/nostr+json" {
		t.Errorf("content type %q", kind)
	}
}

func TestMessagesAreHandledInOrder(t *testing.T) {
	r, _ := start(t, testConfig(t))
	p, key := connect(t, r), nostr.Generate()
	p.send(`["REQ","live",{"kinds":[1]}]`)
	p.expect("EOSE")
	const n = 20
	for i := range n {
		p.send(`["EVENT",` + encode(t, sign(t, key, nostr.Event{Kind: 1, Content: fmt.Sprint(i)})) + `]`)
	}
	for i := range n {
		p.expect("OK")
		if got := decodeEvent(t, p.expect("EVENT")[2]); got.Content != fmt.Sprint(i) {
			t.Fatalf("place %d has %q", i, got.Content)
		}
	}
}

// Events are published while subscriptions come and go. Each must reach each of these exactly once, from the store or live.
func TestEventReachesSubscriptionOnce(t *testing.T) {
	r, _ := start(t, testConfig(t))
	const events, rounds = 60, 10
	key := nostr.Generate()
	publisher := connect(t, r)
	var all sync.WaitGroup
	for range rounds {
		subscriber := connect(t, r)
		all.Go(func() {
			subscriber.send(`["REQ","s",{"kinds":[1]}]`)
			seen := make(map[string]int)
			for len(seen) < events {
				if m := subscriber.read(); m[0] == "EVENT" {
					seen[m[2]]++
				}
			}
			for event, n := range seen {
				if n != 1 {
					t.Errorf("%d times: %.100s", n, event)
				}
			}
		})
	}
	for i := range events {
		publisher.mustPublish(sign(t, key, nostr.Event{Kind: 1, Content: fmt.Sprint(i)}))
	}
	all.Wait()
}

func TestSubscriptionIsReplaced(t *testing.T) {
	r, _ := start(t, testConfig(t))
	p, key := connect(t, r), nostr.Generate()
	p.send(`["REQ","s",{"kinds":[1]}]`)
	p.expect("EOSE", "s")
	p.send(`["REQ","s",{"kinds":[2]}]`)
	p.expect("EOSE", "s")
	p.mustPublish(sign(t, key, nostr.Event{Kind: 1, Content: "old"}))
	p.send(`["EVENT",` + encode(t, sign(t, key, nostr.Event{Kind: 2, Content: "new"})) + `]`)
	p.expect("OK")
	p.expect("EVENT", "s")
}

func TestInvalidMessages(t *testing.T) {
	r, _ := start(t, testConfig(t))
	p := connect(t, r)
	long := strings.Repeat("x", 65)
	many := `{"kinds":[1` + strings.Repeat(`,1`, 1000) + `]}`
	for message, want := range map[string]string{
		``:                                 "NOTICE",
		`{}`:                               "NOTICE",
		`[]`:                               "NOTICE",
		`["EVENT"`:                         "NOTICE",
		`["EVENT"]`:                        "NOTICE",
		`["EVENT",1]`:                      "NOTICE",
		`["EVENT",{"kind":"x"}]`:           "NOTICE",
		`["EVENT",{"tags":[1]}]`:           "NOTICE",
		`["EVENT",{"id":"` + zeros + `"}]`: "OK",
		`["EVENT",{"kind":1,"kind":2}]`:    "NOTICE",
		`["NOPE",1]`:                       "NOTICE",
		`["REQ"]`:                          "NOTICE",
		`["REQ",7,{}]`:                     "NOTICE",
		`["REQ","",{}]`:                    "NOTICE",
		`["REQ","` + long + `",{}]`:        "NOTICE",
		`["REQ","s"]`:                      "CLOSED",
		`["REQ","s",[]]`:                   "CLOSED",
		`["REQ","s",{"kinds":"x"}]`:        "CLOSED",
		`["REQ","s",{"search":"x"}]`:       "CLOSED",
		`["REQ","s",{"#long":["x"]}]`:      "CLOSED",
		`["REQ","s",{"#é":["x"]}]`:         "CLOSED",
		`["REQ","s",{"ids":["abcd"]}]`:     "CLOSED",
		`["REQ","s",{"kinds":[65537]}]`:    "CLOSED",
		`["REQ","s",{"kinds":[1.5]}]`:      "CLOSED",
		`["REQ","s",{"until":"now"}]`:      "CLOSED",
		`["REQ","s",{"authors":["` + strings.Repeat("Aa", 32) + `"]}]`: "CLOSED",
		`["REQ","s",` + many + `]`:                                     "CLOSED",
		`["REQ","s"` + strings.Repeat(`,{}`, 17) + `]`:                 "NOTICE",
		`["REQ","q\"uote",{"#t":[],"ids":null}]`:                       "EOSE",
		`["REQ","neg",{"limit":-5,"since":-1,"until":-1}]`:             "EOSE",
		`["COUNT","s"]`:                      "CLOSED",
		`["AUTH","challenge"]`:               "NOTICE",
		`["AUTH",{}]`:                        "OK",
		`["CLOSE",{}]`:                       "NOTICE",
		"[\"EVENT\",{\"content\":\"\xff\"}]": "NOTICE",
		strings.Repeat("[", 20000):           "NOTICE",
		`["EVENT",{"x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}]`: "NOTICE",
	} {
		p.send(message)
		if got := p.read(); got[0] != want {
			t.Errorf("%.80s: got %.200q, want %s", message, got, want)
		}
	}
	p.mustPublish(sign(t, nostr.Generate(), nostr.Event{Kind: 1}))
}

func TestLimitsOfOneConnection(t *testing.T) {
	r, _ := start(t, testConfig(t))
	p := connect(t, r)
	for i := range maxSubscriptions {
		p.send(fmt.Sprintf(`["REQ","%d",{"kinds":[1]}]`, i))
		p.expect("EOSE")
	}
	p.send(`["REQ","more",{"kinds":[1]}]`)
	p.expect("CLOSED", "more", "blocked:")
	p.send(`["REQ","0",{"kinds":[2]}]`) // replacing is not one more
	p.expect("EOSE", "0")
	for name, send := range map[string]func(*peer) error{
		"ten megabytes": func(p *peer) error {
			return p.conn.Write(t.Context(), websocket.MessageText, make([]byte, 10<<20))
		},
		"a binary message": func(p *peer) error { return p.conn.Write(t.Context(), websocket.MessageBinary, []byte("x")) },
	} {
		bad := connect(t, r)
		send(bad) // may fail: the relay stops reading
		if _, _, err := bad.conn.Read(context.Background()); err == nil {
			t.Errorf("%s: the connection lives on", name)
		}
	}
	p.mustPublish(sign(t, nostr.Generate(), nostr.Event{Kind: 2}))
}

func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		`["EVENT",{"id":"` + zeros + `","tags":[["e","x"]],"kind":5}]`, `["REQ","s",{"#t":["a"],"ids":["` + zeros + `"],"limit":1}]`,
		`["COUNT","s",{"authors":["` + zeros + `"]}]`, `["CLOSE","s"]`, `["AUTH",{"kind":22242}]`, `["REQ","\ud800",{}]`, `[`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseMessage(b)
		if err != nil {
			return
		}
		if e, err := parseEvent(m); err == nil {
			if _, err := e.MarshalJSON(); err != nil {
				t.Errorf("an event that reads does not write: %v", err)
			}
		}
		if req, err := m.request(); err == nil {
			elements(t, sayEvent(eventPrefix(req.id), []byte(`{}`)))
			for _, filter := range req.filters {
				ranges(filter)
			}
		}
	})
}
