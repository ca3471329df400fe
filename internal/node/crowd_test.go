package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"golang.org/x/sync/errgroup"

	"guild"
	"guild/internal/control"
	"guild/internal/policy"
	"guild/internal/step/work"
)

// crew is the worker of one provider. It counts its calls, by job and running at once, and works only when allowed.
type crew struct {
	may chan struct{} // closed when it may work

	mu      sync.Mutex
	jobs    map[string]int // job → calls
	running int
	most    int // maximum running at once
}

func newCrew() *crew { return &crew{may: make(chan struct{}), jobs: map[string]int{}} }

func (c *crew) do(ctx context.Context, a work.Assignment) error {
	c.count(a.Job, 1)
	defer c.count("", -1)
	select {
	case <-c.may:
		return echo(ctx, a)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *crew) count(job string, change int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if job != "" {
		c.jobs[job]++
	}
	c.running += change
	c.most = max(c.most, c.running)
}

// busy returns the number of requests that run now.
func (c *crew) busy() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running
}

// called returns the number of calls for a job.
func (c *crew) called(job string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.jobs[job]
}

// peak returns the maximum number of requests that ran at once.
func (c *crew) peak() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most
}

func TestTwentyJobsAtOnce(t *testing.T) {
	t.Parallel()
	const jobs, slots = 20, 2
	url := startRelay(t)
	var crews [2]*crew
	var providers [2]*control.Client
	for i := range crews {
		crews[i] = newCrew()
		providers[i], _ = start(t, url, func(c *Config) { c.Workers = []Worker{{Task: "echo", Do: crews[i].do, Slots: slots}} })
	}
	customer, _ := start(t, url, func(c *Config) { c.Hiring.Limits.AtOnce, c.Policy = jobs, policy.Specification() }) // which fills their queues
	awaitProviders(t, customer, len(providers))

	ids := openAll(t, customer, jobs)
	awaitQueues(t, providers[:], jobs, slots)
	for _, c := range crews {
		eventually(t, "as many work as may", func() bool { return c.busy() == slots })
		close(c.may)
	}
	attempts := map[string]bool{}
	for _, id := range ids {
		job := finish(t, customer, id)
		if job.Ending != guild.JobAccepted || len(job.Attempts) != 1 || job.Attempts[0].Receipt == "" {
			t.Errorf("job %.8s: %s after %d attempts", id, job.Ending, len(job.Attempts))
			continue
		}
		attempts[job.Attempts[0].ID] = true
		if calls := crews[0].called(id) + crews[1].called(id); calls != 1 {
			t.Errorf("job %.8s was worked on %d times", id, calls)
		}
	}
	for i, c := range crews {
		if most := c.peak(); most != slots {
			t.Errorf("provider %d worked on %d requests at a time, want %d", i, most, slots)
		}
	}
	checkOnce(t, customer, attempts, jobs)
	checkServed(t, providers[:], jobs)
}

