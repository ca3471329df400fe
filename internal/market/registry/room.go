package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"fiatjaf.com/nostr"

	"guild"
)

// Limits on stored announcements, because anyone can write them, under any number of keys.
//
// SEEN holds 512 MiB; beyond that it drops its oldest message, whoever wrote it. This never happens, because everything
// stored there is limited: announcements by mostStored (256 MiB), retractions by their number (twice most, 200 bytes
// each: 76 MiB), relay lists by theirs (mostLists, each with at most maxNamed relays of 512 bytes: 80 MiB), and
// recommendations by the list of followed keys. An announcement takes about 1.3 KB, so most and mostStored are reached
// at about the same time.
const (
	most       = 200_000   // services; also deletions, of which half may be of services never announced
	mostBytes  = 384 << 20 // of announcements in memory
	mostStored = 256 << 20 // of announcements in SEEN
	mostLists  = 16_384

	mostOfKey      = 32       // services of one key, not counting those that the journal has facts about
	mostOfStranger = 16 << 10 // bytes as JSON of an announcement of a service that no fact is about
	framing        = 256      // approximate bytes of a message in SEEN besides its data
)

// room holds the limits of a registry; tests use smaller ones.
type room struct {
	services, bytes, stored int
}

// full reports whether there is no room for an announcement. A replacement needs room only if it is larger than the old
// one.
func (r *Registry) full(c, old *card) bool {
	x := &r.index
	if old == nil {
		return x.len() >= r.room.services || x.bytes >= r.room.bytes || x.stored >= r.room.stored
	}
	return len(c.packed) > len(old.packed) && x.bytes >= r.room.bytes || c.stored > old.stored && x.stored >= r.room.stored
}

// admit makes room for an announcement, or returns an error if it cannot. A service that the journal has facts about is
// always admitted. The lock must be held.
//
// A flood of announcements must not displace honest services. So admit drops only services of strangers, and only one
// that comes before the new service in the order of compareCandidates. A key with many services therefore displaces its
// own services first.
func (r *Registry) admit(i ID, c, old *card) error {
	known := r.partners.Has(i)
	others := 0 // services of the same key that no fact is about
	for _, n := range r.index.keys[c.pubkey] {
		if other := IDOf(r.index.cards[n].service()); other != i && !r.partners.Has(other) {
			others++
		}
	}
	if old == nil && !known && others >= mostOfKey {
		return guild.Drop(guild.Flood, "%d services of %.8s are known already", others, c.pubkey.Hex())
	}
	if !r.full(c, old) {
		r.queue = nil
		return nil
	}
	me := r.candidate(i, c, others)
	for r.full(c, old) {
		first, ok := r.firstToGo(i)
		if !ok && known {
			return nil
		}
		if !ok || !known && compareCandidates(first, me) >= 0 {
			return guild.Drop(guild.Flood, "%d services are known already", r.index.len())
		}
		r.index.remove(first.service)
		r.left = append(r.left, leftover{first.service, first.service.place()})
	}
	return nil
}

// candidate is a service of a stranger that may be dropped to make room.
type candidate struct {
	service  ID
	id       nostr.ID // of its announcement
	archived bool
	rank     int // number of services of its key that were announced later
	at       nostr.Timestamp
}

func (r *Registry) candidate(i ID, c *card, rank int) candidate {
	return candidate{service: i, id: c.id, archived: r.c.Now().Sub(c.at.Time()) >= archivedAfter, rank: rank, at: c.at}
}

// compareCandidates orders candidates, the first to drop first: archived ones, then the oldest service of the key with
// the most services, until each key has one left, and then the oldest service of all.
func compareCandidates(a, b candidate) int {
	if a.archived != b.archived {
		if a.archived {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(a.at, b.at), slices.Compare(a.service[:], b.service[:]))
}

// firstToGo returns the first candidate other than the given service. It fills the queue with many candidates at once,
// so that not every event of a flood needs a scan of all cards. A candidate that changed since then is skipped.
func (r *Registry) firstToGo(but ID) (candidate, bool) {
	for range 2 {
		for len(r.queue) > 0 {
			first := r.queue[0]
			c := r.index.find(first.service)
			if c != nil && c.id == first.id && first.service != but && len(r.index.keys[c.pubkey]) > first.rank &&
				!r.partners.Has(first.service) && len(r.praise.by[first.service]) == 0 {
				return first, true
			}
			r.queue = r.queue[1:]
		}
		r.queue = r.firstCandidates()
	}
	return candidate{}, false
}

// firstCandidates returns the candidates to drop first. A service is not a candidate if facts are about it or a
// followed key recommends it.
//
// It returns only a 64th of them: enough that a flood rarely needs another scan, and few enough that the order is still
// about right when the last one is used.
func (r *Registry) firstCandidates() []candidate {
	var all []candidate
	several := map[nostr.PubKey][]candidate{}
	for i, n := range r.index.at {
		if r.partners.Has(i) || len(r.praise.by[i]) > 0 {
			continue
		}
		c := r.index.cards[n]
		one := r.candidate(i, c, 0)
		if len(r.index.keys[c.pubkey]) == 1 {
			all = append(all, one)
		} else {
			several[c.pubkey] = append(several[c.pubkey], one)
		}
	}
	for _, mine := range several {
		slices.SortFunc(mine, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(b.at, a.at), slices.Compare(b.service[:], a.service[:]))
		})
		for rank := range mine {
			mine[rank].rank = rank
		}
		all = append(all, mine...)
	}
	slices.SortFunc(all, compareCandidates)
	return slices.Clone(all[:min(len(all), len(all)/64+1)])
}

// leftover is a message in SEEN whose service or key was dropped from memory.
type leftover struct {
	service ID // zero for a relay list
	place   string
}

// sweep removes from SEEN what was dropped from memory, so that it does not return at the next start. The caller must
// not hold an order, because sweep takes the orders of other services.
func (r *Registry) sweep(ctx context.Context) error {
	r.mu.Lock()
	left := r.left
	r.left = nil
	r.mu.Unlock()
	for _, l := range left {
		if err := r.clear(ctx, l); err != nil {
			return fmt.Errorf("drop announcements: %w", err)
		}
	}
	return nil
}

func (r *Registry) clear(ctx context.Context, l leftover) error {
	defer r.order(l.service)()
	if l.service != (ID{}) && l.place == l.service.place() && r.current(l.service) != (nostr.ID{}) {
		return nil // it was announced again
	}
	return r.c.Journal.Unsee(ctx, seenPrefix+l.place)
}
