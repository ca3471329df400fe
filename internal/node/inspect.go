package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"guild/internal/blob"
	"guild/internal/control"
	"guild/internal/partner"
	"guild/internal/policy"
	"guild/internal/registry"
	"guild/internal/review"
)

// Inspect opens what a stopped node left, to look at: no relay is asked and nothing is due. The client answers
// everything but what needs a running node. close gives the directory free again.
func Inspect(ctx context.Context, c Config) (client *control.Client, close func() error, err error) {
	n := &Node{c: c.withDefaults()}
	return n.inspect(ctx, n.openSeen)
}

// InspectJournal is Inspect for the journal alone: what strangers wrote is not read.
func InspectJournal(ctx context.Context, c Config) (client *control.Client, close func() error, err error) {
	n := &Node{c: c.withDefaults()}
	return n.inspect(ctx, func(context.Context) error { return nil })
}

func (n *Node) inspect(ctx context.Context, more func(context.Context) error) (client *control.Client, close func() error, err error) {
	n.started = n.c.Now()
	if err := n.openStopped(ctx, more); err != nil {
		return nil, nil, errors.Join(err, n.close())
	}
	client, hangUp := control.InProcess(ctx, n.control)
	return client, func() error {
		hangUp()
		return n.close()
	}, nil
}

func (n *Node) openStopped(ctx context.Context, more func(context.Context) error) (err error) {
	if err := n.openJournal(ctx, nil); err != nil {
		return err
	}
	if n.blobs, err = blob.Open(filepath.Join(n.c.Dir, "blob")); err != nil {
		return fmt.Errorf("open the blobs: %w", err)
	}
	if err := more(ctx); err != nil {
		return err
	}
	n.openAudit()
	n.openControl()
	return nil
}

// openSeen opens the steps that remember what strangers wrote.
func (n *Node) openSeen(ctx context.Context) (err error) {
	n.registry, err = registry.Open(ctx, registry.Config{Journal: n.journal, Now: n.c.Now, Synonyms: n.c.Synonyms, Observed: n.folds.observed}, n.folds.partners)
	if err != nil {
		return err
	}
	n.partners = partner.New(partner.Config{Journal: n.journal, Now: n.c.Now, Latest: n.registry.Latest, Services: n.registry.Services}, n.folds.partners)
	n.review, err = review.Open(ctx, review.Config{
		Journal: n.journal, PubKey: n.c.Identity.PubKey, Now: n.c.Now, Policy: func() policy.Policy { return n.c.Policy }, Follow: n.c.Follow,
	}, n.folds.review)
	return err
}
