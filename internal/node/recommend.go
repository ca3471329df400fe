package node

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip89"
)

// Recommend publishes the owner's recommendation of an announcement for a kind of request (NIP-89, kind 31989). The
// event replaces the previous one for that kind, so its other recommendations are copied. It returns the event's id and
// their number. If the previous event cannot be read, nothing is published, because that would delete them.
func (n *Node) Recommend(ctx context.Context, kind int, r nip89.Recommended) (id nostr.ID, others int, err error) {
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	handles := strconv.Itoa(kind)
	found, err := n.find(ctx, nostr.Filter{
		Kinds: []nostr.Kind{nip89.KindRecommendation}, Authors: []nostr.PubKey{n.pubkey}, Tags: nostr.TagMap{"d": {handles}},
	}, n.urls)
	if err != nil {
		return id, 0, fmt.Errorf("what was recommended before: %w", err)
	}
	at := nostr.Timestamp(n.c.Now().Unix())
	all := nip89.Recommendation{Handles: handles, Handlers: []nip89.Recommended{r}}
	if len(found) > 0 { // sorted, the newest first
		before, err := nip89.ParseRecommendation(found[0].Event())
		if err != nil {
			return id, 0, fmt.Errorf("what was recommended before: %w", err)
		}
		// Of two events with the same time, relays may keep either.
		at = max(at, before.At+1)
		rest := slices.DeleteFunc(before.Handlers, func(h nip89.Recommended) bool { return h.Service() == r.Service() })
		all.Handlers, others = append(all.Handlers, rest...), len(rest)
	}
	e := all.Event()
	e.CreatedAt = at
	v, err := guild.Sign(ctx, n.keyer, e)
	if err != nil {
		return id, 0, err
	}
	return v.Event().ID, others, n.publish(ctx, v, n.urls)
}
