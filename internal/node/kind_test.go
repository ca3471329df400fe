package node

import (
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
)

// TestServiceIsAskedInItsKind hires a guild node whose service takes text generation alone, for a task whose requests are
// otherwise of kind 5000, without naming it, by its
// key, and by its offer.
func TestServiceIsAskedInItsKind(t *testing.T) {
	t.Parallel()
	relay := startRelay(t)
	_, provider := start(t, relay, func(c *Config) { c.Workers = []Worker{{Task: "upper", Kinds: []int{5050}, Do: upper}} })
	customer, own := start(t, relay, func(c *Config) { c.Examine = examineCapitals })
	observer := newPeer(t, relay)
	awaitProviders(t, customer, 1)
	for i, h := range []control.Hire{{}, {Providers: []string{provider.Hex()}}} {
		h.Task = "upper"
		job := finish(t, customer, open(t, customer, bundleOf(t, []byte("hello")), h))
		if a := only(t, job); a.State != string(guild.Accepted) || a.Verdict == nil || a.Receipt == "" {
			t.Fatalf("%+v: it is %s: %s", h, a.State, a.Reason)
		}
		requests, _ := observer.stored(kinds(5000, 6000)...)
		results, _ := observer.stored(kinds(6000, 7000)...)
		if len(requests) != i+1 || len(results) != i+1 {
			t.Fatalf("%d requests and %d results, want %d", len(requests), len(results), i+1)
		}
		for _, e := range requests {
			if e.Kind != 5050 || e.PubKey != own {
				t.Errorf("asked in kind %d by %.8s", e.Kind, e.PubKey.Hex())
			}
		}
		for _, e := range results {
			if e.Kind != 6050 || e.PubKey != provider {
				t.Errorf("answered in kind %d by %.8s", e.Kind, e.PubKey.Hex())
			}
		}
	}
	job := finish(t, customer, open(t, customer, bundleOf(t, []byte("hello")), control.Hire{Task: "upper", Open: true}))
	if a := only(t, job); a.State != string(guild.Accepted) {
		t.Errorf("after a request for offers it is %s: %s", a.State, a.Reason)
	}
	if results, _ := observer.stored(6050); len(results) != 3 {
		t.Errorf("%d results, want 3", len(results))
	}
}

// kinds lists the kinds from a first one up to another.
func kinds(from, to nostr.Kind) (all []nostr.Kind) {
	for k := from; k < to; k++ {
		all = append(all, k)
	}
	return all
}
