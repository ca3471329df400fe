package nipreview_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"
	"pgregory.net/rapid"

	"guild"
	"guild/nipreview"
)

var (
	alice = nostr.MustPubKeyFromHex("6e468422dfb74a5738702a8823b9b28168abab8655faacb6853cd0ee15deee93")
	bob   = nostr.MustPubKeyFromHex("9f150df609a0262f6663ddd7c30c3d060818161bdce5a9b31fe2618c9c0a050a")
)

// event returns a review of alice by bob.
func event(content string, tags ...nostr.Tag) nostr.Event {
	return nostr.Event{Kind: nipreview.Kind, PubKey: bob, CreatedAt: 1774048752, Tags: tags, Content: content}
}

func rated(tags ...nostr.Tag) nostr.Event {
	return event("", append([]nostr.Tag{{"subject", alice.Hex()}}, tags...)...)
}

func of[T any](v T) *T { return &v }

func full() nipreview.Review {
	return nipreview.Review{
		Kind: nipreview.KindSet, Subject: alice, Relay: "wss://relay.example", Stars: nipreview.StarsOf(875_000),
		Task: "python", Service: "runner", Request: nostr.ID{1}, JobKind: 5000, D: nipreview.Address(alice, "python"),
		Content: nipreview.Content{
			Summary:   "Reliable platform with occasional latency variance",
			Strengths: []string{"Consistent correctness"}, Weaknesses: []string{"p95 latency 2.3x p50"},
			Metrics: nipreview.Metrics{TestScore: of[guild.Score](940_000), LatencyP50Ms: of[int64](2300), LatencyP95Ms: of[int64](5300),
				Extra: map[string]json.RawMessage{"judged": json.RawMessage("7")}},
			Recommendation: "Recommended for non-latency-critical workloads",
			Evidence: nipreview.Evidence{Receipt: "r-1", ReceiptHash: guild.Sum([]byte("receipt")), VerdictHash: guild.Sum([]byte("verdict")),
				CID: "QmAbCdEf"},
			Extra: map[string]json.RawMessage{"region": json.RawMessage(`"eu"`)},
		},
	}
}

// The formula of section 4.3.2.2, rating = 1 + 4·trust, with the initial trust of section 3.3.2 and the bounds of
// section 5.2: 1 + 4·0.75 = 4, 1 + 4·0.6 = 3.4, 1 + 4·0.45 = 2.8, 1 + 4·0.9 = 4.6 and 1 + 4·0.1 = 1.4; and the rating
// of the specification's example, 4.5 = 1 + 4·0.875.
func TestRatingsAreTrustInStars(t *testing.T) {
	for _, c := range []struct {
		trust guild.Trust
		want  string
	}{
		{750_000, "4"}, {600_000, "3.4"}, {450_000, "2.8"}, {900_000, "4.6"}, {100_000, "1.4"}, {875_000, "4.5"},
		{0, "1"}, {1_000_000, "5"}, {500_000, "3"}, {123_457, "1.493828"}, {1, "1.000004"}, {-5, "1"}, {2_000_000, "5"},
	} {
		s := nipreview.StarsOf(c.trust)
		if s.String() != c.want {
			t.Errorf("trust %d: %s stars, want %s", c.trust, s, c.want)
		}
		if back := s.Trust(); back != min(max(c.trust, 0), guild.Micro) {
			t.Errorf("trust %d: %s stars are trust %d", c.trust, s, back)
		}
	}
}