// openAll opens jobs concurrently.
func openAll(t *testing.T, customer *control.Client, n int) []string {
	t.Helper()
	ids, packed := make([]string, n), bundle(t)
	var all errgroup.Group
	for i := range ids {
		all.Go(func() error {
			job, err := customer.Hire(t.Context(), bytes.NewReader(packed), control.Hire{})
			ids[i] = job.ID
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	return ids
}

// awaitQueues waits until all requests have arrived, and each provider has no free slot and a queue.
func awaitQueues(t *testing.T, providers []*control.Client, jobs, slots int) {
	t.Helper()
	eventually(t, "both providers are busy and have a queue", func() bool {
		total := 0
		for _, p := range providers {
			s := service(t, p)
			if s.Running != slots || s.Queued == 0 {
				return false
			}
			total += s.Running + s.Queued
		}
		return total == jobs
	})
}

// service returns the only service of a provider.
func service(t *testing.T, provider *control.Client) control.Service {
	t.Helper()
	s, err := control.NodeStatus.Call(t.Context(), provider)
	if err != nil || len(s.Services) != 1 {
		t.Fatalf("%d services, %v", len(s.Services), err)
	}
	return s.Services[0]
}

// checkOnce checks in the journal that each attempt was planned, delivered, judged and recorded once.
func checkOnce(t *testing.T, customer *control.Client, attempts map[string]bool, jobs int) {
	t.Helper()
	if len(attempts) != jobs {
		t.Errorf("%d different attempts, want %d", len(attempts), jobs)
	}
	count := map[string]int{}
	for _, f := range facts(t, customer, "") {
		count[f]++
	}
	for _, f := range []string{"job.opened", "attempt.planned", "attempt.requested", "attempt.delivered", "attempt.judged",
		"attempt.recorded", "job.closed", "trust.changed"} {
		if count[f] != jobs {
			t.Errorf("%d facts %s, want %d", count[f], f, jobs)
		}
	}
}

func checkServed(t *testing.T, providers []*control.Client, jobs int) {
	t.Helper()
	done := 0
	for i, p := range providers {
		s := service(t, p)
		if s.Done == 0 || s.Failed != 0 || s.Running != 0 || s.Queued != 0 {
			t.Errorf("provider %d: %+v", i, s)
		}
		done += s.Done
	}
	if done != jobs {
		t.Errorf("%d deliveries, want %d", done, jobs)
	}
}

func TestRefusalAsksNextProvider(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		refuse func(p *peer, request nostr.Event) nostr.Event
		reason string
	}{
		{"payment wanted first", func(p *peer, r nostr.Event) nostr.Event {
			return p.feedback(r, nostr.Tag{"status", "payment-required"}, nostr.Tag{"amount", "21000"})
		}, "wants 21000 msat first, and the order pays nothing: --settle is free or not given"},
		{"payment wanted first, with an underscore", func(p *peer, r nostr.Event) nostr.Event {
			return p.feedback(r, nostr.Tag{"status", "payment_required"}, nostr.Tag{"amount", "5000", "lnbc50n1"})
		}, "wants 5000 msat first, and the order pays nothing: --settle is free or not given"},
		{"payment wanted first, the text before the word", func(p *peer, r nostr.Event) nostr.Event {
			return p.feedback(r, nostr.Tag{"status", "pay me", "payment-required"}, nostr.Tag{"amount", "1"})
		}, "wants 1 msat first, and the order pays nothing: --settle is free or not given"},
		{"at capacity", func(p *peer, r nostr.Event) nostr.Event {
			return p.feedback(r, nostr.Tag{"status", "error", "at capacity, come back later"})
		}, "at capacity, come back later"},
		{"an error that is in the content only", func(p *peer, r nostr.Event) nostr.Event {
			e := p.feedback(r, nostr.Tag{"status", "error"})
			e.Content = "no GPU is left"
			return e
		}, "no GPU is left"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url := startRelay(t)
			_, able := start(t, url, func(c *Config) { c.Workers = []Worker{{Task: "echo", Do: echo}} })
			first := newPeer(t, url)
			first.announce()
			customer, _ := start(t, url, func(*Config) {})
			awaitProviders(t, customer, 2)

			id := open(t, customer, bundle(t), control.Hire{Providers: []string{first.pubkey.Hex(), able.Hex()}})
			first.publish(test.refuse(first, first.next(5000)))
			checkRefused(t, finish(t, customer, id), test.reason)
		})
	}
}

// checkRefused checks that the first attempt was refused for a reason, and the second was accepted.
func checkRefused(t *testing.T, job control.Job, reason string) {
	t.Helper()
	if job.Ending != guild.JobAccepted || len(job.Attempts) != 2 {
		t.Fatalf("%s after %d attempts: %s", job.Ending, len(job.Attempts), job.Reason)
	}
	a := job.Attempts[0]
	if a.State != string(guild.Refused) || !strings.Contains(a.Reason, reason) {
		t.Errorf("the first attempt is %s: %q, want %q", a.State, a.Reason, reason)
	}
	if a.Verdict != nil || a.TrustTo != nil || a.Receipt != "" {
		t.Errorf("a refusal has a verdict, trust or a receipt: %+v", a)
	}
	if job.Attempts[1].State != string(guild.Accepted) {
		t.Errorf("the second attempt is %s", job.Attempts[1].State)
	}
}

func TestPricedProviderRefuses(t *testing.T) {
	t.Parallel()
	url := startRelay(t)
	_, dear := start(t, url, func(c *Config) { c.Workers = []Worker{{Task: "echo", Do: echo, Price: 21_000}} })
	_, free := start(t, url, func(c *Config) { c.Workers = []Worker{{Task: "echo", Do: echo}} })
	customer, _ := start(t, url, func(*Config) {})
	awaitProviders(t, customer, 2)
	job := hire(t, customer, control.Hire{Providers: []string{dear.Hex(), free.Hex()}})
	checkRefused(t, job, "wants 21000 msat first, and the order pays nothing: --settle is free or not given")
}

func TestFullQueueRefuses(t *testing.T) {
	t.Parallel()
	url := startRelay(t)
	slow := newCrew()
	full, busy := start(t, url, func(c *Config) {
		c.Workers = []Worker{{Task: "echo", Do: slow.do, Slots: 1, Queue: 1}}
	})
	_, able := start(t, url, func(c *Config) { c.Workers = []Worker{{Task: "echo", Do: echo}} })
	customer, _ := start(t, url, func(*Config) {}) // it does not know the other customers' requests
	other, _ := start(t, url, func(*Config) {})
	awaitProviders(t, customer, 2)
	awaitProviders(t, other, 2)

	only := control.Hire{Providers: []string{busy.Hex()}}
	waiting := []string{open(t, other, bundle(t), only), open(t, other, bundle(t), only)}
	eventually(t, "the queue is full", func() bool { s := service(t, full); return s.Running == 1 && s.Queued == 1 })
	job := hire(t, customer, control.Hire{Providers: []string{busy.Hex(), able.Hex()}})
	checkRefused(t, job, "at capacity")
	close(slow.may)
	for _, id := range waiting {
		if job := finish(t, other, id); job.Ending != guild.JobAccepted {
			t.Errorf("what waited is %s: %s", job.Ending, job.Reason)
		}
	}
}

func TestNodeCannotHireItself(t *testing.T) {
	t.Parallel()
	url := startRelay(t)
	both, _ := start(t, url, func(c *Config) {
		c.Workers = []Worker{{Task: "echo", Do: echo}}
		c.Hiring.Patience.Discover = 100 * time.Millisecond
	})
	awaitProviders(t, both, 1)
	if job := hire(t, both, control.Hire{}); job.Ending != guild.JobUnclaimed || len(job.Attempts) != 0 {
		t.Errorf("%s after %d attempts: %s", job.Ending, len(job.Attempts), job.Reason)
	}
}

// facts returns the types of the facts in a journal whose subject has a prefix, in order.
func facts(t *testing.T, c *control.Client, subject string) (types []string) {
	t.Helper()
	for r, err := range control.Entries.Lines(t.Context(), c, "", subject) {
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, factTypes(t, r)...)
	}
	return types
}

// factTypes returns the types of the facts in one entry.
func factTypes(t *testing.T, r control.Record) (types []string) {
	t.Helper()
	var entry struct {
		Facts []struct{ Type string }
	}
	if err := json.Unmarshal(r.Entry, &entry); err != nil {
		t.Fatal(fmt.Errorf("entry %d: %w", r.Seq, err))
	}
	for _, f := range entry.Facts {
		types = append(types, f.Type)
	}
	return types
}
