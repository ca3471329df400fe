package exchange

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
)

// signedAt returns the signed export of a guild.
func (o *other) signedAt(at time.Time) []byte {
	o.Helper()
	b, err := o.Document().Sign(o.Context(), o.signer, at)
	if err != nil {
		o.Fatal(err)
	}
	return b
}

// imports reads and imports a document.
func (o *other) imports(b []byte, t Terms) (Imported, error) {
	d, err := Decode(b)
	if err != nil {
		return Imported{}, err
	}
	return o.step().Import(o.Context(), d, t)
}

func TestForgedDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, c := newOther(t, 1), newOther(t, 3)
		a.trusts("go", 1, 550_000, "")
		good := a.signedAt(time.Now())
		b, err := Decode(good)
		if err != nil || b.By != guildKey(1) || b.At != time.Now().Unix() || len(b.Entries) != 1 {
			t.Fatalf("%+v, %v", b, err)
		}
		replace := func(old, by string) []byte {
			if !bytes.Contains(good, []byte(old)) {
				t.Fatalf("%s is not in %s", old, good)
			}
			return bytes.Replace(good, []byte(old), []byte(by), 1)
		}
		asOther := a.Document()
		asOther.Guild = guildKey(3).Hex()
		signed, err := asOther.Sign(t.Context(), c.signer, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		var event nostr.Event // of another kind, that signs the same bytes
		body, err := a.Document().Encode()
		if err != nil {
			t.Fatal(err)
		}
		file, err := guild.Sign(t.Context(), a.signer, nostr.Event{Kind: 1063, CreatedAt: 1, Tags: nostr.Tags{{"x", guild.Sum(body).Hex()}}})
		if err != nil {
			t.Fatal(err)
		}
		event = file.Event()
		for name, forged := range map[string][]byte{
			"a changed value":           replace("550000", "900000"),
			"a member more":             replace(`"entries"`, `"another":1,"entries"`),
			"another guild":             replace(`"guild":"`+guildKey(1).Hex(), `"guild":"`+guildKey(3).Hex()),
			"another date":              replace(`"created_at":9`, `"created_at":8`),
			"another key":               bytes.Replace(signed, []byte(`"guild":"`+guildKey(3).Hex()), []byte(`"guild":"`+guildKey(1).Hex()), 1),
			"a signature of a file":     append(body[:len(body)-1:len(body)-1], []byte(`,"signature":`+event.String()+`}`)...),
			"no event":                  append(body[:len(body)-1:len(body)-1], []byte(`,"signature":7}`)...),
			"null":                      append(body[:len(body)-1:len(body)-1], []byte(`,"signature":null}`)...),
			"a long signature":          replace(`"content":""`, `"content":"`+strings.Repeat("x", maxSignature)+`"`),
			"a signature, then another": append(good[:len(good)-1:len(good)-1], []byte(`,"signature":{}}`)...),
		} {
			if _, err := Decode(forged); err == nil || !errors.Is(err, ErrSignature) && name != "a signature, then another" {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := asOther.Sign(t.Context(), a.signer, time.Now()); err == nil {
			t.Error("a guild signs for another one")
		}
	})
}

func TestImportTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newOther(t, 1), newOther(t, 2)
		a.trusts("go", 1, 550_000, "")
		unsigned, err := a.Document().Encode()
		if err != nil {
			t.Fatal(err)
		}
		first := a.signedAt(time.Now().Add(-time.Minute))
		for name, c := range map[string]struct {
			document []byte
			terms    Terms
			want     error
		}{
			"unsigned":                     {unsigned, Terms{}, ErrUnsigned},
			"unsigned, of a guild by name": {unsigned, Terms{From: guildKey(1), Unsigned: true}, ErrUnsigned},
			"of another guild":             {first, Terms{From: guildKey(3)}, ErrSigner},
			"of the future":                {a.signedAt(time.Now().Add(maxEarly + time.Minute)), Terms{}, ErrDate},
		} {
			if _, err := b.imports(c.document, c.terms); !errors.Is(err, c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := b.Journal.Last(); n != 0 {
			t.Fatalf("%d entries were written", n)
		}
		if sum, err := b.imports(first, Terms{From: guildKey(1)}); err != nil || sum.Changed != 1 {
			t.Errorf("%+v, %v", sum, err)
		}
		a.trusts("go", 1, 600_000, "")
		later := a.signedAt(time.Now())
		if sum, err := b.imports(later, Terms{}); err != nil || sum.Changed != 1 {
			t.Errorf("%+v, %v", sum, err)
		}
		last := b.Journal.Last()
		if _, err := b.imports(later, Terms{}); !errors.Is(err, ErrKnown) {
			t.Errorf("the same document again: %v", err)
		}
		if _, err := b.imports(first, Terms{}); !errors.Is(err, ErrOlder) {
			t.Errorf("an older one: %v", err)
		}
		if n := b.Journal.Last(); n != last {
			t.Errorf("%d entries were written", n-last)
		}
		a.trusts("go", 2, 500_000, "")
		if sum, err := b.imports(a.signedAt(time.Now()), Terms{}); err != nil || sum.Changed != 1 {
			t.Errorf("another one of the same second: %+v, %v", sum, err)
		}
		if sum, err := b.imports(unsigned, Terms{Unsigned: true}); err != nil || sum.Same != 1 {
			t.Errorf("unsigned, as its owner wants: %+v, %v", sum, err)
		}
	})
}
