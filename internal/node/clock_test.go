package node

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"guild"
	"guild/internal/control"
)

// clock is a wall clock that a test can set.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time       { return time.Now().Add(time.Duration(c.offset.Load())) }
func (c *clock) jump(d time.Duration) { c.offset.Add(int64(d)) }
func (c *clock) nodes(config *Config) { config.Now = c.now }
func (c *clock) impatient(cfg *Config) {
	cfg.Now, cfg.Retry = c.now, []time.Duration{10 * time.Millisecond}
}
func patient(timeout time.Duration) int64 { return timeout.Milliseconds() }

// tries counts the tries of effects that failed because no relay was reachable.
type tries struct {
	slog.Handler
	n *atomic.Int64
}

func newTries() tries { return tries{slog.DiscardHandler, &atomic.Int64{}} }

func (tries) Enabled(context.Context, slog.Level) bool { return true }

func (h tries) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "an effect is not possible now") {
		h.n.Add(1)
	}
	return nil
}

// TestRelaysGoneForAnHour has two jobs during an outage: one is running when it begins, the other is opened meanwhile.
// The limits for a silent provider (five minutes) and for publishing (four tries) pass many times before the relay
// returns.
func TestRelaysGoneForAnHour(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	url, stop := startRelayAt(t, dir, keptAddress(t))
	var wall clock
	team, theirs, ours := newCrew(), newTries(), newTries()
	provider, able := start(t, url, func(c *Config) {
		wall.impatient(c)
		c.Log, c.Workers = slog.New(theirs), []Worker{{Task: "echo", Do: team.do}}
	})
	customer, _ := start(t, url, func(c *Config) { wall.impatient(c); c.Log = slog.New(ours) })
	awaitProviders(t, customer, 1)
	long := control.Hire{Timeout: patient(6 * time.Hour)}
	before := open(t, customer, bundle(t), long)
	eventually(t, "the worker works", func() bool { return team.busy() == 1 })

	stop()
	connected(t, provider, false)
	connected(t, customer, false)
	during := open(t, customer, bundleOf(t, []byte("later")), long)
	close(team.may)
	for range 60 {
		wall.jump(time.Minute)
		time.Sleep(20 * time.Millisecond) // until all nodes notice
	}
	const most = 20 // more than the number of tries of any effect
	eventually(t, "the request and the answer were tried often", func() bool { return theirs.n.Load() > most && ours.n.Load() > most })
	startRelayAt(t, dir, strings.TrimPrefix(url, "ws://"))

	for _, id := range []string{before, during} {
		job := finish(t, customer, id)
		if job.Ending != guild.JobAccepted || len(job.Attempts) != 1 || team.called(id) != 1 {
			t.Errorf("%s after %d attempts and %d calls of the worker: %s", job.Ending, len(job.Attempts), team.called(id), job.Reason)
		}
	}
	for name, c := range map[string]*control.Client{"customer": customer, "provider": provider} {
		if s, err := control.NodeStatus.Call(t.Context(), c); err != nil || len(s.Parked) != 0 {
			t.Errorf("the %s has parked %q, %v", name, s.Parked, err)
		}
	}
	eventually(t, "the provider is active", func() bool { return known(t, customer, able.Hex()).State == string(guild.Active) })
	if got := facts(t, customer, "job."); slices.Contains(got, "attempt.expired") || slices.Contains(got, "attempt.parked") {
		t.Errorf("%q", got)
	}
}

// known returns the node's record of a provider.
func known(t *testing.T, c *control.Client, pubkey string) control.Provider {
	t.Helper()
	all, err := control.Providers.Call(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.PubKey == pubkey {
			return p
		}
	}
	t.Fatal("the provider is not known")
	return control.Provider{}
}

