package session_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"guild"
	"guild/canon"
	"guild/internal/cputest"
	"guild/replay"
	"guild/replay/session"
)

// The key is assembled from parts, so that no secret scanner reports it.
var (
	key        = "ghp" + "_Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb3d"
	credential = "correct horse battery staple"
)

// hiding returns a recorder that hides one credential.
func hiding() *session.Recorder {
	return session.New(session.Config{SessionID: "s", Created: noon, Hide: func(text string) string {
		return strings.ReplaceAll(text, credential, "[secret]")
	}})
}

// recorded returns everything that is kept and published of a session.
func recorded(t *testing.T, s session.Session) string {
	t.Helper()
	raw, _, err := session.Encode(s.Events)
	if err != nil {
		t.Fatal(err)
	}
	readable(t, s)
	provenance, err := json.Marshal(s.Provenance)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %v %+v %s", raw, s.Effects, s.Report, provenance)
}

func TestSecretAtPreviewEdge(t *testing.T) {
	for _, filler := range []string{"word ", "漢字 ", "🐚🐚🐚 ", "🐚", "sk-ant-" + strings.Repeat("Ab3d", 100) + "\n", key + "\n"} {
		long := strings.Repeat(filler, 1+24_000/len(filler))
		characters := len(string([]rune(long)[:replay.MaxPreview]))
		for _, secret := range []string{key, credential} {
			for _, edge := range []int{characters, 8000 - 2<<10, 8000, 8000 + 2<<10} { // positions of the limits
				n := (edge - 20) / len(filler)
				text := long[:n*len(filler)] + strings.Repeat(" ", edge-20-n*len(filler)) + secret + " " + long
				said, seen := toldEverywhere(t, text)
				if at := strings.Index(seen, secret[:10]); at >= 0 {
					t.Errorf("%q, edge %d: …%s…", filler, edge, seen[max(0, at-40):min(len(seen), at+40)])
				}
				if utf8.RuneCountInString(said) > replay.MaxPreview {
					t.Errorf("%d characters were said", utf8.RuneCountInString(said))
				}
			}
		}
	}
}

