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
	"guild/nip90"
)

// route says which step takes a range of kinds.
type route struct {
	from, to nostr.Kind
	step     func(ctx context.Context, relay string, v guild.Verified) error
}

// routes is the one table of where an incoming event goes.
func (n *Node) routes() []route {
	plain := func(observe func(context.Context, guild.Verified) error) func(context.Context, string, guild.Verified) error {
		return func(ctx context.Context, _ string, v guild.Verified) error { return observe(ctx, v) }
	}
	return []route{
		{registry.Kind, registry.Kind, n.registry.Observe},
		{registry.KindRelays, registry.KindRelays, n.registry.Observe},
		{registry.KindDeletion, registry.KindDeletion, n.deleted},
		{5000, 5999, n.work.Observe},
		{6000, 6999, plain(n.jobs.Observe)},
		{7000, 7000, plain(n.jobs.Observe)},
	}
}

// deleted routes a deletion by the kind of its target (NIP-09, the k tag): announcements to the registry,
// everything else to the provider's side.
func (n *Node) deleted(ctx context.Context, from string, v guild.Verified) error {
	for _, t := range v.Event().Tags {
		if len(t) >= 2 && t[0] == "k" && t[1] == "31990" {
			return n.registry.Observe(ctx, from, v)
		}
	}
	return n.work.ObserveDeletion(ctx, v)
}

// receive hands an event to its step. Our own events come back to us too; nobody waits for them.
func (n *Node) receive(ctx context.Context, from string, v guild.Verified) {
	e := v.Event()
	if e.PubKey == n.pubkey && e.Kind != registry.Kind && e.Kind != registry.KindDeletion {
		return
	}
	err := guild.Drop(guild.Unexpected, "kind %d", e.Kind)
	for _, r := range n.routes() {
		if r.from <= e.Kind && e.Kind <= r.to {
			err = r.step(ctx, from, v)
			break
		}
	}
	if dropped, ok := errors.AsType[*guild.DropError](err); ok {
		raw, _ := json.Marshal(nip90.Redacted(e))
		n.gate.drop(ctx, string(dropped.Reason), from, raw)
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
