package relay

import (
	"context"
	"errors"
	"time"

	"fiatjaf.com/nostr"
)

// BunkerConfig says which remote signer to use.
type BunkerConfig struct {
	Pool *Pool            // carries the requests; it must be running
	URL  string           // bunker://<remote signer's public key>?relay=wss://...&secret=...
	Key  nostr.SecretKey  // ours towards the signer; keep it, the signer knows us by it
	Now  func() time.Time // stamps the requests

	Timeout time.Duration    // of one request; 30 s if zero
	AuthURL func(url string) // shown when the signer wants the person to confirm something in a browser
}

// Bunker is a NIP-46 remote signer.
type Bunker struct{}

// OpenBunker connects to a remote signer.
func OpenBunker(ctx context.Context, c BunkerConfig) (*Bunker, error) {
	return nil, errors.New("not built")
}

// Close ends the subscription to the signer's answers.
func (b *Bunker) Close() {}
