package guild_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"fiatjaf.com/nostr"
	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"guild"
)

// signer signs with the key 1, using only the code under test. damage, if not nil, changes the signed event.
type signer struct{ damage func(*nostr.Event) }

// SignEvent implements nostr.Signer.
func (s signer) SignEvent(_ context.Context, e *nostr.Event) error {
	private, public := btcec.PrivKeyFromBytes([]byte{31: 1})
	e.PubKey = nostr.PubKey(schnorr.SerializePubKey(public))
	e.ID = guild.EventID(*e)
	signature, err := schnorr.Sign(private, e.ID[:])
	if err != nil {
		return err
	}
	e.Sig = [64]byte(signature.Serialize())
	if s.damage != nil {
		s.damage(e)
	}
	return nil
}

// GetPublicKey implements nostr.Signer.
func (signer) GetPublicKey(context.Context) (nostr.PubKey, error) {
	_, public := btcec.PrivKeyFromBytes([]byte{31: 1})
	return nostr.PubKey(schnorr.SerializePubKey(public)), nil
}

// awkward returns an event with all characters that serialisations treat differently.
func awkward() nostr.Event {
	return nostr.Event{
		Kind: 1, CreatedAt: 1_700_000_000,
		Tags:    nostr.Tags{{"t", "tab\there"}, {}, {"", ""}, {"q", `"\`, "\b\f"}},
		Content: "\n\"\\\r\t\b\f \u2028\u2029 <&> \x00\x01\x1f\x7f / ü日🙂",
	}
}

// Each id must be the SHA-256 of its serialisation by NIP-01.
func TestEventID(t *testing.T) {
	key := strings.Repeat("ab", 32)
	for serialised, e := range map[string]nostr.Event{
		`[0,"` + key + `",0,0,[],""]`:                                  {},
		`[0,"` + key + `",1700000000,1,[],"hello"]`:                    {CreatedAt: 1_700_000_000, Kind: 1, Content: "hello"},
		`[0,"` + key + `",1,65535,[["e","x","y"],["p"],[]],"z"]`:       {CreatedAt: 1, Kind: 65535, Tags: nostr.Tags{{"e", "x", "y"}, {"p"}, {}}, Content: "z"},
		`[0,"` + key + `",1,1,[],"\n\"\\\r\t\b\f"]`:                    {CreatedAt: 1, Kind: 1, Content: "\n\"\\\r\t\b\f"},
		`[0,"` + key + `",1,1,[["t","\b","\f"]],""]`:                   {CreatedAt: 1, Kind: 1, Tags: nostr.Tags{{"t", "\b", "\f"}}},
		`[0,"` + key + "\",1,1,[],\"\u2028\u2029<&>\x00\x1f\x7f/ü🙂\"]": {CreatedAt: 1, Kind: 1, Content: "\u2028\u2029<&>\x00\x1f\x7f/ü🙂"},
	} {
		for i := range e.PubKey {
			e.PubKey[i] = 0xab
		}
		if got, want := guild.EventID(e), nostr.ID(guild.Sum([]byte(serialised))); got != want {
			t.Errorf("%s: id %s, want %s", serialised, got.Hex(), want.Hex())
		}
	}
}

func TestSignVerify(t *testing.T) {
	for _, e := range []nostr.Event{{Kind: 1, Content: "hello"}, awkward()} {
		v, err := guild.Sign(t.Context(), signer{}, e)
		if err != nil {
			t.Fatal(err)
		}
		again, err := guild.Verify(v.Event())
		if err != nil || again.Event().ID != v.Event().ID || again.Event().Content != e.Content {
			t.Errorf("%q: %v", e.Content, err)
		}
	}
}

func TestChangedEventsRefused(t *testing.T) {
	signed, err := guild.Sign(t.Context(), signer{}, awkward())
	if err != nil {
		t.Fatal(err)
	}
	other := signer{}
	foreign, _ := other.GetPublicKey(t.Context())
	foreign[0] ^= 1
	for name, c := range map[string]struct {
		damage func(*nostr.Event)
		want   error
	}{
		"content":        {func(e *nostr.Event) { e.Content += "!" }, guild.ErrWrongID},
		"kind":           {func(e *nostr.Event) { e.Kind++ }, guild.ErrWrongID},
		"time":           {func(e *nostr.Event) { e.CreatedAt++ }, guild.ErrWrongID},
		"tags":           {func(e *nostr.Event) { e.Tags = e.Tags[1:] }, guild.ErrWrongID},
		"author":         {func(e *nostr.Event) { e.PubKey = foreign }, guild.ErrWrongID},
		"id":             {func(e *nostr.Event) { e.ID[31] ^= 1 }, guild.ErrWrongID},
		"content and id": {func(e *nostr.Event) { e.Content += "!"; e.ID = guild.EventID(*e) }, guild.ErrBadSignature},
		"author and id":  {func(e *nostr.Event) { e.PubKey = foreign; e.ID = guild.EventID(*e) }, guild.ErrBadSignature},
		"no author":      {func(e *nostr.Event) { e.PubKey = nostr.PubKey{}; e.ID = guild.EventID(*e) }, guild.ErrBadSignature},
		"signature":      {func(e *nostr.Event) { e.Sig[63] ^= 1 }, guild.ErrBadSignature},
		"no signature":   {func(e *nostr.Event) { e.Sig = [64]byte{} }, guild.ErrBadSignature},
		"high signature": {func(e *nostr.Event) { e.Sig = [64]byte([]byte(strings.Repeat("\xff", 64))) }, guild.ErrBadSignature},
	} {
		e := signed.Event()
		c.damage(&e)
		if v, err := guild.Verify(e); !errors.Is(err, c.want) || v.Event().ID != nostr.ZeroID {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestSignerSubstitutesEvent(t *testing.T) {
	_, err := guild.Sign(t.Context(), signer{func(e *nostr.Event) { e.Content = "pay mallory" }}, nostr.Event{Kind: 1, Content: "hello"})
	if !errors.Is(err, guild.ErrWrongID) {
		t.Errorf("got %v", err)
	}
}

func TestSignerFails(t *testing.T) {
	gone := errors.New("the bunker is gone")
	if _, err := guild.Sign(t.Context(), failing{gone}, nostr.Event{Kind: 5000}); !errors.Is(err, gone) || !strings.Contains(err.Error(), "5000") {
		t.Errorf("got %v", err)
	}
}

type failing struct{ err error }

func (f failing) SignEvent(context.Context, *nostr.Event) error      { return f.err }
func (f failing) GetPublicKey(context.Context) (nostr.PubKey, error) { return nostr.PubKey{}, f.err }

// FuzzVerify signs any event. It must verify, and must not verify with one more character.
func FuzzVerify(f *testing.F) {
	f.Add("hello", "t", "x", 1)
	f.Add("\b\f\n\r\t\"\\\u2028", "\x00", "", 65535)
	f.Fuzz(func(t *testing.T, content, name, value string, kind int) {
		e := nostr.Event{Kind: nostr.Kind(kind), Content: content, Tags: nostr.Tags{{name, value}}}
		v, err := guild.Sign(t.Context(), signer{}, e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := guild.Verify(v.Event()); err != nil {
			t.Fatal(err)
		}
		touched := v.Event()
		touched.Content += "x"
		if _, err := guild.Verify(touched); err == nil {
			t.Fatal("a touched event verifies")
		}
	})
}
