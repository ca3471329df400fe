package node

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/journal"
	"guild/internal/market/registry"
	"guild/nip90"
	"guild/nipae"
)

// Kinds that two steps take.
const (
	kindFeedback nostr.Kind = 7000 // progress of a provider (NIP-90), or its objection to a verdict
	kindDeletion nostr.Kind = registry.KindDeletion
)

// route passes events of a range of kinds to a step.
type route struct {
	from, to nostr.Kind             // to is from if zero
	only     func(nostr.Event) bool // selects events of these kinds; nil takes those that no other route takes
	take     func(ctx context.Context, relay string, v guild.Verified) error
}

// anyRelay adapts a function that does not need the relay of an event.
func anyRelay(take func(context.Context, guild.Verified) error) func(context.Context, string, guild.Verified) error {
	return func(ctx context.Context, _ string, v guild.Verified) error { return take(ctx, v) }
}

// setRoutes builds the table of routes for incoming events, from the inbox and all steps. Routes with a condition come
// first.
//
// The sort is stable and looks at nothing else, so two conditional routes of one kind are tried in the order of the
// steps.
func (n *Node) setRoutes() {
	n.routes = []route{{from: nostr.KindGiftWrap, take: n.inbox.put}}
	for _, a := range n.active {
		n.routes = append(n.routes, a.routes...)
	}
	slices.SortStableFunc(n.routes, func(a, b route) int {
		switch {
		case a.only != nil && b.only == nil:
			return -1
		case a.only == nil && b.only != nil:
			return 1
		}
		return 0
	})
}

// take passes an event to its step.
func (n *Node) take(ctx context.Context, from string, v guild.Verified) error {
	e := v.Event()
	for _, r := range n.routes {
		if r.from <= e.Kind && e.Kind <= max(r.from, r.to) && (r.only == nil || r.only(e)) {
			return r.take(ctx, from, v)
		}
	}
	return guild.Drop(guild.Unexpected, "kind %d", e.Kind)
}

// unrecordable reports whether the journal accepts no facts for now. It will accept them later.
func unrecordable(err error) bool {
	return errors.Is(err, journal.ErrClock) || errors.Is(err, journal.ErrFull)
}

// ofOurs lists the kinds of our own events that are processed: announcements, deletions, and what other programs with our
// key may publish about agents (NIP-AE).
var ofOurs = []nostr.Kind{
	registry.Kind, kindDeletion, nipae.KindProfile, nipae.KindComment, nipae.KindLesson, nipae.KindDefinition, nipae.KindClaims,
}

// receive passes an event to its step. Relays also return our own events; only those of some kinds are processed. While the journal accepts no facts, an event that would cause one blocks those behind it. This loses
// nothing: the relays keep the events, and the watermark stays before the blocked one.
func (n *Node) receive(ctx context.Context, from string, v guild.Verified) {
	e := v.Event()
	if e.PubKey == n.pubkey && !slices.Contains(ofOurs, e.Kind) {
		return
	}
	err := n.take(ctx, from, v)
	if unrecordable(err) {
		n.c.Log.Warn("an event waits until it can be recorded", "event", e.ID.Hex(), "kind", int(e.Kind), "err", err)
	}
	for unrecordable(err) {
		select {
		case <-time.After(time.Second):
			err = n.take(ctx, from, v)
		case <-ctx.Done():
			return
		}
	}
	n.taken(ctx, from, v, err)
}

// taken counts a dropped event, and logs an error. An event for a quarantined guard is dropped too: only a person ends
// a quarantine, and other events must not wait for that.
func (n *Node) taken(ctx context.Context, from string, v guild.Verified, err error) {
	e := v.Event()
	reason := ""
	if dropped, ok := errors.AsType[*guild.DropError](err); ok {
		reason = string(dropped.Reason)
	} else if errors.Is(err, journal.ErrQuarantined) {
		reason = "in quarantine"
	}
	switch {
	case reason != "":
		raw, _ := json.Marshal(nip90.Redacted(e)) // an event can always be marshalled
		n.drop(ctx, reason, from, raw)
	case err != nil && ctx.Err() == nil:
		n.c.Log.Error("an event could not be taken", "event", e.ID.Hex(), "kind", int(e.Kind), "err", err)
	}
}

// drop counts an event that changed nothing. It also keeps the event in the journal's stream of rejected events, up to
// a rate limit, so that a flood of invalid events does not fill the disk.
func (n *Node) drop(ctx context.Context, reason, from string, raw []byte) {
	n.metrics.dropped.Add(reason, 1)
	if !n.limiter.allow(n.c.Now()) {
		return
	}
	const most = 4 << 10
	d, err := json.Marshal(control.Dropped{Reason: reason, From: from, Event: guild.Cut(string(raw), most)})
	if err == nil {
		err = n.journal.Reject(ctx, reason, d)
	}
	if err != nil && ctx.Err() == nil {
		n.c.Log.Debug("a dropped event was not kept", "err", err)
	}
}

// limiter allows twenty events per second.
type limiter struct {
	mu      sync.Mutex
	second  int64 // Unix time of the latest event
	allowed int   // events in that second, with those over the limit
}

// allow reports whether another event may be stored in this second.
func (l *limiter) allow(now time.Time) bool {
	const most = 20
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := now.Unix(); s != l.second {
		l.second, l.allowed = s, 0
	}
	l.allowed++
	return l.allowed <= most
}
