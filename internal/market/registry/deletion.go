package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip89"
)

// Deletes reports whether a deletion (kind 5) concerns announcements or recommendations: by its tags, or because it
// names a known announcement.
func (r *Registry) Deletes(e nostr.Event) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, t := range e.Tags {
		if len(t) < 2 {
			continue
		}
		switch t[0] {
		case "k":
			if t[1] == fmt.Sprint(int(Kind)) || t[1] == fmt.Sprint(int(KindRecommendation)) {
				return true
			}
		case "a":
			if strings.HasPrefix(t[1], address(Kind, e.PubKey)) || strings.HasPrefix(t[1], address(KindRecommendation, e.PubKey)) {
				return true
			}
		case "e":
			if id, err := nostr.IDFromHex(t[1]); err == nil && r.index.event(id) != nil {
				return true
			}
		}
	}
	return false
}

// address returns the prefix of all addresses (NIP-01) of a kind and a key.
func address(kind nostr.Kind, by nostr.PubKey) string { return fmt.Sprintf("%d:%s:", kind, by.Hex()) }

// target names all versions of a service up to a time.
type target struct {
	service guild.Service
	until   nostr.Timestamp
}

// delete applies a deletion to the events of its own author (NIP-09): by address to every version up to its date, by id
// to the current version.
//
// An event of another author is ignored, even if its tags name the right address: otherwise anyone could remove a
// competitor's services.
func (r *Registry) delete(ctx context.Context, e nostr.Event) error {
	services, praises := r.targets(e)
	if len(services) == 0 && len(praises) == 0 {
		return guild.Drop(guild.Misdirected, "deletion of an unknown event")
	}
	changed := false
	for _, t := range services {
		removed, err := r.withdraw(ctx, t)
		changed = changed || removed
		if err != nil {
			return err
		}
	}
	for _, key := range praises {
		removed, err := r.unsay(ctx, key, e)
		changed = changed || removed
		if err != nil {
			return err
		}
	}
	if changed {
		r.changed()
	}
	return nil
}

// targets returns the services and recommendations of the author that a deletion names. By address a service is deleted
// up to the date of the deletion, by id only up to the date of that event.
func (r *Registry) targets(e nostr.Event) (services []target, praises []praiseKey) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, t := range e.Tags[:min(len(e.Tags), nip89.MaxTags)] {
		if len(t) < 2 {
			continue
		}
		if d, ok := strings.CutPrefix(t[1], address(KindRecommendation, e.PubKey)); t[0] == "a" && ok {
			praises = append(praises, praiseKey{e.PubKey, d})
		}
		if s, ok := nip89.ParseAddress(t[1]); t[0] == "a" && ok && s.PubKey == e.PubKey {
			services = append(services, target{s, e.CreatedAt})
		}
		if id, err := nostr.IDFromHex(t[1]); t[0] == "e" && err == nil {
			if c := r.index.event(id); c != nil && c.pubkey == e.PubKey {
				services = append(services, target{c.service(), c.at})
			}
			for key, one := range r.praise.all {
				if one.id == id && key.by == e.PubKey {
					praises = append(praises, key)
				}
			}
		}
	}
	return services, praises
}

// withdraw deletes a service. If the service was known, it also records that in SEEN.
//
// A deletion of an unknown service is kept in memory only. Writing it would let strangers fill SEEN with services that
// never existed.
func (r *Registry) withdraw(ctx context.Context, t target) (removed bool, err error) {
	i := IDOf(t.service)
	defer r.order(i)()
	r.mu.Lock()
	if c := r.index.find(i); c != nil && c.at <= t.until {
		removed = true
		r.tell(Change{What: Retracted, Service: t.service, Name: unpack(c.packed).name, At: t.until.Time()})
	}
	kept := r.retract(i, t.until)
	r.mu.Unlock()
	if !removed {
		return false, nil
	}
	if !kept {
		return true, r.c.Journal.Unsee(ctx, seenPrefix+i.place())
	}
	b, err := json.Marshal(sighting{Gone: &retraction{ID: i, Until: t.until}})
	if err != nil {
		return true, fmt.Errorf("deletion: %w", err)
	}
	return true, r.c.Journal.See(ctx, seenPrefix+i.place(), b)
}

// retract applies a deletion to memory, and reports whether the deletion itself could be kept. The lock must be held.
//
// The deletion is kept so that a relay cannot bring back the announcement by sending it again. Deletions of services
// that were never announced get only half of the room: anyone can invent them, and they must not displace the others.
func (r *Registry) retract(i ID, until nostr.Timestamp) (kept bool) {
	c := r.index.find(i)
	if c != nil && c.at <= until {
		r.index.remove(i)
		r.partners.Announced(i)
	}
	room := most
	if c != nil {
		room = 2 * most
	}
	if _, known := r.deleted[i]; known || len(r.deleted) < room {
		r.deleted[i] = max(r.deleted[i], until)
		kept = true
	}
	return kept
}

// unsay deletes a recommendation.
func (r *Registry) unsay(ctx context.Context, key praiseKey, e nostr.Event) (removed bool, err error) {
	r.mu.Lock()
	removed = r.praise.remove(key, e)
	r.mu.Unlock()
	if !removed {
		return false, nil
	}
	return true, r.keepEvent(ctx, praisePlace(key), e)
}

// remove deletes a recommendation that is not newer than a deletion. It reports whether anything changed. Nothing is
// kept for keys that are not followed.
func (p praise) remove(key praiseKey, e nostr.Event) bool {
	old, ok := p.all[key]
	if !p.follow[key.by] || ok && (len(old.services) == 0 || old.at > e.CreatedAt) {
		return false
	}
	if !ok {
		return p.put(key, recommendation{at: e.CreatedAt, id: e.ID}) == nil
	}
	p.all[key] = recommendation{at: max(old.at, e.CreatedAt), id: e.ID}
	for _, i := range old.services {
		p.count(i)
	}
	return true
}
