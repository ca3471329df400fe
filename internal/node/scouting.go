package node

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/market/registry"
	"guild/internal/market/scout"
)

// openScout opens the scout, which reads announcements for the registry.
func (n *Node) openScout() (err error) {
	const relays, people = 1000, 500 // limits; the scout uses fewer
	n.scout, err = scout.Open(scout.Config{
		Pool: n.pool, Receive: n.receive, Now: n.c.Now, File: filepath.Join(n.c.Dir, "relays.json"), Ours: n.urls, Log: n.c.Log,
		Known:  func() []string { return n.registry.RelaysNamed(relays) },
		People: func() (followed, providers []nostr.PubKey) { return n.c.Hiring.Follow, n.folds.partners.Dealt(people) },
	})
	return err
}

// Seek queries our relays for the announcements of those keys that have none here. A provider that the owner names may
// have announced long ago, or its announcement was dropped to make room. It takes at most three seconds.
func (n *Node) Seek(ctx context.Context, keys []nostr.PubKey) {
	keys = slices.DeleteFunc(slices.Clone(keys), n.registry.Announces)
	if len(keys) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	found, err := n.pool.Query(ctx, []nostr.Filter{{Kinds: []nostr.Kind{registry.Kind}, Authors: keys, Limit: 100}}, n.urls...)
	if err != nil {
		n.c.Log.Debug("not all relays were asked for a provider", "err", err)
	}
	for _, v := range found {
		n.receive(ctx, "", v)
	}
}
