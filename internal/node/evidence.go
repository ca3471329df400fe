package node

import (
	"context"

	"fiatjaf.com/nostr"

	"guild/internal/evidence"
	"guild/internal/step/audit"
	"guild/seal"
)

// collector gathers the evidence of receipts. A receipt's event and the proof that it is in the journal, which sealer seals
// for that if needed, are left out without an identity.
func (n *Node) collector(sealer *audit.Step) *evidence.Collector {
	signer := n.signer()
	c := evidence.Config{Journal: n.journal, Blobs: n.blobs, Signer: signer}
	if signer != nil {
		c.Prove = func(ctx context.Context, seq uint64) ([]byte, seal.Proof, nostr.Event, error) {
			p, err := sealer.Prove(ctx, seq)
			return []byte(p.Entry), p.Proof, p.Checkpoint, err
		}
	}
	// Only a key on this machine can tell the key of one message; a remote signer cannot.
	if k, ok := signer.(interface {
		MessageKeys(payload string, with nostr.PubKey) ([]byte, error)
	}); ok {
		c.Open = k.MessageKeys
	}
	return evidence.New(c)
}
