package nip90_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/keyer"

	"guild"
	"guild/nip90"
)

// party is a key with its public key.
type party struct {
	keyer.KeySigner
	pub nostr.PubKey
}

func newParty(seed byte) party {
	sk := nostr.SecretKey{31: seed}
	return party{keyer.NewPlainKeySigner(sk), sk.Public()}
}

var customer, provider = newParty(1), newParty(2)

// sealTo encrypts as p for to, with NIP-44.
func (p party) sealTo(to party) nip90.Sealer {
	return func(plaintext string) (string, error) { return p.Encrypt(context.Background(), plaintext, to.pub) }
}

// open decrypts NIP-44 and NIP-04, as an Opener must.
func (p party) open(sender nostr.PubKey, ciphertext string) (string, error) {
	if strings.Contains(ciphertext, "?iv=") {
		return p.Nip04Decrypt(context.Background(), ciphertext, sender)
	}
	return p.Decrypt(context.Background(), ciphertext, sender)
}

// publish sets the author and id of e, and checks that e has no characters that change ids in other programs.
func (p party) publish(t *testing.T, e nostr.Event) nostr.Event {
	t.Helper()
	for _, text := range append(slices.Concat(e.Tags...), e.Content) {
		if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
			t.Errorf("a control character is sent in %q", text)
		}
	}
	e.PubKey = p.pub
	e.ID = guild.EventID(e)
	return e
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func fullRequest() nip90.Request {
	return nip90.Request{
		Kind: 5050, Provider: &provider.pub, Job: "6a6f62",
		Inputs: []nip90.Input{
			{Data: "add 1 and 2", Type: "text"},
			{Data: "abc", Type: "event", Relay: "wss://r.example"},
			{Data: "https://x.example/y", Type: "url", Marker: "spec"},
			{Data: "def", Type: "job", Relay: "wss://r.example", Marker: "wss-like"},
		},
		Params: []nip90.Param{{"deadline", []string{"1800000000"}}, {"flag", nil}, {"time-limit", []string{"60"}}, {"top", []string{"1", "2"}}},
		Output: "application/json", Bid: 1000, Relays: []string{"wss://a.example", "wss://b.example"},
		Content: "please", Extra: nostr.Tags{{"expiration", "1800000000"}, {"x"}, {"y", "z"}},
	}
}

