package node

import (
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/step/review"
)

// reviewsName is the name of the subscription to reviews. A watermark is stored under the name of its subscription.
const reviewsName = "reviews"

// subscribe subscribes at our relays to events addressed to us, requests of the kinds that we serve, private messages
// and reviews. A filter cannot select requests without a p tag, so requests to other providers arrive too.
// Announcements are read by the scout.
func (n *Node) subscribe() {
	const maxReviews = 1000
	const wrapAge = 2 * 24 * 60 * 60 // seconds; NIP-59 allows gift wraps to be backdated by that much
	// For a relay without a watermark; at others the pool starts at the watermark.
	day := nostr.Timestamp(n.c.Now().Add(-24 * time.Hour).Unix())
	us := nostr.TagMap{"p": {n.pubkey.Hex()}}
	n.pool.Subscribe("inbox", []nostr.Filter{{Tags: us, Since: day}}, n.urls...)
	if kinds := n.openKinds(); len(kinds) > 0 {
		n.pool.Subscribe("open requests", []nostr.Filter{{Kinds: kinds, Since: nostr.Timestamp(n.c.Now().Unix())}}, n.urls...)
	}
	n.pool.Subscribe("letters", []nostr.Filter{{Kinds: []nostr.Kind{nostr.KindGiftWrap}, Tags: us, Since: day - wrapAge}}, n.urls...)
	n.pool.Subscribe(reviewsName, []nostr.Filter{{Kinds: []nostr.Kind{review.Kind, review.KindSet}, Limit: maxReviews}}, n.urls...)
}

// openKinds returns the kinds of requests that our services take, sorted, without duplicates.
func (n *Node) openKinds() []nostr.Kind {
	var kinds []nostr.Kind
	for _, s := range n.work.Services() {
		for _, kind := range s.Kinds {
			if kind >= 5000 && kind <= 5999 {
				kinds = append(kinds, nostr.Kind(kind))
			}
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}
