package node

import (
	"slices"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild/internal/control"
	"guild/internal/step/work"
)

// TestOpenRequestRouting publishes requests of a kind that the node serves, and checks the drops: an open request
// belongs to the work step, and one to another provider is ignored without counting as dropped.
func TestOpenRequestRouting(t *testing.T) {
	t.Parallel()
	url := startRelay(t)
	provider, us := start(t, url, func(c *Config) { c.Workers = []Worker{{Task: "echo", Do: echo}} })
	p := newPeer(t, url)
	other := newPeer(t, url)
	param := nostr.Tag{"param", "job_type", "echo"}
	p.publish(nostr.Event{Kind: 5000, Tags: nostr.Tags{{"p", other.pubkey.Hex()}, param, {"i", "not for us", "text"}}})
	p.publish(nostr.Event{Kind: 5999, Tags: nostr.Tags{param, {"i", "of another kind", "text"}}})
	p.publish(nostr.Event{Kind: 5000, Tags: nostr.Tags{{"p", us.Hex()}, {"param", "job_type", "no such task"}, {"i", "for us", "text"}}})
	eventually(t, "the last one was looked at", func() bool { return dropped(t, provider, "no such task") })
	for _, text := range []string{"not for us", "of another kind"} {
		if dropped(t, provider, text) {
			t.Errorf("the request %q is counted against somebody", text)
		}
	}
	if got := facts(t, provider, "request."); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

// dropped reports whether an event that contains a text was dropped.
func dropped(t *testing.T, c *control.Client, text string) bool {
	t.Helper()
	all, err := control.Rejected.Call(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if strings.Contains(d.Event, text) {
			return true
		}
	}
	return false
}

func TestOpenKinds(t *testing.T) {
	n := &Node{work: work.New(work.Config{Services: []work.Service{
		{Task: "a", Kind: 5100}, {Task: "b", Kind: 5050}, {Task: "c", Kind: 5100}, {Task: "d", Kind: 7000}, {Task: "e", Kinds: []int{5050, 5300}},
	}}, work.NewFold())}
	if got, want := n.openKinds(), []nostr.Kind{5050, 5100, 5300}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestStatusRelayTier(t *testing.T) {
	t.Parallel()
	url := startRelay(t)
	c, _ := start(t, url, func(*Config) {})
	eventually(t, "our relay is in the first tier", func() bool {
		s, err := control.NodeStatus.Call(t.Context(), c)
		return err == nil && len(s.Relays) == 1 && s.Relays[0].Tier == 1 && s.Relays[0].Connected
	})
}
