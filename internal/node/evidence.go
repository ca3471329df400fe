package node

import (
	"context"

	"fiatjaf.com/nostr"

	"guild/internal/evidence"
	"guild/internal/step/audit"
)

// collector returns a collector for the evidence of receipts. sealer proves that a receipt is in the journal, and seals
// the journal if needed. Without an identity, the event of a receipt and its proof are omitted.
func (n *Node) collector(sealer *audit.Step) *evidence.Collector {
	signer := n.signer()
	c := evidence.Config{Journal: n.journal, Blobs: n.blobs, Signer: signer}
	if signer != nil {
		c.Prove = func(ctx context.Context, seq uint64, provider nostr.PubKey) (evidence.Place, error) {
			p, witness, err := sealer.ProveTo(ctx, seq, provider)
			return evidence.Place{Entry: []byte(p.Entry), Proof: p.Proof, Checkpoint: p.Checkpoint, Witness: witness}, err
		}
	}
	// Only a local key can derive the key of a single message; a remote signer cannot.
	if k, ok := signer.(interface {
		MessageKeys(payload string, with nostr.PubKey) ([]byte, error)
	}); ok {
		c.Open = k.MessageKeys
	}
	return evidence.New(c)
}
