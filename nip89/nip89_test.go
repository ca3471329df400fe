package nip89_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip89"
)

var alice = nostr.MustPubKeyFromHex("6e468422dfb74a5738702a8823b9b28168abab8655faacb6853cd0ee15deee93")

// recipient is an example of age's documentation.
const recipient = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"

func event(content string, tags ...nostr.Tag) nostr.Event {
	return nostr.Event{Kind: nip89.Kind, PubKey: alice, CreatedAt: 1774048752, Tags: tags, Content: content}
}

func parse(t *testing.T, e nostr.Event) nip89.Handler {
	t.Helper()
	h, err := nip89.Parse(e)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestDialects reads announcements as other programs publish them.
func TestDialects(t *testing.T) {
	for _, c := range []struct {
		name  string
		event nostr.Event
		want  func(h nip89.Handler) bool
	}{
		{"the printed example of the partnership protocol", event(
			`{"name": "ComputeNode Alpha", "capabilities": ["benchmark-task", "data-processing"], "version": "2.1.0",
			  "pricing": "per-request", "performance": {"typical_latency_ms": 5000}}`,
			nostr.Tag{"d", "benchmark-platform-v2"}, nostr.Tag{"k", "5000"}, nostr.Tag{"k", "benchmark-task"},
			nostr.Tag{"relays", "wss://relay.benchmark-platform.io"}, nostr.Tag{"relays", "wss://relay.damus.io"}),
			func(h nip89.Handler) bool {
				return h.D == "benchmark-platform-v2" && h.Name == "ComputeNode Alpha" && h.Version == "2.1.0" &&
					slices.Equal(h.Kinds, []int{5000}) && slices.Equal(h.Tasks, []string{"benchmark-task", "data-processing"}) &&
					slices.Equal(h.Relays, []string{"wss://relay.benchmark-platform.io", "wss://relay.damus.io"}) &&
					h.PriceText == "per-request" && *h.Performance.TypicalLatencyMs == 5000 && !h.NoK && h.Extra == nil
			}},
		{"the content of the OpenAgents surface", event(
			`{"supply_class":"SingleNode","capabilities":{"supported_jobs":["oa.sandbox_run.v1"],"models":["gpt-4"],
			  "hardware":{"memory_gb":64,"gpu_type":"M4 Max","vram_gb":128}},
			  "pricing":{"input_tokens_per_1k_msats":10,"output_tokens_per_1k_msats":30,"sandbox_per_minute_msats":100},
			  "capacity":{"max_concurrent_jobs":4,"max_context_tokens":128000},
			  "stability":{"success_rate":0.95,"avg_latency_ms":250,"jobs_completed":1523}}`),
			func(h nip89.Handler) bool {
				return h.SupplyClass == "SingleNode" && slices.Equal(h.Tasks, []string{"oa.sandbox_run.v1"}) &&
					slices.Equal(h.Models, []string{"gpt-4"}) && h.Hardware == nip89.Hardware{MemoryGB: 64, GPU: "M4 Max", VRAMGB: 128} &&
					h.Rates == nip89.Rates{InputPer1k: 10, OutputPer1k: 30, SandboxPerMinute: 100} &&
					h.MaxConcurrent == 4 && h.MaxContext == 128000 && *h.Stability.SuccessRate == 0.95 &&
					*h.Stability.JobsCompleted == 1523 && h.Extra == nil
			}},
		{"OpenAgents: no d, no k, handler, capability and price tags", event(`{"name":"pylon"}`,
			nostr.Tag{"handler", "compute_provider"}, nostr.Tag{"capability", "text-generation"}, nostr.Tag{"price", "10", "sats"}),
			func(h nip89.Handler) bool {
				return h.D == "" && h.NoK && slices.Equal(h.Tasks, []string{"compute_provider", "text-generation"}) && h.Price == 10_000
			}},
		{"a list and a pattern in k", event("", nostr.Tag{"k", "5000, 5100,5000"}, nostr.Tag{"k", "compute-*"}),
			func(h nip89.Handler) bool {
				return slices.Equal(h.Kinds, []int{5000, 5100}) && slices.Equal(h.Tasks, []string{"compute-*"})
			}},
		{"one relays tag with many values, one of them no relay", event("",
			nostr.Tag{"relays", "wss://a.example", "https://b.example", " ws://c.example ", "wss://a.example"}),
			func(h nip89.Handler) bool {
				return slices.Equal(h.Relays, []string{"wss://a.example", "ws://c.example"})
			}},
		{"encryption in a tag and in the content", event(`{"encryption":"NIP-04"}`, nostr.Tag{"encryption", "nip44_v2"}),
			func(h nip89.Handler) bool {
				return h.Accepts("nip44") && h.Accepts("nip04") && slices.Equal(h.Encryption, []string{"nip04", "nip44"})
			}},
		{"no word about encryption means none", event(`{}`),
			func(h nip89.Handler) bool { return !h.Accepts("nip44") && !h.Accepts("nip04") }},
		{"words are compared in one form", event("", nostr.Tag{"k", "  Benchmark  TASK "}, nostr.Tag{"t", "ＢＥＮＣＨＭＡＲＫ-task"}),
			func(h nip89.Handler) bool { return slices.Equal(h.Tasks, []string{"benchmark-task"}) }},
		{"an age recipient", event(`{"age_recipient":"` + recipient + `"}`),
			func(h nip89.Handler) bool { return h.AgeRecipient == recipient && h.Extra == nil }},
		{"what is no age recipient is kept, not believed", event(`{"age_recipient":"` + recipient[:61] + `x"}`),
			func(h nip89.Handler) bool { return h.AgeRecipient == "" && len(h.Extra) == 1 }},
		{"an age recipient in capitals neither", event(`{"age_recipient":"` + strings.ToUpper(recipient) + `"}`),
			func(h nip89.Handler) bool { return h.AgeRecipient == "" }},
		{"the behaviour of an agent", event(`{"behaviour":"` + guild.Sum(nil).String() + `"}`),
			func(h nip89.Handler) bool { return h.Behaviour == guild.Sum(nil) && h.Extra == nil }},
		{"a behaviour that is no hash is kept, not believed", event(`{"behaviour":"friendly"}`),
			func(h nip89.Handler) bool { return h.Behaviour.IsZero() && len(h.Extra) == 1 }},
		{"an empty content", event("", nostr.Tag{"k", "5000"}),
			func(h nip89.Handler) bool { return slices.Equal(h.Kinds, []int{5000}) && h.Contradictions == nil }},
		{"description stands for about, pricing as a number", event(`{"description":"does sums","pricing":1500}`),
			func(h nip89.Handler) bool { return h.About == "does sums" && h.Price == 1500 }},
		{"fields of a wrong type are kept, not believed", event(`{"name":7,"capacity":[1],"stability":{"success_rate":"high"}}`),
			func(h nip89.Handler) bool { return h.Name == "" && len(h.Extra) == 3 && h.Stability.SuccessRate == nil }},
		{"negative counts and prices are not believed", event(`{"capacity":{"max_concurrent_jobs":-4},"pricing":{"per_job_msats":-1}}`),
			func(h nip89.Handler) bool { return h.MaxConcurrent == 0 && h.Price == 0 && len(h.Extra) == 2 }},
	} {
		if h := parse(t, c.event); !c.want(h) {
			t.Errorf("%s: read as %+v", c.name, h)
		}
	}
}

func TestContradictions(t *testing.T) {
	h := parse(t, event(`{"supported_kinds":[5000,5200],"supported_jobs":["b"]}`,
		nostr.Tag{"k", "5000"}, nostr.Tag{"k", "5100"}, nostr.Tag{"t", "a"}))
	if want := []int{5000, 5100, 5200}; !slices.Equal(h.Kinds, want) {
		t.Errorf("kinds %v, want the union %v", h.Kinds, want)
	}
	if !h.Confirms(5000) || h.Confirms(5100) || h.Confirms(5200) {
		t.Errorf("confirmed %v, want 5000 only", h.Confirmed)
	}
	want := []string{
		"kind 5100 is not in the content", "kind 5200 is not in the tags",
		"task a is not in the content", "task b is not in the tags",
	}
	if !slices.Equal(h.Contradictions, want) {
		t.Errorf("contradictions %q, want %q", h.Contradictions, want)
	}
	if again := parse(t, h.Event()); len(again.Contradictions) > 0 || !again.Confirms(5100) {
		t.Errorf("what we write contradicts itself: %q", again.Contradictions)
	}
}

func TestRefused(t *testing.T) {
	many := make([]nostr.Tag, nip89.MaxTags+1)
	for i := range many {
		many[i] = nostr.Tag{"k", "5000"}
	}
	kind1 := event("")
	kind1.Kind = 1
	for _, c := range []struct {
		name  string
		event nostr.Event
		want  error
	}{
		{"another kind", kind1, nip89.ErrKind},
		{"a content that is not JSON", event("call me"), nip89.ErrContent},
		{"a content that is an array", event("[]"), nip89.ErrContent},
		{"a content that is null", event("null"), nip89.ErrContent},
		{"a content cut off", event(`{"name":"x"`), nip89.ErrContent},
		{"a deep content", event(`{"a":` + strings.Repeat("[", 30_000)), nip89.ErrContent},
		{"a content over the limit", event(`{"name":"` + strings.Repeat("x", nip89.MaxContent) + `"}`), nip89.ErrTooBig},
		{"too many tags", event("", many...), nip89.ErrTooBig},
		{"a tag with too many values", event("", make(nostr.Tag, nip89.MaxWords+1)), nip89.ErrTooBig},
		{"a tag value too long", event("", nostr.Tag{"d", strings.Repeat("x", nip89.MaxValue+1)}), nip89.ErrTooBig},
	} {
		if _, err := nip89.Parse(c.event); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestWordLimit(t *testing.T) {
	var list []string
	for i := range 3000 {
		list = append(list, fmt.Sprint("t", i))
	}
	content, err := json.Marshal(map[string]any{"supported_jobs": list, "supported_kinds": list})
	if err != nil {
		t.Fatal(err)
	}
	var tags []nostr.Tag
	for chunk := range slices.Chunk(list, 150) {
		tags = append(tags, nostr.Tag{"k", strings.Join(chunk, ",")})
	}
	h := parse(t, event(string(content), tags...))
	if len(h.Tasks) != nip89.MaxWords || len(h.Contradictions) > 2*nip89.MaxWords {
		t.Errorf("%d tasks and %d contradictions are kept", len(h.Tasks), len(h.Contradictions))
	}
}

func full() nip89.Handler {
	rate, latency, jobs := 0.95, 250.0, 1523.0
	return nip89.Handler{
		PubKey: alice, D: "sums", CreatedAt: 1774048752, Name: "Alice's <sums>", About: "Sums & differences.", Version: "1.0",
		Kinds: []int{5000, 5050}, Confirmed: []int{5000, 5050}, Tasks: []string{"benchmark-task", "oa.sandbox_run.v1"},
		Relays: []string{"wss://b.example", "wss://a.example"}, Encryption: []string{"nip04", "nip44"},
		AgeRecipient: recipient, Behaviour: guild.Sum(nil), Price: 1000, Rates: nip89.Rates{InputPer1k: 10, OutputPer1k: 30, SandboxPerMinute: 100},
		SupplyClass: "SingleNode", Models: []string{"m"}, Hardware: nip89.Hardware{MemoryGB: 64, GPU: "M4", VRAMGB: 8},
		MaxConcurrent: 4, MaxContext: 128000,
		Stability:   nip89.Stability{SuccessRate: &rate, AvgLatencyMs: &latency, JobsCompleted: &jobs},
		Performance: nip89.Performance{TypicalLatencyMs: &latency},
		Extra: map[string]json.RawMessage{
			"region": json.RawMessage(`"eu"`), "capacity": json.RawMessage(`{"max_queue":9}`), "big": json.RawMessage(`1.0`),
		},
	}
}

func TestWriteReadRoundTrip(t *testing.T) {
	h := full()
	e := h.Event()
	e.PubKey, e.CreatedAt = h.PubKey, h.CreatedAt
	if got := parse(t, e); !reflect.DeepEqual(got, h) {
		t.Errorf("got  %+v\nwant %+v", got, h)
	}
	for range 10 {
		if again := h.Event(); again.Content != e.Content || !reflect.DeepEqual(again.Tags, e.Tags) {
			t.Fatalf("written differently:\n%s\n%s", e.Content, again.Content)
		}
	}
}

func TestWrittenForm(t *testing.T) {
	e := full().Event()
	want := nostr.Tags{
		{"d", "sums"}, {"k", "5000"}, {"k", "5050"}, {"t", "benchmark-task"}, {"t", "oa.sandbox_run.v1"},
		{"relays", "wss://b.example", "wss://a.example"}, {"encryption", "nip04", "nip44"},
	}
	if !reflect.DeepEqual(e.Tags, want) {
		t.Errorf("tags %v, want %v", e.Tags, want)
	}
	content := `{"about":"Sums & differences.","age_recipient":"` + recipient + `","behaviour":"` + guild.Sum(nil).String() + `","big":1.0,"capabilities":{"supported_jobs":["benchmark-task","oa.sandbox_run.v1"],` +
		`"models":["m"],"hardware":{"memory_gb":64,"gpu_type":"M4","vram_gb":8}},` +
		`"capacity":{"max_concurrent_jobs":4,"max_context_tokens":128000,"max_queue":9},"name":"Alice's <sums>",` +
		`"performance":{"typical_latency_ms":250},` +
		`"pricing":{"per_job_msats":1000,"input_tokens_per_1k_msats":10,"output_tokens_per_1k_msats":30,"sandbox_per_minute_msats":100},` +
		`"region":"eu","stability":{"success_rate":0.95,"avg_latency_ms":250,"jobs_completed":1523},` +
		`"supply_class":"SingleNode","supported_kinds":[5000,5050],"version":"1.0"}`
	if e.Content != content {
		t.Errorf("content\n%s\nwant\n%s", e.Content, content)
	}
}

func TestControlCharactersAreNotSent(t *testing.T) {
	h := nip89.Handler{D: "a\bb\r", Name: "bell\x07 form\ffeed tab\tline\nend\x7f", Tasks: []string{"a\x00b"}}
	e := h.Event()
	if want := (nostr.Tags{{"d", "ab"}, {"t", "ab"}}); !reflect.DeepEqual(e.Tags, want) {
		t.Errorf("tags %q, want %q", e.Tags, want)
	}
	if want := `{"capabilities":{"supported_jobs":["ab"]},"name":"bell formfeed tab\tline\nend"}`; e.Content != want {
		t.Errorf("content %q, want %q", e.Content, want)
	}
}

func TestInvalidExtraOmitted(t *testing.T) {
	h := nip89.Handler{Name: "x", Extra: map[string]json.RawMessage{"broken": json.RawMessage(`{`), "good": json.RawMessage(`1`)}}
	if got := h.Event().Content; got != `{"good":1,"name":"x"}` {
		t.Errorf("content %s", got)
	}
}

func TestServiceSpellings(t *testing.T) {
	for _, d := range []string{"My Service", "my  service", " MY\tSERVICE ", "ｍｙ service"} {
		if got := (nip89.Handler{PubKey: alice, D: d}).Service(); got != (guild.Service{PubKey: alice, D: "my service"}) {
			t.Errorf("%q is %v", d, got)
		}
	}
	if a, b := nip89.CanonicalD("straße"), nip89.CanonicalD("STRASSE"); a != b {
		t.Errorf("%q and %q differ", a, b)
	}
}

func TestConfidence(t *testing.T) {
	synonyms := map[string][]string{"benchmark-task": {"benchmark", "benchmarking", "perf-test", "compute-benchmark"}}
	for _, c := range []struct {
		name  string
		event nostr.Event
		want  nip89.Confidence
	}{
		{"names the task", event("", nostr.Tag{"k", "benchmark-task"}), nip89.Exact},
		{"names it in the content, and has a k tag", event(`{"supported_kinds":["benchmark-task"]}`, nostr.Tag{"k", "5000"}), nip89.Exact},
		{"names it without any k tag", event(`{"capabilities":["benchmark-task"]}`), nip89.Inferred},
		{"names a synonym", event("", nostr.Tag{"k", "Perf-Test"}), nip89.Synonym},
		{"names a synonym without any k tag", event(`{"capabilities":["perf-test"]}`), nip89.Inferred},
		{"has a pattern that covers it", event("", nostr.Tag{"k", "benchmark-*"}), nip89.Synonym},
		{"has a pattern that covers everything", event("", nostr.Tag{"k", "*"}), nip89.None},
		{"takes the kind and publishes performance", event(`{"performance":{"typical_latency_ms":1}}`, nostr.Tag{"k", "5000"}), nip89.Inferred},
		{"takes the kind and publishes other performance", event(`{"performance":{"ops":1}}`, nostr.Tag{"k", "5000"}), nip89.Inferred},
		{"takes the kind only", event("", nostr.Tag{"k", "5000"}), nip89.None},
		{"takes another kind", event(`{"performance":{"typical_latency_ms":1}}`, nostr.Tag{"k", "5001"}), nip89.None},
	} {
		if got := parse(t, c.event).Confidence(5000, "benchmark-task", synonyms); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestAgeOf(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		name string
		ago  time.Duration
		want nip89.Age
	}{
		{"just now", 0, nip89.Fresh},
		{"an hour ahead", -time.Hour, nip89.Fresh},
		{"more than an hour ahead", -time.Hour - time.Second, nip89.Future},
		{"most cards are days old", 29 * 24 * time.Hour, nip89.Fresh},
		{"30 days", 30 * 24 * time.Hour, nip89.Stale},
		{"90 days", 90 * 24 * time.Hour, nip89.Archived},
	} {
		if got := nip89.AgeOf(nostr.Timestamp(now.Add(-c.ago).Unix()), now); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestRecommendation(t *testing.T) {
	e := nostr.Event{Kind: nip89.KindRecommendation, PubKey: alice, Tags: nostr.Tags{
		{"d", "5000"}, {"a", "31990:" + alice.Hex() + ":a:b", "wss://r.example", "web"},
		{"a", "30023:" + alice.Hex() + ":x"}, {"a", "31990:short:x"}, {"a", "31990:" + alice.Hex() + ":c", "not a relay"},
	}}
	e.CreatedAt = 1774048752
	want := nip89.Recommendation{PubKey: alice, At: 1774048752, Handles: "5000", Handlers: []nip89.Recommended{
		{PubKey: alice, D: "a:b", Relay: "wss://r.example", Platform: "web"}, {PubKey: alice, D: "c"},
	}}
	if got, err := nip89.ParseRecommendation(e); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	e.Kind = nip89.Kind
	if _, err := nip89.ParseRecommendation(e); !errors.Is(err, nip89.ErrKind) {
		t.Errorf("an announcement is no recommendation: %v", err)
	}
}

func TestRecommendationRoundTrip(t *testing.T) {
	r := nip89.Recommendation{Handles: "5000", Handlers: []nip89.Recommended{
		{PubKey: alice, D: "a:b", Relay: "wss://r.example", Platform: "web"}, {PubKey: alice, D: "c", Platform: "ios"}, {PubKey: alice},
	}}
	e := r.Event()
	want := nostr.Tags{{"d", "5000"}, {"a", "31990:" + alice.Hex() + ":a:b", "wss://r.example", "web"},
		{"a", "31990:" + alice.Hex() + ":c", "", "ios"}, {"a", "31990:" + alice.Hex() + ":"}}
	if !reflect.DeepEqual(e.Tags, want) || e.Kind != nip89.KindRecommendation || e.Content != "" {
		t.Errorf("written as %v", e.Tags)
	}
	if got, err := nip89.ParseRecommendation(e); err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("read as %+v, %v", got, err)
	}
	r.Handlers = append(r.Handlers, r.Handlers[0], nip89.Recommended{PubKey: alice, D: strings.Repeat("x", nip89.MaxValue)},
		nip89.Recommended{PubKey: alice, D: "d\x00", Relay: "no relay"})
	if got := r.Event().Tags; len(got) != 5 || !slices.Equal(got[4], nostr.Tag{"a", "31990:" + alice.Hex() + ":d"}) {
		t.Errorf("written as %q", got)
	}
	if s, ok := nip89.ParseAddress("31990:" + alice.Hex() + ":My  Service"); !ok || s != (guild.Service{PubKey: alice, D: "my service"}) {
		t.Errorf("address read as %v", s)
	}
}

// FuzzRecommendation checks that everything that is read can be written and reads the same again.
func FuzzRecommendation(f *testing.F) {
	address := "31990:" + alice.Hex() + ":x"
	for _, tags := range []string{`[["d","5000"],["a","` + address + `","wss://r","web"]]`, `[["a","` + address + `","",""],["a","` + address + `"]]`, `[["a"],["a","31990:"],[]]`} {
		f.Add([]byte(tags))
	}
	f.Fuzz(func(t *testing.T, tags []byte) {
		e := nostr.Event{Kind: nip89.KindRecommendation}
		if json.Unmarshal(tags, &e.Tags) != nil {
			return
		}
		first, err := nip89.ParseRecommendation(e)
		if err != nil {
			return
		}
		written := first.Event()
		second, err := nip89.ParseRecommendation(written)
		if err != nil || len(second.Handlers) > len(first.Handlers) {
			t.Fatalf("%q: %v", written.Tags, err)
		}
		if again := second.Event(); !reflect.DeepEqual(again.Tags, written.Tags) {
			t.Fatalf("written %q, then %q", written.Tags, again.Tags)
		}
	})
}

// FuzzHandler checks that everything that is read can be written and reads the same again.
func FuzzHandler(f *testing.F) {
	e := full().Event()
	tags, _ := json.Marshal(e.Tags)
	f.Add(tags, e.Content)
	f.Add([]byte(`[["d","É x"],["k","5000,benchmark-*"],["relays","wss://a"],["encryption","nip44"],["price","1","sats"]]`),
		`{"capabilities":["a",5001],"pricing":"free","performance":{"x":null},"name":null,"stability":{"success_rate":1e-7}}`)
	f.Add([]byte(`[[],["k"],["d"],["handler","x"],["capability",""]]`), ``)
	f.Add([]byte(`[["k","a.b"]]`), `{"capabilities":{"supported_jobs":[],"hardware":{"vram_gb":1}}}`)
	f.Fuzz(func(t *testing.T, tags []byte, content string) {
		e := nostr.Event{Kind: nip89.Kind, Content: content}
		if json.Unmarshal(tags, &e.Tags) != nil {
			return
		}
		first, err := nip89.Parse(e)
		if err != nil {
			return
		}
		written := first.Event()
		second, err := nip89.Parse(written)
		if errors.Is(err, nip89.ErrTooBig) {
			return // values that were in one place are now in two
		}
		if err != nil {
			t.Fatalf("cannot read what was written: %v\n%s", err, written.Content)
		}
		if again := second.Event(); again.Content != written.Content || !reflect.DeepEqual(again.Tags, written.Tags) {
			t.Fatalf("written\n%q %s\nthen\n%q %s", written.Tags, written.Content, again.Tags, again.Content)
		}
		if first.Service() != second.Service() {
			t.Fatalf("the service changed from %q to %q", first.Service().D, second.Service().D)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	e := full().Event()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := nip89.Parse(e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEvent(b *testing.B) {
	h := full()
	b.ReportAllocs()
	for b.Loop() {
		h.Event()
	}
}

func ExampleParse() {
	h, err := nip89.Parse(nostr.Event{
		Kind:    nip89.Kind,
		Tags:    nostr.Tags{{"d", "sums"}, {"k", "5000,5050"}, {"k", "benchmark-task"}, {"relays", "wss://relay.example"}},
		Content: `{"name":"Sums","supported_kinds":[5000]}`,
	})
	fmt.Println(h.Name, h.Kinds, h.Tasks, h.Relays, err)
	fmt.Println(h.Contradictions)
	// Output:
	// Sums [5000 5050] [benchmark-task] [wss://relay.example] <nil>
	// [kind 5050 is not in the content]
}

func ExampleHandler_Event() {
	h := nip89.Handler{
		D: "sums", Name: "Sums", Kinds: []int{5000}, Tasks: []string{"benchmark-task"}, Encryption: []string{"nip44"},
	}
	e := h.Event()
	fmt.Println(e.Tags)
	fmt.Println(e.Content)
	// Output:
	// [[d sums] [k 5000] [t benchmark-task] [encryption nip44]]
	// {"capabilities":{"supported_jobs":["benchmark-task"]},"name":"Sums","supported_kinds":[5000]}
}

func ExampleHandler_Confidence() {
	h := nip89.Handler{Tasks: []string{"perf-test"}}
	synonyms := map[string][]string{"benchmark-task": {"perf-test"}}
	fmt.Println(h.Confidence(5000, "benchmark-task", synonyms), h.Confidence(5000, "perf-test", nil))
	// Output: 0.8 1
}
