package relay

import (
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/key"
)

func example(t testing.TB) nostr.Event {
	t.Helper()
	v, err := guild.Sign(t.Context(), key.NewSigner(key.NewSecret(nostr.SecretKey{1})), nostr.Event{
		Kind: 5050, CreatedAt: 1_700_000_000, Content: "a \"quoted\"\n\tline \u2028 \U0001F600 \\ \x01/",
		Tags: nostr.Tags{{"p", "x"}, {}, {"d", "", "\x7f"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return v.Event()
}

func TestParseMessages(t *testing.T) {
	e := example(t)
	m, err := parse([]byte(`["EVENT","7",` + e.String() + `]`))
	if err != nil || m.label != "EVENT" || m.sub != "7" {
		t.Fatalf("%+v, %v", m, err)
	}
	if _, err := guild.Verify(m.event); err != nil {
		t.Errorf("%v\n got %v\nwant %v", err, m.event, e)
	}
	id := e.ID.Hex()
	tests := []struct {
		raw  string
		want message
	}{
		{`["EOSE","7"]`, message{label: "EOSE", sub: "7"}},
		{`["CLOSED","7","error: why"]`, message{label: "CLOSED", sub: "7", text: "error: why"}},
		{`["CLOSED","7"]`, message{label: "CLOSED", sub: "7"}},
		{`["OK","` + id + `",true,""]`, message{label: "OK", id: e.ID, ok: true}},
		{`["OK","` + id + `",false,"blocked:\u001b[31m no"]`, message{label: "OK", id: e.ID, text: "blocked: [31m no"}},
		{`["OK","` + id + `",true]`, message{label: "OK", id: e.ID, ok: true}},
		{` [ "NOTICE" , "hi" , {"more":[1,2,{}]} ] `, message{label: "NOTICE", text: "hi"}},
		{`["AUTH","challenge"]`, message{label: "AUTH", text: "challenge"}},
	}
	for _, test := range tests {
		m, err := parse([]byte(test.raw))
		if err != nil || m.label != test.want.label || m.sub != test.want.sub || m.id != test.want.id ||
			m.ok != test.want.ok || m.text != test.want.text {
			t.Errorf("%s: %+v, %v", test.raw, m, err)
		}
	}
}

func TestParseErrors(t *testing.T) {
	event := example(t).String()
	swap := func(old, new string) string { return `["EVENT","7",` + strings.Replace(event, old, new, 1) + `]` }
	tests := []struct{ name, raw string }{
		{"empty", ``},
		{"null", `null`},
		{"an object", `{"EVENT":1}`},
		{"no label", `[]`},
		{"a label of another type", `[1,2]`},
		{"cut", `["EVENT","7",` + event[:len(event)-1]},
		{"two messages", `["EOSE","1"]["EOSE","2"]`},
		{"event of another type", `["EVENT","7",[]]`},
		{"null for an event", `["EVENT","7",null]`},
		{"no fields", `["EVENT","7",{}]`},
		{"kind as a string", swap(`"kind":5050`, `"kind":"5050"`)},
		{"kind with a fraction", swap(`"kind":5050`, `"kind":5050.0`)},
		{"kind below zero", swap(`"kind":5050`, `"kind":-1`)},
		{"time out of range", swap(`"created_at":1700000000`, `"created_at":99999999999999999999`)},
		{"tags as an object", swap(`"tags":[`, `"tags":{},"x":[`)},
		{"null for a tag", swap(`"tags":[`, `"tags":[null,`)},
		{"a number in a tag", swap(`["p","x"]`, `["p",1]`)},
		{"a list in a tag", swap(`["p","x"]`, `["p",["x"]]`)},
		{"a short id", swap(`"id":"`, `"id":"00","x":"`)},
		{"a null id", swap(`"id":"`, `"id":null,"x":"`)},
		{"upper case hex", strings.ToUpper(swap("", ""))},
		{"half a surrogate", swap(`"quoted`, `"\ud800`)},
		{"invalid UTF-8", swap(`a \"`, "\xff\\\"")},
		{"too many tags", swap(`["p","x"]`, `["p"]`+strings.Repeat(`,[]`, maxTags))},
		{"too many values", swap(`["p","x"]`, `["p"`+strings.Repeat(`,""`, maxValues)+`]`)},
		{"a tag without end", `["EVENT","7",{"tags":[["` + strings.Repeat(`","`, 1000)},
		{"deep", `["NOTICE","",` + strings.Repeat(`[`, 20) + strings.Repeat(`]`, 20) + `]`},
		{"an id of too many digits", `["OK","` + strings.Repeat("41", 100_000) + `",true,""]`},
		{"neither true nor false", `["OK","` + strings.Repeat("0", 64) + `",null,""]`},
	}
	for _, test := range tests {
		if m, err := parse([]byte(test.raw)); err == nil {
			t.Errorf("%s: read as %+v", test.name, m)
		}
	}
}

func TestReqFrame(t *testing.T) {
	got, err := reqFrame("7", []nostr.Filter{{Kinds: []nostr.Kind{1}}, {Tags: nostr.TagMap{"p": {`a"b`}}}})
	if want := `["REQ","7",{"kinds":[1]},{"#p":["a\"b"]}]`; err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
}

func TestNormalizeURL(t *testing.T) {
	tests := []struct{ raw, want string }{
		{"wss://Relay.Example.com/", "wss://relay.example.com"},
		{" wss://relay.example.com:443 ", "wss://relay.example.com"},
		{"wss://relay.example.com:444/a/?b=c#d", "wss://relay.example.com:444/a?b=c"},
		{"WS://LOCALHOST:80", "ws://localhost"},
		{"ws://[::1]:7777", "ws://[::1]:7777"},
		{"ws://[::1]", "ws://[::1]"},
		{"ws://127.0.0.9", "ws://127.0.0.9"},
		{"ws://example.com", ""},
		{"ws://127.0.0.1.example.com", ""},
		{"wss://user:password@example.com", ""},
		{"https://example.com", ""},
		{"wss://", ""},
		{"example.com", ""},
		{"wss://" + strings.Repeat("x", 600), ""},
		{"", ""},
	}
	for _, test := range tests {
		got, err := Normalize(test.raw)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%q: got %q, %v", test.raw, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`["EVENT","1",` + example(f).String() + `]`))
	for _, seed := range []string{
		`["OK","` + strings.Repeat("41", 33) + `",true,""]`, `["EOSE","1"]`, `["CLOSED","1","auth-required: x"]`,
		`["NOTICE",""]`, `["AUTH","x"]`, `["EVENT","1",{"tags":[[[[`, `[]`,
		`["EVENT","1",{"id":"` + strings.Repeat("zz", 32) + `"}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := parse(raw)
		if err != nil || m.label != "EVENT" {
			return
		}
		if len(m.event.Tags) > maxTags {
			t.Errorf("%d tags", len(m.event.Tags))
		}
		again, err := parse([]byte(`["EVENT","1",` + m.event.String() + `]`))
		zero := m.event.PubKey == nostr.ZeroPK || m.event.ID == nostr.ZeroID || m.event.Sig == [64]byte{}
		if !zero && (err != nil || guild.EventID(again.event) != guild.EventID(m.event)) {
			t.Errorf("%v: %s became %s", err, m.event, again.event)
		}
	})
}
