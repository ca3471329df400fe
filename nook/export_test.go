package nook_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"guild/digest"
	"guild/nook"
)

// lively returns a history with something of everything.
func lively() []nook.Recorded {
	history := days(8)
	history = append(history, hook(start+8*oracleDay, nook.TriggerCommit))
	r := work("judged", start+8*oracleDay+5, "other", 50_000)
	r.Level, r.Entry = nook.ReceiptBound, digest.Sum([]byte("judged"))
	fails := nook.Recorded{Event: nook.Event{ID: "fails", Type: nook.TypeFailed, AgentID: "b", Error: "<no & luck>", Timestamp: r.Arrived + 1}, Arrived: r.Arrived + 1}
	late := work("late", r.Arrived-oracleHour, "late", 777)
	late.Arrived = r.Arrived + 2
	return append(history, r, fails, late)
}

func full(t testing.TB) *nook.Account {
	t.Helper()
	a := nook.New("root")
	for _, r := range lively() {
		if err := a.Import(r.Event); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Onboard(start, digest.Sum([]byte("onboard"))); err != nil {
		t.Fatal(err)
	}
	for _, r := range lively() {
		a.Add(r)
	}
	return a
}

func TestProfileFile(t *testing.T) {
	now := int64(start + 8*oracleDay + 9)
	var beats nook.Pulse
	beats.Observe(&nook.Event{Type: nook.TypeStarted, AgentID: "b", Timestamp: now})
	p := full(t).Profile("a", now, map[string]nook.Pulse{"b": beats})
	b, err := nook.EncodeExport(p)
	if err != nil {
		t.Fatal(err)
	}
	again, err := nook.DecodeProfile(b)
	if err != nil || !reflect.DeepEqual(again, p) {
		t.Errorf("%+v, %v, want\n%+v", again, err, p)
	}
	if p.ID != "a" || p.RootIdentity != "root" || p.Sparks != p.Totals.Lifetime.Total() || p.Sprite.State != nook.Success || p.CreatedAt != start {
		t.Errorf("%+v", p.AgentProfile)
	}
	if len(p.Agents) != 3 || p.Agents[1].ID != "b" || p.Agents[1].Sprite.State != nook.Working || p.Imported.Lifetime.Total() == 0 {
		t.Errorf("%+v", p.Agents)
	}
	for _, member := range strings.Fields("id rootIdentity sprite sparks bytes bits stage createdAt updatedAt") {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(b, &object); err != nil || object[member] == nil {
			t.Errorf("no %s of the specification: %v", member, err)
		}
	}
	if _, err := nook.DecodeProfile([]byte(strings.Replace(string(b), `"bytes"`, `"byte"`, 1))); err == nil {
		t.Error("an unknown member was read")
	}
}

func TestEventsAndSparksFiles(t *testing.T) {
	history := lively()
	events := map[string]nook.Event{}
	for _, r := range history {
		events[r.Event.ID] = r.Event
	}
	var logs []nook.EventLog
	ledger := nook.Ledger{RootIdentity: "root", Totals: fold(history...).Totals(history[len(history)-1].Arrived)}
	sum := nook.Sparks(0)
	for tr := range nook.Traces("root", slices.Values(history)) {
		ledger.Traces = append(ledger.Traces, tr)
		logs = append(logs, nook.EventLog{ID: tr.ID, AgentID: tr.AgentID, Event: events[tr.ID], Sparks: tr.Earned, Timestamp: tr.Timestamp})
		sum += tr.Earned
	}
	if sum != ledger.Totals.Lifetime.Total() || len(logs) != len(history) {
		t.Errorf("the traces of %d events add up to %s, want %s", len(logs), sum, ledger.Totals.Lifetime.Total())
	}
	b, err := nook.EncodeExport(logs)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := nook.DecodeEvents(b); err != nil || !reflect.DeepEqual(again, logs) {
		t.Errorf("%+v, %v, want\n%+v", again, err, logs)
	}
	if b, err = nook.EncodeExport(ledger); err != nil {
		t.Fatal(err)
	}
	if again, err := nook.DecodeLedger(b); err != nil || !reflect.DeepEqual(again, ledger) {
		t.Errorf("%+v, %v, want\n%+v", again, err, ledger)
	}
}

func TestTinyAmountsInFiles(t *testing.T) {
	for s := range nook.Sparks(12) {
		b, err := nook.EncodeExport(nook.Ledger{RootIdentity: "root", Traces: []nook.Trace{{ID: "1", AgentID: "a", Steps: nook.Steps{Earned: s}}}})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := nook.DecodeLedger(b); err != nil || got.Traces[0].Earned != s {
			t.Errorf("%s: %+v, %v", s, got, err)
		}
	}
}

func TestForeignEventsFile(t *testing.T) {
	logs, err := nook.DecodeEvents([]byte(`[{"id":"log-1","agentId":"a","event":{"type":"agent.completed","agentId":"a","workUnitId":"u","tokens":5000},"sparks":99.5,"timestamp":1764201600000}]`))
	if err != nil || logs[0].Event.ID != "log-1" || logs[0].Event.Timestamp != 1_764_201_600_000 {
		t.Errorf("%+v, %v", logs, err)
	}
	for src, want := range map[string]string{
		`{}`: "cannot unmarshal object", `[] []`: "something follows", `[{"id":"1","id":"2"}]`: "duplicate key",
		`[{"id":"1","agentId":"a","sparks":1,"timestamp":5,"secret":1}]`:                                                       "unknown field",
		`[{"id":"1","agentId":"a","event":{"type":"agent.idle","agentId":"b"},"sparks":0,"timestamp":1764201600000}]`:          "element 0: agentId or timestamp differs",
		`[{"id":"ä","agentId":"a","event":{"type":"agent.idle","agentId":"a"},"sparks":0,"timestamp":1764201600000}]`:          "element 0: event: id: not printable ASCII",
		`[{"id":"1","agentId":"a","event":{"type":"agent.idle","agentId":"a","tokens":1},"sparks":0,"timestamp":17642016000}]`: "element 0: event: tokens",
		`[{"id":"1","agentId":"a","event":{"type":"agent.idle","agentId":"a"},"sparks":-1,"timestamp":1764201600000}]`:         "not a number of sparks",
		`[{"id":"1","agentId":"a","sparks":1,"timestamp":1764201600000}]`:                                                      "element 0",
	} {
		if _, err := nook.DecodeEvents([]byte(src)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", src, err, want)
		}
	}
}

func FuzzDecodeEvents(f *testing.F) {
	f.Add([]byte(`[{"id":"1","agentId":"a","event":{"type":"agent.completed","agentId":"a","workUnitId":"u","tokens":5000},"sparks":1.5,"timestamp":1764201600000}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		logs, err := nook.DecodeEvents(b)
		if err != nil {
			return
		}
		a := nook.New("root")
		for _, l := range logs {
			if err := a.Import(l.Event); err != nil {
				t.Fatal(err)
			}
		}
		if len(logs) > 0 && a.Onboard(1, digest.SHA256{}) != nil {
			t.Fatal("no heritage")
		}
		out, err := nook.EncodeExport(logs)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := nook.DecodeEvents(out); err != nil || !reflect.DeepEqual(again, logs) {
			t.Fatalf("%q: %v, %v", b, again, err)
		}
	})
}
