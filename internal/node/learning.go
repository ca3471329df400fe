package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/backup"
	"guild/internal/jobs"
	"guild/internal/policy"
	"guild/internal/review"
	"guild/internal/trust"
	"guild/internal/trust/variables"
	"guild/receipt"
)

// Learning says what is learned of providers, told of them, and kept away from this machine.
type Learning struct {
	Thresholds map[string]guild.Trust // by task, where it is not the policy's
	Classes    map[string]string      // by task
	Budgets    map[string]jobs.Budget // by task, and jobs.Others
	Mirrors    bool                   // reviews are published in other kinds too
	CID        string                 // that reviews name
	Silent     bool                   // no reviews are published
	Unsaved    bool                   // no backups are made unless a person asks
}

// openLearning opens the steps that learn from jobs, and tell of it.
func (n *Node) openLearning(ctx context.Context) (err error) {
	n.folds.exchange.Become(n.pubkey)
	n.trust = trust.New(trust.Config{Journal: n.journal, Now: n.c.Now}, n.folds.trust)
	n.variables, err = variables.New(variables.Config{
		Journal: n.journal, AtOnce: n.c.Limits.AtOnce, Budgets: n.monthly(), Model: n.model, Trusted: n.trusted,
	}, n.folds.variables)
	if err != nil {
		return err
	}
	c := review.Config{
		Journal: n.journal, Keyer: n.keyer, PubKey: n.pubkey, Now: n.c.Now,
		Policy: func() policy.Policy { return n.c.Policy }, Relays: n.relays, Offer: n.registry.Offer, Publish: n.publish,
		Measured: n.latencies, Receipt: n.receiptOf, Follow: n.c.Follow,
		Mirrors: n.c.Learning.Mirrors, CID: n.c.Learning.CID, Off: n.c.Learning.Silent,
		Letterbox: n.letterbox, Share: n.shareReceipt,
	}
	if n.review, err = review.Open(ctx, c, n.folds.review); err != nil {
		return err
	}
	n.mail = review.NewMail(c, n.folds.letters)
	n.post = &post{read: n.opened, judged: n.taken, log: n.c.Log, posted: make(chan struct{}, 1)}
	n.backup = backup.New(backup.Config{
		Journal: n.journal, Keyer: n.keyer, PubKey: n.pubkey, Now: n.c.Now, Parts: n.parts(), Policy: n.c.Policy.Backup,
		Upload: n.parcels.store, Fetch: n.parcels.bring, Publish: n.publish, Relays: n.relays, InForce: n.folds.trust.Policy,
		Settle: n.settle, Off: n.c.Learning.Unsaved,
	}, n.folds.backup)
	return nil
}

// parts are the shares of the matrix: what a backup holds, and what its hash is of.
func (n *Node) parts() []backup.Part {
	parts := []backup.Part{
		{Name: "providers", Rows: n.folds.partners.Rows},
		{Name: "trust", Rows: n.folds.trust.Rows},
		{Name: "variables", Rows: n.folds.variables.Rows},
		n.clocks(), // after trust: clocks are of what there is trust in
	}
	if n.trust != nil {
		parts[0].Restore, parts[1].Restore, parts[2].Restore = n.partners.Restore, n.trust.Restore, n.variables.Restore
	}
	return parts
}

// clocks are how often this guild has changed what it tells others: one that was restored must count on from there, or
// nobody who has heard it before would listen.
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

// matrix is the hash of everything that was learned of providers.
func (n *Node) matrix() (guild.Hash, error) { return backup.Hash(n.parts()) }

// monthly is what each task may spend in a month.
func (n *Node) monthly() map[string]guild.Msat {
	months := map[string]guild.Msat{}
	for task, b := range n.c.Learning.Budgets {
		if b.Monthly > 0 {
			months[task] = b.Monthly
		}
	}
	return months
}

// model is the model that a service says it runs, "" if it says none or several.
func (n *Node) model(s guild.Service) string {
	card, ok, err := n.registry.Card(context.Background(), s)
	if err != nil || !ok || len(card.Models) != 1 {
		return ""
	}
	return card.Models[0]
}

// trusted counts the services that are trusted with a task so far.
func (n *Node) trusted(task string, from guild.Trust) (count int) {
	for _, o := range n.registry.Offers(task, n.kind(task)) {
		if t, met := n.folds.trust.Trust(task, o.Service); met && t >= from {
			count++
		}
	}
	return count
}

