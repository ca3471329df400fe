package verify

import (
	"encoding/base64"
	"encoding/hex"
	"reflect"
	"testing"

	"guild/cashu/token"
)

// askedTest returns a payment request with a value in every field.
func askedTest() token.Request {
	return token.Request{
		ID: "ab", Amount: 500, Unit: "test", Once: true, Mints: []string{"https://mint.example"}, Text: "work",
		Transports: []token.Transport{{Type: "nostr", Target: "nprofile1", Tags: [][]string{{"n", "17"}}}},
		Lock:       &token.RequestedLock{Kind: "P2PK", Data: "02", Tags: [][]string{{"n_sigs", "2"}}},
	}
}

func TestPaymentRequest(t *testing.T) {
	if got, err := parseRequest(askedTest().String()); err != nil || !reflect.DeepEqual(got, askedTest()) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, digits := range map[string]string{
		"an endless map":       "bf616919000aff",
		"a number below zero":  "a2616162616220",
		"a key that is none":   "a1016161",
		"a field twice":        "a2616162616161616262",
		"a lock's field twice": "a1656e75743130a2616462303261648180",
		"a text in Latin":      "a1617861e9",
		"a tag":                "a16178c100",
		"more after it":        "a000",
		"nothing":              "",
		"a text cut off":       "a1616978ff",
		"a float":              "a16178f93c00",
		"too deep":             "a1617881818181818100",
	} {
		b, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := parseRequest("creqA" + base64.RawURLEncoding.EncodeToString(b)); err == nil {
			t.Errorf("%s: read as %+v", name, r)
		}
	}
}

func FuzzPaymentRequest(f *testing.F) {
	f.Add(askedTest().String())
	f.Add("creqA")
	judged := askedTest()
	judged.Lock.Data = newMint().keys[1].PubKey().String()
	judged.Lock.Tags = append(judged.Lock.Tags, []string{"locktime", "1790000000"}, []string{"pubkeys", newMint().keys[4].PubKey().String()})
	f.Add(judged.String())
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseRequest(s)
		if err != nil {
			return
		}
		if _, err := parseRequest(r.String()); err != nil {
			t.Errorf("%q was read and %q is not: %v", s, r, err)
		}
		if r.Lock == nil {
			return
		}
		if terms, err := readTerms(*r.Lock); err == nil && (terms.arbiter == terms.key || terms.alone && terms.arbiter != [32]byte{}) {
			t.Errorf("%q asks for %+v", s, terms)
		}
	})
}
