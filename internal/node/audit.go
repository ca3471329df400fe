package node

import (
	"context"
	"errors"
	"slices"

	"fiatjaf.com/nostr"

	"guild/internal/control"
	"guild/internal/journal/due"
	"guild/internal/journal/fold"
	"guild/internal/step/audit"
	"guild/seal"
)

// auditPart makes the step that seals the journal: at intervals, and once more when the node stops. Without the last
// seal, the entries of this run would have no seal until the next run. A stopped node seals only on request.
func (n *Node) auditPart() part {
	f, witnesses := audit.NewFold(), audit.NewWitnesses()
	n.folds.witnesses = witnesses
	var step *audit.Step
	open := func(context.Context) (active, error) {
		c := audit.Config{Journal: n.journal, Signer: n.signer(), Now: n.c.Now, Every: n.c.Records.SealEvery}
		if n.c.Records.Publish {
			c.Publish, c.Relays = n.publish, n.relays
		}
		if n.keyer != nil {
			c.Witness = &audit.Witnessing{Fold: witnesses, Keyer: n.keyer, PubKey: n.pubkey, Send: n.publish,
				Inbox: func(ctx context.Context, p nostr.PubKey) []string {
					return slices.Concat(n.inboxRelaysOf(ctx, p), n.urls)
				},
				Served: func(request nostr.ID) (nostr.PubKey, []string, bool) { return n.work.Delivered(request) },
			}
		}
		step = audit.New(c, f)
		n.audit = step
		last := func(ctx context.Context) error {
			_, err := step.Seal(ctx)
			if errors.Is(err, audit.ErrEmpty) {
				return nil
			}
			return err
		}
		return active{due: []due.Source{step.Due}, last: last, routes: []route{{from: seal.KindWitness, take: anyRelay(step.Countersigned)}}}, nil
	}
	return part{
		name: "audit", folds: []fold.Fold{f, witnesses}, open: open,
		inspect: func(ctx context.Context, _ bool) error { _, err := open(ctx); return err },
		show:    func(s *control.Parts) { s.Audit = step },
	}
}
