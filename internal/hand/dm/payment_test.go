package dm

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"fiatjaf.com/nostr"
)

func someSignatures(n int) Signatures {
	s := Signatures{Type: TypeRelease, Request: nostr.ID{7}, Amount: 5, Signatures: map[string]string{}, Reason: "success, strong"}
	for i := range n {
		s.Signatures[fmt.Sprintf("02%064x", i)] = strings.Repeat("ab", 64)
	}
	return s
}

func TestSignatures(t *testing.T) {
	for _, n := range []int{0, 1, maxSignatures} {
		s := someSignatures(n)
		text, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := DecodeSignatures(text, TypeRelease); err != nil || !reflect.DeepEqual(back, s) {
			t.Errorf("%+v, %v", back, err)
		}
		if _, err := DecodeSignatures(text, TypeReturn); err == nil {
			t.Error("a release is a return")
		}
	}
	held := Signatures{Type: TypeRelease, Request: nostr.ID{7}, Amount: 5, Preimage: strings.Repeat("ab", 32)}
	text, err := held.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if back, err := DecodeSignatures(text, TypeRelease); err != nil || back.Preimage != held.Preimage {
		t.Errorf("%+v, %v", back, err)
	}
	for name, spoil := range map[string]func(s *Signatures){
		"too many":          func(s *Signatures) { *s = someSignatures(maxSignatures + 1) },
		"a short preimage":  func(s *Signatures) { s.Preimage = "ab" },
		"a text preimage":   func(s *Signatures) { s.Preimage = strings.Repeat("x", 64) },
		"a short point":     func(s *Signatures) { s.Signatures["02"] = strings.Repeat("ab", 64) },
		"a short signature": func(s *Signatures) { s.Signatures["02"+strings.Repeat("1", 64)] = "ab" },
		"no hex":            func(s *Signatures) { s.Signatures["02"+strings.Repeat("x", 64)] = strings.Repeat("ab", 64) },
	} {
		s := someSignatures(1)
		spoil(&s)
		text, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeSignatures(text, TypeRelease); err == nil {
			t.Errorf("%s: it is read", name)
		}
	}
}

func FuzzSignatures(f *testing.F) {
	for _, n := range []int{0, 3} {
		text, err := someSignatures(n).Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := DecodeSignatures(text, TypeRelease)
		if err != nil {
			return
		}
		again, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeSignatures(again, TypeRelease)
		if err != nil || len(back.Signatures) != len(s.Signatures) || back.Request != s.Request || back.Amount != s.Amount {
			t.Errorf("%q is %q, %v", text, again, err)
		}
	})
}
