package node

import (
	"testing"

	"guild"
	"guild/internal/control"
)

// Two nodes over a real relay: everybody is asked for an offer, the one who makes one for the work, and the next job
// builds on its result.
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
