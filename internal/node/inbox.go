package node

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/cashu/token"
	"guild/internal/hand/bunker"
	"guild/internal/hand/dm"
	"guild/internal/hand/relay"
)

// Limits of the inbox.
const (
	maxWaiting   = 256 // private messages in the queue
	maxStrangers = 60  // messages of unknown keys read per minute
	shortWait    = time.Second
	longestWait  = time.Minute // maximum wait between tries while the signer does not answer
)

// inbox queues private messages for decryption. The signer is called twice for each, and a remote signer may be slow;
// so decryption has its own goroutine and delays no other event. A message that is queued when the process ends is
// received again, because the subscription reads two more days back for private messages.
type inbox struct {
	read  func(context.Context, guild.Verified) error
	done  func(ctx context.Context, from string, v guild.Verified, err error) // receives the result of reading a message
	log   *slog.Logger
	added chan struct{} // has a capacity of one

	mu        sync.Mutex
	waiting   []message // the oldest first
	minute    int64     // Unix time in minutes
	strangers int       // strangers' messages read in that minute
}

// message is a private message and the relay that it came from.
type message struct {
	from string
	v    guild.Verified
}

// put queues a message. If the queue is full, the oldest message is dropped. It cannot prefer known senders, because
// the sender is unknown until a message is decrypted.
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

// run reads one message after another until ctx ends. A message that cannot be read at the moment goes to the end of
// the queue, and the next try waits.
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
		// These errors end by themselves when the signer or the journal works again; any other error is about the message.
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

// take removes the oldest message from the queue.
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

// admits counts a message of a stranger, and reports whether it is within the limit for this minute.
func (b *inbox) admits(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if minute := now.Unix() / 60; minute != b.minute {
		b.minute, b.strangers = minute, 0
	}
	b.strangers++
	return b.strangers <= maxStrangers
}

// readMessage decrypts a private message and passes it to the step for its content. Messages from ourselves are
// backups, which are read only on request.
//
// The limit applies after the outer layer was decrypted, because only that shows the sender, and before the inner one.
// So a flood of strangers costs one call of the signer for each message, not two.
func (n *Node) readMessage(ctx context.Context, v guild.Verified) error {
	// Accept known peers always, strangers up to a rate limit.
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
	case dm.TypeOf(m.Content) == dm.TypeVerdict:
		return n.work.Judged(ctx, m)
	case dm.TypeOf(m.Content) == dm.TypeRelease:
		return n.pay.TakeRelease(ctx, m)
	case dm.TypeOf(m.Content) == dm.TypeReturn:
		return n.pay.TakeReturn(ctx, m)
	case dm.TypeOf(m.Content) == dm.TypeCase:
		return n.pay.TakeCase(ctx, m)
	case dm.TypeOf(m.Content) == dm.TypeRuling:
		return n.pay.TakeRuling(ctx, m)
	case dm.TypeOf(m.Content) == dm.TypeWitness:
		return n.audit.Asked(ctx, m)
	}
	if _, err := token.ParsePayment(m.Content); err == nil { // NUT-18, which has no type
		return n.pay.TakeLock(ctx, m)
	}
	return n.mail.Read(ctx, m.From, m.ID, m.Reply, m.Content)
}

// Limits on the cache of inbox relays: number of keys, age of an entry, and duration of a query.
const (
	maxInboxes  = 4096
	inboxAge    = time.Hour
	inboxSearch = 5 * time.Second
)

// inboxRelays caches the relays where others read private messages (NIP-17, kind 10050).
type inboxRelays struct {
	mu    sync.Mutex
	known map[nostr.PubKey]inboxList
}

type inboxList struct {
	relays []string
	at     time.Time // time of the query
}

func (r *inboxRelays) get(p nostr.PubKey, now time.Time) (inboxList, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, ok := r.known[p]
	return l, ok && now.Sub(l.at) < inboxAge
}

// set caches a list. A full cache is emptied, because its entries are cheap to query again.
func (r *inboxRelays) set(p nostr.PubKey, l inboxList) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil || len(r.known) >= maxInboxes {
		r.known = map[nostr.PubKey]inboxList{}
	}
	r.known[p] = l
}

// inboxRelaysOf returns the relays where p reads private messages, if our relays know them. A failed query is not
// cached, so the next message repeats it.
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
	if len(found) > 0 { // sorted, the newest first
		l.relays = dm.Relays(found[0].Event())
	}
	n.inboxRelays.set(p, l)
	return l.relays
}
