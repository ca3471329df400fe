package registry

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip89"
)

// praise holds the recommendations by followed keys. Those by other keys are not kept, because anyone can create keys.
type praise struct {
	follow map[nostr.PubKey]bool
	all    map[praiseKey]recommendation
	by     map[ID][]nostr.PubKey // keys that recommend a service, sorted
}

type praiseKey struct {
	by nostr.PubKey
	d  string
}

type recommendation struct {
	at       nostr.Timestamp
	id       nostr.ID
	services []ID // empty if it was deleted
}

func newPraise(follow []nostr.PubKey) praise {
	p := praise{follow: map[nostr.PubKey]bool{}, all: map[praiseKey]recommendation{}, by: map[ID][]nostr.PubKey{}}
	for _, key := range follow {
		p.follow[key] = true
	}
	return p
}

// of returns the keys that recommend a service.
func (p praise) of(s guild.Service) []nostr.PubKey {
	if len(p.by) == 0 {
		return nil
	}
	return p.by[IDOf(s)]
}

// maxPraise limits the recommendations of one key.
const maxPraise = 100

// put stores a recommendation. One without services is a deletion.
func (p praise) put(key praiseKey, one recommendation) error {
	old, ok := p.all[key]
	if ok && !newer(one.at, one.id, old.at, old.id) {
		return guild.Drop(guild.Outdated, "recommendation %q", key.d)
	}
	if !ok {
		mine := 0
		for other := range p.all {
			if other.by == key.by {
				mine++
			}
		}
		if mine >= maxPraise {
			return guild.Drop(guild.Flood, "%d recommendations of %.8s are known already", maxPraise, key.by.Hex())
		}
	}
	p.all[key] = one
	for _, i := range slices.Concat(old.services, one.services) {
		p.count(i)
	}
	return nil
}

// count recomputes which keys recommend a service.
func (p praise) count(i ID) {
	by := map[nostr.PubKey]bool{}
	for key, one := range p.all {
		if slices.Contains(one.services, i) {
			by[key.by] = true
		}
	}
	delete(p.by, i)
	if len(by) > 0 {
		p.by[i] = slices.SortedFunc(maps.Keys(by), func(a, b nostr.PubKey) int { return slices.Compare(a[:], b[:]) })
	}
}

// recommended takes a recommendation (kind 31989) of a followed key.
func (r *Registry) recommended(ctx context.Context, e nostr.Event) error {
	key, one, err := r.parsePraise(e)
	if err != nil {
		return err
	}
	r.mu.Lock()
	if r.praise.all[key].id == e.ID {
		r.mu.Unlock()
		return nil // a relay sends it again
	}
	err = r.praise.put(key, one)
	r.mu.Unlock()
	if err != nil {
		return err
	}
	r.changed()
	return r.keepEvent(ctx, praisePlace(key), e)
}

func praisePlace(key praiseKey) string {
	return fmt.Sprintf("recommends.%s.%s", key.by.Hex(), guild.Sum([]byte(key.d)).Hex()[:16])
}

// parsePraise parses a recommendation. It returns an error if its author is not followed.
func (r *Registry) parsePraise(e nostr.Event) (praiseKey, recommendation, error) {
	if !r.praise.follow[e.PubKey] {
		return praiseKey{}, recommendation{}, guild.Drop(guild.Stranger, "recommendation by %.8s, who is not followed", e.PubKey.Hex())
	}
	parsed, err := nip89.ParseRecommendation(e)
	if err != nil {
		return praiseKey{}, recommendation{}, guild.Drop(guild.Malformed, "%v", err)
	}
	services := make([]ID, len(parsed.Handlers))
	for i, h := range parsed.Handlers {
		services[i] = IDOf(h.Service())
	}
	return praiseKey{e.PubKey, parsed.Handles}, recommendation{at: e.CreatedAt, id: e.ID, services: services}, nil
}

// Recommenders returns the followed keys that recommend a service.
func (r *Registry) Recommenders(s guild.Service) []nostr.PubKey {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.praise.of(s))
}
