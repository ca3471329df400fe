package relayd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"fiatjaf.com/nostr"
)

func TestFilterSemantics(t *testing.T) {
	r, _ := start(t, testConfig(t))
	p, alice, bob := connect(t, r), testKeys[0], testKeys[1]
	a := sign(t, alice, nostr.Event{Kind: 1, CreatedAt: 10, Content: "a", Tags: nostr.Tags{{"t", "x"}, {"e", zeros}}})
	b := sign(t, alice, nostr.Event{Kind: 2, CreatedAt: 20, Content: "b", Tags: nostr.Tags{{"t", "y", "x"}, {"t", "z"}, {"T", "x"}}})
	c := sign(t, bob, nostr.Event{Kind: 1, CreatedAt: 30, Content: "c", Tags: nostr.Tags{{"t"}, {"long", "x"}, {}}})
	d := sign(t, bob, nostr.Event{Kind: 2, CreatedAt: 40, Content: "d", Tags: nostr.Tags{{"t", ""}, {"t", "x"}}})
	p.mustPublish(b, d, a, c)
	id := func(e nostr.Event) string { return `"` + e.ID.Hex() + `"` }
	by := func(key nostr.SecretKey) string { return `"` + nostr.GetPublicKey(key).Hex() + `"` }
	for filter, want := range map[string]string{
		`{}`:                                    "dcba",
		`{"limit":2}`:                           "dc",
		`{"limit":0}`:                           "",
		`{"since":20}`:                          "dcb",
		`{"until":20}`:                          "ba",
		`{"since":20,"until":30}`:               "cb",
		`{"since":30,"until":20}`:               "",
		`{"until":0}`:                           "",
		`{"kinds":[1]}`:                         "ca",
		`{"kinds":[2,1,1]}`:                     "dcba",
		`{"kinds":[]}`:                          "",
		`{"kinds":[3]}`:                         "",
		`{"kinds":null}`:                        "dcba",
		`{"authors":[` + by(bob) + `]}`:         "dc",
		`{"ids":[` + id(a) + `,` + id(d) + `]}`: "da",
		`{"ids":[` + id(a) + `],"kinds":[2]}`:   "",
		`{"ids":["` + zeros + `"]}`:             "",
		`{"#t":["x"]}`:                          "da",
		`{"#t":["x","z"]}`:                      "dba",
		`{"#t":[""]}`:                           "d",
		`{"#t":[]}`:                             "",
		`{"#T":["x"]}`:                          "b",
		`{"#t":["x"],"#e":["` + zeros + `"]}`:   "a",
		`{"#t":["x"],"authors":[` + by(bob) + `],"kinds":[2],"since":40,"until":40,"limit":9}`: "d",
		`{"kinds":[1],"limit":1},{"kinds":[2],"limit":1}`:                                      "cd",
		`{"kinds":[1]},{"authors":[` + by(alice) + `]}`:                                        "cab",
	} {
		if got := strings.Join(p.stored(filter), ""); got != want {
			t.Errorf("%s: got %q, want %q", filter, got, want)
		}
	}
}

func TestDeletionByAddress(t *testing.T) {
	r, _ := start(t, testConfig(t))
	p, key := connect(t, r), testKeys[0]
	author := nostr.GetPublicKey(key).Hex()
	version := func(kind nostr.Kind, d string, at nostr.Timestamp) nostr.Event {
		return sign(t, key, nostr.Event{Kind: kind, CreatedAt: at, Content: fmt.Sprint(int(kind), " ", d, " ", int(at)), Tags: nostr.Tags{{"d", d}}})
	}
	p.mustPublish(version(10002, "", 100), version(31990, "", 100), version(31990, "a", 100), version(31990, "b", 300))
	p.mustPublish(sign(t, key, nostr.Event{Kind: 5, CreatedAt: 200, Tags: nostr.Tags{
		{"a", "10002:" + author + ":"}, {"a", "31990:" + author + ":"}, {"a", "31990:" + author + ":a"}, {"a", "31990:" + author + ":b"},
		{"a", "31990:" + author}, {"a", "70000:" + author + ":"}, {"a", "::"}, {"a"},
	}}))
	if got := p.stored(`{"kinds":[10002,31990]}`); !slices.Equal(got, []string{"31990 b 300"}) {
		t.Errorf("left: %q", got)
	}
	for _, e := range []nostr.Event{version(10002, "", 150), version(31990, "a", 200)} {
		if ok, reason := p.publish(e); ok || !strings.HasPrefix(reason, "blocked:") {
			t.Errorf("%s came after its deletion: %v %q", e.Content, ok, reason)
		}
	}
	p.mustPublish(version(31990, "a", 201))
}

func TestScanEndsWithContext(t *testing.T) {
	s := openTestStore(t)
	for i := range 10 {
		if err := putEvent(t, s, sign(t, testKeys[0], nostr.Event{Kind: 1, Content: fmt.Sprint(i)})); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.page(ctx, nostr.Filter{Kinds: []nostr.Kind{1}, Tags: nostr.TagMap{"t": {"x"}}}, position{}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("page: %v", err)
	}
	if _, err := s.count(ctx, []nostr.Filter{{}}); !errors.Is(err, context.Canceled) {
		t.Errorf("count: %v", err)
	}
}

func TestHeldEventsAreBounded(t *testing.T) {
	cut := 0
	sub := &subscription{send: func([]byte) {}, cut: func() { cut++ }}
	big := make([]byte, maxWaiting/4)
	for i := range 10 {
		sub.deliver(stored{nostr.ID{byte(i)}, big})
		if want := max(0, i-3); cut != want || len(sub.held) > 4 {
			t.Fatalf("after %d: %d held, cut %d times", i+1, len(sub.held), cut)
		}
	}
}
