package node

import (
	"context"
	"errors"

	"guild/internal/control"
	"guild/internal/journal/due"
	"guild/internal/journal/fold"
	"guild/internal/step/audit"
)

// auditPart makes the step that seals the journal: at intervals, and once more when the node stops. Without the last
// seal, the entries of this run would have no seal until the next run. A stopped node seals only on request.
func (n *Node) auditPart() part {
	f := audit.NewFold()
	var step *audit.Step
	open := func(context.Context) (active, error) {
		c := audit.Config{Journal: n.journal, Signer: n.signer(), Now: n.c.Now, Every: n.c.Records.SealEvery}
		if n.c.Records.Publish {
			c.Publish, c.Relays = n.publish, n.relays
		}
		step = audit.New(c, f)
		seal := func(ctx context.Context) error {
			_, err := step.Seal(ctx)
			if errors.Is(err, audit.ErrEmpty) {
				return nil
			}
			return err
		}
		return active{due: []due.Source{step.Due}, last: seal}, nil
	}
	return part{
		name: "audit", folds: []fold.Fold{f}, open: open,
		inspect: func(ctx context.Context, _ bool) error { _, err := open(ctx); return err },
		show:    func(s *control.Parts) { s.Audit = step },
	}
}