// toldEverywhere reports a text in every member that can be long. It returns the notes for the customer, and
// everything that the record shows.
func toldEverywhere(t *testing.T, text string) (said, seen string) {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	r := hiding()
	for _, line := range []string{
		`{"tool":"a","output":%s}`, `{"tool":"b","output_part":%s,"done":true}`, `{"note":%s}`,
		`{"verification":{"commands":[%s],"exit_codes":[0]}}`, `{"tool":"c","output":"","side_effects":[%s]}`,
	} {
		said += r.Line(noon, session.Guild, fmt.Appendf(nil, line, quoted))
	}
	id, err := r.Call(noon, "exec", map[string]string{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Result(noon, id, session.Output{Hash: guild.Sum([]byte(text)), Head: text[:8000]}, nil); err != nil {
		t.Fatal(err)
	}
	return said, said + recorded(t, r.End(noon, replay.Success))
}

func TestLongOutputPreview(t *testing.T) {
	for _, text := range []string{strings.Repeat("x", 9000), strings.Repeat("漢", 9000), strings.Repeat("🐚", 9000)} {
		s := record(t, fmt.Sprintf(`{"tool":"a","output":%q}`, text))
		if got := s.Events[3].(replay.ToolResult).Preview; utf8.RuneCountInString(got) != replay.MaxPreview || !strings.HasPrefix(text, got) {
			t.Errorf("%d characters of %.9s", utf8.RuneCountInString(got), text)
		}
	}
}

func TestShownOutputHash(t *testing.T) {
	long := strings.Repeat("word ", 4000) + "password: hunter22"
	for _, c := range []struct{ name, line, hashed string }{
		{"a text", `{"tool":"a","output":"password: hunter22"}`, "password: [redacted:password]"},
		{"parts", `{"tool":"a","output_part":"password: hunter22","done":true}`, "password: [redacted:password]"},
		{"JSON", `{"tool":"a","output":{"password":"hunter22"}}`, `{"password":"[redacted:password]"}`},
		{"a hash", `{"tool":"a","output":"password: hunter22","output_hash":"` + guild.Sum([]byte("password: hunter22")).String() + `"}`, "password: [redacted:password]"},
		{"a credential", `{"tool":"a","output":"it is ` + credential + `"}`, "it is [secret]"},
		{"a note", `{"note":"password: hunter22"}`, "password: [redacted:password]"},
		{"no secret", `{"tool":"a","output":"tokens_in=12"}`, "tokens_in=12"},
		{"more than is shown", `{"tool":"a","output":"` + long + `"}`, long},
	} {
		r := hiding()
		r.Line(noon, session.Guild, []byte(c.line))
		e := r.End(noon, replay.Success).Events[3].(replay.ToolResult)
		if e.OutputHash != guild.Sum([]byte(c.hashed)).String() {
			t.Errorf("%s: %q is not hashed as %q", c.name, e.Preview, c.hashed)
		}
	}
}

func TestRecordedPlanHash(t *testing.T) {
	for _, analysis := range []string{"nothing", "the password is password=hunter22", "it is " + credential} {
		r := hiding()
		r.Line(noon, session.Guild, fmt.Appendf(nil, `{"plan":{"steps":[],"analysis":%q}}`, analysis))
		s := r.End(noon, replay.Success)
		call, plan := s.Events[2].(replay.ToolCall), s.Events[4].(replay.PlanStart)
		h, err := canon.Hash(call.Params)
		if err != nil || h.String() != plan.PlanHash {
			t.Errorf("%s has the hash %s, and %s was told: %v", call.Params, h, plan.PlanHash, err)
		}
		if strings.Contains(recorded(t, s), "hunter22") {
			t.Errorf("%s", call.Params)
		}
	}
}

func TestNamesRedacted(t *testing.T) {
	for _, line := range []string{
		`{"tool":%q,"output":"x"}`, `{"tool":"a","id":%q,"output":"x"}`, `{"tool":"a","step":%q,"output":"x"}`,
		`{"tool":"a","output":"x","side_effects":[%q]}`, `{"model":%q}`, `{"step":%q,"status":"Success"}`,
		`{"step":%q,"status":"Great"}`, `{"id":%q,"output":"x"}`, `{"plan":{"steps":[{"id":%q,"intent":"Modify"}]}}`,
	} {
		r := hiding()
		r.Line(noon, session.Guild, fmt.Appendf(nil, line, "x "+key))
		if seen := recorded(t, r.End(noon, replay.Success)); strings.Contains(seen, key[:10]) {
			t.Errorf("%s: %s", line, seen)
		}
	}
}

func TestParamsRedacted(t *testing.T) {
	for line, kept := range map[string]string{
		`{"tool":"a","params":{"x":%q}}`:                          `"x":"[secret]"`,
		`{"tool":"a","params":{"of":[{%q:1}]}}`:                   `"[secret]":`,
		`{"tool":"a","params":{%[1]q:1,"[secret]":2}}`:            `Malformed:1`,
		`{"plan":{"steps":[],"analysis":"","strategies":{%q:1}}}`: `"[secret]":`,
	} {
		r := hiding()
		r.Line(noon, session.Guild, fmt.Appendf(nil, line, credential))
		if seen := recorded(t, r.End(noon, replay.Success)); strings.Contains(seen, credential) || !strings.Contains(seen, kept) {
			t.Errorf("%s: recorded %s", line, seen)
		}
	}
}

func TestImpossibleNumbersRefused(t *testing.T) {
	for _, line := range []string{
		`{"tool":"a","output":"x","latency_ms":9223372036854775807}`, `{"verification":{"verification_delta":9223372036854775807}}`,
		`{"verification":{"verification_delta":-9223372036854775808}}`,
	} {
		s := record(t, line, line)
		if s.Report.Malformed != 2 {
			t.Errorf("%s: %+v", line, s.Report)
		}
	}
}

// A note of three megabytes that looks like a secret everywhere may not take longer than any other, because only its
// beginning is kept.
func TestLongNoteSpeed(t *testing.T) {
	r := hiding()
	note := func(part string) func() {
		line := fmt.Appendf(nil, `{"note":%q}`, strings.Repeat(part, (3<<20)/len(part)))
		return func() { r.Line(noon, session.Guild, line) }
	}
	plain := cputest.Spent(t, note("a plain word "))
	for _, part := range []string{"curl -u a:b ", "token=", " -p x"} {
		if took := cputest.Spent(t, note(part)); took > 4*plain+time.Second/2 {
			t.Errorf("%q took %v, a plain note %v", part, took, plain)
		}
	}
	if !slices.ContainsFunc(r.End(noon, replay.Success).Events, func(e replay.Event) bool { return e.EventName() == "ToolResult" }) {
		t.Error("no note was kept")
	}
}
