package registry

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"
	"pgregory.net/rapid"

	"guild"
	"guild/nip89"
)

// card returns the card of a service, which must exist.
func (w *world) card(s guild.Service) Card {
	w.Helper()
	c, ok, err := w.Card(w.Context(), s)
	if err != nil || !ok {
		w.Fatalf("no card: %v", err)
	}
	return c
}

// says announces an event of p with exactly these tags and this content.
func (w *world) says(p provider, content string, tags ...nostr.Tag) {
	w.Helper()
	if err := w.observe(p, nostr.Event{Kind: Kind, Tags: tags, Content: content}); err != nil {
		w.Fatal(err)
	}
}

func TestKTags(t *testing.T) { // section 1.2.2
	for _, c := range []struct {
		tag  string
		task string
		kind int
		want float64 // 0 for no offer
	}{
		{"5000", "benchmark-task", 5000, 0.6},         // a generic job request, with performance figures: eligible
		{"benchmark-task", "benchmark-task", 5000, 1}, // named, so with high confidence
		{"5000,5100,5200", "anything", 5000, 0.6},
		{"5000,5100,5200", "anything", 5100, 0.6},
		{"5000,5100,5200", "anything", 5200, 0.6},
		{"5000,5100,5200", "anything", 5300, 0},
		{"compute-*", "compute-benchmark", 5000, 0.8},
		{"compute-*", "computer", 5000, 0},
		{"translate,compute-*", "translate", 5000, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.says(newProvider(1), `{"performance":{"typical_latency_ms":5000}}`, nostr.Tag{"d", "x"}, nostr.Tag{"k", c.tag})
			offers := slices.Collect(w.Offers(c.task, c.kind))
			switch {
			case c.want == 0 && len(offers) != 0:
				t.Errorf("k %q is offered for %s under %d", c.tag, c.task, c.kind)
			case c.want != 0 && (len(offers) != 1 || offers[0].Confidence != c.want):
				t.Errorf("k %q for %s under %d: %+v, want confidence %v", c.tag, c.task, c.kind, offers, c.want)
			}
		})
	}
}

func TestConfirmedKinds(t *testing.T) { // section 1.2.2
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		w.says(alice, `{"supported_kinds":[5000,5200],"capabilities":["x"]}`, nostr.Tag{"d", "a"}, nostr.Tag{"k", "5000"}, nostr.Tag{"k", "5100"}, nostr.Tag{"k", "x"})
		for kind, confirmed := range map[int]bool{5000: true, 5100: false, 5200: false} {
			offers := slices.Collect(w.Offers("x", kind))
			if len(offers) != 1 || offers[0].Confirmed != confirmed || !slices.Equal(offers[0].Kinds, []int{5000, 5100, 5200}) {
				t.Errorf("%d: %+v", kind, offers)
			}
		}
		w.open() // contradictions are kept
		want := []string{"kind 5100 is not in the content", "kind 5200 is not in the tags"}
		if got := w.card(alice.service("a")).Contradictions; !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	})
}

func TestDisplayNames(t *testing.T) { // section 1.2.3
	synctest.Test(t, func(t *testing.T) {
		w, alice, bob := newWorld(t), newProvider(1), newProvider(2)
		w.announces(alice, python("Vision  Pro"))
		time.Sleep(time.Second)
		w.announces(alice, python("vision pro")) // the same, because the canonical spelling is equal
		w.announces(alice, python("speech"))
		w.announces(bob, python("ＶＩＳＩＯＮ pro"))
		w.announces(bob, python(""))
		if w.Len() != 4 {
			t.Fatalf("%d services", w.Len())
		}
		npub := nip19.EncodeNpub(alice.key)
		for _, c := range []struct {
			service guild.Service
			display string
			shared  int
		}{
			{alice.service("speech"), "speech", 0},
			{alice.service("vision pro"), npub[:21] + ":vision pro", 1},
			{bob.service("vision pro"), nip19.EncodeNpub(bob.key)[:21] + ":vision pro", 1},
			{bob.service(""), nip19.EncodeNpub(bob.key)[:21], 0},
		} {
			if got := w.card(c.service); got.Display != c.display || got.Shared != c.shared || got.Service != c.service {
				t.Errorf("%q shown as %q, shared by %d", c.service.D, got.Display, got.Shared)
			}
		}
		if got := w.card(bob.service("vision pro")).D; got != "ＶＩＳＩＯＮ pro" {
			t.Errorf("the original is %q", got)
		}
	})
}