// Section 4.3.2.2: denom and max_rating mean the same, and other scales are converted in proportion.
func TestScales(t *testing.T) {
	for _, c := range []struct {
		name string
		tags nostr.Tags
		want nipreview.Stars
		ok   bool
	}{
		{"denom", nostr.Tags{{"rating", "4.5"}, {"denom", "5"}}, 4_500_000, true},
		{"max_rating", nostr.Tags{{"rating", "4.5"}, {"max_rating", "5"}}, 4_500_000, true},
		{"neither", nostr.Tags{{"rating", "4.5"}}, 4_500_000, true},
		{"half a star", nostr.Tags{{"rating", "0.5"}}, 500_000, true},
		{"none", nostr.Tags{{"rating", "0"}}, 0, true},
		{"9 of 10", nostr.Tags{{"rating", "9"}, {"denom", "10"}}, 4_500_000, true},
		{"80 of 100", nostr.Tags{{"rating", "80"}, {"max_rating", "100"}}, 4_000_000, true},
		{"0.8 of 1", nostr.Tags{{"rating", "0.8"}, {"denom", "1"}}, 4_000_000, true},
		{"2 of 3", nostr.Tags{{"rating", "2"}, {"denom", "3"}}, 3_333_333, true},
		{"more digits than a millionth", nostr.Tags{{"rating", "4.33333333333333333"}}, 4_333_333, true},
		{"for one quality, and for all", nostr.Tags{{"rating", "1", "speed"}, {"rating", "4"}}, 4_000_000, true},
		{"for one quality only", nostr.Tags{{"rating", "3", "speed"}}, 3_000_000, true},
		{"more than all", nostr.Tags{{"rating", "5.1"}}, 0, false},
		{"less than nothing", nostr.Tags{{"rating", "-1"}}, 0, false},
		{"of nothing", nostr.Tags{{"rating", "0"}, {"denom", "0"}}, 0, false},
		{"of too much", nostr.Tags{{"rating", "1"}, {"denom", "1001"}}, 0, false},
		{"in words", nostr.Tags{{"rating", "good"}}, 0, false},
		{"with an exponent", nostr.Tags{{"rating", "1e0"}}, 0, false},
		{"not a number", nostr.Tags{{"rating", "NaN"}}, 0, false},
		{"a point and nothing", nostr.Tags{{"rating", "4."}}, 0, false},
		{"empty", nostr.Tags{{"rating", ""}}, 0, false},
		{"none at all", nil, 0, false},
	} {
		r, err := nipreview.Parse(rated(c.tags...))
		if (err == nil) != c.ok || err != nil && !errors.Is(err, nipreview.ErrInvalid) || r.Stars != c.want {
			t.Errorf("%s: %d stars, %v, want %d", c.name, r.Stars, err, c.want)
		}
	}
}

func TestReviewTags(t *testing.T) {
	r := full()
	want := nostr.Tags{
		{"subject", alice.Hex(), "wss://relay.example"}, {"rating", "4.5"}, {"denom", "5"}, {"task", "python"},
		{"d", alice.Hex() + ":python"}, {"service", "runner"}, {"p", alice.Hex(), "wss://relay.example"},
		{"e", nostr.ID{1}.Hex()}, {"k", "5000"}, {"t", "python"},
		{"alt", "Review of the provider " + nip19.EncodeNpub(alice) + " for python: 4.5 of 5 stars"},
	}
	if got := r.Event(); got.Kind != 32020 || !reflect.DeepEqual(got.Tags, want) {
		t.Errorf("kind %d, %v", got.Kind, got.Tags)
	}
	r.Kind = nipreview.Kind
	if got := r.Event(); got.Kind != 2020 || got.Tags.Find("d") != nil || len(got.Tags) != len(want)-1 {
		t.Errorf("kind %d, %v", got.Kind, got.Tags)
	}
}

// TestContentExample has the example of section 4.3.2.4, with evidence in place of evidence_cid.
func TestContentExample(t *testing.T) {
	got := full().Event().Content
	for _, part := range []string{
		`"summary":"Reliable platform with occasional latency variance"`, `"strengths":["Consistent correctness"]`,
		`"weaknesses":["p95 latency 2.3x p50"]`, `"metrics":{"judged":7,"latency_p50_ms":2300,"latency_p95_ms":5300,"test_score":0.94}`,
		`"recommendation":"Recommended for non-latency-critical workloads"`, `"region":"eu"`,
		`"receipt":"r-1"`, `"receipt_hash":"` + guild.Sum([]byte("receipt")).String() + `"`,
		`"verdict_hash":"` + guild.Sum([]byte("verdict")).String() + `"`, `"cid":"QmAbCdEf"`,
	} {
		if !strings.Contains(got, part) {
			t.Errorf("no %s in %s", part, got)
		}
	}
}

