package nip90_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip90"
)

func sealedParcel() nip90.Parcel {
	return nip90.Parcel{Hash: guild.Sum([]byte("big")), Size: 1 << 20, URL: "https://blossom.example/abc", Key: &[32]byte{0xde, 0xad, 0xbe, 0xef}}
}

func TestBundleRoundTrip(t *testing.T) {
	open := sealedParcel()
	open.Key = nil
	for name, want := range map[string]nip90.Parcel{
		"inline":              nip90.NewParcel([]byte("NUT\x01 small")),
		"as large as allowed": nip90.NewParcel(make([]byte, nip90.MaxInline)),
		"at a URL":            open,
		"at a URL, encrypted": sealedParcel(),
	} {
		r := nip90.Request{Kind: 5000}
		r.Set(nip90.ParamJobType, "benchmark-task")
		if err := r.SetBundle(want); err != nil {
			t.Fatal(err)
		}
		e := must[nostr.Event](t)(r.Sealed(customer.sealTo(provider)))
		r = must[nip90.Request](t)(nip90.ParseRequest(customer.publish(t, e), provider.open))
		if got := must[nip90.Parcel](t)(r.Bundle()); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}

		answer := nip90.Result{Kind: 6000}
		if err := answer.SetDelivery(want); err != nil {
			t.Fatal(err)
		}
		e = must[nostr.Event](t)(answer.Sealed(provider.sealTo(customer)))
		answer = must[nip90.Result](t)(nip90.ParseResult(provider.publish(t, e), customer.open))
		if got := must[nip90.Parcel](t)(answer.Delivery()); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: delivered %v, want %v", name, got, want)
		}
	}
}

func TestSetBundleReplaces(t *testing.T) {
	var r nip90.Request
	r.Inputs = []nip90.Input{{Data: "other", Type: "text"}}
	if err := r.SetBundle(sealedParcel()); err != nil {
		t.Fatal(err)
	}
	want := nip90.NewParcel([]byte("second"))
	if err := r.SetBundle(want); err != nil {
		t.Fatal(err)
	}
	if got := must[nip90.Parcel](t)(r.Bundle()); !reflect.DeepEqual(got, want) || len(r.Inputs) != 2 || r.Get(nip90.ParamBundleKey) != "" {
		t.Errorf("got %v of %v", got, r.Inputs)
	}
}