func TestRelayValidation(t *testing.T) { // section 1.2.4
	r := &Registry{own: []string{"wss://10.1.2.3", "ws://192.168.0.9"}}
	for raw, want := range map[string]string{
		"wss://relay.example":                            "wss://relay.example",
		"WSS://Relay.Example:443/":                       "wss://relay.example",
		"wss://relay.example:8443/inbox/":                "wss://relay.example:8443/inbox",
		"ws://127.0.0.1:7447":                            "ws://127.0.0.1:7447",
		"ws://localhost:7447":                            "ws://localhost:7447",
		"ws://relay.example":                             "",
		"https://relay.example":                          "",
		"wss://":                                         "",
		"wss://10.1.2.3":                                 "wss://10.1.2.3",
		"wss://10.1.2.4":                                 "",
		"wss://192.168.1.1":                              "",
		"wss://169.254.169.254/latest":                   "",
		"wss://[fd00::1]":                                "",
		"wss://[::ffff:10.0.0.1]":                        "",
		"wss://8.8.8.8":                                  "wss://8.8.8.8",
		"wss://router":                                   "",
		"wss://nas.local":                                "",
		"wss://user:pass@relay.example":                  "",
		"wss://" + strings.Repeat("a", 600) + ".example": "",
	} {
		got := strings.Join(r.relays([]string{raw, raw}, 8), " ")
		if got != want {
			t.Errorf("%.60s is taken as %q, want %q", raw, got, want)
		}
	}
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprintf("wss://r%d.example", i)
	}
	if got := r.relays(many, 8); len(got) != 8 || got[0] != many[0] {
		t.Errorf("%d are kept", len(got))
	}
}

func TestRelayRank(t *testing.T) { // sections 1.2.4 and 1.4.3
	advertised, seen, listed := []string{"wss://b", "wss://a"}, []string{"wss://seen", "wss://a"}, []string{"wss://listed"}
	for _, c := range []struct {
		name  string
		lossy []string
		want  []string
	}{
		{"preferred, then seen, then listed", nil, []string{"wss://b", "wss://a", "wss://seen", "wss://listed"}},
		{"a relay that loses requests is last", []string{"wss://b"}, []string{"wss://a", "wss://seen", "wss://listed", "wss://b"}},
		{"in the old order if all do", []string{"wss://listed", "wss://b", "wss://a", "wss://seen"}, []string{"wss://b", "wss://a", "wss://seen", "wss://listed"}},
	} {
		if got := rank(advertised, seen, listed, c.lossy); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestRequiredFields(t *testing.T) { // section 1.3.1
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		now := nostr.Timestamp(time.Now().Unix())
		for _, c := range []struct {
			name  string
			event nostr.Event
			want  guild.Reason // "" if it is accepted
		}{
			{"another kind", nostr.Event{Kind: 31991}, guild.Unexpected},
			{"an hour ahead", nostr.Event{Kind: Kind, CreatedAt: now + 3600, Tags: nostr.Tags{{"d", "1"}}}, ""},
			{"more than an hour ahead", nostr.Event{Kind: Kind, CreatedAt: now + 3601, Tags: nostr.Tags{{"d", "2"}}}, guild.Future},
			{"weeks old", nostr.Event{Kind: Kind, CreatedAt: now - 20*86400, Tags: nostr.Tags{{"d", "3"}}}, ""},
			{"no d and no k", nostr.Event{Kind: Kind, Content: `{"capabilities":["x"]}`}, ""},
			{"no content", nostr.Event{Kind: Kind, Tags: nostr.Tags{{"d", "4"}, {"k", "5000"}}}, ""},
			{"content is not JSON", nostr.Event{Kind: Kind, Content: "hello"}, guild.Malformed},
			{"more than 64 KB", nostr.Event{Kind: Kind, Content: `{"name":"` + strings.Repeat("x", 64<<10) + `"}`}, guild.Malformed},
		} {
			err := w.observe(alice, c.event)
			switch {
			case c.want != "":
				wantDrop(t, err, c.want)
			case err != nil:
				t.Errorf("%s: %v", c.name, err)
			}
		}
		if w.Len() != 4 {
			t.Errorf("%d services", w.Len())
		}
	})
}

