package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/hand/key"
	"guild/internal/hand/relayd"
	"guild/internal/journal"
	"guild/internal/step/work"
)

// A suspended provider is left alone until its cooldown is over. Then the node benchmarks it by itself, and gives it work again
// if it is as good as before, but not if it still fails (sections 3.4.2 and 3.4.3). The nodes and their relay share a clock that
// the test moves.
func TestProviderClimbsBack(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		mended bool
		want   []string
	}{
		{"one that is mended gets work again", true, []string{"active", "warned", "reduced", "suspended", "benchmarking", "active"}},
		{"one that still fails is removed", false, []string{"active", "warned", "reduced", "suspended", "benchmarking", "removed"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := newClimb(t)
			c.descend()
			c.restart()
			c.failing.Store(!test.mended)
			c.waits(15)
			c.waits(14)
			if got := c.states(); got[len(got)-1] != "suspended" || c.benchmarks.Load() != 0 {
				t.Fatalf("before the end of the cooldown: %q, %d benchmarks", got, c.benchmarks.Load())
			}
			c.waits(2)
			eventually(t, "the benchmarks have ended", func() bool { return len(c.states()) == len(test.want) })
			if got := c.states(); !slices.Equal(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
			if n := c.benchmarks.Load(); n == 0 {
				t.Error("nothing was tried")
			}
			job := c.hire()
			if test.mended != (job.Ending == guild.JobAccepted) {
				t.Errorf("after that: %s: %s", job.Ending, job.Reason)
			}
		})
	}
}

// climb has a customer, a provider of the task "python", and their relay, with one clock.
type climb struct {
	*testing.T
	clock
	url        string
	customer   *control.Client
	seller     *control.Client // the provider's node
	change     func(*Config)   // of the customer
	quit       chan struct{}
	provider   nostr.PubKey
	failing    atomic.Bool  // the provider's worker fails
	benchmarks atomic.Int64 // that it was asked for
}

func newClimb(t *testing.T) *climb {
	t.Helper()
	c := &climb{T: t, quit: make(chan struct{})}
	r, err := relayd.Open(relayd.Config{Dir: t.TempDir(), Addr: "127.0.0.1:0", Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	run(t, r.Run)
	c.url = r.URL()
	c.seller, c.provider = start(t, c.url, func(config *Config) {
		c.nodes(config)
		config.Name, config.Workers = "greta", []Worker{{Task: "python", Do: c.work}}
	})
	secret, dir := key.NewSecret(nostr.Generate()), t.TempDir()
	if err := journal.Init(filepath.Join(dir, "journal")); err != nil {
		t.Fatal(err)
	}
	c.change = func(config *Config) {
		c.nodes(config)
		config.Identity = key.Identity{Signer: key.NewSigner(secret), PubKey: secret.PubKey()}
		config.Dir, config.Policy, config.Examine, config.Quit = dir, hasty(), strict, c.quit
		config.Hiring.Patience.Discover = time.Second
	}
	c.customer, _ = start(t, c.url, c.change)
	awaitProviders(t, c.customer, 1)
	return c
}

// restart starts the customer's node again, so that it benchmarks providers by itself.
func (c *climb) restart() {
	c.Helper()
	close(c.quit)
	eventually(c.T, "the node is gone", func() bool {
		_, err := control.NodeStatus.Call(context.Background(), c.customer)
		return errors.Is(err, control.ErrNotRunning)
	})
	c.customer, _ = start(c.T, c.url, func(config *Config) {
		c.change(config)
		config.Quit, config.Meeting = nil, Meeting{Auto: true}
	})
}

func (c *climb) work(_ context.Context, a work.Assignment) error {
	if _, err := os.Stat(filepath.Join(a.Bundle, "files", "in.txt")); err != nil {
		c.benchmarks.Add(1)
	}
	answer := "hello"
	if c.failing.Load() {
		answer = "no idea"
	}
	return os.WriteFile(filepath.Join(a.Delivery, "out.txt"), []byte(answer), 0o644)
}

func (c *climb) hire() control.Job {
	c.Helper()
	request := pack(c.T, fstest.MapFS{
		"nutshell.json": {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-test",
			"task":{"title":"Echo what is there"},"extensions":{"guild":{"task":"python"}}}`)},
		"files/in.txt": {Data: []byte("hello")},
	})
	return finish(c.T, c.customer, open(c.T, c.customer, request, control.Hire{Timeout: 60_000}))
}

// descend lets the provider do two jobs well and three badly.
func (c *climb) descend() {
	c.Helper()
	for i, want := range []string{"active", "active", "warned", "reduced", "suspended"} {
		c.failing.Store(i >= 2)
		if job := c.hire(); (job.Ending == guild.JobAccepted) == c.failing.Load() {
			c.Fatalf("%s: %s", job.Ending, job.Reason)
		}
		eventually(c.T, "the provider is "+want, func() bool { s := c.states(); return len(s) > 0 && s[len(s)-1] == want })
	}
}

// waits lets days pass, and has the provider announce itself again.
func (c *climb) waits(days int) {
	c.Helper()
	c.jump(time.Duration(days) * 24 * time.Hour)
	today := c.now().Add(-time.Minute)
	d := service(c.T, c.seller).D
	_, paused := control.PauseService.Call(c.Context(), c.seller, d)
	_, resumed := control.ResumeService.Call(c.Context(), c.seller, d)
	if err := errors.Join(paused, resumed); err != nil {
		c.Fatal(err)
	}
	eventually(c.T, "the provider has announced itself again", func() bool {
		all, err := control.Providers.Call(c.Context(), c.customer)
		return err == nil && slices.ContainsFunc(all, func(p control.Provider) bool { return time.UnixMilli(p.SeenMs).After(today) })
	})
}

// states are those that the provider had, as the customer tells it.
func (c *climb) states() (all []string) {
	c.Helper()
	story, err := control.Story.Call(c.Context(), c.customer, c.provider.Hex())
	if err != nil {
		c.Fatal(err)
	}
	for _, change := range story {
		if change.State != "" {
			all = append(all, change.State)
		}
	}
	return all
}
