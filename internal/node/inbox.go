package node

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/bunker"
	"guild/internal/hand/dm"
	"guild/internal/hand/relay"
	"guild/internal/letter"
	"guild/internal/step/work"
)

// Limits of the inbox.
const (
	maxWaiting   = 256 // private messages that wait to be read
	maxStrangers = 60  // messages of keys without dealings with us that are read in a minute
	shortWait    = time.Second
	longestWait  = time.Minute // between tries while the signer does not answer
)

// inbox holds the private messages that wait to be read. The signer is asked twice to read one, and a remote signer may
// take long, so no other event waits for that. A message that waits when the process ends comes again: relays are read two
// days back for private messages.
type inbox struct {
	read  func(context.Context, guild.Verified) error
	done  func(ctx context.Context, from string, v guild.Verified, err error) // gets what came of a message
	log   *slog.Logger
	added chan struct{} // has room for one

	mu        sync.Mutex
	waiting   []message // the oldest first
	minute    int64     // Unix time in minutes
	strangers int       // read in it
}

// message is a private message and the relay that it came from.
type message struct {
	from string
	v    guild.Verified
}

// put adds a message. If too many wait, the oldest is dropped, whoever it is from: that is unknown until it is read.
func (b *inbox) put(ctx context.Context, from string, v guild.Verified) error {
	b.mu.Lock()
	b.waiting = append(b.waiting, message{from, v})
	var oldest *message
	if len(b.waiting) > maxWaiting {
		first := b.waiting[0]
		oldest, b.waiting = &first, b.waiting[1:]
	}
	b.mu.Unlock()
	pulse(b.added)
	if oldest != nil {
		b.done(ctx, oldest.from, oldest.v, guild.Drop(guild.Flood, "more than %d private messages wait to be read", maxWaiting))
	}
	return nil
}

// run reads one message after the other until ctx ends. A message that cannot be read now is tried again after all others.
func (b *inbox) run(ctx context.Context) error {
	for wait := shortWait; ctx.Err() == nil; {
		next, ok := b.take()
		if !ok {
			select {
			case <-b.added:
			case <-ctx.Done():
			}
			continue
		}
		err := b.read(ctx, next.v)
		// The signer, or the journal, will work again; any other error is about the message.
		if !errors.Is(err, bunker.ErrNoAnswer) && !errors.Is(err, relay.ErrNoRelay) && !unrecordable(err) {
			b.done(ctx, next.from, next.v, err)
			wait = shortWait
			continue
		}
		if wait == shortWait {
			b.log.Warn("private messages cannot be read yet", "err", err)
		}
		_ = b.put(ctx, next.from, next.v) // always nil
		select {
		case <-time.After(wait):
			wait = min(2*wait, longestWait)
		case <-ctx.Done():
		}
	}
	return nil
}

func (b *inbox) take() (next message, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		return message{}, false
	}
	next = b.waiting[0]
	b.waiting = b.waiting[1:]
	return next, true
}

// admits counts a stranger's message, and reports whether it is within the limit of its minute.
func (b *inbox) admits(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if minute := now.Unix() / 60; minute != b.minute {
		b.minute, b.strangers = minute, 0
	}
	b.strangers++
	return b.strangers <= maxStrangers
}

// readMessage opens a private message to us and hands it to the step that its content is for. Our own messages to
// ourselves are backups, which are read when they are asked for.
func (n *Node) readMessage(ctx context.Context, v guild.Verified) error {
	// Known peers are read always, strangers up to a rate limit.
	admits := func(p nostr.PubKey) bool {
		return p == n.pubkey || n.folds.customers.Of(p).Asked > 0 || n.folds.partners.Deals(p) || n.inbox.admits(n.c.Now())
	}
	m, err := dm.OpenFrom(ctx, n.keyer, n.pubkey, v, admits)
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

// How many keys' inbox relays are remembered, for how long, and how long they are looked for.
const (
	maxInboxes  = 4096
	inboxAge    = time.Hour
	inboxSearch = 5 * time.Second
)

// inboxRelays remembers at which relays others read private messages (NIP-17, kind 10050).
type inboxRelays struct {
	mu    sync.Mutex
	known map[nostr.PubKey]inboxList
}

type inboxList struct {
	relays []string
	at     time.Time // when our relays were asked
}

func (r *inboxRelays) get(p nostr.PubKey, now time.Time) (inboxList, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, ok := r.known[p]
	return l, ok && now.Sub(l.at) < inboxAge
}

func (r *inboxRelays) set(p nostr.PubKey, l inboxList) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil || len(r.known) >= maxInboxes {
		r.known = map[nostr.PubKey]inboxList{}
	}
	r.known[p] = l
}

// inboxRelaysOf returns the relays where p reads private messages, as far as our relays know. If they cannot be asked now,
// they are with the next message.
func (n *Node) inboxRelaysOf(ctx context.Context, p nostr.PubKey) []string {
	now := n.c.Now()
	if l, ok := n.inboxRelays.get(p, now); ok {
		return l.relays
	}
	ctx, cancel := context.WithTimeout(ctx, inboxSearch)
	defer cancel()
	found, err := n.find(ctx, nostr.Filter{Kinds: []nostr.Kind{nostr.KindDMRelayList}, Authors: []nostr.PubKey{p}}, n.urls)
	if err != nil {
		return nil
	}
	l := inboxList{at: now}
	if len(found) > 0 { // the newest first
		l.relays = dm.Relays(found[0].Event())
	}
	n.inboxRelays.set(p, l)
	return l.relays
}