func TestContent(t *testing.T) { // section 1.3.2
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		w.says(alice, `{"name":"ComputeNode Alpha","description":"adds","version":"2.1.0","supported_kinds":[5000],
			"pricing":{"per_job_msats":1500},"performance":{"typical_latency_ms":5000},"region":"eu"}`, nostr.Tag{"d", "a"}, nostr.Tag{"k", "5000"})
		c := w.card(alice.service("a"))
		if c.Name != "ComputeNode Alpha" || c.About != "adds" || c.Version != "2.1.0" || !slices.Equal(c.Kinds, []int{5000}) || c.Price != 1500 ||
			*c.Performance.TypicalLatencyMs != 5000 || string(c.Extra["region"]) != `"eu"` || !c.Whole {
			t.Errorf("%+v", c)
		}
	})
}

func TestCardFields(t *testing.T) { // section 1.4.1; its trust belongs to another step
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		w.announces(alice, python("a"))
		first := time.Now()
		time.Sleep(time.Hour)
		w.announces(alice, python("a"))
		for range 2 {
			c := w.card(alice.service("a"))
			if c.PubKey != alice.key || c.Service.D != "a" || c.First != first.UnixMilli() || c.CreatedAt.Time().Unix() != time.Now().Unix() ||
				!slices.Equal(c.Kinds, []int{5000}) || c.Reach[0] != "wss://a.example" || c.State != guild.Seen {
				t.Errorf("%+v", c)
			}
			w.open()
		}
	})
}

func TestConfidence(t *testing.T) { // section 1.4.2
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		want := map[string]float64{"exact": 1, "inferred": 0.6}
		w.says(newProvider(1), "", nostr.Tag{"d", "exact"}, nostr.Tag{"k", "benchmark-task"})
		for i, word := range []string{"benchmark", "benchmarking", "perf-test", "compute-benchmark"} {
			want[word] = 0.8
			w.says(newProvider(byte(i+2)), "", nostr.Tag{"d", word}, nostr.Tag{"k", word})
		}
		w.says(newProvider(8), `{"performance":{"ops":9}}`, nostr.Tag{"d", "inferred"}, nostr.Tag{"k", "5000"})
		w.says(newProvider(9), "", nostr.Tag{"d", "neither"}, nostr.Tag{"k", "5000"})
		got := map[string]float64{}
		last := 1.0
		for o := range w.Offers("benchmark-task", 5000) {
			got[o.Service.D] = o.Confidence
			if alone, ok := w.OfferOf(o.Service, "Benchmark-Task", 5000); !ok || fmt.Sprintf("%+v", alone) != fmt.Sprintf("%+v", o) {
				t.Errorf("OfferOf: %+v, %v, want %+v", alone, ok, o)
			}
			if o.Confidence > last {
				t.Errorf("%s comes after less certain ones", o.Service.D)
			}
			last = o.Confidence
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
		for _, s := range []guild.Service{newProvider(9).service("neither"), newProvider(9).service("unknown")} {
			if o, ok := w.OfferOf(s, "benchmark-task", 5000); ok {
				t.Errorf("%+v is offered", o)
			}
		}
	})
}