func TestSpecificationExample(t *testing.T) {
	e := rated(nostr.Tag{"rating", "4.5"}, nostr.Tag{"denom", "5"}, nostr.Tag{"task", "benchmark-task"})
	e.Content = `{ "summary": "Reliable platform with occasional latency variance", "strengths": ["Consistent correctness",
		"Good documentation", "Responsive support"], "weaknesses": ["p95 latency 2.3x p50", "Cold start delays"],
		"metrics": {"test_score": 0.94, "latency_p50_ms": 2300, "latency_p95_ms": 5300},
		"recommendation": "Recommended for non-latency-critical workloads", "evidence_cid": "QmAbCdEf" }`
	r, err := nipreview.Parse(e)
	if err != nil {
		t.Fatal(err)
	}
	if r.Reviewer != bob || r.Subject != alice || r.Task != "benchmark-task" || r.CreatedAt != 1774048752 || len(r.Strengths) != 3 ||
		len(r.Weaknesses) != 2 || *r.Metrics.TestScore != 940_000 || *r.Metrics.LatencyP50Ms != 2300 || *r.Metrics.LatencyP95Ms != 5300 ||
		r.Evidence.CID != "QmAbCdEf" || r.Recommendation == "" || r.Extra != nil {
		t.Errorf("%+v", r)
	}
}

func TestDialects(t *testing.T) {
	npub := nip19.EncodeNpub(alice)
	set := event("Good work", nostr.Tag{"d", alice.Hex() + ":rust"}, nostr.Tag{"p", alice.Hex()}, nostr.Tag{"rating", "4"})
	set.Kind = nipreview.KindSet
	for _, c := range []struct {
		name  string
		event nostr.Event
		want  func(nipreview.Review) bool
	}{
		{"a text", event("Good work\n", nostr.Tag{"subject", alice.Hex()}, nostr.Tag{"rating", "4"}),
			func(r nipreview.Review) bool { return r.Summary == "Good work\n" && r.Extra == nil }},
		{"JSON that is no object", event(`["good"]`, nostr.Tag{"subject", alice.Hex()}, nostr.Tag{"rating", "4"}),
			func(r nipreview.Review) bool { return r.Summary == `["good"]` }},
		{"an npub", event("", nostr.Tag{"subject", npub}, nostr.Tag{"rating", "4"}),
			func(r nipreview.Review) bool { return r.Subject == alice }},
		{"the subject in p only", event("", nostr.Tag{"p", alice.Hex(), "wss://a.example"}, nostr.Tag{"rating", "4"}, nostr.Tag{"t", "go"}),
			func(r nipreview.Review) bool {
				return r.Subject == alice && r.Task == "go" && r.Relay == "wss://a.example"
			}},
		{"the task in d only", set, func(r nipreview.Review) bool { return r.Task == "rust" && r.Summary == "Good work" }},
		{"fields of other types are kept", event(`{"summary":7,"metrics":{"test_score":"high","latency_p50_ms":1.5,"uptime":0.999},
			"evidence":"see above","strengths":"fast"}`, nostr.Tag{"subject", alice.Hex()}, nostr.Tag{"rating", "4"}),
			func(r nipreview.Review) bool {
				return r.Summary == "" && r.Metrics.TestScore == nil && r.Metrics.LatencyP50Ms == nil && len(r.Metrics.Extra) == 3 &&
					len(r.Extra) == 2 && slices.Equal(r.Strengths, []string{"fast"})
			}},
		{"bare hashes", event(`{"evidence":{"receipt_hash":"`+guild.Sum(nil).Hex()+`"}}`, nostr.Tag{"subject", alice.Hex()}, nostr.Tag{"rating", "4"}),
			func(r nipreview.Review) bool { return r.Evidence.ReceiptHash == guild.Sum(nil) }},
		{"invalid relay", event("", nostr.Tag{"subject", alice.Hex(), "https://a.example"}, nostr.Tag{"rating", "4"}),
			func(r nipreview.Review) bool { return r.Relay == "" }},
		{"long texts are cut", event(`{"summary":"`+strings.Repeat("ä", 2000)+`","weaknesses":[`+strings.Repeat(`"x",`, 30)+`"x"]}`,
			nostr.Tag{"subject", alice.Hex()}, nostr.Tag{"rating", "4"}),
			func(r nipreview.Review) bool {
				return len(r.Summary) == nipreview.MaxText && len(r.Weaknesses) == nipreview.MaxList
			}},
	} {
		if r, err := nipreview.Parse(c.event); err != nil || !c.want(r) {
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
	}
}

func TestInvalidReviews(t *testing.T) {
	good := nostr.Tag{"rating", "4"}
	many := rated(good)
	for range nipreview.MaxTags {
		many.Tags = append(many.Tags, nostr.Tag{"x", "y"})
	}
	other := rated(good)
	other.Kind = 1985
	for name, c := range map[string]struct {
		event nostr.Event
		want  error
	}{
		"another kind":                {other, nipreview.ErrKind},
		"no subject":                  {event("", good), nipreview.ErrInvalid},
		"invalid subject":             {event("", nostr.Tag{"subject", "alice"}, good), nipreview.ErrInvalid},
		"a key off the curve":         {event("", nostr.Tag{"subject", strings.Repeat("ff", 32)}, good), nipreview.ErrInvalid},
		"a note for a subject":        {event("", nostr.Tag{"subject", "npub1qqqq"}, good), nipreview.ErrInvalid},
		"several keys and no subject": {event("", nostr.Tag{"p", alice.Hex()}, nostr.Tag{"p", bob.Hex()}, good), nipreview.ErrInvalid},
		"too many tags":               {many, nipreview.ErrTooBig},
		"too long a content":          {event(strings.Repeat("x", nipreview.MaxContent+1), nostr.Tag{"subject", alice.Hex()}, good), nipreview.ErrTooBig},
		"too long a value":            {rated(good, nostr.Tag{"x", strings.Repeat("x", nipreview.MaxValue+1)}), nipreview.ErrTooBig},
		"a tag of too many values":    {rated(good, slices.Repeat(nostr.Tag{"x"}, nipreview.MaxTags+1)), nipreview.ErrTooBig},
	} {
		if r, err := nipreview.Parse(c.event); !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v, want %v", name, r, err, c.want)
		}
	}
}

