package node

import (
	"context"
	"errors"

	"fiatjaf.com/nostr"

	"guild/internal/audit"
	"guild/seal"
)

// openAudit opens the step that seals the journal. A node that does not run seals only what somebody asks for, if it was
// given an identity.
func (n *Node) openAudit() {
	c := audit.Config{Journal: n.journal, Signer: n.keyer, Now: n.c.Now, Every: n.c.Records.SealEvery}
	if n.keyer == nil {
		c.Signer = n.c.Identity.Signer
	}
	if n.c.Records.Publish {
		c.Publish, c.Relays = n.publish, n.relays
	}
	n.audit = audit.New(c, n.folds.audit)
}

// sealLast seals what the run has added. Without that the next run would, an hour later.
func (n *Node) sealLast() {
	ctx, cancel := context.WithTimeout(context.Background(), n.c.Grace)
	defer cancel()
	if _, err := n.audit.Seal(ctx); err != nil && !errors.Is(err, audit.ErrEmpty) {
		n.c.Log.Warn("the journal is not sealed", "err", err)
	}
}

// prove proves that an entry is in the sealed journal, which is sealed now if no seal covers the entry.
func (n *Node) prove(ctx context.Context, seq uint64) (entry []byte, proof seal.Proof, checkpoint nostr.Event, err error) {
	p, err := n.audit.Prove(ctx, seq)
	return []byte(p.Entry), p.Proof, p.Checkpoint, err
}
