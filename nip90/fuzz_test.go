package nip90_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip90"
)

// fuzzed returns an event of the fuzzer's input: tags as JSON, and a content.
func fuzzed(kind nostr.Kind, tags []byte, content string) (nostr.Event, bool) {
	e := nostr.Event{Kind: kind, PubKey: customer.pub, Content: content}
	return e, json.Unmarshal(tags, &e.Tags) == nil
}

// asIs and unopened replace encryption in the fuzz targets, so that the fuzzer can write the plaintext.
func asIs(s string) (string, error) { return s, nil }

func unopened(_ nostr.PubKey, s string) (string, error) { return s, nil }

func addEvents(f *testing.F) {
	full := fullRequest()
	clear, _ := full.Event()
	sealed, _ := full.Sealed(asIs)
	result, _ := (nip90.Result{Kind: 6000, Request: nostr.ID{1}, Customer: customer.pub, Amount: 5, Invoice: "ln", Content: "x"}).Event()
	feedback := nip90.Feedback{Status: nip90.Error, Text: "busy", Request: nostr.ID{1}, Amount: 1, Content: "c"}
	secret, _ := feedback.Sealed(asIs)
	for _, e := range []nostr.Event{clear, sealed, result, feedback.Event(), secret} {
		tags, _ := json.Marshal(e.Tags)
		f.Add(tags, e.Content)
	}
	f.Add([]byte(`[[],["e"],["i","\b"],["param","bundle_key","a"],["status","x","error"],["amount",""],["relays","wss://a b"]]`), "\x00")
	f.Add([]byte(`[["encrypted"]]`), `[["param","vault","nip44","e30=","allow-expired"],["param","vault_sha256","44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"]]`)
	f.Add([]byte(`[["metered","300000","2000","0"],["usage","12400","65000"],["usage","x","1"],["status","payment-required"]]`), "")
	f.Add([]byte(`[["encrypted"]]`), `[["status"],["content","\u0000<"],["bundle_key"]]`)
}

// settled checks that an event is stable: reading and writing it again changes nothing.
func settled(t *testing.T, first, second nostr.Event) {
	t.Helper()
	if !reflect.DeepEqual(first.Tags, second.Tags) || first.Content != second.Content {
		t.Fatalf("written\n%q %q\nthen\n%q %q", first.Tags, first.Content, second.Tags, second.Content)
	}
}

func FuzzRequest(f *testing.F) {
	addEvents(f)
	f.Fuzz(func(t *testing.T, tags []byte, content string) {
		e, ok := fuzzed(5000, tags, content)
		r, err := nip90.ParseRequest(e, unopened)
		if !ok || err != nil {
			return
		}
		r.Bundle()
		r.Vault()
		r.Solicits()
		if _, err := r.JobHash(); err != nil {
			t.Fatal(err)
		}
		for _, write := range []func(nip90.Request) (nostr.Event, error){
			nip90.Request.Event, func(r nip90.Request) (nostr.Event, error) { return r.Sealed(asIs) },
		} {
			var written [3]nostr.Event
			again := r
			for i := range written {
				if written[i], err = write(again); err != nil {
					if !errors.Is(err, nip90.ErrSecret) {
						t.Fatal(err)
					}
					return
				}
				if again, err = nip90.ParseRequest(written[i], unopened); err != nil {
					if !errors.Is(err, nip90.ErrTooBig) {
						t.Fatal(err)
					}
					return
				}
			}
			settled(t, written[1], written[2])
		}
	})
}

func FuzzResult(f *testing.F) {
	addEvents(f)
	f.Fuzz(func(t *testing.T, tags []byte, content string) {
		e, ok := fuzzed(6000, tags, content)
		nip90.Correlate(e)
		nip90.CorrelateInside(e, unopened)
		r, err := nip90.ParseResult(e, unopened)
		if !ok || err != nil {
			return
		}
		r.Delivery()
		var written [2]nostr.Event
		for i := range written {
			if written[i], err = r.Event(); errors.Is(err, nip90.ErrSecret) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if r, err = nip90.ParseResult(written[i], nil); err != nil {
				return // cleaning can turn a value into a number or a tag into an encrypted tag
			}
		}
		settled(t, written[0], written[1])
	})
}

func FuzzFeedback(f *testing.F) {
	addEvents(f)
	f.Fuzz(func(t *testing.T, tags []byte, content string) {
		e, ok := fuzzed(7000, tags, content)
		first, err := nip90.ParseFeedback(e, unopened)
		if !ok || err != nil {
			return
		}
		first.Busy()
		var written [3]nostr.Event
		for i := range written {
			written[i] = first.Event()
			if first, err = nip90.ParseFeedback(written[i], nil); err != nil {
				return // as in FuzzResult
			}
		}
		settled(t, written[1], written[2])
	})
}

func FuzzParcel(f *testing.F) {
	content, _ := nip90.NewParcel([]byte("NUT\x01")).Encode()
	f.Add(content)
	f.Add(`{"v":1,"delivery_sha256":"` + strings.Repeat("ab", 32) + `","size":9,"url":"https://x/y","key":"` + strings.Repeat("00", 32) + `"}`)
	f.Fuzz(func(t *testing.T, content string) {
		p, err := nip90.DecodeParcel(content)
		if err != nil {
			return
		}
		if p.URL == "" && guild.Sum(p.Inline) != p.Hash {
			t.Fatalf("the bytes of %v are not of its hash", p)
		}
		again, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if q, err := nip90.DecodeParcel(again); err != nil || !reflect.DeepEqual(p, q) {
			t.Fatalf("%v became %v, %v", p, q, err)
		}
	})
}
