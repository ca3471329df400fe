package control_test

import (
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/journal/fact"
)

func TestTrajectoryByAttempt(t *testing.T) {
	d := openDesk(t)
	d.open(guild.JobID{1})
	job := fact.JobSubject(guild.JobID{1})
	for i, text := range []string{"first\n", "second\n", "first again\n"} {
		attempt := nostr.ID{0xaa, byte(i % 2)}
		d.append(job, fact.AttemptPlanned{Attempt: attempt, Job: guild.JobID{1}, Provider: alice, Request: nostr.Event{PubKey: alice.PubKey}},
			fact.AttemptRecorded{Attempt: attempt, Replay: d.put(text)})
	}
	for attempt, want := range map[string]string{"": "first again\n", "aa00": "first again\n", "AA01": "second\n"} {
		if got, err := control.Replay.Call(t.Context(), d.Client, "01", attempt); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", attempt, got, err)
		}
	}
	d.wantProblem("GET", "/v1/replays/01?attempt=aa", nil, 404, "missing")
	d.wantProblem("GET", "/v1/replays/01?attempt=bb", nil, 404, "missing")
	d.wantProblem("GET", "/v1/replays/02?attempt=aa", nil, 404, "missing")
}