func TestRequestInClear(t *testing.T) {
	want := fullRequest()
	e := customer.publish(t, must[nostr.Event](t)(want.Event()))
	got := must[nip90.Request](t)(nip90.ParseRequest(e, nil))
	for i := range got.Params { // nil and an empty list are the same
		if len(got.Params[i].Values) == 0 {
			got.Params[i].Values = nil
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestTagOrder(t *testing.T) {
	r := fullRequest()
	slices.Reverse(r.Params)
	var names []string
	for _, tag := range must[nostr.Event](t)(r.Event()).Tags {
		name := tag[0]
		if name == "param" {
			name += " " + tag[1]
		}
		names = append(names, name)
	}
	const want = "p d i i i i param deadline,param flag,param time-limit,param top output bid relays expiration x y"
	if got := strings.Join(names, " "); got != strings.ReplaceAll(want, ",", " ") {
		t.Errorf("tags %s", got)
	}
}

func TestSealedRequest(t *testing.T) {
	want := fullRequest()
	e := customer.publish(t, must[nostr.Event](t)(want.Sealed(customer.sealTo(provider))))
	outside := nostr.Tags{
		{"p", provider.pub.Hex()}, {"d", "6a6f62"}, {"encrypted"}, {"bid", "1000"},
		{"relays", "wss://a.example", "wss://b.example"}, {"expiration", "1800000000"},
	}
	if !reflect.DeepEqual(e.Tags, outside) {
		t.Errorf("outside stand %v, want %v", e.Tags, outside)
	}
	got := must[nip90.Request](t)(nip90.ParseRequest(e, provider.open))
	want.Encrypted = nip90.NIP44
	got.Params[1].Values = nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}

	if _, err := nip90.ParseRequest(e, nil); !errors.Is(err, nip90.ErrEncrypted) {
		t.Errorf("without a key: %v", err)
	}
	stranger := newParty(3)
	if _, err := nip90.ParseRequest(e, stranger.open); err == nil {
		t.Error("a stranger opened it")
	}
}

// TestRequestDialects reads requests as other programs publish them.
func TestRequestDialects(t *testing.T) {
	nip04 := must[string](t)(customer.Nip04Encrypt(context.Background(), `[["i","x","text"],["bid","7"]]`, provider.pub))
	inside := func(tags string) string { return must[string](t)(customer.sealTo(provider)(tags)) }
	for _, c := range []struct {
		name    string
		content string
		tags    nostr.Tags
		want    func(r nip90.Request) bool
	}{
		{"the printed example of the partnership protocol", "Benchmark", nostr.Tags{
			{"p", provider.pub.Hex()}, {"d", "benchmark-eval-2024-001"}, {"i", `{"benchmark_id": "std-v3"}`, "json", "spec"},
			{"param", "benchmark-type", "standard"}, {"output", "json"}, {"bid", "1000"}, {"relays", "wss://a.io", "wss://b.io"}},
			func(r nip90.Request) bool {
				return r.Inputs[0] == nip90.Input{Data: `{"benchmark_id": "std-v3"}`, Type: "text", Marker: "spec"} &&
					r.Output == "application/json" && r.Get("benchmark-type") == "standard" && r.Bid == 1000
			}},
		{"NIP-90: relay third, marker fourth", "", nostr.Tags{{"i", "id", "event", "wss://r", "m"}},
			func(r nip90.Request) bool {
				return r.Inputs[0] == nip90.Input{Data: "id", Type: "event", Relay: "wss://r", Marker: "m"}
			}},
		{"an input without a type is text", "", nostr.Tags{{"i", "hello"}},
			func(r nip90.Request) bool { return r.Inputs[0] == nip90.Input{Data: "hello", Type: "text"} }},
		{"OpenAgents: job_type and job_hash", "", nostr.Tags{{"i", "{}", "text"}, {"param", "job_type", "oa.sandbox_run.v1"}, {"param", "job_hash", "ab"}},
			func(r nip90.Request) bool {
				return r.Get(nip90.ParamJobType) == "oa.sandbox_run.v1" && r.Get(nip90.ParamJobHash) == "ab"
			}},
		{"NDK: bid, relays and output inside", inside(`[["i","x","text"],["bid","5"],["relays","wss://in"],["output","text/plain"]]`),
			nostr.Tags{{"p", provider.pub.Hex()}, {"encrypted"}},
			func(r nip90.Request) bool {
				return r.Bid == 5 && r.Output == "text/plain" && slices.Equal(r.Relays, []string{"wss://in"}) && r.Encrypted == nip90.NIP44
			}},
		{"2020117: the bid only outside", inside(`[["i","x","text"]]`), nostr.Tags{{"bid", "9"}, {"encrypted"}},
			func(r nip90.Request) bool { return r.Bid == 9 && r.Inputs[0].Data == "x" }},
		{"what is inside wins", inside(`[["bid","5"],["relays","wss://in"]]`), nostr.Tags{{"encrypted"}, {"bid", "9"}, {"relays", "wss://out"}},
			func(r nip90.Request) bool {
				return r.Bid == 5 && slices.Equal(r.Relays, []string{"wss://out", "wss://in"})
			}},
		{"nostrdvm: NIP-04, and numbers for strings", nip04, nostr.Tags{{"encrypted"}},
			func(r nip90.Request) bool { return r.Encrypted == nip90.NIP04 && r.Bid == 7 && r.Inputs[0].Data == "x" }},
		{"values that are not strings", inside(`[["param","n",5],["param","b",true],[],["i",null]]`), nostr.Tags{{"encrypted"}},
			func(r nip90.Request) bool { return r.Get("n") == "5" && r.Get("b") == "true" && len(r.Inputs) == 1 }},
		{"several providers", "", nostr.Tags{{"p", provider.pub.Hex()}, {"p", customer.pub.Hex()}, {"p", provider.pub.Hex()}},
			func(r nip90.Request) bool {
				return *r.Provider == provider.pub && r.Asks(customer.pub) && r.Asks(provider.pub) && !r.Asks(nostr.PubKey{1}) && len(r.Extra) == 1
			}},
		{"nobody in particular", "", nostr.Tags{{"i", "x", "text"}},
			func(r nip90.Request) bool { return r.Provider == nil && r.Asks(provider.pub) }},
	} {
		e := nostr.Event{Kind: 5000, PubKey: customer.pub, Content: c.content, Tags: c.tags}
		r, err := nip90.ParseRequest(e, provider.open)
		if err != nil || !c.want(r) {
			t.Errorf("%s: read as %+v, %v", c.name, r, err)
		}
	}
}

func TestRequestsRefused(t *testing.T) {
	inside := func(tags string) string { return must[string](t)(customer.sealTo(provider)(tags)) }
	for _, c := range []struct {
		name  string
		event nostr.Event
		want  error
	}{
		{"a result", nostr.Event{Kind: 6000}, nip90.ErrKind},
		{"a bid that is not a number", nostr.Event{Kind: 5000, Tags: nostr.Tags{{"bid", "1e3"}}}, nip90.ErrMalformed},
		{"a negative bid", nostr.Event{Kind: 5000, Tags: nostr.Tags{{"bid", "-1"}}}, nip90.ErrMalformed},
		{"a bid over int64", nostr.Event{Kind: 5000, Tags: nostr.Tags{{"bid", "9223372036854775808"}}}, nip90.ErrMalformed},
		{"a provider that is no key", nostr.Event{Kind: 5000, Tags: nostr.Tags{{"p", "npub1x"}}}, nip90.ErrMalformed},
		{"too many tags", nostr.Event{Kind: 5000, Tags: make(nostr.Tags, nip90.MaxTags+1)}, nip90.ErrTooBig},
		{"too much text", nostr.Event{Kind: 5000, Tags: nostr.Tags{{"i", strings.Repeat("x", nip90.MaxText)}}}, nip90.ErrTooBig},
		{"encrypted prose", nostr.Event{Kind: 5000, Tags: nostr.Tags{{"encrypted"}}, Content: inside("hello")}, nip90.ErrMalformed},
		{"encrypted deep nesting", nostr.Event{Kind: 5000, Tags: nostr.Tags{{"encrypted"}}, Content: inside(strings.Repeat("[", 20_000))}, nip90.ErrMalformed},
		{"too many encrypted tags", nostr.Event{Kind: 5000, Tags: nostr.Tags{{"encrypted"}},
			Content: inside("[" + strings.Repeat(`["x"],`, nip90.MaxTags) + `["x"]]`)}, nip90.ErrTooBig},
		{"a bundle key in clear", nostr.Event{Kind: 5000, Tags: nostr.Tags{{"param", "bundle_key", strings.Repeat("a", 64)}}}, nip90.ErrSecret},
		{"a bundle key outside the ciphertext", nostr.Event{Kind: 5000, Content: inside("[]"),
			Tags: nostr.Tags{{"encrypted"}, {"param", "bundle_key", strings.Repeat("a", 64)}}}, nip90.ErrSecret},
	} {
		c.event.PubKey = customer.pub
		if _, err := nip90.ParseRequest(c.event, provider.open); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestInvalidRequestsNotBuilt(t *testing.T) {
	if _, err := (nip90.Request{Kind: 6000}).Event(); !errors.Is(err, nip90.ErrKind) {
		t.Errorf("a result's kind: %v", err)
	}
	if _, err := (nip90.Request{Kind: 5000, Bid: -1}).Sealed(customer.sealTo(provider)); !errors.Is(err, nip90.ErrMalformed) {
		t.Errorf("a negative bid: %v", err)
	}
	broken := errors.New("no key")
	if _, err := fullRequest().Sealed(func(string) (string, error) { return "", broken }); !errors.Is(err, broken) {
		t.Errorf("a sealer that fails: %v", err)
	}
}

func TestDeadlineAndTimeLimit(t *testing.T) {
	r := fullRequest()
	if got := r.Deadline(); got.Unix() != 1800000000 {
		t.Errorf("deadline %v", got)
	}
	if got := r.TimeLimit(); got != time.Minute {
		t.Errorf("time limit %v", got)
	}
	for _, text := range []string{"", "soon", "-5", "99999999999999999999"} {
		r.Set(nip90.ParamDeadline, text)
		r.Set(nip90.ParamTimeLimit, text)
		if !r.Deadline().IsZero() || r.TimeLimit() != 0 {
			t.Errorf("%q is deadline %v and limit %v", text, r.Deadline(), r.TimeLimit())
		}
	}
}

func TestResults(t *testing.T) {
	want := nip90.Result{
		Kind: 6050, Request: nostr.ID{1}, Customer: customer.pub, Amount: 2000, Invoice: "lnbc1", Content: "3\n", Status: "success",
		RequestJSON: `{"id":"x"}`, Behaviour: guild.Sum([]byte("b")), LeftOut: 2, Trajectory: guild.Sum([]byte("t")),
		SessionReceipt: guild.Sum([]byte("r")), Extra: nostr.Tags{{"expiration", "600"}, {"alt", "a result"}},
	}
	e := provider.publish(t, must[nostr.Event](t)(want.Event()))
	if got := must[nip90.Result](t)(nip90.ParseResult(e, nil)); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}

	sealed := provider.publish(t, must[nostr.Event](t)(want.Sealed(provider.sealTo(customer))))
	got := must[nip90.Result](t)(nip90.ParseResult(sealed, customer.open))
	if got.Content != want.Content || got.Request != want.Request || got.Amount != 2000 || got.Encrypted != nip90.NIP44 || got.Behaviour != want.Behaviour ||
		got.Trajectory != want.Trajectory || got.SessionReceipt != want.SessionReceipt || got.LeftOut != 2 {
		t.Errorf("sealed: %+v", got)
	}
	if sealed.Tags.Has("request") || sealed.Tags.Has("status") {
		t.Errorf("a sealed result says %v in clear", sealed.Tags)
	}
	if _, err := nip90.ParseResult(sealed, nil); !errors.Is(err, nip90.ErrEncrypted) {
		t.Errorf("without a key: %v", err)
	}
}

// TestResultDialects reads results as other programs publish them.
func TestResultDialects(t *testing.T) {
	id := nostr.ID{7}
	secret := must[string](t)(provider.sealTo(customer)("42"))
	for _, c := range []struct {
		name    string
		content string
		tags    nostr.Tags
		want    func(r nip90.Result) bool
	}{
		{"nostrdvm: encrypted carries only encrypted, p and e", secret, nostr.Tags{{"encrypted"}, {"p", customer.pub.Hex()}, {"e", id.Hex()}},
			func(r nip90.Result) bool {
				return r.Content == "42" && r.Request == id && r.Customer == customer.pub && r.Encrypted == nip90.NIP44 && r.Extra == nil
			}},
		{"nostrdvm: plain carries status, expiration and alt", "42", nostr.Tags{{"e", id.Hex()}, {"status", "success"}, {"expiration", "600"}, {"alt", "x"}},
			func(r nip90.Result) bool { return r.Status == "success" && len(r.Extra) == 2 && r.Encrypted == "" }},
		{"2020117: in clear, with a newline at the end", "42\n", nostr.Tags{{"e", id.Hex()}},
			func(r nip90.Result) bool { return r.Content == "42\n" && r.Encrypted == "" }},
		{"a behaviour that is no hash", "", nostr.Tags{{"behaviour", "kind"}, {"behaviour", "sha256:"}, {"behaviour"}},
			func(r nip90.Result) bool { return r.Behaviour.IsZero() && len(r.Extra) == 3 }},
		{"two trajectories, and no hash of a receipt", "", nostr.Tags{{"trajectory_hash", guild.Sum([]byte("a")).String()}, {"trajectory_hash", guild.Sum([]byte("b")).String()}, {"receipt_hash", "r-1"}},
			func(r nip90.Result) bool {
				return r.Trajectory == guild.Sum([]byte("a")) && r.SessionReceipt.IsZero() && len(r.Extra) == 2
			}},
		{"nudges that are no number, none, or more than a request can have", "", nostr.Tags{{"nudges_left_out", "x"}, {"nudges_left_out", "0"}, {"nudges_left_out", "1001"}, {"nudges_left_out", "01"}},
			func(r nip90.Result) bool { return r.LeftOut == 0 && len(r.Extra) == 4 }},
		{"an amount without an invoice", "", nostr.Tags{{"amount", "5"}},
			func(r nip90.Result) bool { return r.Amount == 5 && r.Invoice == "" }},
		{"an amount with an invoice", "", nostr.Tags{{"amount", "5", "lnbc"}},
			func(r nip90.Result) bool { return r.Amount == 5 && r.Invoice == "lnbc" }},
		{"an e tag that is no id, then a good one", "", nostr.Tags{{"e", "note1x"}, {"e", id.Hex()}, {"e", nostr.ID{8}.Hex()}},
			func(r nip90.Result) bool { return r.Request == id && len(r.Extra) == 2 }},
	} {
		e := nostr.Event{Kind: 6000, PubKey: provider.pub, Content: c.content, Tags: c.tags}
		r, err := nip90.ParseResult(e, customer.open)
		if err != nil || !c.want(r) {
			t.Errorf("%s: read as %+v, %v", c.name, r, err)
		}
	}
	if _, err := nip90.ParseResult(nostr.Event{Kind: 7000}, nil); !errors.Is(err, nip90.ErrKind) {
		t.Errorf("feedback is no result: %v", err)
	}
	if _, err := nip90.ParseResult(nostr.Event{Kind: 6000, Tags: nostr.Tags{{"amount", "a lot"}}}, nil); !errors.Is(err, nip90.ErrMalformed) {
		t.Errorf("an amount that is not a number: %v", err)
	}
}

func TestFeedback(t *testing.T) {
	want := nip90.Feedback{
		Request: nostr.ID{1}, Customer: customer.pub, Status: nip90.Partial, RawStatus: "partial", Text: "half done",
		Amount: 5, Invoice: "lnbc1", Content: "1 2 3", Extra: nostr.Tags{{"alt", "x"}},
	}
	e := provider.publish(t, want.Event())
	if got := must[nip90.Feedback](t)(nip90.ParseFeedback(e, nil)); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}

	sealed := provider.publish(t, must[nostr.Event](t)(want.Sealed(provider.sealTo(customer))))
	outside := nostr.Tags{{"e", want.Request.Hex()}, {"p", customer.pub.Hex()}, {"status", "partial"}, {"encrypted"}}
	if !reflect.DeepEqual(sealed.Tags, outside) {
		t.Errorf("outside stand %v, want %v", sealed.Tags, outside)
	}
	got := must[nip90.Feedback](t)(nip90.ParseFeedback(sealed, customer.open))
	want.Encrypted = nip90.NIP44
	if !reflect.DeepEqual(got, want) {
		t.Errorf("sealed: got  %+v\nwant %+v", got, want)
	}
}

// TestFeedbackDialects reads feedback as other programs publish it.
func TestFeedbackDialects(t *testing.T) {
	id := nostr.ID{7}
	whole := must[string](t)(provider.sealTo(customer)(
		`[["e","` + id.Hex() + `"],["p","` + customer.pub.Hex() + `"],["status","processing","soon"],["content","working"]]`))
	bare := must[string](t)(provider.sealTo(customer)(`[[1,2],[3,4]]`))
	for _, c := range []struct {
		name    string
		content string
		tags    nostr.Tags
		want    func(f nip90.Feedback) bool
	}{
		{"NDK: underscores", "", nostr.Tags{{"status", "payment_required"}, {"amount", "1000"}},
			func(f nip90.Feedback) bool { return f.Status == nip90.PaymentRequired && f.Amount == 1000 }},
		{"2020117: the order p, e, status", "", nostr.Tags{{"p", customer.pub.Hex()}, {"e", id.Hex()}, {"status", "processing"}},
			func(f nip90.Feedback) bool { return f.Status == nip90.Processing && f.Request == id }},
		{"2020117: at capacity", "Agent at capacity\n", nostr.Tags{{"status", "error"}},
			func(f nip90.Feedback) bool { return f.Status == nip90.Error && f.Busy() }},
		{"the text before the word", "", nostr.Tags{{"status", "server overloaded", "error"}},
			func(f nip90.Feedback) bool {
				return f.Status == nip90.Error && f.Text == "server overloaded" && f.Busy()
			}},
		{"an error that is not about load", "", nostr.Tags{{"status", "error", "cannot parse the bundle"}},
			func(f nip90.Feedback) bool { return f.Status == nip90.Error && !f.Busy() }},
		{"busy, but at work", "", nostr.Tags{{"status", "processing", "busy with it"}},
			func(f nip90.Feedback) bool { return !f.Busy() }},
		{"nostrdvm: other statuses", "", nostr.Tags{{"status", "chain-scheduled", "next"}},
			func(f nip90.Feedback) bool {
				return f.Status == nip90.Other && f.RawStatus == "chain-scheduled" && f.Text == "next"
			}},
		{"nostrdvm: payment-rejected", "", nostr.Tags{{"status", "payment-rejected"}},
			func(f nip90.Feedback) bool { return f.Status == nip90.Other && f.RawStatus == "payment-rejected" }},
		{"nostrdvm: subscription-required", "", nostr.Tags{{"status", "subscription-required"}, {"amount", "5"}},
			func(f nip90.Feedback) bool {
				return f.Status == nip90.Other && f.RawStatus == "subscription-required" && f.Amount == 5
			}},
		{"nostrdvm: subscription-success", "", nostr.Tags{{"status", "subscription-success"}},
			func(f nip90.Feedback) bool { return f.Status == nip90.Other && f.RawStatus == "subscription-success" }},
		{"nostrdvm: pong", "", nostr.Tags{{"status", "pong"}},
			func(f nip90.Feedback) bool { return f.Status == nip90.Other && f.RawStatus == "pong" }},
		{"2020117: a content that ends in a newline", "1 of 2\n", nostr.Tags{{"p", customer.pub.Hex()}, {"e", id.Hex()}, {"status", "partial"}},
			func(f nip90.Feedback) bool { return f.Status == nip90.Partial && f.Content == "1 of 2\n" }},
		{"an amount with an invoice", "", nostr.Tags{{"status", "payment-required"}, {"amount", "7", "lnbc1"}},
			func(f nip90.Feedback) bool { return f.Amount == 7 && f.Invoice == "lnbc1" }},
		{"no status at all", "hm", nil,
			func(f nip90.Feedback) bool { return f.Status == nip90.Other && f.RawStatus == "" }},
		{"nostrdvm: the whole tag list inside", whole, nostr.Tags{{"encrypted"}, {"p", customer.pub.Hex()}, {"e", id.Hex()}},
			func(f nip90.Feedback) bool {
				return f.Status == nip90.Processing && f.Text == "soon" && f.Content == "working" && f.Request == id && f.Extra == nil
			}},
		{"an encrypted partial result that is a list of lists", bare, nostr.Tags{{"encrypted"}, {"status", "partial"}},
			func(f nip90.Feedback) bool { return f.Status == nip90.Partial && f.Content == `[[1,2],[3,4]]` }},
	} {
		e := nostr.Event{Kind: 7000, PubKey: provider.pub, Content: c.content, Tags: c.tags}
		f, err := nip90.ParseFeedback(e, customer.open)
		if err != nil || !c.want(f) {
			t.Errorf("%s: read as %+v, %v", c.name, f, err)
		}
	}
	if _, err := nip90.ParseFeedback(nostr.Event{Kind: 6000}, nil); !errors.Is(err, nip90.ErrKind) {
		t.Errorf("a result is no feedback: %v", err)
	}
}

func TestControlCharactersAreNotSent(t *testing.T) {
	f := nip90.Feedback{Status: nip90.Processing, Text: "a\bb\fc\rd\x00e\x7f\u0085", Content: "tab\tline\n\x1b[31mred"}
	e := provider.publish(t, f.Event())
	if want := (nostr.Tag{"status", "processing", "abcde"}); !slices.Equal(e.Tags[0], want) {
		t.Errorf("tag %q, want %q", e.Tags[0], want)
	}
	if e.Content != "tab\tline\n[31mred" {
		t.Errorf("content %q", e.Content)
	}
	r := nip90.Request{Kind: 5000, Inputs: []nip90.Input{{Data: "a\bb\xff"}}, Content: "\f"}
	e = customer.publish(t, must[nostr.Event](t)(r.Event()))
	if e.Tags[0][1] != "ab\uFFFD" || e.Content != "" {
		t.Errorf("tags %q, content %q", e.Tags, e.Content)
	}
}

func TestCorrelate(t *testing.T) {
	id, other := nostr.ID{1}, nostr.ID{2}
	for _, c := range []struct {
		name    string
		content string
		tags    nostr.Tags
		want    nip90.Reference
	}{
		{"by e and p", "", nostr.Tags{{"p", customer.pub.Hex()}, {"e", id.Hex()}}, nip90.Reference{Request: id, Customer: customer.pub}},
		{"by p alone", "", nostr.Tags{{"p", customer.pub.Hex()}}, nip90.Reference{Customer: customer.pub}},
		{"by the request tag", "", nostr.Tags{{"request", `{"id":"` + id.Hex() + `","kind":5000}`}}, nip90.Reference{Mentioned: id}},
		{"by the content", `{"request_id":"` + id.Hex() + `","x":1}`, nil, nip90.Reference{Mentioned: id}},
		{"by everything, differently", `{"request":"` + other.Hex() + `"}`, nostr.Tags{{"e", id.Hex()}}, nip90.Reference{Request: id, Mentioned: other}},
		{"by nothing", `[` + id.Hex(), nostr.Tags{{"e"}, {"e", "x"}, {"p", "x"}, {}}, nip90.Reference{}},
		{"over a limit", "", slices.Repeat(nostr.Tags{{"e", id.Hex()}}, nip90.MaxTags+1), nip90.Reference{}},
	} {
		if got := nip90.Correlate(nostr.Event{Kind: 6000, Content: c.content, Tags: c.tags}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestResultKind(t *testing.T) {
	if got := nip90.ResultKind(5050); got != 6050 {
		t.Errorf("got %d", got)
	}
}

func BenchmarkRequest(b *testing.B) {
	r := fullRequest()
	if err := r.SetBundle(nip90.NewParcel(bytes.Repeat([]byte("x"), 8<<10))); err != nil {
		b.Fatal(err)
	}
	e, err := r.Event()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := nip90.ParseRequest(e, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.Event(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func ExampleParseRequest() {
	r, err := nip90.ParseRequest(nostr.Event{Kind: 5000, Tags: nostr.Tags{
		{"i", "what is 1 + 2?", "text"}, {"param", "time-limit", "30"}, {"output", "json"}, {"bid", "1000"},
	}}, nil)
	fmt.Println(r.Inputs[0].Data, r.TimeLimit(), r.Output, r.Bid, err)
	// Output: what is 1 + 2? 30s application/json 1000 msat <nil>
}

func ExampleRequest_Event() {
	r := nip90.Request{Kind: 5000, Job: "j1", Inputs: []nip90.Input{{Data: "hi", Type: "text"}}, Bid: 1000}
	r.Set("time-limit", "30")
	e, err := r.Event()
	fmt.Println(e.Tags, err)
	// Output: [[d j1] [i hi text] [param time-limit 30] [bid 1000]] <nil>
}

func ExampleFeedback_Event() {
	e := nip90.Feedback{Status: nip90.Processing, Text: "3 of 10"}.Event()
	fmt.Println(e.Kind.Num(), e.Tags)
	// Output: 7000 [[status processing 3 of 10]]
}
