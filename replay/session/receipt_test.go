package session_test

import (
	"strings"
	"testing"
	"time"

	"guild"
	"guild/replay"
	"guild/replay/session"
)

var noon = time.Date(2026, 1, 13, 12, 0, 0, 0, time.UTC)

// record returns a session with a call that changes a file, and a check.
func record(t *testing.T, lines ...string) session.Session {
	t.Helper()
	r := session.New(session.Config{Producer: "guild@test", SessionID: "s1", PolicyBundleID: "p1", Created: noon})
	at := noon
	for _, line := range lines {
		at = at.Add(time.Second)
		r.Line(at, session.Guild, []byte(line))
	}
	return r.End(at.Add(time.Second), replay.Success)
}

func receiptOf(t *testing.T, s session.Session) session.Receipt {
	t.Helper()
	_, hash, err := session.Encode(s.Events)
	if err != nil {
		t.Fatal(err)
	}
	r, err := session.NewReceipt(s.Events, hash, s.Effects)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const twice = `{"commands":["go vet","go test"],"exit_codes":[0,1],"verification_delta":2}`

func TestNewReceipt(t *testing.T) {
	s := record(t,
		`{"plan":{"analysis":"a","steps":[],"confidence":0.5}}`,
		`{"tool":"edit","id":"c1","params":{"path":"a.go"}}`,
		`{"id":"c1","output":"ok","side_effects":["file:a.go"],"step_utility":0.5,"latency_ms":7}`,
		`{"tool":"wait","id":"c2"}`,
		`{"verification":`+twice+`}`, `{"verification":`+twice+`}`,
		`{"confidence":0.75}`,
	)
	r := receiptOf(t, s)
	b, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, want := range []string{
		`"session_id":"s1"`, `"started_at":"2026-01-13T12:00:00Z"`, `"completed_at":"2026-01-13T12:00:08Z"`, `"issue_number":null`,
		`"policy_bundle_id":"p1"`, `"signature":null`, `"final_confidence":0.75`,
		`"verification":{"commands_run":["go vet","go test","go vet","go test"],"exit_codes":[0,1,0,1],"verification_delta":4}`,
		`{"id":"c1","latency_ms":7,"output_hash":"` + guild.Sum([]byte("ok")).String() + `","params_hash":"` +
			guild.Sum([]byte(`{"path":"a.go"}`)).String() + `","side_effects":["file:a.go"],"step_utility":0.5,"tool":"edit"}`,
		`{"id":"c2","latency_ms":0,"output_hash":"","params_hash":"` + guild.Sum([]byte(`{}`)).String() + `","side_effects":[],"step_utility":0.0,"tool":"wait"}`,
		`"plan_hash":"` + guild.Sum([]byte(`{"analysis":"a","confidence":0.5,"steps":[]}`)).String() + `"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

func TestUnknownMembersKept(t *testing.T) {
	const text = `{"completed_at":"2026-01-13T12:00:08Z","extra":{"b":1.0},"final_confidence":1.0,"issue_number":7,"plan_hash":"","policy_bundle_id":"",` +
		`"session_id":"s","signature":null,"started_at":"2026-01-13T12:00:00Z","tool_calls":[{"id":"a","latency_ms":0,"more":[1],"output_hash":"",` +
		`"params_hash":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","side_effects":[{"kind":"file"}],"step_utility":0.0,"tool":"t"}],` +
		`"verification":{"commands_run":[],"exit_codes":[],"runner":"x","verification_delta":0}}`
	r, err := session.DecodeReceipt([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	if b, err := r.Encode(); err != nil || string(b) != text {
		t.Errorf("got %s, %v\nwant %s", b, err, text)
	}
}

func TestUnsignedReceiptHash(t *testing.T) {
	r := receiptOf(t, record(t))
	before, err := r.Unsigned()
	if err != nil {
		t.Fatal(err)
	}
	id := strings.Repeat("0a", 32)
	r.Signature = &id
	after, err := r.Unsigned()
	if err != nil || after != before || r.Validate() != nil {
		t.Errorf("%s became %s, %v, %v", before, after, err, r.Validate())
	}
}

func TestInvalidReceipts(t *testing.T) {
	change := func(f func(*session.Receipt)) session.Receipt {
		r := receiptOf(t, record(t, `{"tool":"a"}`))
		f(&r)
		return r
	}
	word := "yes"
	for _, c := range []struct {
		name    string
		receipt session.Receipt
		wrong   string
	}{
		{"no session", change(func(r *session.Receipt) { r.SessionID = "" }), "session_id"},
		{"a time in words", change(func(r *session.Receipt) { r.StartedAt = "noon" }), "started_at"},
		{"an end before the start", change(func(r *session.Receipt) { r.CompletedAt = "2025-01-13T12:00:00Z" }), "completed_at"},
		{"surer than sure", change(func(r *session.Receipt) { r.Confidence = 1.5 }), "final_confidence"},
		{"a word for a signature", change(func(r *session.Receipt) { r.Signature = &word }), "signature"},
		{"a command without an exit code", change(func(r *session.Receipt) { r.Verification.Commands = []string{"x"} }), "verification"},
		{"a call without a tool", change(func(r *session.Receipt) { r.ToolCalls[0].Tool = "" }), "tool_calls"},
		{"a call that stands twice", change(func(r *session.Receipt) { r.ToolCalls = append(r.ToolCalls, r.ToolCalls[0]) }), "tool_calls"},
		{"utility out of bounds", change(func(r *session.Receipt) { r.ToolCalls[0].StepUtility = -2 }), "tool_calls"},
	} {
		if err := c.receipt.Validate(); err == nil || !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v, want it to name %s", c.name, err, c.wrong)
		}
	}
}

func TestDecodeReceiptErrors(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "an array": "[]", "null": "null", "a member twice": `{"session_id":"a","session_id":"b"}`,
		"invalid hash": `{"plan_hash":"abc"}`, "not UTF-8": "{\"session_id\":\"\xff\"}",
	} {
		if r, err := session.DecodeReceipt([]byte(text)); err == nil {
			t.Errorf("%s: read as %+v", name, r)
		}
	}
}

// FuzzReceipt checks that a receipt reads the same after it is written again.
func FuzzReceipt(f *testing.F) {
	f.Add([]byte(`{"session_id":"s","tool_calls":[{"id":"a","x":1}],"verification":{"y":[]},"z":1e400}`))
	f.Add([]byte(`{"plan_hash":null,"signature":"x","final_confidence":0.5}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := session.DecodeReceipt(b)
		if err != nil {
			return
		}
		r.Validate()
		once, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := session.DecodeReceipt(once)
		if err != nil {
			t.Fatalf("%v: %s", err, once)
		}
		if twice, err := again.Encode(); err != nil || string(twice) != string(once) {
			t.Errorf("%s became %s, %v", once, twice, err)
		}
	})
}
