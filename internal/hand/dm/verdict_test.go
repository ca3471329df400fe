package dm

import (
	"errors"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
)

// failedVerdict returns a verdict.
func failedVerdict() Verdict {
	return Verdict{
		Request: nostr.ID{7}, Task: "python", Outcome: guild.Failure, Score: 300_000, Passed: 3, Expected: 10, Cause: "7 of 10 tests did not pass",
		Verdict: guild.Hash{1}, Receipt: "r-1", Stored: guild.Hash{2}, Until: 1_700_000_000, Text: "It was judged FAILURE.",
	}
}

func encoded(t testing.TB, m interface{ Encode() (string, error) }) string {
	t.Helper()
	content, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestVerdictRoundTrip(t *testing.T) {
	content := encoded(t, failedVerdict())
	const want = `{"type":"guild.verdict","version":1,"request":"0700000000000000000000000000000000000000000000000000000000000000",` +
		`"job_type":"python","outcome":"FAILURE","score_micro":300000,"passed":3,"expected":10,"cause":"7 of 10 tests did not pass",` +
		`"verdict_hash":"sha256:0100000000000000000000000000000000000000000000000000000000000000","receipt":"r-1",` +
		`"receipt_hash":"sha256:0200000000000000000000000000000000000000000000000000000000000000","object_until":1700000000,` +
		`"text":"It was judged FAILURE."}`
	if content != want {
		t.Errorf("got  %s\nwant %s", content, want)
	}
	if back, err := DecodeVerdict(content); err != nil || back != failedVerdict() {
		t.Errorf("%+v, %v", back, err)
	}
	if TypeOf(content) != TypeVerdict {
		t.Errorf("the type is %q", TypeOf(content))
	}
	against := Objection{Request: nostr.ID{7}, Reason: "the test wants Python 2"}
	content = encoded(t, against)
	if back, err := DecodeObjection(content); err != nil || back != against || TypeOf(content) != TypeObjection {
		t.Errorf("%+v, %v", back, err)
	}
}

func TestInvalidVerdicts(t *testing.T) {
	good := encoded(t, failedVerdict())
	change := func(old, now string) string { return strings.Replace(good, old, now, 1) }
	for name, c := range map[string]struct {
		content string
		want    guild.Reason
	}{
		"no JSON":               {"thank you", guild.Malformed},
		"nothing":               {"", guild.Malformed},
		"null":                  {"null", guild.Malformed},
		"another type":          {change(TypeVerdict, TypeObjection), guild.Malformed},
		"a later version":       {change(`"version":1`, `"version":2`), guild.Malformed},
		"no request":            {change("0700", "xx00"), guild.Malformed},
		"a short request":       {change("0700", "07"), guild.Malformed},
		"an outcome of its own": {change("FAILURE", "EXCELLENT"), guild.Malformed},
		"a score above one":     {change("300000", "1000001"), guild.Malformed},
		"a score below zero":    {change("300000", "-1"), guild.Malformed},
		"more passed than run":  {change(`"passed":3`, `"passed":11`), guild.Malformed},
		"a key twice":           {change(`"version":1`, `"version":1,"version":1`), guild.Malformed},
		"too much":              {good + strings.Repeat(" ", maxForm), guild.TooLarge},
	} {
		_, err := DecodeVerdict(c.content)
		if dropped, ok := errors.AsType[*guild.DropError](err); !ok || dropped.Reason != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := DecodeObjection(good); err == nil {
		t.Error("a verdict is no objection")
	}
}

func TestVerdictTextsAreCut(t *testing.T) {
	long := Objection{Request: nostr.ID{7}, Reason: strings.Repeat("é", 5000) + "\x00"}
	back, err := DecodeObjection(encoded(t, long))
	if err != nil || len(back.Reason) > MaxReason || strings.ContainsRune(back.Reason, 0) {
		t.Errorf("%d bytes, %v", len(back.Reason), err)
	}
	loud := strings.Replace(encoded(t, failedVerdict()), "It was judged", `\u001b[31m`+strings.Repeat("a", 5000), 1)
	v, err := DecodeVerdict(loud)
	if err != nil || len(v.Text) > maxText || strings.ContainsRune(v.Text, 0x1b) {
		t.Errorf("%q, %v", v.Text, err)
	}
}

func FuzzDecodeVerdict(f *testing.F) {
	f.Add(encoded(f, failedVerdict()))
	f.Add(`{"type":"guild.verdict","version":1}`)
	f.Fuzz(func(t *testing.T, content string) {
		v, err := DecodeVerdict(content)
		if err != nil {
			mustDrop(t, err)
			return
		}
		if len(v.Text) > maxText || len(v.Cause) > maxText || len(v.Task) > maxWord || v.Score < 0 || v.Score > guild.Micro {
			t.Errorf("%+v", v)
		}
		if again, err := DecodeVerdict(encoded(t, v)); err != nil || again != v {
			t.Errorf("%+v became %+v: %v", v, again, err)
		}
	})
}

func FuzzDecodeObjection(f *testing.F) {
	f.Add(encoded(f, Objection{Request: nostr.ID{7}, Reason: "why"}))
	f.Add(`{"type":"guild.objection","version":1,"request":7}`)
	f.Fuzz(func(t *testing.T, content string) {
		o, err := DecodeObjection(content)
		if err != nil {
			mustDrop(t, err)
			return
		}
		if again, err := DecodeObjection(encoded(t, o)); err != nil || again != o || len(o.Reason) > MaxReason {
			t.Errorf("%+v became %+v: %v", o, again, err)
		}
	})
}

func mustDrop(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[*guild.DropError](err); !ok {
		t.Errorf("got %v, want a *guild.DropError", err)
	}
}
