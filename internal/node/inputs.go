package node

import (
	"context"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/fetch"
)

// inputs brings what customers' requests point to.
func (n *Node) inputs() fetch.Client {
	f := n.c.Fetch
	return fetch.Client{Hosts: f.Hosts, Size: f.Size, Time: f.Time, Blobs: n.parcels.client, Servers: n.parcels.home}
}

// find asks relays for stored events. Relays that are not ours are connected to for the purpose, and only if they are
// public.
func (n *Node) find(ctx context.Context, f nostr.Filter, relays []string) ([]guild.Verified, error) {
	return n.pool.Query(ctx, []nostr.Filter{f}, relays...)
}

// published finds what our relays have of our own events of some kinds.
func (n *Node) published(ctx context.Context, kinds ...nostr.Kind) ([]guild.Verified, error) {
	const enough = 100
	return n.find(ctx, nostr.Filter{Kinds: kinds, Authors: []nostr.PubKey{n.pubkey}, Limit: enough}, n.urls)
}
