package nip90_test

import (
	"errors"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip90"
)

func TestFileMetadata(t *testing.T) {
	f := nip90.File{URL: "https://example.com/a.bin", MIME: "image/png", Hash: guild.Sum([]byte("x")), Size: 1}
	got, err := nip90.ParseFile(f.Event())
	if err != nil || got != f {
		t.Errorf("%+v, %v, want %+v", got, err, f)
	}
	if err := f.Check(guild.Sum([]byte("x")), 1); err != nil {
		t.Error(err)
	}
	if f.Check(guild.Sum([]byte("y")), 1) == nil || f.Check(f.Hash, 2) == nil {
		t.Error("another file passes")
	}
	url, x := nostr.Tag{"url", "https://example.com/a"}, nostr.Tag{"x", f.Hash.Hex()}
	for name, c := range map[string]struct {
		event nostr.Event
		want  error
	}{
		"without a size":   {nostr.Event{Kind: 1063, Tags: nostr.Tags{url, x, {"size"}, {}}}, nil},
		"one value twice":  {nostr.Event{Kind: 1063, Tags: nostr.Tags{url, x, url}}, nil},
		"another kind":     {nostr.Event{Kind: 1, Tags: nostr.Tags{url, x}}, nip90.ErrKind},
		"no URL":           {nostr.Event{Kind: 1063, Tags: nostr.Tags{x}}, nip90.ErrMalformed},
		"no web URL":       {nostr.Event{Kind: 1063, Tags: nostr.Tags{x, {"url", "file:///etc/passwd"}}}, nip90.ErrMalformed},
		"two URLs":         {nostr.Event{Kind: 1063, Tags: nostr.Tags{url, x, {"url", "https://example.com/b"}}}, nip90.ErrMalformed},
		"no hash":          {nostr.Event{Kind: 1063, Tags: nostr.Tags{url, {"x", "ab"}}}, nip90.ErrMalformed},
		"a negative size":  {nostr.Event{Kind: 1063, Tags: nostr.Tags{url, x, {"size", "-1"}}}, nip90.ErrMalformed},
		"a size like 1e99": {nostr.Event{Kind: 1063, Tags: nostr.Tags{url, x, {"size", strings.Repeat("9", 99)}}}, nip90.ErrMalformed},
		"too many tags":    {nostr.Event{Kind: 1063, Tags: append(make(nostr.Tags, nip90.MaxTags), url, x)}, nip90.ErrTooBig},
	} {
		if got, err := nip90.ParseFile(c.event); !errors.Is(err, c.want) || c.want == nil && (err != nil || got.Size != -1) {
			t.Errorf("%s: %+v, %v, want %v", name, got, err, c.want)
		}
	}
}

func TestRequestNamesFileMetadata(t *testing.T) {
	id := nostr.ID{7}
	r := nip90.Request{Kind: 5050, Extra: nostr.Tags{{"e", strings.Repeat("ab", 32), "", "root"}, {"e"}, {"t", "x", "", "file"}}}
	r.Describe(id, "wss://relay.example")
	e, err := r.Event()
	if err != nil {
		t.Fatal(err)
	}
	read, err := nip90.ParseRequest(e, nil)
	if got := read.Described(); err != nil || len(got) != 1 || got[0] != (nip90.Input{Data: id.Hex(), Type: "event", Relay: "wss://relay.example"}) {
		t.Errorf("%+v, %v", got, err)
	}
}
