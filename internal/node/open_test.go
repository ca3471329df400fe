package node

import (
	"testing"

	"guild"
	"guild/internal/control"
)

// Two nodes over a real relay: an open job asks for offers, the work goes to the one that makes an offer, and the next
// job uses its result.
func TestOpenJob(t *testing.T) {
	t.Parallel()
	url := startRelay(t)
	start(t, url, func(c *Config) { c.Workers = []Worker{{Task: "echo", Do: echo}} })
	customer, _ := start(t, url, func(*Config) {})

	job := hire(t, customer, control.Hire{Open: true})
	if job.Ending != guild.JobAccepted || len(job.Attempts) != 1 {
		t.Fatalf("%s (%s), %d attempts", job.Ending, job.Reason, len(job.Attempts))
	}
	next := hire(t, customer, control.Hire{Inputs: []control.Input{{Data: job.ID, Type: "job"}}})
	if next.Ending != guild.JobAccepted {
		t.Errorf("%s: %s", next.Ending, next.Reason)
	}
}
