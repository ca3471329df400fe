package nook_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"guild/nook"
)

func yes() *bool { b := true; return &b }
func no() *bool  { b := false; return &b }

func TestParse(t *testing.T) {
	for src, want := range map[string]nook.Event{
		`{"type":"agent.started","agentId":"a"}`:                                                 {Type: nook.TypeStarted, AgentID: "a"},
		`{"type":"agent.started","agentId":"a","workUnitId":"u","tokens":5}`:                     {Type: nook.TypeStarted, AgentID: "a", WorkUnitID: "u", Tokens: 5},
		` {"type":"agent.completed","agentId":"agent-1","workUnitId":"issue-123","tokens":5000}`: {Type: nook.TypeCompleted, AgentID: "agent-1", WorkUnitID: "issue-123", Tokens: 5000},
		`{"type":"agent.completed","agentId":"a","success":false,"id":"~ 1"}`:                    {ID: "~ 1", Type: nook.TypeCompleted, AgentID: "a", Success: no()},
		`{"type":"agent.completed","agentId":"a","success":true,"trigger":"git.commit"}`:         {Type: nook.TypeCompleted, AgentID: "a", Success: yes(), Trigger: nook.TriggerCommit},
		`{"type":"agent.failed","agentId":"a","error":"line 1\nline 2"}`:                         {Type: nook.TypeFailed, AgentID: "a", Error: "line 1\nline 2"},
		`{"type":"agent.failed","agentId":"a","error":""}`:                                       {Type: nook.TypeFailed, AgentID: "a"},
		`{"type":"agent.idle","agentId":"ä"}`:                                                    {Type: nook.TypeIdle, AgentID: "ä"},
		`{"type":"agent.state","agentId":"a","state":"sleeping"}`:                                {Type: nook.TypeState, AgentID: "a", State: "sleeping"},
		`{"type":"agent.heartbeat","agentId":"a","timestamp":1764200000}`:                        {Type: nook.TypeHeartbeat, AgentID: "a", Timestamp: 1764200000},
		`{"type":"agent.completed","agentId":"a","tokens":1000000000000}`:                        {Type: nook.TypeCompleted, AgentID: "a", Tokens: nook.MaxTokens},
	} {
		e, err := nook.Parse([]byte(src))
		if err != nil || !reflect.DeepEqual(e, want) {
			t.Errorf("%s: %+v, %v", src, e, err)
		}
		if again, err := nook.Parse(e.Encode()); err != nil || !reflect.DeepEqual(again, want) {
			t.Errorf("%s: encoded %s: %+v, %v", src, e.Encode(), again, err)
		}
		if err := want.Check(); err != nil {
			t.Errorf("%s: %v", src, err)
		}
	}
}

