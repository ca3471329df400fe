package node

import (
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild/internal/control"
	"guild/internal/hand/key"
	"guild/nipae"
)

// TestClaimsOfTwoRelays has other programs publish different claims of the owner at two relays, of which one is away for a
// while.
func TestClaimsOfTwoRelays(t *testing.T) {
	t.Parallel()
	first := startRelay(t)
	dir := t.TempDir()
	second, stop := startRelayAt(t, dir, keptAddress(t))
	var owner key.Identity
	client, _ := start(t, first, func(c *Config) { c.Relays, owner = append(c.Relays, second), c.Identity })
	var named []string
	at := map[string]*peer{first: newPeer(t, first), second: newPeer(t, second)}
	for url, p := range at {
		agent := newPeer(t, url).pubkey
		e, err := nipae.Claims{}.Add(agent).Event()
		if err != nil {
			t.Fatal(err)
		}
		p.key, e.CreatedAt = owner.Signer.(*key.Signer), nostr.Now()-nostr.Timestamp(100+len(named))
		p.publish(e)
		named = append(named, agent.Hex())
	}
	agent := newPeer(t, first).pubkey.Hex()

	stop()
	_, err := control.ClaimAgent.Call(t.Context(), client, agent)
	if err == nil || !strings.Contains(err.Error(), second) {
		t.Errorf("claimed without an answer of %s: %v", second, err)
	}
	if claims, _ := at[first].stored(nipae.KindClaims); len(claims) != 1 || claims[0].CreatedAt > nostr.Now()-50 {
		t.Errorf("%v", claims)
	}

	startRelayAt(t, dir, strings.TrimPrefix(second, "ws://"))
	at[second] = newPeer(t, second)
	eventually(t, "it can claim", func() bool {
		_, err := control.ClaimAgent.Call(t.Context(), client, agent)
		return err == nil
	})
	eventually(t, "both relays have all claims", func() bool {
		for _, p := range at {
			claims, _ := p.stored(nipae.KindClaims)
			for _, want := range append(named, agent) {
				if len(claims) != 1 || claims[0].Tags.FindWithValue("p", want) == nil {
					return false
				}
			}
		}
		return true
	})
}
