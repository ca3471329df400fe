package clawnet_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"guild/nutshell"
	"guild/nutshell/clawnet"
)

// manifest is a request with this extension.
func manifest(t testing.TB, extension string) *nutshell.Manifest {
	t.Helper()
	m, err := nutshell.ParseManifest([]byte(`{
  "nutshell_version": "0.2.0",
  "bundle_type": "request",
  "id": "nut-1",
  "task": {"title": "Count", "priority": "high"},
  "tags": {"skills_required": ["golang", "jwt"], "domains": ["backend"], "data_sources": ["postgresql://host"]},
  "extensions": {"linear": {"issue_id": "ENG-1234"}, "clawnet": ` + extension + `}
}`))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// specified is the extension as the specification shows it.
const specified = `{"peer_id": "12D3KooWAbCdEf...", "reputation": 85.0, "reward": {"amount": 500, "currency": "shells"}, "gossip_topic": "/clawnet/tasks"}`

func decimal(t testing.TB, s string) clawnet.Decimal {
	t.Helper()
	d, err := clawnet.ParseDecimal(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestFromManifest(t *testing.T) {
	e, ok, err := clawnet.FromManifest(manifest(t, specified))
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if e.PeerID != "12D3KooWAbCdEf..." || e.Reputation.String() != "85.0" || e.Reward.String() != "500 shells" || e.GossipTopic != "/clawnet/tasks" || e.TaskID != "" {
		t.Errorf("%+v", e)
	}
}

func TestFromManifestWithoutExtension(t *testing.T) {
	for _, extension := range []string{"null", `null, "other": {}`} {
		if _, ok, err := clawnet.FromManifest(manifest(t, extension)); ok || err != nil {
			t.Errorf("%s: %v, %v", extension, ok, err)
		}
	}
}

func TestFromManifestErrors(t *testing.T) {
	for extension, field := range map[string]string{
		`[]`:                               "extensions.clawnet",
		`"x"`:                              "extensions.clawnet",
		`{"peer_id": 7}`:                   "extensions.clawnet.peer_id",
		`{"reputation": "high"}`:           "extensions.clawnet.reputation",
		`{"reward": 5}`:                    "extensions.clawnet.reward",
		`{"reward": {"amount": "5"}}`:      "extensions.clawnet.reward.amount",
		`{"reward": {"amount": -1}}`:       "extensions.clawnet.reward.amount",
		`{"reward": {"amount": 1e99}}`:     "extensions.clawnet.reward.amount",
		`{"reward": {"currency": 1}}`:      "extensions.clawnet.reward.currency",
		`{"task_id": {}, "reputation": 1}`: "extensions.clawnet.task_id",
	} {
		_, _, err := clawnet.FromManifest(manifest(t, extension))
		blamed, ok := errors.AsType[*nutshell.ManifestError](err)
		if !ok || blamed.Field != field {
			t.Errorf("%s: %v", extension, err)
		}
	}
}

func TestWriteBackUnchanged(t *testing.T) {
	for _, extension := range []string{
		specified,
		`{"reward": {"amount": 5e2, "bonus": [1.50, {"x": null}]}, "peer_id": "p\u0041", "zone": 1.0, "task_id": null}`,
		`{"reward": {}, "reputation": 0}`,
		`{}`,
	} {
		m := manifest(t, extension)
		before := m.Bytes()
		e, ok, err := clawnet.FromManifest(m)
		if err != nil || !ok {
			t.Fatal(extension, err)
		}
		if err := e.Write(m); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(before, m.Bytes()) {
			t.Errorf("%s became %s", before, m.Bytes())
		}
	}
}

func compact(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestWriteOneChange(t *testing.T) {
	m := manifest(t, `{"zone": 1.0, "reward": {"amount": 5.00, "bonus": true}, "gossip_topic": "/t", "peer_id": "p"}`)
	e, _, err := clawnet.FromManifest(m)
	if err != nil {
		t.Fatal(err)
	}
	e.TaskID, e.Server, e.GossipTopic = "t-1", "https://tasks.example", ""
	e.Reward.Amount = decimal(t, "7.50")
	if err := e.Write(m); err != nil {
		t.Fatal(err)
	}
	want := `{"zone":1.0,"reward":{"amount":7.50,"bonus":true},"peer_id":"p","task_id":"t-1","server":"https://tasks.example"}`
	if got := string(compact(t, m.Extensions()[clawnet.Name])); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := string(m.Extensions()["linear"]); got != `{"issue_id": "ENG-1234"}` {
		t.Errorf("the neighbour became %s", got)
	}
}

func TestUnpublished(t *testing.T) {
	m := manifest(t, `{"task_id": "t-1", "server": "https://tasks.example", "peer_id": "p", "x": 1}`)
	e, _, err := clawnet.FromManifest(m)
	if err == nil {
		err = e.Unpublished().Write(m)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := string(m.Extensions()[clawnet.Name]); got != `{"peer_id": "p", "x": 1}` {
		t.Errorf("got %s", got)
	}
	if e.TaskID != "t-1" {
		t.Error("the extension itself was changed")
	}
}

func TestWriteReward(t *testing.T) {
	m := manifest(t, `{"peer_id": "p"}`)
	e := clawnet.Extension{PeerID: "p", Reward: &clawnet.Reward{}}
	if err := e.Write(m); err != nil || string(m.Extensions()[clawnet.Name]) != `{"peer_id": "p", "reward": {"amount":0}}` {
		t.Errorf("nothing: %s, %v", m.Extensions()[clawnet.Name], err)
	}
	e.Reward.Amount = decimal(t, "-1")
	if err := e.Write(m); err == nil {
		t.Error("a negative reward was written")
	}
	e.Reward = nil
	if err := e.Write(m); err != nil || string(m.Extensions()[clawnet.Name]) != `{"peer_id": "p"}` {
		t.Errorf("none: %s, %v", m.Extensions()[clawnet.Name], err)
	}
}

func TestExtensionCannotOverrideCore(t *testing.T) {
	core := `{"id": "nut-2", "bundle_type": "delivery", "task": {"title": "Evil"}, "credentials": {"vault": "x"}}`
	for _, name := range []string{"clawnet", "task", "../task", "extensions", "", "task.title", "/task/title", "id", "a.b.c"} {
		m := manifest(t, specified)
		if err := m.SetExtension(name, json.RawMessage(core)); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		again, err := nutshell.ParseManifest(m.Bytes())
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if again.ID() != "nut-1" || again.BundleType() != "request" || again.Task().Title != "Count" || again.Credentials().Vault != "" {
			t.Errorf("%q: the core became %s", name, m.Bytes())
		}
		if !bytes.Contains(again.Extensions()[name], []byte("Evil")) {
			t.Errorf("%q: the extension is not there: %s", name, m.Bytes())
		}
		if _, _, err := clawnet.FromManifest(again); name == "clawnet" && err != nil {
			t.Errorf("members that are not known: %v", err)
		}
	}
}

func TestDecimalKeepsSpelling(t *testing.T) {
	for _, tt := range []struct {
		a, b  string
		order int
		plain string // of a
	}{
		{"500", "5e2", 0, "500"},
		{"500.00", "500", 0, "500"},
		{"0.1", "0.10", 0, "0.1"},
		{"1.25e1", "12.5", 0, "12.5"},
		{"-0", "0", 0, "0"},
		{"9007199254740993", "9007199254740992", 1, "9007199254740993"}, // a float64 cannot tell
		{"0.1000000000000000000001", "0.1", 1, "0.1000000000000000000001"},
		{"1e-64", "0", 1, "0." + strings.Repeat("0", 63) + "1"},
		{"1E+3", "1001", -1, "1000"},
	} {
		a, b := decimal(t, tt.a), decimal(t, tt.b)
		if a.Cmp(b) != tt.order || b.Cmp(a) != -tt.order {
			t.Errorf("%s against %s: %d", tt.a, tt.b, a.Cmp(b))
		}
		if a.String() != tt.a || a.Plain() != tt.plain {
			t.Errorf("%s is written %s, plainly %s", tt.a, a, a.Plain())
		}
	}
	for _, s := range []string{"", " 1", "1 ", "+1", "01", ".5", "1.", "0x10", "NaN", "Infinity", "1e65", "1e-65", "1e999999999999", "null", `"1"`, strings.Repeat("1", 65)} {
		if d, err := clawnet.ParseDecimal(s); err == nil {
			t.Errorf("%q is %s", s, d)
		}
	}
}

func TestPlainKeepsValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][-+]?[0-5]?[0-9])?`).Draw(t, "number")
		d, err := clawnet.ParseDecimal(s)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := clawnet.ParseDecimal(d.Plain())
		if len(d.Plain()) > 64 {
			return // has no exponent to be short with
		}
		if err != nil || plain.Cmp(d) != 0 || strings.ContainsAny(d.Plain(), "eE") {
			t.Fatalf("%s is plainly %s: %v", s, d.Plain(), err)
		}
	})
}

func TestExtensionRoundTrip(outer *testing.T) {
	rapid.Check(outer, func(t *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"peer_id", "gossip_topic", "task_id", "server", "zone", "a.b", "", "Peer_ID"}), rapid.ID).Draw(t, "names")
		var members []string
		for _, name := range names {
			quoted, _ := json.Marshal(name)
			value, _ := json.Marshal(rapid.StringMatching(`[a-z]{1,3}`).Draw(t, "value"))
			members = append(members, string(quoted)+":"+string(value))
		}
		text := "{" + strings.Join(members, ",") + "}"
		m := manifest(outer, text)
		e, _, err := clawnet.FromManifest(m)
		if err == nil {
			err = e.Write(m)
		}
		if err != nil || string(m.Extensions()[clawnet.Name]) != text {
			t.Fatalf("%s became %s: %v", text, m.Extensions()[clawnet.Name], err)
		}
	})
}
