package seal

import (
	"errors"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/canon"
	"guild/internal/hand/key"
)

var seen = Witness{Customer: nostr.PubKey{1, 2, 3}, Checkpoint: point}

func TestWitnessRoundTrip(t *testing.T) {
	e := seen.Event(1_700_000_000)
	canonical, err := canon.Canonical([]byte(e.Content))
	if err != nil || string(canonical) != e.Content {
		t.Errorf("%s is not canonical: %v", e.Content, err)
	}
	if p, d, x := e.Tags.Find("p"), e.Tags.GetD(), e.Tags.Find("x"); p[1] != seen.Customer.Hex() || d != point.Journal || x[1] != point.Root.Hex() {
		t.Errorf("the tags are %v", e.Tags)
	}
	if got, err := ParseWitness(signed(t, e)); err != nil || got != seen {
		t.Errorf("%v, %v", got, err)
	}
}

func TestInvalidWitnesses(t *testing.T) {
	good := seen.Event(0).Content
	for name, content := range map[string]string{
		"nothing":          "",
		"no customer":      point.Event(0).Content,
		"a short customer": strings.Replace(good, seen.Customer.Hex(), "0102", 1),
		"upper case":       strings.Replace(good, seen.Customer.Hex(), strings.Repeat("AB", 32), 1),
		"no entries":       strings.Replace(good, `"size":42`, `"size":0`, 1),
		"a field too many": strings.Replace(good, `"size":42`, `"size":42,"x":1`, 1),
		"more than a KiB":  good + strings.Repeat(" ", 1024),
	} {
		e := seen.Event(0)
		e.Content = content
		if w, err := ParseWitness(signed(t, e)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, %v", name, w, err)
		}
	}
	if _, err := ParseWitness(signed(t, point.Event(0))); !errors.Is(err, ErrInvalid) {
		t.Errorf("a checkpoint: %v", err)
	}
}

func FuzzParseWitness(f *testing.F) {
	f.Add(seen.Event(0).Content)
	f.Add(point.Event(0).Content)
	signer := key.NewSigner(key.NewSecret(nostr.Generate()))
	f.Fuzz(func(t *testing.T, content string) {
		v, err := guild.Sign(t.Context(), signer, nostr.Event{Kind: KindWitness, Content: content})
		if err != nil {
			return
		}
		w, err := ParseWitness(v)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%q: %v", content, err)
			}
			return
		}
		v, err = guild.Sign(t.Context(), signer, w.Event(1))
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParseWitness(v); err != nil || again != w {
			t.Errorf("%q became %v: %v", content, again, err)
		}
	})
}
