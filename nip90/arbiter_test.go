package nip90

import (
	"testing"

	"fiatjaf.com/nostr"

	"guild/cashu"
)

func TestRequestNamesItsArbiter(t *testing.T) {
	want := Arbiter{PubKey: nostr.GetPublicKey(nostr.SecretKey{31: 3}), Key: cashu.RandomScalar().PubKey()}
	var r Request
	r.SetArbiter(want)
	got := ArbiterOf(r.Extra)
	if got == nil || *got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for name, extra := range map[string]nostr.Tags{
		"none":      {{"hold", want.Key.String()}},
		"no key":    {{tagJudge, want.PubKey.Hex()}},
		"no npub":   {{tagJudge, "x", want.Key.String()}},
		"no hex":    {{tagJudge, "zz047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5", want.Key.String()}},
		"no x":      {{tagJudge, "0000000000000000000000000000000000000000000000000000000000000005", want.Key.String()}},
		"no point":  {{tagJudge, want.PubKey.Hex(), "02" + want.PubKey.Hex()[:62]}},
		"off curve": {{tagJudge, want.PubKey.Hex(), "020000000000000000000000000000000000000000000000000000000000000005"}},
	} {
		if got := ArbiterOf(extra); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestOfferToRule(t *testing.T) {
	secret := nostr.SecretKey{31: 3}
	key := cashu.RandomScalar().PubKey()
	e := ArbiterEvent(key, 1)
	if err := e.Sign(secret); err != nil {
		t.Fatal(err)
	}
	if a, err := ParseArbiter(e); err != nil || a.Key != key || a.PubKey != e.PubKey {
		t.Errorf("%+v, %v", a, err)
	}
	for name, e := range map[string]nostr.Event{
		"taken back":   ArbiterEvent(cashu.Point{}, 1),
		"other data":   {Kind: KindArbiter, Tags: nostr.Tags{{"d", "other"}, {"pubkey", key.String()}}},
		"another kind": {Kind: 1, Tags: nostr.Tags{{"d", ArbiterD}, {"pubkey", key.String()}}},
		"no point":     {Kind: KindArbiter, Tags: nostr.Tags{{"d", ArbiterD}, {"pubkey", "02"}}},
	} {
		if a, err := ParseArbiter(e); err == nil {
			t.Errorf("%s: %+v", name, a)
		}
	}
}