func TestParseNamesInvalidField(t *testing.T) {
	for src, field := range map[string]string{
		``:                                       "",
		`[]`:                                     "",
		`null`:                                   "",
		`{"type":"agent.idle","agentId":"a"} {}`: "",
		`{"type":"agent.idle","agentId":"a","agentId":"b"}`: "",
		"{\"type\":\"agent.idle\",\"agentId\":\"\xff\"}":    "",
		`{"agentId":"a"}`:                                                             "type",
		`{"type":7,"agentId":"a"}`:                                                    "type",
		`{"type":"agent.slept","agentId":"a"}`:                                        "type",
		`{"type":"agent.idle"}`:                                                       "agentId",
		`{"type":"agent.idle","agentId":""}`:                                          "agentId",
		`{"type":"agent.idle","agentId":null}`:                                        "agentId",
		`{"type":"agent.idle","agentId":"a\u0000"}`:                                   "agentId",
		`{"type":"agent.idle","agentId":"` + strings.Repeat("a", 129) + `"}`:          "agentId",
		`{"type":"agent.idle","agentid":"a","agentId":"a"}`:                           "agentid",
		`{"type":"agent.idle","agentId":"a","tokens":0}`:                              "tokens",
		`{"type":"agent.failed","agentId":"a","tokens":5}`:                            "tokens",
		`{"type":"agent.started","agentId":"a","success":true}`:                       "success",
		`{"type":"agent.started","agentId":"a","trigger":"git.commit"}`:               "trigger",
		`{"type":"agent.completed","agentId":"a","trigger":"git.push"}`:               "trigger",
		`{"type":"agent.completed","agentId":"a","trigger":"git.pr","tokens":1}`:      "tokens",
		`{"type":"agent.completed","agentId":"a","tokens":-1}`:                        "tokens",
		`{"type":"agent.completed","agentId":"a","tokens":1.5}`:                       "tokens",
		`{"type":"agent.completed","agentId":"a","tokens":"5"}`:                       "tokens",
		`{"type":"agent.completed","agentId":"a","tokens":1000000000001}`:             "tokens",
		`{"type":"agent.completed","agentId":"a","tokens":99999999999999999999}`:      "tokens",
		`{"type":"agent.completed","agentId":"a","success":"yes"}`:                    "success",
		`{"type":"agent.completed","agentId":"a","success":null}`:                     "success",
		`{"type":"agent.completed","agentId":"a","workUnitId":""}`:                    "workUnitId",
		`{"type":"agent.state","agentId":"a"}`:                                        "state",
		`{"type":"agent.state","agentId":"a","state":"success"}`:                      "state",
		`{"type":"agent.heartbeat","agentId":"a"}`:                                    "timestamp",
		`{"type":"agent.heartbeat","agentId":"a","timestamp":0}`:                      "timestamp",
		`{"type":"agent.heartbeat","agentId":"a","timestamp":-5}`:                     "timestamp",
		`{"type":"agent.idle","agentId":"a","id":"ä"}`:                                "id",
		`{"type":"agent.idle","agentId":"a","id":"` + strings.Repeat("i", 129) + `"}`: "id",
		`{"type":"agent.idle","agentId":"a","sparks":50}`:                             "sparks",
	} {
		_, err := nook.Parse([]byte(src))
		var invalid *nook.FieldError
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v, want an error about %q", src, err, field)
		}
	}
	if _, err := nook.Parse([]byte(strings.Repeat(" ", nook.MaxEvent+1))); err == nil || !strings.Contains(err.Error(), "more than 16384") {
		t.Error(err)
	}
}

func TestReceivedCompletesEvent(t *testing.T) {
	const now = 1_764_200_000_000
	idle := nook.Event{Type: nook.TypeIdle, AgentID: "a"}
	e, err := idle.Received(now)
	if err != nil || e.Timestamp != now || len(e.ID) != 64 {
		t.Errorf("%+v, %v", e, err)
	}
	if again, err := idle.Received(now); err != nil || again.ID != e.ID {
		t.Errorf("another id for the same event: %v, %v", again, err)
	}
	if later, err := idle.Received(now + 1); err != nil || later.ID == e.ID {
		t.Errorf("the same id for another event: %v, %v", later, err)
	}
	for _, c := range []struct{ sent, want int64 }{
		{1_764_200_000, now}, {99_999_999, 99_999_999_000}, {now + 60_000, now + 60_000}, {100_000_000_000, 100_000_000_000},
	} {
		idle.Timestamp = c.sent
		if e, err := idle.Received(now); err != nil || e.Timestamp != c.want {
			t.Errorf("%d became %d, %v", c.sent, e.Timestamp, err)
		}
	}
	idle.Timestamp = now + 60_001
	var invalid *nook.FieldError
	if _, err := idle.Received(now); !errors.As(err, &invalid) || invalid.Field != "timestamp" {
		t.Errorf("%v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"type":"agent.completed","agentId":"a","workUnitId":"u","tokens":5000,"success":true,"id":"1","timestamp":1764200000}`))
	f.Add([]byte(`{"type":"agent.failed","agentId":"a","error":"\u2028<&>"}`))
	f.Add([]byte(`{"type":"agent.state","agentId":"a","state":"working","trigger":"git.pr"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := nook.Parse(b)
		if err != nil {
			var invalid *nook.FieldError
			if !errors.As(err, &invalid) {
				t.Fatalf("%q: %v", b, err)
			}
			return
		}
		again, err := nook.Parse(e.Encode())
		if err != nil || !reflect.DeepEqual(e, again) {
			t.Fatalf("%q: encoded %s: %+v, %v", b, e.Encode(), again, err)
		}
		if _, err := e.Received(1 << 50); err != nil {
			t.Fatalf("%q: %v", b, err)
		}
	})
}
