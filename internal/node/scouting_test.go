package node

import (
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/control"
)

func TestSeekNamedProvider(t *testing.T) {
	url := startRelay(t)
	customer, _ := start(t, url, func(*Config) {})
	p := newPeer(t, url)
	p.announce() // once this arrives, the relay has sent its stored events
	awaitProviders(t, customer, 1)
	named := newPeer(t, url)
	old := named.announcement()
	old.CreatedAt = nostr.Timestamp(time.Now().Add(-20 * 24 * time.Hour).Unix())
	named.publish(old)
	open(t, customer, bundle(t), control.Hire{Providers: []string{named.pubkey.Hex()}})
	named.next(5000)
	awaitProviders(t, customer, 2)
}
