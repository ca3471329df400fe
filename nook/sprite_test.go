package nook_test

import (
	"testing"

	"guild/nook"
)

func TestSpriteState(t *testing.T) {
	at := func(ms int64, eventType, state string, success *bool) nook.Event {
		return nook.Event{ID: "1", Type: eventType, AgentID: "a", State: state, Success: success, Timestamp: start + ms}
	}
	const second, minute = 1000, 60_000
	started, beat := at(0, nook.TypeStarted, "", nil), func(ms int64) nook.Event { return at(ms, nook.TypeHeartbeat, "", nil) }
	for _, c := range []struct {
		name   string
		events []nook.Event
		after  int64
		want   nook.SpriteState
	}{
		{"nothing happened", nil, 0, nook.Sleeping},
		{"started", []nook.Event{started}, 0, nook.Working},
		{"almost five minutes alone", []nook.Event{started}, 5*minute - 1, nook.Working},
		{"five minutes alone", []nook.Event{started}, 5 * minute, nook.Idle},
		{"thirty minutes alone", []nook.Event{started}, 30 * minute, nook.Sleeping},
		{"heartbeat keeps working", []nook.Event{started, beat(4 * minute)}, 8 * minute, nook.Working},
		{"heartbeat does not bring work back", []nook.Event{started, beat(6 * minute)}, 6 * minute, nook.Idle},
		{"heartbeats keep idle awake", []nook.Event{started, beat(6 * minute), beat(35 * minute)}, 60 * minute, nook.Idle},
		{"heartbeat does not wake", []nook.Event{started, beat(31 * minute)}, 32 * minute, nook.Sleeping},
		{"state working", []nook.Event{at(0, nook.TypeState, "working", nil)}, 0, nook.Working},
		{"state idle", []nook.Event{started, at(1, nook.TypeState, "idle", nil)}, 2, nook.Idle},
		{"state sleeping", []nook.Event{started, at(1, nook.TypeState, "sleeping", nil)}, 2, nook.Sleeping},
		{"asleep through a heartbeat", []nook.Event{at(0, nook.TypeState, "sleeping", nil), beat(5)}, 6, nook.Sleeping},
		{"idle event", []nook.Event{started, at(1, nook.TypeIdle, "", nil)}, 2, nook.Idle},
		{"completed", []nook.Event{started, at(1, nook.TypeCompleted, "", nil)}, 10*second - 1, nook.Success},
		{"completed ten seconds ago", []nook.Event{at(0, nook.TypeCompleted, "", yes())}, 10 * second, nook.Idle},
		{"success over although alive", []nook.Event{at(0, nook.TypeCompleted, "", nil), beat(9 * second)}, 11 * second, nook.Idle},
		{"completed without success", []nook.Event{at(0, nook.TypeCompleted, "", no())}, second, nook.Failure},
		{"failed", []nook.Event{at(0, nook.TypeFailed, "", nil)}, second, nook.Failure},
		{"late event changes nothing", []nook.Event{at(2, nook.TypeFailed, "", nil), at(1, nook.TypeStarted, "", nil)}, 3, nook.Failure},
	} {
		var p nook.Pulse
		for _, e := range c.events {
			p.Observe(&e)
		}
		if got := p.State(start + c.after); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