func TestKeysNotInClear(t *testing.T) {
	r := nip90.Request{Kind: 5000}
	if err := r.SetBundle(sealedParcel()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Event(); !errors.Is(err, nip90.ErrSecret) {
		t.Errorf("request: %v", err)
	}
	answer := nip90.Result{Kind: 6000}
	if err := answer.SetDelivery(sealedParcel()); err != nil {
		t.Fatal(err)
	}
	if _, err := answer.Event(); !errors.Is(err, nip90.ErrSecret) {
		t.Errorf("result: %v", err)
	}
	leaked := must[nip90.Result](t)(nip90.ParseResult(nostr.Event{Kind: 6000, Content: answer.Content}, nil))
	if _, err := leaked.Delivery(); !errors.Is(err, nip90.ErrSecret) {
		t.Errorf("a result that leaked its key: %v", err)
	}
}

func TestKeysAreNotPrinted(t *testing.T) {
	p := sealedParcel()
	r := nip90.Request{Kind: 5000}
	if err := r.SetBundle(p); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("parcel", "p", p)
	slog.New(slog.NewTextHandler(&log, nil)).Info("parcel", "p", p)
	asJSON, _ := json.Marshal(p)
	printed := fmt.Sprintf("%v %+v %#v %s %d %x", p, p, p, p, &p, p) + fmt.Sprintf("%v %+v %#v", r, r, r) + string(asJSON) + log.String()
	for _, form := range []string{"deadbeef", "222 173", "0xde", "222,173"} {
		if strings.Contains(printed, form) {
			t.Errorf("the key is in %s", printed)
		}
	}
}

func TestParcelsRefused(t *testing.T) {
	good := nip90.NewParcel([]byte("bundle"))
	change := func(f func(*nip90.Parcel)) nip90.Parcel { p := good; f(&p); return p }
	for _, c := range []struct {
		name   string
		parcel nip90.Parcel
		want   error
	}{
		{"nothing", nip90.Parcel{}, nip90.ErrMalformed},
		{"no bytes", nip90.NewParcel(nil), nip90.ErrMalformed},
		{"too large for an event", nip90.NewParcel(make([]byte, nip90.MaxInline+1)), nip90.ErrTooBig},
		{"another hash", change(func(p *nip90.Parcel) { p.Hash[0]++ }), nip90.ErrMalformed},
		{"another size", change(func(p *nip90.Parcel) { p.Size++ }), nip90.ErrMalformed},
		{"bytes and a URL", change(func(p *nip90.Parcel) { p.URL = "https://x" }), nip90.ErrMalformed},
		{"a key for bytes", change(func(p *nip90.Parcel) { p.Key = new([32]byte) }), nip90.ErrMalformed},
		{"a file URL", change(func(p *nip90.Parcel) { p.Inline, p.URL = nil, "file:///etc/passwd" }), nip90.ErrMalformed},
		{"a URL with a space", change(func(p *nip90.Parcel) { p.Inline, p.URL = nil, "https://x y" }), nip90.ErrMalformed},
		{"a long URL", change(func(p *nip90.Parcel) { p.Inline, p.URL = nil, "https://"+strings.Repeat("x", nip90.MaxURL) }), nip90.ErrMalformed},
	} {
		if _, err := c.parcel.Encode(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		var r nip90.Request
		if err := r.SetBundle(c.parcel); !errors.Is(err, c.want) || len(r.Inputs) > 0 {
			t.Errorf("%s in a request: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestDeliveriesRefused(t *testing.T) {
	sum := guild.Sum([]byte("x")).Hex()
	for _, c := range []struct {
		name, content string
		want          error
	}{
		{"prose", "the answer is 42", nip90.ErrNoBundle},
		{"other JSON", `{"answer":42}`, nip90.ErrNoBundle},
		{"a hash that is a number", `{"v":1,"delivery_sha256":5}`, nip90.ErrMalformed},
		{"one that was cut off", `{"v":1,"delivery_sha256":"` + sum + `","bundle":"AAAA`, nip90.ErrMalformed},
		{"JSON about deliveries", `{"text":"the delivery_sha256 is missing"}`, nip90.ErrNoBundle},
		{"a list", `[{"delivery_sha256":"` + sum + `"}]`, nip90.ErrNoBundle},
		{"a later version", `{"v":2,"delivery_sha256":"` + sum + `"}`, nip90.ErrMalformed},
		{"a short hash", `{"v":1,"delivery_sha256":"ab","size":1,"bundle":"eA=="}`, nip90.ErrMalformed},
		{"bytes of another hash", `{"v":1,"delivery_sha256":"` + sum + `","size":1,"bundle":"eQ=="}`, nip90.ErrMalformed},
		{"bytes of another size", `{"v":1,"delivery_sha256":"` + sum + `","size":2,"bundle":"eA=="}`, nip90.ErrMalformed},
		{"broken base64", `{"v":1,"delivery_sha256":"` + sum + `","size":1,"bundle":"eA"}`, nip90.ErrMalformed},
		{"a broken key", `{"v":1,"delivery_sha256":"` + sum + `","size":1,"url":"https://x","key":"zz"}`, nip90.ErrMalformed},
		{"a negative size", `{"v":1,"delivery_sha256":"` + sum + `","size":-1,"url":"https://x"}`, nip90.ErrMalformed},
		{"too much inline", `{"v":1,"delivery_sha256":"` + sum + `","size":1,"bundle":"` + strings.Repeat("A", 64<<10) + `"}`, nip90.ErrTooBig},
		{"too much of anything", strings.Repeat(" ", nip90.MaxText+1), nip90.ErrTooBig},
	} {
		if _, err := nip90.DecodeParcel(c.content); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if _, err := nip90.DecodeParcel(" \n" + `{"v":1,"delivery_sha256":"sha256:` + sum + `","size":1,"bundle":"eA==","new":true}` + "\n"); err != nil {
		t.Errorf("white space, a prefixed hash and a field that we do not know: %v", err)
	}
}

func TestBundlesRefused(t *testing.T) {
	sum := guild.Sum([]byte("x")).Hex()
	in := func(kind, data string) nostr.Tag { return nostr.Tag{"i", data, kind, "", "bundle"} }
	digest := nostr.Tag{"param", "bundle_sha256", sum}
	for _, c := range []struct {
		name string
		tags nostr.Tags
		want error
	}{
		{"no input", nostr.Tags{digest}, nip90.ErrNoBundle},
		{"no hash", nostr.Tags{in("text", "eA==")}, nip90.ErrMalformed},
		{"bytes of another hash", nostr.Tags{in("text", "eQ=="), digest}, nip90.ErrMalformed},
		{"bytes of another size", nostr.Tags{in("text", "eA=="), digest, {"param", "bundle_size", "2"}}, nip90.ErrMalformed},
		{"a size that is not a number", nostr.Tags{in("text", "eA=="), digest, {"param", "bundle_size", "1kB"}}, nip90.ErrMalformed},
		{"a URL without a size", nostr.Tags{in("url", "https://x"), digest}, nip90.ErrMalformed},
		{"an event", nostr.Tags{in("event", sum), digest}, nip90.ErrMalformed},
		{"too much inline", nostr.Tags{in("text", base64.StdEncoding.EncodeToString(make([]byte, nip90.MaxInline+3))), digest}, nip90.ErrTooBig},
	} {
		r := must[nip90.Request](t)(nip90.ParseRequest(nostr.Event{Kind: 5000, Tags: c.tags}, nil))
		if _, err := r.Bundle(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	r := must[nip90.Request](t)(nip90.ParseRequest(nostr.Event{Kind: 5000, Tags: nostr.Tags{in("text", "eA=="), digest}}, nil))
	if p, err := r.Bundle(); err != nil || p.Size != 1 {
		t.Errorf("inline bytes need no stated size: %v, %v", p, err)
	}
}

func TestJobHashParams(t *testing.T) {
	var r nip90.Request
	r.Set(nip90.ParamJobType, "benchmark-task")
	r.Set(nip90.ParamTimeLimit, "60")
	r.Set("mode", "a", "b")
	if err := r.SetBundle(nip90.NewParcel([]byte("bundle"))); err != nil {
		t.Fatal(err)
	}
	want := must[guild.Hash](t)(r.JobHash())
	spelled := `{"bundle_sha256":"` + guild.Sum([]byte("bundle")).Hex() + `","job_type":"benchmark-task","params":[["mode","a","b"],["time-limit","60"]]}`
	if want != guild.Sum([]byte(spelled)) {
		t.Errorf("not the hash of %s", spelled)
	}
	for _, key := range []string{nip90.ParamDeadline, nip90.ParamJobHash, nip90.ParamBundleSize, nip90.ParamBundleKey} {
		r.Set(key, "1")
		if got := must[guild.Hash](t)(r.JobHash()); got != want {
			t.Errorf("%s changes the hash", key)
		}
	}
	for _, key := range []string{nip90.ParamJobType, nip90.ParamBundleSHA256, nip90.ParamTimeLimit, "mode", "new"} {
		changed := r
		changed.Set(key, "other")
		if got := must[guild.Hash](t)(changed.JobHash()); got == want {
			t.Errorf("%s does not change the hash", key)
		}
	}
	r.Params[0], r.Params[1] = r.Params[1], r.Params[0]
	if got := must[guild.Hash](t)(r.JobHash()); got != want {
		t.Error("the order of parameters changes the hash")
	}
}

func ExampleRequest_SetBundle() {
	r := nip90.Request{Kind: 5000}
	r.Set(nip90.ParamJobType, "benchmark-task")
	err := r.SetBundle(nip90.NewParcel([]byte("NUT\x01…")))
	p, _ := r.Bundle()
	fmt.Println(p, err)
	// Output: bundle 39d187a1 of 7 bytes, inline <nil>
}

func ExampleDecodeParcel() {
	p, err := nip90.DecodeParcel(`{"v":1,"delivery_sha256":"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881","size":1,"bundle":"eA=="}`)
	fmt.Printf("%s %q %v\n", p, p.Inline, err)
	// Output: bundle 2d711642 of 1 bytes, inline "x" <nil>
}
