package node

import (
	"context"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/dm"
	"guild/internal/letter"
	"guild/internal/work"
)

// kindFeedback is what a provider says while it works (NIP-90), and how it may object to a verdict.
const kindFeedback nostr.Kind = 7000

// opened reads a private message to us and routes it by what is inside. Our own come back to us: those to ourselves are
// backups, which are read when they are asked for.
func (n *Node) opened(ctx context.Context, v guild.Verified) error {
	m, err := dm.OpenFrom(ctx, n.keyer, n.pubkey, v, n.listensTo)
	if err != nil {
		return err
	}
	switch {
	case m.From == n.pubkey:
		return nil
	case letter.TypeOf(m.Content) == letter.TypeVerdict:
		return n.work.Judged(ctx, work.Letter{From: m.From, Message: m.ID, Content: m.Content})
	}
	return n.mail.Read(ctx, m.From, m.ID, m.Reply, m.Content)
}

// listensTo reports whether a private message of somebody is read: of whom we deal with always, and of strangers as long
// as they are not too many.
func (n *Node) listensTo(p nostr.PubKey) bool {
	return p == n.pubkey || n.folds.customers.Of(p).Asked > 0 || n.folds.partners.Deals(p) || n.post.admits(n.c.Now())
}

// heard routes feedback: an objection to a verdict, or a word about an attempt that goes on.
func (n *Node) heard(ctx context.Context, v guild.Verified) error {
	if n.mail.Objects(v.Event()) {
		return n.mail.Observe(ctx, v)
	}
	return n.jobs.Observe(ctx, v)
}

// letterboxes remembers at which relays others read private messages (NIP-17, kind 10050).
type letterboxes struct {
	mu    sync.Mutex
	known map[nostr.PubKey]box
}

type box struct {
	relays []string
	at     time.Time
}

// How many letterboxes are remembered, for how long, and how long one is looked for.
const (
	maxBoxes  = 4096
	boxAge    = time.Hour
	boxSearch = 5 * time.Second
)

// letterbox is at which relays somebody reads private messages, as far as our relays know.
func (n *Node) letterbox(ctx context.Context, p nostr.PubKey) []string {
	now := n.c.Now()
	if b, ok := n.boxes.of(p, now); ok {
		return b.relays
	}
	ctx, cancel := context.WithTimeout(ctx, boxSearch)
	defer cancel()
	found, err := n.find(ctx, nostr.Filter{Kinds: []nostr.Kind{nostr.KindDMRelayList}, Authors: []nostr.PubKey{p}}, n.urls)
	if err != nil {
		return nil // it is asked for again with the next message
	}
	b := box{at: now}
	if len(found) > 0 { // the newest first
		b.relays = dm.Relays(found[0].Event())
	}
	n.boxes.keep(p, b)
	return b.relays
}

func (l *letterboxes) of(p nostr.PubKey, now time.Time) (box, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.known[p]
	return b, ok && now.Sub(b.at) < boxAge
}

func (l *letterboxes) keep(p nostr.PubKey, b box) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil || len(l.known) >= maxBoxes {
		l.known = map[nostr.PubKey]box{}
	}
	l.known[p] = b
}
