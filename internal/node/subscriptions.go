package node

import (
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/step/review"
)

// reviewsName is the subscription to reviews. Watermarks are kept by the names of subscriptions.
const reviewsName = "reviews"

// subscribe asks our relays for what is addressed to us, for requests of the kinds that we do, for private messages and for
// reviews. Requests to nobody cannot be asked for alone, so those to others come too. Announcements are the scout's.
func (n *Node) subscribe() {
	const maxReviews = 1000
	const wrapAge = 2 * 24 * 60 * 60 // seconds: NIP-59 lets a gift wrap be dated back so far
	day := nostr.Timestamp(n.c.Now().Add(-24 * time.Hour).Unix())
	us := nostr.TagMap{"p": {n.pubkey.Hex()}}
	n.pool.Subscribe("inbox", []nostr.Filter{{Tags: us, Since: day}}, n.urls...)
	if kinds := n.openKinds(); len(kinds) > 0 {
		n.pool.Subscribe("open requests", []nostr.Filter{{Kinds: kinds, Since: nostr.Timestamp(n.c.Now().Unix())}}, n.urls...)
	}
	n.pool.Subscribe("letters", []nostr.Filter{{Kinds: []nostr.Kind{nostr.KindGiftWrap}, Tags: us, Since: day - wrapAge}}, n.urls...)
	n.pool.Subscribe(reviewsName, []nostr.Filter{{Kinds: []nostr.Kind{review.Kind, review.KindSet}, Limit: maxReviews}}, n.urls...)
}

// openKinds returns the kinds of the requests that our services do, sorted, each once.
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
