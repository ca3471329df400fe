package fact

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"fiatjaf.com/nostr"
)

func TestFactsRoundTrip(t *testing.T) {
	for name, of := range readers {
		f, err := of.read(json.RawMessage(`{}`))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		wire, err := json.Marshal(Entry{V: Version, At: 1, By: "n", Facts: []Fact{f}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		wire = bytes.ReplaceAll(wire, []byte(nostr.ZeroPK.Hex()), []byte(nostr.GetPublicKey(nostr.KeyOne).Hex()))
		var back Entry
		if err := json.Unmarshal(wire, &back); err != nil {
			t.Errorf("%s: read back: %v", name, err)
			continue
		}
		if got := back.Facts[0].Type(); got != name {
			t.Errorf("%s came back as %s", name, got)
		}
	}
}

func TestEncodeMatchesJSON(t *testing.T) {
	for _, e := range []Entry{
		{V: 1},
		{V: 1, At: 7, By: "a<b", Cause: "c", Prev: "p", Facts: []Fact{}},
		{V: 1, At: 7, By: "n", Facts: []Fact{
			JobClosed{Reason: "tags & \u2028 <html>"}, EffectClaimed{Effect: "publish", Until: 1 << 60},
			AttemptRequested{Relays: []string{"ws://a"}},
		}},
	} {
		direct, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if usual, err := json.Marshal(e); err != nil || !bytes.Equal(direct, usual) {
			t.Errorf("%s\nis not %s (%v)", direct, usual, err)
		}
	}
}

func TestUnknownFactIsRefused(t *testing.T) {
	var e Entry
	err := json.Unmarshal([]byte(`{"v":1,"at":1,"by":"n","facts":[{"type":"moon.landed"}]}`), &e)
	if !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v, want ErrUnknown", err)
	}
}
