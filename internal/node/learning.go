package node

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"guild"
	"guild/internal/control"
	"guild/internal/journal/due"
	"guild/internal/journal/fold"
	"guild/internal/policy"
	"guild/internal/step/backup"
	"guild/internal/step/jobs"
	"guild/internal/step/review"
	"guild/internal/step/trust"
	"guild/internal/step/trust/exchange"
	"guild/internal/step/trust/variables"
	"guild/receipt"
)

// Learning configures what the node learns about providers, publishes and backs up.
type Learning struct {
	Thresholds map[string]guild.Trust // trust thresholds by task; the policy's for other tasks
	Classes    map[string]string      // by task
	Budgets    map[string]jobs.Budget // by task, and jobs.Others
	Mirrors    bool                   // publish reviews in other kinds too
	CID        string                 // named by reviews
	Silent     bool                   // publish no reviews
	Unsaved    bool                   // make no backups unless a person asks
}

// trustPart makes the step that learns how much each provider can be trusted.
func (n *Node) trustPart() (part, error) {
	f, err := trust.NewFold(n.c.Policy)
	if err != nil {
		return part{}, err
	}
	n.folds.trust = f
	return part{
		name: "trust", folds: []fold.Fold{f},
		open: func(context.Context) (active, error) {
			n.trust = trust.New(trust.Config{Journal: n.journal, Now: n.c.Now}, f)
			return active{due: []due.Source{n.trust.Due}}, nil
		},
		show: func(s *control.Parts) { s.Trust, s.Learn = f, n.trust },
	}, nil
}

// variablesPart makes the step that learns timeouts, budgets and parallelism.
func (n *Node) variablesPart() part {
	f := variables.NewFold(n.c.Policy)
	n.folds.variables = f
	return part{
		name: "variables", folds: []fold.Fold{f},
		open: func(context.Context) (active, error) {
			monthly := map[string]guild.Msat{} // monthly limit of each task
			for task, b := range n.c.Learning.Budgets {
				if b.Monthly > 0 {
					monthly[task] = b.Monthly
				}
			}
			var err error
			n.variables, err = variables.New(variables.Config{
				Journal: n.journal, AtOnce: n.c.Hiring.Limits.AtOnce, Budgets: monthly, Model: n.model, Trusted: n.trusted,
			}, f)
			if err != nil {
				return active{}, err
			}
			return active{due: []due.Source{n.variables.Due}}, nil
		},
		show: func(s *control.Parts) { s.Variables = f },
	}
}

// exchangePart makes the step that stores the trust that guilds tell each other. It has no effects of its own.
func (n *Node) exchangePart() part {
	f := exchange.NewFold(n.c.Policy)
	n.folds.exchange = f
	var step *exchange.Step
	return part{
		name: "exchange", folds: []fold.Fold{f},
		open: func(context.Context) (active, error) {
			f.Become(n.pubkey)
			step = exchange.New(exchange.Config{Journal: n.journal, Signer: n.keyer, Now: n.c.Now}, f)
			return active{}, nil
		},
		show: func(s *control.Parts) { s.Exchange = step },
	}
}

// reviewPart makes the step that sends verdicts to providers, receives their objections, and publishes and reads
// reviews.
func (n *Node) reviewPart() part {
	f, letters := review.NewFold(), review.NewLetters()
	rules := func() policy.Policy { return n.c.Policy }
	return part{
		name: "review", folds: []fold.Fold{f, letters},
		open: func(ctx context.Context) (active, error) {
			c := review.Config{
				Journal: n.journal, Keyer: n.keyer, PubKey: n.pubkey, Now: n.c.Now,
				Policy: rules, Relays: n.relays, Offer: n.registry.Offer, Publish: n.publish,
				Measured: n.latencies, Receipt: n.receiptOf, Follow: n.c.Hiring.Follow, SameOwner: n.sameOwner,
				Mirrors: n.c.Learning.Mirrors, CID: n.c.Learning.CID, Off: n.c.Learning.Silent,
				Letterbox: n.inboxRelaysOf, Share: n.shareReceipt,
			}
			var err error
			if n.review, err = review.Open(ctx, c, f); err != nil {
				return active{}, err
			}
			n.mail = review.NewMail(c, letters)
			return active{due: []due.Source{n.review.Due, n.mail.Due}, routes: []route{
				{from: review.Kind, take: n.review.Observe},
				{from: review.KindSet, take: n.review.Observe},
				{from: kindDeletion, only: n.review.Deletes, take: n.review.Observe},
				{from: kindFeedback, only: n.mail.Objects, take: anyRelay(n.mail.Observe)},
			}}, nil
		},
		inspect: func(ctx context.Context, seen bool) (err error) {
			if seen {
				n.review, err = review.Open(ctx, review.Config{
					Journal: n.journal, PubKey: n.c.Identity.PubKey, Now: n.c.Now, Policy: rules, Follow: n.c.Hiring.Follow, SameOwner: n.sameOwner,
				}, f)
			}
			return err
		},
		show: func(s *control.Parts) { s.Review, s.Mail = n.review, n.mail },
	}
}