// Kind 31117 rates one job with whole stars; its readers use d, p, rating, role, and k or kind. A label (NIP-32) needs
// its namespace, and its single-letter tags name only what is labelled.
func TestMirrors(t *testing.T) {
	r := full()
	job, ok := r.JobReview()
	request := nostr.ID{1}.Hex()
	want := nostr.Tags{{"d", request}, {"e", request}, {"p", alice.Hex(), "wss://relay.example"}, {"rating", "5"}, {"role", "customer"},
		{"k", "5000"}, {"kind", "5000"}, job.Tags.Find("alt")}
	if !ok || job.Kind != 31117 || job.Content != r.Summary || !reflect.DeepEqual(job.Tags, want) {
		t.Errorf("%t, %+v", ok, job)
	}
	r.Request = nostr.ID{}
	if job, ok := r.JobReview(); ok {
		t.Errorf("a review of a job that is not named: %+v", job)
	}
	label := r.Label()
	want = nostr.Tags{{"L", "review"}, {"l", "review/provider", "review"}, {"p", alice.Hex(), "wss://relay.example"}, {"rating", "0.875"},
		{"task", "python"}, label.Tags.Find("alt")}
	if label.Kind != 1985 || label.Content != r.Summary || !reflect.DeepEqual(label.Tags, want) {
		t.Errorf("%+v", label)
	}
}

func TestWholeStars(t *testing.T) {
	for trust, want := range map[guild.Trust]string{0: "1", 100_000: "1", 124_999: "1", 125_000: "2", 450_000: "3", 600_000: "3", 750_000: "4", 874_999: "4", 875_000: "5", 900_000: "5"} {
		r := full()
		r.Stars = nipreview.StarsOf(trust)
		if job, _ := r.JobReview(); job.Tags.Find("rating")[1] != want {
			t.Errorf("trust %s: %v", trust, job.Tags.Find("rating"))
		}
	}
	r := full()
	r.Stars = 0
	if job, _ := r.JobReview(); job.Tags.Find("rating")[1] != "1" {
		t.Errorf("no stars: %v", job.Tags.Find("rating"))
	}
}

