package node

import (
	"slices"
	"testing"
	"time"

	"guild"
	"guild/internal/control"
	"guild/internal/policy"
)

// TestSilentWorkerKeepsItsJob has a worker without output for twelve minutes, while another request waits. A customer
// waits five minutes for the first feedback, and one minute after each later one.
func TestSilentWorkerKeepsItsJob(t *testing.T) {
	t.Parallel()
	url := startRelay(t)
	var wall clock
	team := newCrew()
	start(t, url, func(c *Config) { wall.nodes(c); c.Workers = []Worker{{Task: "echo", Do: team.do, Slots: 1}} })
	customer, _ := start(t, url, func(c *Config) { wall.nodes(c); c.Policy = policy.Specification() }) // which fills its queue
	awaitProviders(t, customer, 1)
	jobs := []string{open(t, customer, bundle(t), control.Hire{})}
	eventually(t, "the worker works", func() bool { return team.busy() == 1 })
	jobs = append(jobs, open(t, customer, bundleOf(t, []byte("later")), control.Hire{}))
	heard := func(id string) (words int) {
		all := facts(t, customer, "job."+id)
		if slices.Contains(all, "attempt.expired") {
			t.Fatalf("%q", all)
		}
		for _, one := range all {
			if one == "attempt.progressed" {
				words++
			}
		}
		return words
	}
	eventually(t, "the second was asked, too", func() bool { return slices.Contains(facts(t, customer, "job."+jobs[1]), "attempt.requested") })
	for _, silence := range append([]time.Duration{4 * time.Minute}, slices.Repeat([]time.Duration{45 * time.Second}, 11)...) {
		before := []int{heard(jobs[0]), heard(jobs[1])}
		wall.jump(silence)
		eventually(t, "the customer hears of both", func() bool { return heard(jobs[0]) > before[0] && heard(jobs[1]) > before[1] })
	}
	close(team.may)
	for _, id := range jobs {
		if job := finish(t, customer, id); job.Ending != guild.JobAccepted || len(job.Attempts) != 1 || team.called(id) != 1 {
			t.Errorf("%s after %d attempts: %s", job.Ending, len(job.Attempts), job.Reason)
		}
	}
}
