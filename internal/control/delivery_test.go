package control_test

import (
	"errors"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/journal/fact"
)

func TestDelivery(t *testing.T) {
	d := openDesk(t)
	id := guild.JobID{1}
	d.open(id)
	d.wantProblem("GET", "/v1/jobs/01/delivery", nil, 404, "missing")
	delivers := func(attempt byte, delivery guild.Hash) string {
		a := nostr.ID{attempt}
		d.append(fact.JobSubject(id), fact.AttemptPlanned{Attempt: a, Job: id, Provider: alice, Request: nostr.Event{ID: a, PubKey: alice.PubKey}},
			fact.AttemptDelivered{Attempt: a, Delivery: delivery, Size: 7})
		return a.Hex()
	}
	first := delivers(0xa1, d.put("a bundle"))
	if got, err := control.Delivery.Call(t.Context(), d.Client, "01"); err != nil || string(got) != "a bundle" {
		t.Errorf("the only one: got %q, %v", got, err)
	}
	second, lost := delivers(0xb2, d.put("another")), delivers(0xc3, guild.Sum([]byte("lost")))
	for _, c := range []struct{ attempt, want string }{{first, "a bundle"}, {"B2", "another"}, {second[:8], "another"}} {
		if got, err := control.Delivery.Call(t.Context(), d.Client, "01", c.attempt); err != nil || string(got) != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.attempt, got, err, c.want)
		}
	}
	for _, c := range []struct {
		attempt string
		status  int
	}{{"", 409}, {"d4", 404}, {lost, 404}} {
		_, err := control.Delivery.Call(t.Context(), d.Client, "01", c.attempt)
		if problem, ok := errors.AsType[*control.ProblemError](err); !ok || problem.Status != c.status || problem.Hint() == "" {
			t.Errorf("attempt %q: got %v, want status %d and a hint", c.attempt, err, c.status)
		}
	}
	job, err := control.OneJob.Call(t.Context(), d.Client, "01")
	if err != nil || len(job.Attempts) != 3 || job.Attempts[1].Delivery != guild.Sum([]byte("another")).String() {
		t.Errorf("got %+v, %v", job.Attempts, err)
	}
}