// latencies are what was measured of a service, in ms.
func (n *Node) latencies(s guild.Service) (p50, p95 int64) {
	m, _ := n.folds.observed.Of(s)
	return m.P50, m.P95
}

// touched has the router look at a service again. What is announced before there is a router is read when it looks first.
func (n *Node) touched(s guild.Service) {
	if n.jobs != nil {
		n.jobs.Touch(s)
	}
}

// learned reports whether trust has learned all there is about a task, or does not learn here any more.
func (n *Node) learned(task string) bool {
	return n.folds.trust.Adopted() != n.folds.trust.Policy() || n.folds.trust.UpToDate(task)
}

// receiptOf brings a receipt by its hash, from here or from our servers.
func (n *Node) receiptOf(ctx context.Context, hash guild.Hash) ([]byte, error) {
	if b, err := n.blobs.ReadAll(hash, receipt.MaxSize); err == nil {
		return b, nil
	}
	return n.parcels.bring(ctx, n.parcels.places(hash), hash)
}

// shareReceipt puts a receipt on our servers, where others who have read of it find it by its hash. It names no text of
// the job.
func (n *Node) shareReceipt(ctx context.Context, hash guild.Hash) error {
	b, err := n.blobs.ReadAll(hash, receipt.MaxSize)
	if err != nil {
		return fmt.Errorf("receipt %s: %w", hash, err)
	}
	_, err = n.parcels.store(ctx, b)
	return err
}

// settle counts the restored services, and those that nobody announces, once what is announced has had the time to
// reach us. Registry puts them in quarantine.
func (n *Node) settle(ctx context.Context, _ string) (services, unclaimed int, err error) {
	const heard = 5 * time.Second
	for waited := time.Duration(0); waited < heard; waited += time.Second {
		if since := n.ears.hears(); !since.IsZero() && n.c.Now().Sub(since) >= heard {
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

// reviewsName is the subscription to reviews.
const reviewsName = "reviews"

// subscribeLetters asks our relays for private messages to us, and for what others say of providers.
func (n *Node) subscribeLetters() {
	const most = 1000
	us := nostr.TagMap{"p": {n.pubkey.Hex()}}
	n.pool.Subscribe("letters", []nostr.Filter{{Kinds: []nostr.Kind{nostr.KindGiftWrap}, Tags: us, Since: n.lookBack() - 2*24*60*60}}, n.urls...)
	n.pool.Subscribe(reviewsName, []nostr.Filter{{Kinds: []nostr.Kind{review.Kind, review.KindSet}, Limit: most}}, n.urls...)
}

// restore takes the matrix over from the newest backup at our relays.
func (n *Node) restore(ctx context.Context, force bool) (backup.Report, int, error) {
	found, looked, err := n.backup.Find(ctx, n.pool.Query, n.urls)
	if err != nil {
		return backup.Report{}, 0, err
	}
	report, err := n.backup.Restore(ctx, found, backup.Options{Force: force})
	return report, looked, err
}

// store puts a blob on every server, and returns where it is. The error is nil when one has it.
func (p parcels) store(ctx context.Context, b []byte) (urls []string, err error) {
	if len(p.home) == 0 {
		return nil, errors.New("no Blossom server is configured")
	}
	hash, failed := guild.Sum(b), []error{}
	for _, server := range p.home {
		at, err := p.client.Upload(ctx, server, bytes.NewReader(b), int64(len(b)), hash)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		urls = append(urls, at)
	}
	if len(urls) > 0 {
		return urls, nil
	}
	return nil, errors.Join(failed...)
}

// maxBrought is the largest blob that bring brings, in bytes.
const maxBrought = 64 << 20

// bring brings a blob from the first of the places that has it.
func (p parcels) bring(ctx context.Context, urls []string, hash guild.Hash) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := errors.New("no place is known")
	for _, at := range urls {
		var b bytes.Buffer
		if _, err = p.client.Download(ctx, at, hash, maxBrought, &b); err == nil {
			return b.Bytes(), nil
		}
	}
	return nil, fmt.Errorf("blob %s: %w", hash, err)
}

// places is where our servers have a blob, if they do.
func (p parcels) places(hash guild.Hash) (urls []string) {
	for _, server := range p.home {
		if at, err := url.JoinPath(server, hash.Hex()); err == nil {
			urls = append(urls, at)
		}
	}
	return urls
}
