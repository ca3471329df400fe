package node

import (
	"context"

	"guild/internal/control"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// part is a step's place in the node. Each step has a function that makes its part, and newParts lists them.
type part struct {
	name  string      // of the step's package
	folds []fold.Fold // the step's states, made before the journal is opened

	open     func(context.Context) (active, error)      // makes the step, once journal and relays are open
	inspect  func(ctx context.Context, seen bool) error // makes it in a stopped node, to look at; what others published is read if seen; nil for nothing
	show     func(*control.Parts)                       // tells the control API of the step and its folds; nil for nothing
	finished func(guard fact.Subject) bool              // reports that nothing follows under a guard any more (journal.Options); nil for never
}

// active is what the node does with an open step. Every member may be empty.
type active struct {
	due    []due.Source
	limits map[string]int // how many effects of a class run at a time
	routes []route        // the events that the step takes

	run   func(context.Context) error // runs until the context ends
	drain func(context.Context) error // finishes what runs, while the relays are still connected
	last  func(context.Context) error // runs when everything else has ended
}

// newParts makes the parts of all steps, in the order in which they are opened.
func (n *Node) newParts() ([]part, error) {
	trust, err := n.trustPart()
	if err != nil {
		return nil, err
	}
	return []part{
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
	}, nil
}
