package receipt_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/key"
	"guild/receipt"
)

var provider = nostr.MustPubKeyFromHex("6e468422dfb74a5738702a8823b9b28168abab8655faacb6853cd0ee15deee93")

// unpaid returns the receipt of an accepted job without a price.
func unpaid() receipt.Receipt {
	job, attempt, result := guild.JobID{1}, nostr.ID{2}, nostr.ID{3}
	r := receipt.Receipt{
		ID: receipt.NewID(job, attempt, result, ""), SessionID: "session-1", TrajectoryHash: guild.Sum([]byte("trajectory")),
		PolicyBundleID: "policy-1", JobHash: guild.Sum([]byte("job")), Timestamp: "2026-01-13T10:05:32Z",
		Task: "benchmark-task", Job: job, Attempt: attempt, RequestEvent: attempt, ResultEvent: result,
		BundleHash: guild.Sum([]byte("bundle")), DeliveryHash: guild.Sum([]byte("delivery")),
		Outcome: guild.Success, VerdictHash: guild.Sum([]byte("verdict")), IdempotencyKey: guild.Sum([]byte("attempt")).Hex(),
	}
	r.SetProvider(provider)
	return r
}

// proven adds to a receipt what its verdict rests on.
func proven(r receipt.Receipt) receipt.Receipt {
	score := guild.Score(0)
	r.Score, r.Strength, r.Strengths = &score, guild.Mixed, &guild.Strengths{Strong: 3, Weak: 1, Visible: 2, Hidden: 2}
	return r
}

func paid(rail, asset, proof, value string) receipt.Receipt {
	r := unpaid()
	r.AmountMsats, r.Rail, r.AssetID = 1000, &rail, &asset
	r.PaymentProof = &receipt.PaymentProof{Type: proof, Value: value}
	return r
}

func TestEncodedForm(t *testing.T) {
	r := unpaid()
	r.Extra = map[string]json.RawMessage{"note": json.RawMessage(`"later"`)}
	b, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	const start = `{"amount_msats":0,"approval_rule_id":null,"asset_id":null,` +
		`"attempt":"0200000000000000000000000000000000000000000000000000000000000000","bundle_hash":"sha256:`
	if !strings.HasPrefix(string(b), start) {
		t.Errorf("got %s, want it to start with %s", b, start)
	}
	for _, field := range []string{
		`"payment_proof":null`, `"rail":null`, `"note":"later"`, `"provider_pubkey":"` + provider.Hex() + `"`, `"provider_id":"npub1`,
		`"job":"01000000000000000000000000000000"`, `"outcome":"SUCCESS"`, `"trajectory_hash":"sha256:`,
	} {
		if !strings.Contains(string(b), field) {
			t.Errorf("no %s in %s", field, b)
		}
	}
}

func TestReceiptRoundTrip(t *testing.T) {
	proof := paid("lightning", "BTC_LN", "lightning_preimage", strings.Repeat("ab", 32))
	proof.Extra = map[string]json.RawMessage{"x": json.RawMessage(`{"y":1.0}`)}
	for name, want := range map[string]receipt.Receipt{"unpaid": unpaid(), "paid, with more": proof, "with a strength": proven(unpaid())} {
		b, err := want.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := receipt.Decode(b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, want)
		}
		h, err := want.Hash()
		if err != nil || h != guild.Sum(b) {
			t.Errorf("%s: hash %s, %v", name, h, err)
		}
	}
}

// A field that is missing in the list of names would be kept as an extra and written twice.
func TestEveryFieldIsKnown(t *testing.T) {
	whole := paid("lightning", "BTC_LN", "lightning_preimage", strings.Repeat("ab", 32))
	whole = proven(whole)
	whole.Supersedes, whole.QuoteEvent, whole.Bolt11, whole.Behaviour = "r-0123456789abcdef", nostr.ID{7}, "lnbc1", guild.Sum(nil)
	whole.Refund = &receipt.Refund{Rail: "cashu"} // not beside a payment, but Encode does not validate
	b, err := whole.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(b, &fields); err != nil {
		t.Fatal(err)
	}
	if want := reflect.TypeFor[receipt.Receipt]().NumField() - 1; len(fields) != want {
		t.Errorf("%d fields are written, want %d", len(fields), want)
	}
	if r, err := receipt.Decode(b); err != nil || r.Extra != nil {
		t.Errorf("taken for extra: %v, %v", r.Extra, err)
	}
}

