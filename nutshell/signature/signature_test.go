package signature_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild"
	"guild/internal/hand/key"
	"guild/nutshell/signature"
)

var (
	at     = time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC)
	bundle = guild.Sum([]byte("a bundle"))
	alice  = signer(1)
	bob    = signer(2)
)

func signer(n byte) nostr.Signer { return key.NewSigner(key.NewSecret(nostr.SecretKey{31: n})) }

func subject(hash guild.Hash) signature.Subject {
	return signature.Subject{Hash: hash, Size: 8, MIME: signature.MIMEGzip, ID: "nut-1", Title: "Build a REST API"}
}

func signed(t testing.TB, by nostr.Signer, e nostr.Event) guild.Verified {
	t.Helper()
	v, err := guild.Sign(t.Context(), by, e)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// file returns the file that Add makes of events.
func file(t testing.TB, all ...guild.Verified) []byte {
	t.Helper()
	var b []byte
	for _, v := range all {
		var err error
		if b, err = signature.Add(b, v); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func TestVerify(t *testing.T) {
	b := file(t, signed(t, alice, signature.Event(subject(bundle), at)))
	all, err := signature.Verify(b, bundle)
	if err != nil {
		t.Fatal(err)
	}
	pub, _ := alice.GetPublicKey(t.Context())
	s := all[0]
	if len(all) != 1 || s.Signer != pub || !s.At.Equal(at) || s.ID != "nut-1" || s.Title != "Build a REST API" || s.Size != 8 {
		t.Errorf("%+v", all)
	}
	if _, err := signature.Verify(b, guild.Sum([]byte("another"))); !errors.Is(err, signature.ErrOther) {
		t.Error(err)
	}
}

func TestSingleSignerFile(t *testing.T) {
	b := file(t, signed(t, alice, signature.Event(subject(bundle), at)))
	var e nostr.Event
	if err := json.Unmarshal(b, &e); err != nil {
		t.Fatal(err)
	}
	if _, err := guild.Verify(e); err != nil || e.Kind != 1063 || e.Content != "Build a REST API" {
		t.Errorf("%v, %v", e, err)
	}
	want := fmt.Sprintf(`[["x","%s"],["m","application/x-nutshell+gzip"],["size","8"],["bundle","nut-1"],`+
		`["alt","Signature of the Nutshell bundle: Build a REST API"]]`, bundle.Hex())
	if tags, err := json.Marshal(e.Tags); err != nil || string(tags) != want {
		t.Errorf("%s, %v", tags, err)
	}
}

func TestAddSigners(t *testing.T) {
	older, newer := signed(t, alice, signature.Event(subject(bundle), at)), signed(t, alice, signature.Event(subject(bundle), at.Add(time.Hour)))
	other := signed(t, bob, signature.Event(subject(bundle), at))
	for name, b := range map[string][]byte{
		"added": file(t, older, other, newer), "added in the other order": file(t, newer, other, older),
		"put together by hand": bytes.Join([][]byte{file(t, older), file(t, newer), file(t, other)}, []byte("\r\n\n")),
	} {
		all, err := signature.Verify(b, bundle)
		if err != nil || len(all) != 2 || all[0].Event.Event().ID != newer.Event().ID || all[1].Event.Event().ID != other.Event().ID {
			t.Errorf("%s: %v, %v", name, all, err)
		}
	}
}

func TestInvalidSignatures(t *testing.T) {
	good := string(file(t, signed(t, alice, signature.Event(subject(bundle), at))))
	made := func(change func(*nostr.Event)) string {
		e := signature.Event(subject(bundle), at)
		change(&e)
		if err := alice.SignEvent(t.Context(), &e); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	x := nostr.Tag{"x", bundle.Hex()}
	for name, c := range map[string]struct {
		file string
		want error
	}{
		"an empty file":          {"", signature.ErrNotSignature},
		"white space":            {" \n\n", signature.ErrNotSignature},
		"words":                  {"signed, Alice", signature.ErrNotSignature},
		"an array":               {"[" + good + "]", signature.ErrNotSignature},
		"half of one":            {good[:len(good)/2], signature.ErrNotSignature},
		"more after it":          {good + "x", signature.ErrNotSignature},
		"a member twice":         {strings.Replace(good, `"kind":`, `"kind":1,"kind":`, 1), signature.ErrNotSignature},
		"a member too many":      {strings.Replace(good, `"kind":`, `"relay":"","kind":`, 1), signature.ErrNotSignature},
		"a member less":          {strings.Replace(good, `"kind":1063,`, ``, 1), signature.ErrNotSignature},
		"a member in other case": {strings.Replace(good, `"kind"`, `"Kind"`, 1), signature.ErrNotSignature},
		"a null":                 {strings.Replace(good, `1063`, `null`, 1), signature.ErrNotSignature},
		"hex in upper case":      {strings.Replace(good, bundle.Hex(), strings.ToUpper(bundle.Hex()), 1), signature.ErrNotSignature},
		"another kind":           {made(func(e *nostr.Event) { e.Kind = 1 }), signature.ErrNotSignature},
		"no hash":                {made(func(e *nostr.Event) { e.Tags = e.Tags[1:] }), signature.ErrNotSignature},
		"metadata of a file": {made(func(e *nostr.Event) {
			e.Tags = slices.DeleteFunc(e.Tags, func(t nostr.Tag) bool { return t[0] == "bundle" })
		}), signature.ErrNotSignature},
		"two hashes":               {made(func(e *nostr.Event) { e.Tags = append(e.Tags, x) }), signature.ErrNotSignature},
		"a hash with a prefix":     {made(func(e *nostr.Event) { e.Tags[0][1] = bundle.String() }), signature.ErrNotSignature},
		"too many tags":            {made(func(e *nostr.Event) { e.Tags = append(e.Tags, make(nostr.Tags, 40)...) }), signature.ErrNotSignature},
		"a moment before time":     {strings.Replace(good, `"created_at":`, `"created_at":-`, 1), signature.ErrNotSignature},
		"another title":            {strings.Replace(good, `"content":"Build`, `"content":"Break`, 1), signature.ErrForged},
		"another moment":           {strings.Replace(good, `"created_at":1`, `"created_at":2`, 1), signature.ErrForged},
		"a zero signature":         {good[:strings.Index(good, `"sig":"`)+7] + strings.Repeat("0", 128) + `"}`, signature.ErrForged},
		"another hash":             {strings.Replace(good, bundle.Hex(), strings.Repeat("0", 64), 1), signature.ErrForged},
		"one good, one of another": {good + string(file(t, signed(t, bob, signature.Event(subject(guild.Hash{1}), at)))), signature.ErrOther},
		"one good, one forged":     {good + strings.Replace(good, "Build", "Break", 1), signature.ErrForged},
		"more than there may be":   {strings.Repeat(good, signature.MaxSigners+1), signature.ErrTooMany},
		"larger than may be":       {good + strings.Repeat(" ", signature.MaxFile), signature.ErrNotSignature},
		"bytes that are no text":   {strings.Replace(good, "Build", "B\xffild", 1), signature.ErrNotSignature},
	} {
		if all, err := signature.Verify([]byte(c.file), bundle); !errors.Is(err, c.want) || all != nil {
			t.Errorf("%s: %v, %v, want %v", name, all, err, c.want)
		}
	}
}

func TestAddToSignaturesOfAnotherBundle(t *testing.T) {
	other := file(t, signed(t, alice, signature.Event(subject(guild.Hash{1}), at)))
	if _, err := signature.Add(other, signed(t, bob, signature.Event(subject(bundle), at))); !errors.Is(err, signature.ErrOther) {
		t.Error(err)
	}
	if _, err := signature.Add(nil, signed(t, bob, nostr.Event{Kind: 1})); !errors.Is(err, signature.ErrNotSignature) {
		t.Error(err)
	}
}

func TestTooManySigners(t *testing.T) {
	var b []byte
	for n := range signature.MaxSigners {
		b, _ = signature.Add(b, signed(t, signer(byte(n+1)), signature.Event(subject(bundle), at)))
	}
	if all, err := signature.Verify(b, bundle); err != nil || len(all) != signature.MaxSigners {
		t.Fatalf("%d, %v", len(all), err)
	}
	if _, err := signature.Add(b, signed(t, signer(100), signature.Event(subject(bundle), at))); !errors.Is(err, signature.ErrTooMany) {
		t.Error(err)
	}
	if _, err := signature.Add(b, signed(t, alice, signature.Event(subject(bundle), at.Add(1)))); err != nil {
		t.Error("who has signed cannot sign again:", err)
	}
}

func TestSignedTitles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := subject(bundle)
		s.Title, s.ID, s.URL = rapid.String().Draw(t, "title"), rapid.String().Draw(t, "id"), rapid.String().Draw(t, "url")
		v, err := guild.Sign(context.Background(), alice, signature.Event(s, at))
		if err != nil {
			t.Fatal(err)
		}
		b, err := signature.Add(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := signature.Verify(b, bundle); err != nil {
			t.Fatal(err)
		}
	})
}

func TestMediaType(t *testing.T) {
	for head, want := range map[string]string{
		"NUT\x01\x1f\x8b\x08": signature.MIMEGzip, "NUT\x01\x28\xb5\x2f\xfd": signature.MIME, "NUT\x01nutshell.json": signature.MIME, "NUT": signature.MIME,
	} {
		if got := signature.MediaType([]byte(head)); got != want {
			t.Errorf("%q: %s", head, got)
		}
	}
}

func FuzzVerify(f *testing.F) {
	one, two := signed(f, alice, signature.Event(subject(bundle), at)), signed(f, bob, signature.Event(subject(bundle), at))
	f.Add(file(f, one))
	f.Add(file(f, one, two))
	f.Add([]byte(`{"id":"","pubkey":"","created_at":0,"kind":1063,"tags":[["x"]],"content":"","sig":""}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := signature.Verify(b, bundle)
		if err != nil {
			if all != nil {
				t.Fatal("signatures beside an error")
			}
			return
		}
		var again []byte
		for _, s := range all {
			if again, err = signature.Add(again, s.Event); err != nil {
				t.Fatal(err)
			}
		}
		if second, err := signature.Verify(again, bundle); err != nil || len(second) != len(all) || len(all) == 0 {
			t.Fatalf("%d signatures became %d: %v", len(all), len(second), err)
		}
	})
}

// A bundle is signed. Who gets both files learns who vouches for it.
func Example() {
	bundle := []byte("NUT\x01…")
	event := signature.Event(signature.Subject{
		Hash: guild.Sum(bundle), Size: int64(len(bundle)), MIME: signature.MediaType(bundle), ID: "nut-1", Title: "Build a REST API",
	}, at)
	signed, err := guild.Sign(context.Background(), alice, event)
	if err != nil {
		panic(err)
	}
	file, err := signature.Add(nil, signed)
	if err != nil {
		panic(err)
	}
	all, err := signature.Verify(file, guild.Sum(bundle))
	fmt.Println(all[0].Signer.Hex()[:8], all[0].At.Format(time.DateOnly), err)
	// Output: 79be667e 2026-03-14 <nil>
}