// reviews draws a review that can be written.
func reviews(t *rapid.T) nipreview.Review {
	words := rapid.StringMatching(`[ -~äöü→]{0,60}`)
	list := rapid.SliceOfN(rapid.StringMatching(`[ -~ä]{1,60}`), 0, nipreview.MaxList)
	nilIfEmpty := func(s []string) []string {
		if len(s) == 0 {
			return nil
		}
		return s
	}
	r := nipreview.Review{
		Kind: rapid.SampledFrom([]nostr.Kind{nipreview.Kind, nipreview.KindSet}).Draw(t, "kind"), Subject: alice,
		Relay: rapid.SampledFrom([]string{"", "wss://relay.example", "ws://127.0.0.1:1"}).Draw(t, "relay"),
		Stars: nipreview.StarsOf(guild.Trust(rapid.Int64Range(0, guild.Micro).Draw(t, "trust"))),
		Task:  words.Draw(t, "task"), Service: words.Draw(t, "service"),
		Request: nostr.ID{rapid.Byte().Draw(t, "request")}, JobKind: rapid.IntRange(0, 65535).Draw(t, "job kind"),
		Content: nipreview.Content{Summary: words.Draw(t, "summary"), Strengths: nilIfEmpty(list.Draw(t, "strengths")),
			Weaknesses: nilIfEmpty(list.Draw(t, "weaknesses")), Recommendation: words.Draw(t, "recommendation")},
	}
	if r.Kind == nipreview.KindSet {
		r.D = nipreview.Address(alice, r.Task)
	}
	if rapid.Bool().Draw(t, "measured") {
		r.Metrics = nipreview.Metrics{TestScore: of(guild.Score(rapid.Int64Range(0, guild.Micro).Draw(t, "score"))),
			LatencyP50Ms: of(rapid.Int64Range(0, 1e9).Draw(t, "p50")), LatencyP95Ms: of(rapid.Int64Range(0, 1e9).Draw(t, "p95")),
			Extra: map[string]json.RawMessage{"n": json.RawMessage(`{"a":[1.50,null]}`)}}
		r.Evidence = nipreview.Evidence{Receipt: "r-1", ReceiptHash: guild.Sum([]byte(r.Task)), VerdictHash: guild.Sum([]byte(r.Service))}
		r.Extra = map[string]json.RawMessage{"x": json.RawMessage(`"<&>"`)}
	}
	return r
}

func TestReviewRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := reviews(t)
		got, err := nipreview.Parse(want.Event())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v\n%+v, %v", want, got, err)
		}
	})
}

func TestScaleKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := guild.Trust(rapid.Int64Range(0, guild.Micro).Draw(t, "a"))
		b := guild.Trust(rapid.Int64Range(0, guild.Micro).Draw(t, "b"))
		if x, y := nipreview.StarsOf(a), nipreview.StarsOf(b); (a < b) != (x < y) || x.Trust() != a {
			t.Fatalf("trust %s and %s are %s and %s stars", a, b, x, y)
		}
	})
}

func FuzzParse(f *testing.F) {
	add := func(e nostr.Event) {
		tags, err := json.Marshal(e.Tags)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(int(e.Kind), tags, e.Content)
	}
	add(full().Event())
	add(event("text", nostr.Tag{"subject", nip19.EncodeNpub(alice)}, nostr.Tag{"rating", "3.5"}, nostr.Tag{"max_rating", "10"}))
	add(event(`{"summary":1,"strengths":["a",2],"metrics":{"test_score":1},"evidence":{},"a\u0085":1,"a":2}`,
		nostr.Tag{"p", alice.Hex()}, nostr.Tag{"rating", "5"}, nostr.Tag{"e", "x"}, nostr.Tag{"k", "-1"}))
	f.Fuzz(func(t *testing.T, kind int, tags []byte, content string) {
		e := nostr.Event{Kind: nostr.Kind(kind), PubKey: bob, Content: content}
		if json.Unmarshal(tags, &e.Tags) != nil {
			t.Skip()
		}
		first, err := nipreview.Parse(e)
		if err != nil {
			return
		}
		if first.Stars < 0 || first.Stars > nipreview.Scale || len(first.Summary) > nipreview.MaxText || len(first.Strengths) > nipreview.MaxList {
			t.Fatalf("over the bounds: %+v", first)
		}
		written := first.Event()
		if len(written.Content) > nipreview.MaxContent {
			return // invalid UTF-8 grows when it is replaced
		}
		second, err := nipreview.Parse(written)
		if err != nil {
			t.Fatalf("what was written is not read: %v", err)
		}
		if again := second.Event(); again.Content != written.Content || !reflect.DeepEqual(again.Tags, written.Tags) {
			t.Fatalf("%s %v\n%s %v", written.Content, written.Tags, again.Content, again.Tags)
		}
	})
}