func TestBareHashesAreRead(t *testing.T) {
	b, err := unpaid().Encode()
	if err != nil {
		t.Fatal(err)
	}
	r, err := receipt.Decode(bytes.ReplaceAll(b, []byte("sha256:"), nil))
	if err != nil || r.JobHash != unpaid().JobHash {
		t.Errorf("%v, %v", r.JobHash, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "an array": "[]", "a field twice": `{"task":"a","task":"b"}`, "a float for an amount": `{"amount_msats":1.5}`,
		"invalid hash": `{"job_hash":"sha256:zz"}`, "a key off the curve": `{"provider_pubkey":"` + strings.Repeat("ff", 32) + `"}`,
		"more than the limit": `{"task":"` + strings.Repeat("x", receipt.MaxSize) + `"}`,
	} {
		if r, err := receipt.Decode([]byte(text)); err == nil {
			t.Errorf("%s: read as %+v", name, r)
		}
	}
}

func TestExtraFieldsDoNotShadow(t *testing.T) {
	r := unpaid()
	r.Extra = map[string]json.RawMessage{"outcome": json.RawMessage(`"FAILURE"`)}
	if b, err := r.Encode(); err == nil {
		t.Errorf("written as %s", b)
	}
}

func TestValidate(t *testing.T) {
	preimage := strings.Repeat("ab", 32)
	change := func(f func(*receipt.Receipt)) receipt.Receipt { r := unpaid(); f(&r); return r }
	for _, c := range []struct {
		name    string
		receipt receipt.Receipt
		wrong   string // the faulty field, or ""
	}{
		{"an unpaid job", unpaid(), ""},
		{"an attempt that nobody answered", change(func(r *receipt.Receipt) {
			r.ResultEvent, r.DeliveryHash, r.VerdictHash, r.Outcome = nostr.ID{}, guild.Hash{}, guild.Hash{}, ""
		}), ""},
		{"paid over Lightning", paid("lightning", "BTC_LN", "lightning_preimage", preimage), ""},
		{"paid in ecash", paid("cashu", "BTC_CASHU(https://mint.example)", "cashu_proof", "cashuB…"), ""},
		{"paid on chain", paid("onchain", "BTC_ONCHAIN", "onchain_txid", preimage), ""},
		{"paid in another asset", paid("taproot_assets", "USD_TAP(abc)", "taproot_assets_proof", "…"), ""},

		{"no id", change(func(r *receipt.Receipt) { r.ID = "" }), "receipt_id"},
		{"no session", change(func(r *receipt.Receipt) { r.SessionID = "" }), "session_id"},
		{"no policy", change(func(r *receipt.Receipt) { r.PolicyBundleID = "" }), "policy_bundle_id"},
		{"no trajectory", change(func(r *receipt.Receipt) { r.TrajectoryHash = guild.Hash{} }), "trajectory_hash"},
		{"no job", change(func(r *receipt.Receipt) { r.JobHash = guild.Hash{} }), "job_hash"},
		{"no idempotency key, as receipts before they had one", change(func(r *receipt.Receipt) { r.IdempotencyKey = "" }), ""},
		{"invalid key", change(func(r *receipt.Receipt) { r.IdempotencyKey = "abc" }), "idempotency_key"},
		{"a time in words", change(func(r *receipt.Receipt) { r.Timestamp = "yesterday" }), "timestamp"},
		{"no provider", change(func(r *receipt.Receipt) { r.ProviderPubKey = nostr.PubKey{} }), "provider_pubkey"},
		{"another npub", change(func(r *receipt.Receipt) { r.ProviderID = "npub1x" }), "provider_id"},
		{"with a strength", proven(unpaid()), ""},
		{"a strength without a score", change(func(r *receipt.Receipt) { *r = proven(*r); r.Score = nil }), "score_micro, strength and strengths"},
		{"counts without a strength", change(func(r *receipt.Receipt) { *r = proven(*r); r.Strength = "" }), "score_micro, strength and strengths"},
		{"a strength without an outcome", change(func(r *receipt.Receipt) { *r = proven(*r); r.Outcome, r.VerdictHash = "", guild.Hash{} }), "strength"},
		{"invalid strength", change(func(r *receipt.Receipt) { *r = proven(*r); r.Strength = "certain" }), "strength"},
		{"a score over one", change(func(r *receipt.Receipt) { *r = proven(*r); *r.Score = guild.Micro + 1 }), "score_micro"},
		{"a negative count", change(func(r *receipt.Receipt) { *r = proven(*r); r.Strengths.Drawn = -1 }), "strengths"},
		{"invalid outcome", change(func(r *receipt.Receipt) { r.Outcome = "GREAT" }), "outcome"},
		{"a verdict without an outcome", change(func(r *receipt.Receipt) { r.Outcome = "" }), "outcome"},
		{"an outcome without a verdict", change(func(r *receipt.Receipt) { r.VerdictHash = guild.Hash{} }), "verdict_hash"},
		{"a verdict on nothing", change(func(r *receipt.Receipt) { r.ResultEvent = nostr.ID{} }), "result_event"},
		{"a negative amount", change(func(r *receipt.Receipt) { r.AmountMsats = -1 }), "amount_msats"},
		{"an amount without a proof", change(func(r *receipt.Receipt) { r.AmountMsats = 1 }), "payment_proof"},
		{"a rail without a payment", change(func(r *receipt.Receipt) { rail := "lightning"; r.Rail = &rail }), "rail"},
		{"invalid rail", paid("gold", "XAU_BAR", "bar", "1"), "rail"},
		{"a bare ticker", paid("lightning", "BTC", "lightning_preimage", preimage), "asset_id"},
		{"ecash of no mint", paid("cashu", "BTC_CASHU", "cashu_proof", "x"), "asset_id"},
		{"an asset of another rail", paid("lightning", "BTC_CASHU(m)", "lightning_preimage", preimage), "asset_id"},
		{"a proof of another rail", paid("lightning", "BTC_LN", "cashu_proof", "x"), "payment_proof"},
		{"a placeholder for a preimage", paid("lightning", "BTC_LN", "lightning_preimage", "pending"), "payment_proof"},
		{"an empty proof", paid("cashu", "BTC_CASHU(m)", "cashu_proof", ""), "payment_proof"},
	} {
		err := c.receipt.Validate()
		switch {
		case c.wrong == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.wrong != "" && (!errors.Is(err, receipt.ErrInvalid) || !strings.Contains(err.Error(), "receipt: "+c.wrong)):
			t.Errorf("%s: %v, want an error about %s", c.name, err, c.wrong)
		}
	}
}

func TestIDs(t *testing.T) {
	a := receipt.NewID(guild.JobID{1}, nostr.ID{2}, nostr.ID{3}, "")
	if a != receipt.NewID(guild.JobID{1}, nostr.ID{2}, nostr.ID{3}, "") || len(a) != 18 || !strings.HasPrefix(a, "r-") {
		t.Errorf("id %q", a)
	}
	for _, b := range []string{
		receipt.NewID(guild.JobID{9}, nostr.ID{2}, nostr.ID{3}, ""),
		receipt.NewID(guild.JobID{1}, nostr.ID{9}, nostr.ID{3}, ""),
		receipt.NewID(guild.JobID{1}, nostr.ID{2}, nostr.ID{}, ""),
		receipt.NewID(guild.JobID{1}, nostr.ID{2}, nostr.ID{3}, a),
	} {
		if a == b {
			t.Errorf("two receipts are %q", a)
		}
	}
}

// FuzzReceipt checks that everything that is read is written in a form with the same values and hash.
func FuzzReceipt(f *testing.F) {
	for _, r := range []receipt.Receipt{unpaid(), paid("lightning", "BTC_LN", "lightning_preimage", strings.Repeat("ab", 32))} {
		b, err := r.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"task":"\u0000","Task":"x","extra":{"a":[1.0,1e300]},"rail":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := receipt.Decode(b)
		if err != nil {
			return
		}
		_ = r.Validate()
		once, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := receipt.Decode(once)
		if err != nil {
			t.Fatalf("cannot read %s: %v", once, err)
		}
		if twice, err := again.Encode(); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("written\n%s\nthen\n%s, %v", once, twice, err)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	r := unpaid()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Encode(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	text, err := unpaid().Encode()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := receipt.Decode(text); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleNewID() {
	fmt.Println(receipt.NewID(guild.JobID{1}, nostr.ID{2}, nostr.ID{3}, ""))
	// Output: r-3f99577a351adffc
}

func ExampleReceipt_Validate() {
	r := unpaid()
	fmt.Println(r.Validate())
	r.ID, r.AmountMsats = "r-1", 1000
	fmt.Println(r.Validate())
	// Output:
	// <nil>
	// receipt r-1: invalid receipt: payment_proof and amount_msats 1000 do not fit
}

func ExampleDecode() {
	r, err := receipt.Decode([]byte(`{"receipt_id":"r-1","amount_msats":0,"rail":null,"color":"blue"}`))
	fmt.Printf("%s %d %s %v\n", r.ID, r.AmountMsats, r.Extra["color"], err)
	// Output: r-1 0 "blue" <nil>
}

func TestReceiptEventRoundTrip(t *testing.T) {
	r := unpaid()
	r.Supersedes = "r-0123456789abcdef"
	e, err := r.Event()
	if err != nil {
		t.Fatal(err)
	}
	v, err := guild.Sign(t.Context(), key.NewSigner(key.NewSecret(nostr.SecretKey{31: 5})), e)
	if err != nil {
		t.Fatal(err)
	}
	got, err := receipt.ParseEvent(v)
	if err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("%+v, %v, want %+v", got, err, r)
	}
	if again, _ := r.Event(); guild.EventID(again) != guild.EventID(e) {
		t.Error("the same receipt makes another event")
	}
	for name, spoil := range map[string]func(*nostr.Event){
		"another kind":     func(e *nostr.Event) { e.Kind = 1 },
		"no receipt":       func(e *nostr.Event) { e.Content = "{}" },
		"no JSON":          func(e *nostr.Event) { e.Content = "paid" },
		"the date is bad":  func(e *nostr.Event) { e.Content = strings.Replace(e.Content, r.Timestamp, "yesterday", 1) },
		"another date":     func(e *nostr.Event) { e.CreatedAt++ },
		"another tag":      func(e *nostr.Event) { e.Tags = append(e.Tags[:len(e.Tags):len(e.Tags)], nostr.Tag{"p", "x"}) },
		"another spelling": func(e *nostr.Event) { e.Content += " " },
	} {
		bad := e
		spoil(&bad)
		v, err := guild.Sign(t.Context(), key.NewSigner(key.NewSecret(nostr.SecretKey{31: 5})), bad)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := receipt.ParseEvent(v); err == nil {
			t.Errorf("%s: taken for a receipt", name)
		}
	}
	r.Timestamp = "yesterday"
	if _, err := r.Event(); !errors.Is(err, receipt.ErrInvalid) {
		t.Errorf("a receipt without a date: %v", err)
	}
}

func TestInvoiceOnlyWithLightning(t *testing.T) {
	free := unpaid()
	free.Bolt11 = "lnbc1"
	ecash := paid("cashu", "BTC_CASHU(https://mint.example)", "cashu_proof", "x")
	ecash.Bolt11 = "lnbc1"
	for name, r := range map[string]receipt.Receipt{"unpaid": free, "ecash": ecash} {
		if err := r.Validate(); !errors.Is(err, receipt.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
