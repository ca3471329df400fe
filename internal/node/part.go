package node

import (
	"context"

	"guild/internal/control"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// part connects one step to the node. Each step has a function that makes its part, and newParts lists them.
type part struct {
	name  string      // the step's package
	folds []fold.Fold // created before the journal is opened

	open     func(context.Context) (active, error)      // creates the step, once the journal and relays are open
	inspect  func(ctx context.Context, seen bool) error // creates it in a stopped node, for reading; with others' publications if seen; may be nil
	show     func(*control.Parts)                       // adds the step and its folds to the control API; may be nil
	finished func(guard fact.Subject) bool              // reports that a guard will get no more facts (journal.Options); nil means never
}

// active holds the functions of an open step that the node calls. Every field may be empty.
type active struct {
	due    []due.Source
	large  []due.Large
	limits map[string]int // class of effects → maximum running at once
	routes []route        // events for the step

	run   func(context.Context) error // runs until the context ends
	drain func(context.Context) error // finishes running work, while the relays are still connected
	last  func(context.Context) error // runs after everything else has ended
}

// newParts makes the parts of all steps, in the order in which they are opened.
func (n *Node) newParts() ([]part, error) {
	trust, err := n.trustPart()
	if err != nil {
		return nil, err
	}
	return []part{
		n.walletPart(),
		n.payPart(),
		n.partnerPart(),
		n.jobsPart(),
		n.workPart(),
		n.meetPart(),
		n.judgePart(),
		n.recordPart(),
		trust,
		n.variablesPart(),
		n.exchangePart(),
		n.reviewPart(),
		n.backupPart(),
		n.auditPart(),
		n.activityPart(),
		n.agentsPart(),
	}, nil
}
