package vault_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/key"
	"guild/nutshell/vault"
)

const bundle = "nut-a1b2"

// publisher issues vaults for a bundle.
type publisher struct {
	nostr.Keyer
	key nostr.PubKey
}

func newPublisher() publisher {
	k := nostr.Generate()
	return publisher{key.NewSigner(key.NewSecret(k)), k.Public()}
}

// issue signs a vault for a bundle.
func (p publisher) issue(t testing.TB, sealed string, at time.Time, change ...func(*nostr.Event)) []byte {
	t.Helper()
	e, err := vault.NewRevision(bundle, vault.Age, []byte(sealed), at)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(&e)
	}
	v, err := guild.Sign(context.Background(), p, e)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := vault.MarshalRevision(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestRevision(t *testing.T) {
	p := newPublisher()
	raw := p.issue(t, "sealed bytes \x00\xff", march)
	r, err := vault.ParseRevision(raw, bundle, p.key)
	if err != nil {
		t.Fatal(err)
	}
	if string(r.Sealed) != "sealed bytes \x00\xff" || r.Form != vault.Age || r.CreatedAt.Time().UTC() != march || r.Bundle != bundle || r.PubKey != p.key {
		t.Errorf("got %+v", r)
	}
	if !strings.Contains(string(raw), `"nutshell-vault:nut-a1b2"`) || !strings.Contains(string(raw), "30078") {
		t.Errorf("the event is %s", raw)
	}
}

func TestRevisionErrors(t *testing.T) {
	p, other := newPublisher(), newPublisher()
	good := string(p.issue(t, "sealed", march))
	for name, c := range map[string]struct {
		raw  []byte
		want error
	}{
		"nothing":          {nil, vault.ErrNotRevision},
		"words":            {[]byte("hello"), vault.ErrNotRevision},
		"an empty object":  {[]byte("{}"), vault.ErrNotRevision},
		"an odd object":    {[]byte(`{"kind": "x", "tags": 1}`), vault.ErrNotRevision},
		"another key":      {other.issue(t, "sealed", march), vault.ErrForeignKey},
		"another kind":     {p.issue(t, "sealed", march, func(e *nostr.Event) { e.Kind = 1 }), vault.ErrNotRevision},
		"another bundle":   {p.issue(t, "sealed", march, func(e *nostr.Event) { e.Tags[0][1] += "x" }), vault.ErrNotRevision},
		"two bundles":      {p.issue(t, "sealed", march, func(e *nostr.Event) { e.Tags = append(e.Tags, e.Tags[0]) }), vault.ErrNotRevision},
		"many tags":        {p.issue(t, "sealed", march, func(e *nostr.Event) { e.Tags = append(e.Tags, make(nostr.Tags, 50)...) }), vault.ErrNotRevision},
		"another hash":     {p.issue(t, "sealed", march, func(e *nostr.Event) { e.Tags[1][1] = strings.Repeat("0", 64) }), vault.ErrTampered},
		"no hash":          {p.issue(t, "sealed", march, func(e *nostr.Event) { e.Tags[1][0] = "y" }), vault.ErrTampered},
		"no base64":        {p.issue(t, "sealed", march, func(e *nostr.Event) { e.Content = "!" }), vault.ErrNotRevision},
		"lines of base64":  {p.issue(t, "sealed", march, func(e *nostr.Event) { e.Content += "\n" }), vault.ErrNotRevision},
		"a changed time":   {[]byte(strings.Replace(good, `"created_at": 1`, `"created_at": 2`, 1)), guild.ErrWrongID},
		"a changed vault":  {[]byte(strings.Replace(good, `"c2VhbGVk"`, `"c2VhbGVX"`, 1)), guild.ErrWrongID},
		"a bad signature":  {withSignature(t, good), guild.ErrBadSignature},
		"too much":         {[]byte(`{"content":"` + strings.Repeat("A", vault.MaxRevision) + `"}`), vault.ErrTooLarge},
		"too large inside": {p.issue(t, "x", march, func(e *nostr.Event) { e.Content = strings.Repeat("A", 1_500_000) }), vault.ErrTooLarge},
	} {
		if _, err := vault.ParseRevision(c.raw, bundle, p.key); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := vault.NewRevision(bundle, vault.Age, make([]byte, vault.MaxSealed+1), march); !errors.Is(err, vault.ErrTooLarge) {
		t.Errorf("a vault that is too large: %v", err)
	}
}

// withSignature replaces the signature by another one of the right size.
func withSignature(t *testing.T, raw string) []byte {
	var e map[string]any
	if err := json.Unmarshal([]byte(raw), &e); err != nil {
		t.Fatal(err)
	}
	e["sig"] = strings.Repeat("01", 64)
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRevisionAfter(t *testing.T) {
	at := func(second int64, id byte) vault.Revision {
		return vault.Revision{CreatedAt: nostr.Timestamp(second), ID: nostr.ID{id}}
	}
	known := at(5, 2)
	for _, c := range []struct {
		r    vault.Revision
		want error
	}{{at(6, 9), nil}, {at(5, 2), nil}, {at(5, 1), nil}, {at(5, 3), vault.ErrRollback}, {at(4, 0), vault.ErrRollback}} {
		if err := c.r.After(known); !errors.Is(err, c.want) {
			t.Errorf("%v: %v", c.r, err)
		}
	}
}

func FuzzParseRevision(f *testing.F) {
	p := newPublisher()
	f.Add(p.issue(f, "sealed", march))
	f.Add([]byte(`{"id":"00","pubkey":"","sig":"zz","kind":70000,"tags":[["d"],[]],"created_at":-1,"content":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if r, err := vault.ParseRevision(raw, bundle, p.key); err == nil && string(r.Sealed) != "sealed" {
			t.Error("a vault that nobody signed")
		}
	})
}
