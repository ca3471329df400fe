package registry

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/nip89"
)

// Card holds everything that is known of a service: the fields of section 1.4.1 of the partnership protocol.
type Card struct {
	nip89.Handler // as published, with contradictions; if Whole is false, only the fields that memory has

	Service guild.Service
	Display string // the canonical d, with a prefix of the npub if other keys use that d too
	Shared  int    // other keys that use the same canonical d

	ID    nostr.ID // of the announcement
	First int64    // Unix ms: when the service was first seen
	From  []string // relays that the announcement was seen on, the earliest first
	Reach []string // relays for requests to it, the best first

	State        guild.ProviderState
	Until        int64 // Unix ms: when a quarantine ends
	Recommenders []nostr.PubKey
	Whole        bool // the announcement was found in the journal
}

// Card returns the complete announcement of a service, read from SEEN; ok is false if there is none.
func (r *Registry) Card(ctx context.Context, s guild.Service) (c Card, ok bool, err error) {
	c, ok = r.card(s)
	if !ok {
		return Card{}, false, nil
	}
	place := seenPrefix + IDOf(s).place()
	for m, err := range r.c.Journal.Seen(ctx, place) {
		if err != nil {
			return Card{}, false, fmt.Errorf("announcement %q: %w", s.D, err)
		}
		_, e, err := parseSighting(m.Data)
		if err != nil || e.ID != c.ID {
			continue // another version is being written at this moment
		}
		if h, err := nip89.Parse(e); err == nil {
			c.Handler, c.Whole = h, true
		}
	}
	return c, true, nil
}

// card returns the fields that memory has of a service.
func (r *Registry) card(s guild.Service) (Card, bool) {
	now := r.c.Now()
	r.mu.RLock()
	defer r.mu.RUnlock()
	c := r.index.find(IDOf(s))
	if c == nil {
		return Card{}, false
	}
	says := unpack(c.packed)
	p := r.standing(c, now)
	known := Card{
		Service: s, ID: c.id, First: c.first, From: r.sources.names(c.from), Reach: r.ranked(c, says),
		State: p.State, Until: p.Until, Recommenders: slices.Clone(r.praise.of(s)),
		Handler: nip89.Handler{
			PubKey: c.pubkey, D: c.d, CreatedAt: c.at, Name: says.name, Kinds: says.kinds, Confirmed: says.confirmed, NoK: says.noK,
			Tasks: says.tasks, Relays: says.relays, AgeRecipient: says.recipient, Price: says.price, MaxConcurrent: says.slots,
		},
	}
	known.Display, known.Shared = r.display(c)
	return known, true
}

// display returns a name that distinguishes a service from those of other keys with the same canonical d, and counts
// these keys (the partnership protocol, section 1.2.3). The lock must be held.
func (r *Registry) display(c *card) (name string, shared int) {
	for _, other := range r.index.cards {
		if other != nil && other.d == c.d && other.pubkey != c.pubkey {
			shared++
		}
	}
	const prefix = len("npub1") + 16 // 80 bits: nobody can compute a key with the same prefix
	npub := nip19.EncodeNpub(c.pubkey)[:prefix]
	switch {
	case c.d == "":
		return npub, shared
	case shared > 0:
		return npub + ":" + c.d, shared
	}
	return c.d, 0
}

// RelaysNamed returns at most max relays that announcements name, those named most often first.
func (r *Registry) RelaysNamed(max int) []string {
	named := map[string]int{}
	r.mu.RLock()
	for _, c := range r.index.cards {
		if c == nil {
			continue
		}
		for _, url := range unpack(c.packed).relays {
			named[url]++
		}
	}
	r.mu.RUnlock()
	urls := slices.SortedFunc(maps.Keys(named), func(a, b string) int {
		return cmp.Or(cmp.Compare(named[b], named[a]), cmp.Compare(a, b))
	})
	return urls[:min(len(urls), max)]
}
