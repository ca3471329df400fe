package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"fiatjaf.com/nostr"

	"guild"
)

// Bounds on what is kept of announcements, for anybody can write them and make keys to do so.
//
// SEEN holds 512 MiB, and beyond that its oldest goes, whoever wrote it. That never happens, because all that is put
// there is bounded: announcements by mostStored (256 MiB), retractions by their number (twice most, of 200 bytes: 76
// MiB), relay lists by theirs (mostLists, each of at most maxNamed relays of 512 bytes: 80 MiB), and recommendations
// by whom the owner follows. An announcement takes about 1.3 KB, so that both bounds of most and mostStored are
// reached at about the same time.
const (
	most       = 200_000   // services; half of the services that were taken back
	mostBytes  = 384 << 20 // of announcements in memory
	mostStored = 256 << 20 // of announcements in SEEN
	mostLists  = 16_384

	mostOfKey      = 32       // services of one key that no fact is about
	mostOfStranger = 16 << 10 // bytes of an announcement that no fact is about, as JSON
	framing        = 256      // bytes that a message takes in SEEN beside what is in it, roughly
)

// room is what there is room for.
type room struct {
	services, bytes, stored int
}

// full reports whether an announcement needs a place that there is none for. One that replaces another needs it only
// if it is larger.
func (r *Registry) full(c, old *card) bool {
	x := &r.index
	if old == nil {
		return x.len() >= r.room.services || x.bytes >= r.room.bytes || x.stored >= r.room.stored
	}
	return len(c.said) > len(old.said) && x.bytes >= r.room.bytes || c.stored > old.stored && x.stored >= r.room.stored
}

// admit sees to it that there is room for an announcement, or says why there is none. A service that facts are about
// always gets its place. The lock must be held.
func (r *Registry) admit(i ID, c, old *card) error {
	known := r.concerned(i)
	others := r.strangersOf(c.pubkey, i)
	if old == nil && !known && others >= mostOfKey {
		return guild.Drop(guild.Flood, "%d services of %.8s are known already", others, c.pubkey.Hex())
	}
	if !r.full(c, old) {
		r.line = nil
		return nil
	}
	me := r.leaving(i, c, others)
	for r.full(c, old) {
		first, ok := r.firstToGo(i)
		if !ok && known {
			return nil
		}
		if !ok || !known && compareLeaving(first, me) >= 0 {
			return guild.Drop(guild.Flood, "%d services are known already", r.index.len())
		}
		r.index.remove(first.service)
		r.left = append(r.left, leftover{first.service, first.service.place()})
	}
	return nil
}

// concerned reports whether facts are about a service.
func (r *Registry) concerned(i ID) bool {
	return r.partners.Has(i)
}

// strangersOf counts the services of a key, but for one, that no fact is about.
func (r *Registry) strangersOf(key nostr.PubKey, but ID) (count int) {
	for _, n := range r.index.keys[key] {
		if i := IDOf(r.index.cards[n].service()); i != but && !r.concerned(i) {
			count++
		}
	}
	return count
}

// leaving is a stranger's service that may have to go.
type leaving struct {
	service  ID
	id       nostr.ID // of its announcement
	archived bool
	rank     int // services of its key that were announced later
	at       nostr.Timestamp
}

func (r *Registry) leaving(i ID, c *card, rank int) leaving {
	return leaving{i, c.id, r.c.Now().Sub(c.at.Time()) >= archivedAfter, rank, c.at}
}

// compareLeaving orders those that may have to go, the first to go first: what is archived, then the stalest service
// of the key that has the most, again and again, and so at last the stalest of all.
func compareLeaving(a, b leaving) int {
	if a.archived != b.archived {
		if a.archived {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(a.at, b.at), slices.Compare(a.service[:], b.service[:]))
}

// firstToGo is the stranger who goes first, but not for the sake of itself. The line is made for many at a time, so
// that a flood does not have all cards looked at for each of its events. Who is in it and has changed since keeps its
// place until the next line.
func (r *Registry) firstToGo(but ID) (leaving, bool) {
	for range 2 {
		for len(r.line) > 0 {
			first := r.line[0]
			c := r.index.find(first.service)
			if c != nil && c.id == first.id && first.service != but && len(r.index.keys[c.pubkey]) > first.rank &&
				!r.concerned(first.service) && len(r.praise.by[first.service]) == 0 {
				return first, true
			}
			r.line = r.line[1:]
		}
		r.line = r.lineUp()
	}
	return leaving{}, false
}

// lineUp lists the strangers who go first. Whom those recommend that we follow is none of them.
func (r *Registry) lineUp() []leaving {
	var all []leaving
	several := map[nostr.PubKey][]leaving{}
	for i, n := range r.index.at {
		if r.concerned(i) || len(r.praise.by[i]) > 0 {
			continue
		}
		c := r.index.cards[n]
		if one := r.leaving(i, c, 0); len(r.index.keys[c.pubkey]) == 1 {
			all = append(all, one)
		} else {
			several[c.pubkey] = append(several[c.pubkey], one)
		}
	}
	for _, mine := range several {
		slices.SortFunc(mine, func(a, b leaving) int {
			return cmp.Or(cmp.Compare(b.at, a.at), slices.Compare(b.service[:], a.service[:]))
		})
		for rank := range mine {
			mine[rank].rank = rank
		}
		all = append(all, mine...)
	}
	slices.SortFunc(all, compareLeaving)
	return slices.Clone(all[:min(len(all), len(all)/64+1)])
}

// leftover is what is still in SEEN of a service or a key that is no longer in memory.
type leftover struct {
	service ID // none for a relay list
	place   string
}

// sweep takes out of SEEN what had to go from memory: it must not come back with the next start. No order may be held.
func (r *Registry) sweep(ctx context.Context) error {
	r.mu.Lock()
	left := r.left
	r.left = nil
	r.mu.Unlock()
	for _, l := range left {
		if err := r.clear(ctx, l); err != nil {
			return fmt.Errorf("what there is no room for: %w", err)
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
