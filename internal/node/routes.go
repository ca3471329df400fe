package node

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/journal"
	"guild/internal/registry"
	"guild/internal/review"
	"guild/nip90"
)

// destination says which step takes a range of kinds.
type destination struct {
	from, to nostr.Kind
	step     func(ctx context.Context, relay string, v guild.Verified) error
}

// routes is the one table of where an incoming event goes.
func (n *Node) routes() []destination {
	plain := func(observe func(context.Context, guild.Verified) error) func(context.Context, string, guild.Verified) error {
		return func(ctx context.Context, _ string, v guild.Verified) error { return observe(ctx, v) }
	}
	return []destination{
		{registry.Kind, registry.Kind, n.registry.Observe},
		{registry.KindRelays, registry.KindRelays, n.registry.Observe},
		{kindRecommendation, kindRecommendation, n.registry.Observe},
		{registry.KindDeletion, registry.KindDeletion, n.deleted},
		{review.Kind, review.Kind, n.review.Observe},
		{review.KindSet, review.KindSet, n.review.Observe},
		{5000, 5999, n.requested},
		{6000, 6999, plain(n.jobs.Observe)},
		{kindFeedback, kindFeedback, plain(n.heard)},
		{nostr.KindGiftWrap, nostr.KindGiftWrap, n.post.put},
	}
}

// kindRecommendation is somebody's word for an announcement (NIP-89).
const kindRecommendation nostr.Kind = 31989

// requested passes on requests to us and to nobody. Those to others come with the latter; and while our services
// are left to another process with our key, that one has what is for us. Neither is a fault of anybody's.
func (n *Node) requested(ctx context.Context, from string, v guild.Verified) error {
	tags := v.Event().Tags
	if tags.Find("p") != nil && tags.FindWithValue("p", n.pubkey.Hex()) == nil || n.presence.yielding() != "" {
		return nil
	}
	return n.work.Observe(ctx, from, v)
}

// deleted routes a deletion by the kind of its target (NIP-09): announcements and recommendations to the registry,
// everything else to the provider's side.
func (n *Node) deleted(ctx context.Context, from string, v guild.Verified) error {
	if n.registry.Deletes(v.Event()) {
		return n.registry.Observe(ctx, from, v)
	}
	if n.review.Deletes(v.Event()) {
		return n.review.Observe(ctx, from, v)
	}
	return n.work.ObserveDeletion(ctx, v)
}

// take hands an event to its step.
func (n *Node) take(ctx context.Context, from string, v guild.Verified) error {
	kind := v.Event().Kind
	for _, r := range n.routes() {
		if r.from <= kind && kind <= r.to {
			return r.step(ctx, from, v)
		}
	}
	return guild.Drop(guild.Unexpected, "kind %d", kind)
}

// unrecordable reports whether the journal takes no facts now and will again.
func unrecordable(err error) bool {
	return errors.Is(err, journal.ErrClock) || errors.Is(err, journal.ErrFull)
}

// receive hands an event to its step. Our own events come back to us too; nobody waits for them. An event that
// leads to a fact while the journal takes none holds up those behind it: the relays keep them, and the
// watermark stays before it.
func (n *Node) receive(ctx context.Context, from string, v guild.Verified) {
	e := v.Event()
	if e.PubKey == n.pubkey && e.Kind != registry.Kind && e.Kind != registry.KindDeletion {
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

// taken counts what was dropped, and logs what could not be taken. What is about a guard in quarantine is dropped: that
// lasts until a person ends it, and the events of others must not wait for that.
func (n *Node) taken(ctx context.Context, from string, v guild.Verified, err error) {
	e := v.Event()
	if dropped, ok := errors.AsType[*guild.DropError](err); ok {
		raw, _ := json.Marshal(nip90.Redacted(e))
		n.gate.drop(ctx, string(dropped.Reason), from, raw)
	} else if errors.Is(err, journal.ErrQuarantined) {
		raw, _ := json.Marshal(nip90.Redacted(e))
		n.gate.drop(ctx, "in quarantine", from, raw)
	} else if err != nil && ctx.Err() == nil {
		n.c.Log.Error("an event could not be taken", "event", e.ID.Hex(), "kind", int(e.Kind), "err", err)
	}
}

// gate counts what is dropped, and keeps the latest of it.
type gate struct {
	journal *journal.Journal
	now     func() time.Time
	log     *slog.Logger

	mu     sync.Mutex
	counts map[string]int64
	second int64 // Unix time of the latest kept event
	kept   int   // in that second
}

func newGate(j *journal.Journal, now func() time.Time, log *slog.Logger) *gate {
	return &gate{journal: j, now: now, log: log, counts: map[string]int64{}}
}

// drop counts an event that changed nothing. At most twenty a second are kept: a flood must cost nothing.
func (g *gate) drop(ctx context.Context, reason, from string, raw []byte) {
	if !g.count(reason) {
		return
	}
	const most = 4 << 10
	d, err := json.Marshal(control.Dropped{Reason: reason, From: from, Event: guild.Cut(string(raw), most)})
	if err == nil {
		err = g.journal.Reject(ctx, reason, d)
	}
	if err != nil && ctx.Err() == nil {
		g.log.Debug("a dropped event was not kept", "err", err)
	}
}

func (g *gate) count(reason string) (keep bool) {
	const most = 20
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counts[reason]++
	if now := g.now().Unix(); now != g.second {
		g.second, g.kept = now, 0
	}
	g.kept++
	return g.kept <= most
}

func (g *gate) counters() map[string]int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.counts)
}