// backupPart makes the step that stores the matrix at relays and Blossom servers.
func (n *Node) backupPart() part {
	f := backup.NewFold(n.c.Policy.Backup)
	return part{
		name: "backup", folds: []fold.Fold{f},
		open: func(context.Context) (active, error) {
			n.backup = backup.New(backup.Config{
				Journal: n.journal, Keyer: n.keyer, PubKey: n.pubkey, Now: n.c.Now, Parts: n.matrixParts(), Policy: n.c.Policy.Backup,
				Upload: n.payloads.store, Fetch: n.payloads.load, Publish: n.publish, Relays: n.relays, InForce: n.folds.trust.Policy,
				Settle: n.settle, Off: n.c.Learning.Unsaved,
			}, f)
			return active{due: []due.Source{n.backup.Due}}, nil
		},
		show: func(s *control.Parts) { s.Backup, s.Backups = n.backup, f },
	}
}

// matrixParts returns the parts of the matrix: everything that was learned about providers. A backup contains them, and
// Matrix returns their hash.
func (n *Node) matrixParts() []backup.Part {
	parts := []backup.Part{
		{Name: "providers", Rows: n.folds.partners.Rows},
		{Name: "trust", Rows: n.folds.trust.Rows},
		{Name: "variables", Rows: n.folds.variables.Rows},
		n.clocks(), // after trust, because clocks belong to values of trust
	}
	if n.trust != nil {
		parts[0].Restore, parts[1].Restore, parts[2].Restore = n.partners.Restore, n.trust.Restore, n.variables.Restore
	}
	return parts
}

// clocks returns the counters of this guild's changes to shared values. A restored guild must continue its counters:
// others ignore a count that they have seen before.
func (n *Node) clocks() backup.Part {
	return backup.Part{
		Name: "clocks",
		Rows: func() map[string]json.RawMessage {
			rows, err := n.folds.exchange.Rows()
			if err != nil {
				n.c.Log.Warn("the clocks are not backed up", "err", err)
			}
			return rows
		},
		Restore: func(ctx context.Context, rows map[string]json.RawMessage, _ string) error {
			return n.folds.exchange.RestoreRows(ctx, n.journal, rows)
		},
	}
}

// Matrix returns the hash of everything that was learned about providers.
func (n *Node) Matrix() (guild.Hash, error) { return backup.Hash(n.matrixParts()) }

// model returns the model that a service announces, or "" if it announces none or several.
func (n *Node) model(s guild.Service) string {
	card, ok, err := n.registry.Card(context.Background(), s)
	if err != nil || !ok || len(card.Models) != 1 {
		return ""
	}
	return card.Models[0]
}

// trusted counts the services whose trust for a task is at least from.
func (n *Node) trusted(task string, from guild.Trust) (count int) {
	for o := range n.registry.Offers(task, n.Kind(task)) {
		if t, met := n.folds.trust.Trust(task, o.Service); met && t >= from {
			count++
		}
	}
	return count
}

// latencies returns the measured latencies of a service, in ms.
func (n *Node) latencies(s guild.Service) (p50, p95 int64) {
	m, _ := n.folds.observed.Of(s)
	return m.P50, m.P95
}

// receiptOf returns a receipt by its hash, from the local blobs or from our servers.
func (n *Node) receiptOf(ctx context.Context, hash guild.Hash) ([]byte, error) {
	if b, err := n.blobs.ReadAll(hash, receipt.MaxSize); err == nil {
		return b, nil
	}
	return n.payloads.load(ctx, n.payloads.urls(hash), hash)
}

// shareReceipt uploads a receipt to our servers, where readers of a review find it by its hash. A receipt contains no
// text of the job.
func (n *Node) shareReceipt(ctx context.Context, hash guild.Hash) error {
	b, err := n.blobs.ReadAll(hash, receipt.MaxSize)
	if err != nil {
		return fmt.Errorf("receipt %s: %w", hash, err)
	}
	_, err = n.payloads.store(ctx, b)
	return err
}

// settle counts the restored services, and how many of them have no announcement; the registry quarantines these. It
// first waits until announcements had time to arrive.
//
// Announcements need a few seconds after the connection to arrive. Without the wait, services would be quarantined that
// have one.
func (n *Node) settle(ctx context.Context, _ string) (services, unclaimed int, err error) {
	const heard = 5 * time.Second
	for waited := time.Duration(0); waited < heard; waited += time.Second {
		if since := n.connectivity.since(); !since.IsZero() && n.c.Now().Sub(since) >= heard {
			break
		}
		select {
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		case <-time.After(time.Second):
		}
	}
	for _, s := range n.folds.partners.Services() {
		services++
		if _, announced := n.registry.Offer(s); !announced {
			unclaimed++
		}
	}
	return services, unclaimed, nil
}

// RestoreBackup restores the matrix from the newest backup at our relays. It also returns the number of messages that
// it read to find the backup.
func (n *Node) RestoreBackup(ctx context.Context, force bool) (backup.Report, int, error) {
	found, looked, err := n.backup.Find(ctx, n.pool.Query, n.urls)
	if err != nil {
		return backup.Report{}, 0, err
	}
	report, err := n.backup.Restore(ctx, found, backup.Options{Force: force})
	return report, looked, err
}
