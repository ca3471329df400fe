package dm

import (
	"reflect"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild/internal/journal/fact"
)

// largestCase is of as many coins as a lock has, whose secrets are as long as those of three keys.
func largestCase() Case {
	c := Case{
		Request: nostr.ID{1}, Customer: nostr.GetPublicKey(nostr.SecretKey{31: 1}), Mint: "https://" + strings.Repeat("m", 192), Unit: "sat",
		Salt: [32]byte{1, 31: 2}, Released: 5, Reason: strings.Repeat("r", MaxReason),
	}
	for range 28 {
		c.Coins = append(c.Coins, fact.LockedCoin{Amount: 1 << 62, Secret: strings.Repeat(`"x`, 260)})
	}
	return c
}

func TestCase(t *testing.T) {
	for _, c := range []Case{largestCase(), {Request: nostr.ID{1}, Reason: "the tests are wrong"}} {
		text, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := DecodeCase(text); err != nil || !reflect.DeepEqual(back, c) {
			t.Errorf("%d bytes: %+v, %v", len(text), back, err)
		}
		if TypeOf(text) != TypeCase {
			t.Errorf("its type is %q", TypeOf(text))
		}
	}
	c := largestCase()
	c.Coins = append(c.Coins, make([]fact.LockedCoin, maxSignatures)...)
	text, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	good, err := Case{Request: nostr.ID{1}, Salt: [32]byte{1}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"too many coins": text,
		"a short salt":   strings.Replace(good, `"salt":"01`, `"salt":"`, 1),
		"no hex":         strings.Replace(good, `"salt":"01`, `"salt":"xx`, 1),
		"another type":   strings.Replace(good, TypeCase, TypeRuling, 1),
		"a long mint":    strings.Replace(good, `"salt"`, `"mint":"`+strings.Repeat("m", 2000)+`","salt"`, 1),
	} {
		if c, err := DecodeCase(text); err == nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func FuzzDecodeCase(f *testing.F) {
	for _, c := range []Case{largestCase(), {Reason: "no"}} {
		text, err := c.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := DecodeCase(text)
		if err != nil {
			return
		}
		again, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := DecodeCase(again); err != nil || !reflect.DeepEqual(back, c) {
			t.Errorf("%+v became %+v, %v", c, back, err)
		}
	})
}
