package node

import (
	"fiatjaf.com/nostr"

	"guild/internal/evidence"
)

// messageOpener is a key that lies on this machine: only that can tell what opens one message.
type messageOpener interface {
	MessageKeys(payload string, with nostr.PubKey) ([]byte, error)
}

// collector gathers the evidence of receipts. Without an identity there is nobody to sign them.
func (n *Node) collector() *evidence.Collector {
	signer := n.keyer
	if signer == nil { // the node does not run
		signer = n.c.Identity.Signer
	}
	c := evidence.Config{Journal: n.journal, Blobs: n.blobs, Signer: signer}
	if signer != nil {
		c.Prove = n.prove
	}
	if k, ok := signer.(messageOpener); ok {
		c.Open = k.MessageKeys
	}
	return evidence.New(c)
}
