package fold_test

import (
	"encoding/json"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fold"
)

// kept is a state with every type that states have.
type kept struct {
	Key      nostr.PubKey                   `json:"key"`
	ID       nostr.ID                       `json:"id,omitzero"`
	Jobs     fold.Table[guild.JobID, []int] `json:"jobs"`
	Names    fold.Table[name, *guild.Hash]  `json:"names"`
	Raw      json.RawMessage                `json:"raw,omitempty"`
	None     []string                       `json:"none"`
	Empty    map[string]int                 `json:"empty,omitempty"`
	Trust    guild.Trust                    `json:"trust_micro"`
	Text     string                         `json:"text"`
	Verdict  guild.Verdict                  `json:"verdict"`
	Untagged bool
}

type name string

func aKey() nostr.PubKey { return nostr.GetPublicKey(nostr.SecretKey{31: 1}) }

func TestEncodeMatchesEncodingJSON(t *testing.T) {
	s := kept{Key: aKey(), Raw: json.RawMessage(`{"b":1,"a":[2]}`), Trust: 600_000, Text: "a <b> & \u2028", Untagged: true,
		Verdict: guild.Verdict{Outcome: guild.Success, Score: 930_000}}
	s.Jobs.Set(guild.JobID{2}, []int{1, 2})
	s.Jobs.Set(guild.JobID{1}, nil)
	s.Names.Set("n", &guild.Hash{7})
	plain, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	b, err := fold.Encode(s)
	if err != nil || string(b) != string(plain) {
		t.Fatalf("%s, %v, want\n%s", b, err, plain)
	}
	var back kept
	if err := fold.Decode(b, &back); err != nil {
		t.Fatal(err)
	}
	if again, err := fold.Encode(back); err != nil || string(again) != string(b) {
		t.Errorf("%s, %v, want\n%s", again, err, b)
	}
}

func TestInvalidKeyIsRefused(t *testing.T) {
	for _, bad := range []string{`""`, `7`, `{}`, `"zz` + aKey().Hex()[2:] + `"`, `"` + aKey().Hex()[2:] + `"`, `["` + aKey().Hex()[2:] + `"]`} {
		var s struct{ Key nostr.PubKey }
		if err := fold.Decode([]byte(`{"Key":`+bad+`}`), &s); err == nil {
			t.Errorf("%s is a key", bad)
		}
	}
}

func FuzzAStateIsReadOrRefused(f *testing.F) {
	f.Add([]byte(`{"key":"` + aKey().Hex() + `","jobs":{"02000000000000000000000000000000":[1]},"names":{"n":null},"raw":{}}`))
	f.Add([]byte(`{"jobs":{"02000000000000000000000000000000":[1],"02000000000000000000000000000000":[2]}}`))
	f.Add([]byte(`{"jobs":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s, again kept
		if fold.Decode(b, &s) != nil {
			return
		}
		once, err := fold.Encode(s)
		if err != nil {
			t.Fatalf("%q was read and cannot be written: %v", b, err)
		}
		if err := fold.Decode(once, &again); err != nil {
			t.Fatalf("%q was written and cannot be read: %v", once, err)
		}
	})
}