func TestClockJumpsForward(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		timeout  time.Duration
		ending   guild.Ending
		state    guild.State
		provider guild.ProviderState
	}{
		{"a job that has time is done by whom was asked", 3 * time.Hour, guild.JobAccepted, guild.Accepted, guild.Active},
		{"a job without is over", 30 * time.Minute, guild.JobTimedOut, guild.Expired, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url := startRelay(t)
			var wall clock
			team := newCrew()
			provider, able := start(t, url, func(c *Config) { wall.nodes(c); c.Workers = []Worker{{Task: "echo", Do: team.do}} })
			customer, _ := start(t, url, wall.nodes)
			awaitProviders(t, customer, 1)
			id := open(t, customer, bundle(t), control.Hire{Timeout: patient(test.timeout)})
			eventually(t, "the worker works", func() bool { return team.busy() == 1 })
			wall.jump(time.Hour)
			if test.ending == guild.JobAccepted {
				close(team.may)
			}
			job := finish(t, customer, id)
			if job.Ending != test.ending || len(job.Attempts) != 1 || job.Attempts[0].State != string(test.state) || team.called(id) != 1 {
				t.Errorf("%s after %d calls of the worker: %+v", job.Ending, team.called(id), job.Attempts)
			}
			if test.provider != "" {
				eventually(t, "the provider is "+string(test.provider), func() bool {
					return known(t, customer, able.Hex()).State == string(test.provider)
				})
			}
			eventually(t, "the provider has nothing to do", func() bool { s := service(t, provider); return s.Running == 0 && s.Queued == 0 })
		})
	}
}

// TestClockJumpsBack lets the worker finish and its result arrive while the journal accepts no facts, because its last
// entry has a later date than now. Everything continues when the clock is set right.
func TestClockJumpsBack(t *testing.T) {
	t.Parallel()
	for _, whose := range []string{"the customer's", "the provider's", "both"} {
		t.Run(whose, func(t *testing.T) {
			t.Parallel()
			url := startRelay(t)
			var theirs, ours clock
			team := newCrew()
			provider, _ := start(t, url, func(c *Config) { theirs.impatient(c); c.Workers = []Worker{{Task: "echo", Do: team.do}} })
			var log notes
			customer, _ := start(t, url, func(c *Config) { ours.impatient(c); c.Log = log.logger() })
			awaitProviders(t, customer, 1)
			id := open(t, customer, bundle(t), control.Hire{})
			eventually(t, "the worker works", func() bool { return team.busy() == 1 })
			set := func(d time.Duration) {
				if whose != "the customer's" {
					theirs.jump(d)
				}
				if whose != "the provider's" {
					ours.jump(d)
				}
			}
			set(-10 * time.Minute)
			close(team.may)
			eventually(t, "the worker is done", func() bool { return team.busy() == 0 })
			if whose != "the provider's" {
				checkClock(t, customer)
			}
			if whose == "the customer's" {
				eventually(t, "the provider has answered", func() bool { return service(t, provider).Done == 1 })
				eventually(t, "the answer waits", func() bool { return strings.Contains(log.String(), "an event waits until it can be recorded") })
			}
			if got := facts(t, customer, "job."+id); slices.Contains(got, "attempt.delivered") {
				t.Errorf("%q while the clock is wrong", got)
			}
			set(10 * time.Minute)
			job := finish(t, customer, id)
			if strings.Contains(log.String(), "could not be taken") {
				t.Errorf("an event was lost:\n%s", log.String())
			}
			if job.Ending != guild.JobAccepted || len(job.Attempts) != 1 || team.called(id) != 1 {
				t.Errorf("%s after %d attempts and %d calls of the worker: %s", job.Ending, len(job.Attempts), team.called(id), job.Reason)
			}
		})
	}
}

// checkClock checks that a node reports that it decides nothing.
func checkClock(t *testing.T, c *control.Client) {
	t.Helper()
	_, err := c.Hire(t.Context(), strings.NewReader(string(bundle(t))), control.Hire{})
	if err == nil || !strings.Contains(err.Error(), "the clock is behind the journal") {
		t.Errorf("a new job ends with %v", err)
	}
}

// TestClockSetBackALittle stays within the minute that the journal tolerates.
func TestClockSetBackALittle(t *testing.T) {
	t.Parallel()
	url := startRelay(t)
	var wall clock
	team := newCrew()
	start(t, url, func(c *Config) { wall.nodes(c); c.Workers = []Worker{{Task: "echo", Do: team.do}} })
	customer, _ := start(t, url, wall.nodes)
	awaitProviders(t, customer, 1)
	id := open(t, customer, bundle(t), control.Hire{})
	eventually(t, "the worker works", func() bool { return team.busy() == 1 })
	wall.jump(-50 * time.Second)
	close(team.may)
	if job := finish(t, customer, id); job.Ending != guild.JobAccepted || len(job.Attempts) != 1 || team.called(id) != 1 {
		t.Errorf("%s after %d attempts: %s", job.Ending, len(job.Attempts), job.Reason)
	}
}
