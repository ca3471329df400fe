package node

import (
	"testing"
	"time"

	"guild"
	"guild/internal/control"
	"guild/internal/hand/relayd"
)

// A relay that serves only clients that have proved a key (NIP-42) carries a job in clear and a private one.
func TestJobsOverRelayThatDemandsAKey(t *testing.T) {
	r, err := relayd.Open(relayd.Config{Dir: t.TempDir(), Addr: "127.0.0.1:0", Now: time.Now, RequireAuth: true})
	if err != nil {
		t.Fatal(err)
	}
	run(t, r.Run)
	start(t, r.URL(), func(c *Config) { c.Workers = []Worker{{Task: "echo", Do: echo}} })
	customer, _ := start(t, r.URL(), func(*Config) {})
	awaitProviders(t, customer, 1)
	for _, private := range []bool{false, true} {
		if job := hire(t, customer, control.Hire{Private: private}); job.Ending != guild.JobAccepted || len(job.Attempts) != 1 {
			t.Errorf("private %v: %+v", private, job)
		}
	}
	if s, err := control.NodeStatus.Call(t.Context(), customer); err != nil || len(s.Parked) != 0 {
		t.Errorf("%+v, %v", s.Parked, err)
	}
}