// TestIndexAgreesWithHandlers compares matches with the confidence of each announcement.
func TestIndexAgreesWithHandlers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, told := newIndex(nil), map[ID]nip89.Handler{}
		words := rapid.SampledFrom([]string{"5000", "5100", "a", "a-b", "a-c", "a-*", "*", "b", "python", "p*", "é*", "été"})
		latency := 1.0
		for n := range rapid.IntRange(1, 30).Draw(t, "events") {
			e := nostr.Event{Kind: Kind, ID: nostr.ID{byte(n), 1}, CreatedAt: nostr.Timestamp(n), Tags: nostr.Tags{{"d", fmt.Sprint(n % 7)}}}
			for _, word := range rapid.SliceOfN(words, 0, 4).Draw(t, "words") {
				e.Tags = append(e.Tags, nostr.Tag{rapid.SampledFrom([]string{"k", "t"}).Draw(t, "tag"), word})
			}
			h, err := nip89.Parse(e)
			if err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "performs") {
				h.Performance.TypicalLatencyMs = &latency
			}
			i := IDOf(h.Service())
			if rapid.IntRange(0, 4).Draw(t, "remove") == 0 {
				x.remove(i)
				delete(told, i)
				continue
			}
			x.put(i, &card{id: e.ID, d: h.D, at: e.CreatedAt, packed: summarize(h, nil).pack()})
			told[i] = h
		}
		task, kind := rapid.SampledFrom([]string{"a", "a-b", "python", "été", "none"}).Draw(t, "task"), rapid.SampledFrom([]int{5000, 5100}).Draw(t, "kind")
		synonyms := map[string][]string{task: {"b"}}
		got := map[number]nip89.Confidence{}
		for _, g := range x.matches(task, kind, synonyms[task]) {
			for _, n := range g.cards {
				if unpack(x.cards[n].packed).fits(task, kind, synonyms[task]) == g.fit {
					got[n] = g.fit
				}
			}
			if !slices.IsSortedFunc(g.cards, func(a, b number) int { return compareCards(x.cards[a], x.cards[b]) }) {
				t.Fatalf("the services with confidence %v are not in order", g.fit)
			}
		}
		count := 0
		for i, h := range told {
			want := h.Confidence(kind, task, synonyms)
			if want != nip89.None {
				count++
			}
			if got[x.at[i]] != want {
				t.Fatalf("%+v for %s under %d: %v, want %v", h, task, kind, got[x.at[i]], want)
			}
			if fit := unpack(x.find(i).packed).fits(task, kind, synonyms[task]); fit != want {
				t.Fatalf("%+v alone for %s under %d: %v, want %v", h, task, kind, fit, want)
			}
		}
		if len(got) != count || x.len() != len(told) {
			t.Fatalf("%d found, want %d; %d services, want %d", len(got), count, x.len(), len(told))
		}
		for i := range told {
			x.remove(i)
		}
		if x.bytes != 0 || len(x.all)+len(x.words)+len(x.kinds)+len(x.byID)+len(x.at)+len(x.keys)+x.stored != 0 {
			t.Fatalf("left over: %d bytes, %v %v %v", x.bytes, x.words, x.kinds, x.byID)
		}
	})
}

func TestPackUnpack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := nip89.Handler{
			Name: rapid.String().Draw(t, "name"), AgeRecipient: rapid.String().Draw(t, "recipient"), NoK: rapid.Bool().Draw(t, "no k"),
			Price: guild.Msat(rapid.Int64Range(0, 1<<53).Draw(t, "price")), MaxConcurrent: rapid.IntRange(0, 1<<31-1).Draw(t, "slots"),
			Kinds: rapid.SliceOf(rapid.IntRange(0, 65535)).Draw(t, "kinds"), Tasks: rapid.SliceOf(rapid.String()).Draw(t, "tasks"),
		}
		if len(h.Kinds) > 0 {
			h.Confirmed = h.Kinds[:1]
		}
		s := summarize(h, rapid.SliceOf(rapid.String()).Draw(t, "relays"))
		packed := s.pack()
		if got := unpack(packed); got.pack() != packed || got.name != guild.Cut(h.Name, maxName) || got.price != h.Price || got.slots != h.MaxConcurrent ||
			!slices.Equal(got.kinds, s.kinds) || !slices.Equal(got.tasks, s.tasks) || !slices.Equal(got.relays, s.relays) {
			t.Fatalf("%+v comes back as %+v", s, got)
		}
	})
}
