package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip89"
)

// lists are the relays that keys read, of their NIP-65 lists.
type lists map[nostr.PubKey]list

type list struct {
	at   nostr.Timestamp
	id   nostr.ID
	urls string // joined by line feeds
}

func (l lists) of(p nostr.PubKey) []string {
	if l[p].urls == "" {
		return nil
	}
	return strings.Split(l[p].urls, "\n")
}

// put takes a list and returns why not.
func (l lists) put(e nostr.Event, urls []string) error {
	old, ok := l[e.PubKey]
	if ok && !newer(e.CreatedAt, e.ID, old.at, old.id) {
		return guild.Drop(guild.Outdated, "relay list")
	}
	l[e.PubKey] = list{e.CreatedAt, e.ID, strings.Join(urls, "\n")}
	return nil
}

// reads are the relays of a NIP-65 list that its author reads, in alphabetical order: it states no preference.
func (r *Registry) reads(e nostr.Event) []string {
	var urls []string
	for _, t := range e.Tags {
		if len(t) >= 2 && t[0] == "r" && (len(t) == 2 || t[2] == "" || t[2] == "read") && len(urls) < maxRelays {
			urls = append(urls, t[1])
		}
	}
	urls = r.relays(urls, maxNamed)
	slices.Sort(urls)
	return urls
}

// listed takes the relay list of somebody who announces something, or whom we deal with. What is kept of it is what
// is used of it.
func (r *Registry) listed(ctx context.Context, e nostr.Event) error {
	urls := r.reads(e)
	r.mu.Lock()
	if r.lists[e.PubKey].id == e.ID {
		r.mu.Unlock()
		return nil // a relay sends it again
	}
	if !r.matters(e.PubKey) {
		r.mu.Unlock()
		return guild.Drop(guild.Stranger, "a relay list of %.8s, who announces nothing", e.PubKey.Hex())
	}
	err := r.lists.put(e, urls)
	r.boundLists(e.PubKey)
	r.answers.forget()
	r.mu.Unlock()
	if err != nil {
		return err
	}
	r.changed()
	kept := nostr.Event{ID: e.ID, PubKey: e.PubKey, CreatedAt: e.CreatedAt, Kind: e.Kind, Tags: nostr.Tags{}}
	for _, url := range urls {
		kept.Tags = append(kept.Tags, nostr.Tag{"r", url})
	}
	return errors.Join(r.keepEvent(ctx, listPlace(e.PubKey), kept), r.sweep(ctx))
}

func listPlace(key nostr.PubKey) string { return "relays." + key.Hex() }

// matters reports whether a relay list of a key may be used. The lock must be held.
func (r *Registry) matters(key nostr.PubKey) bool {
	return len(r.index.keys[key]) > 0 || r.praise.follow[key] || r.partners.Deals(key)
}

// boundLists drops a list when there are too many: of somebody who announces nothing any more, else the oldest one of
// a stranger. The lock must be held.
func (r *Registry) boundLists(but nostr.PubKey) {
	for len(r.lists) > mostLists {
		var first nostr.PubKey
		found, silent := false, false
		for key, l := range r.lists {
			quiet := len(r.index.keys[key]) == 0
			if key == but || silent && !quiet {
				continue
			}
			better := !found || quiet && !silent || cmp.Or(cmp.Compare(l.at, r.lists[first].at), slices.Compare(key[:], first[:])) < 0
			if better && !r.praise.follow[key] && !r.partners.Deals(key) {
				first, found, silent = key, true, quiet
			}
		}
		if !found {
			return
		}
		r.dropList(first)
	}
}

func (r *Registry) dropList(key nostr.PubKey) {
	delete(r.lists, key)
	r.left = append(r.left, leftover{place: listPlace(key)})
}

// pruneLists drops the lists of those who announce nothing any more.
func (r *Registry) pruneLists() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.lists {
		if !r.matters(key) {
			r.dropList(key)
		}
	}
	r.boundLists(nostr.PubKey{})
}

// keepEvent writes an event to SEEN as it is.
func (r *Registry) keepEvent(ctx context.Context, place string, e nostr.Event) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("kind %d %.8s: %w", e.Kind, e.ID.Hex(), err)
	}
	return r.c.Journal.See(ctx, seenPrefix+place, raw)
}

// praise is what the keys that we follow recommend. What others recommend is not kept: anybody can make keys.
type praise struct {
	follow map[nostr.PubKey]bool
	said   map[praiseKey]recommendation
	by     map[ID][]nostr.PubKey // who recommends a service, in order
}

type praiseKey struct {
	by nostr.PubKey
	d  string
}

type recommendation struct {
	at       nostr.Timestamp
	id       nostr.ID
	services []ID // none once it was taken back
}

func newPraise(follow []nostr.PubKey) praise {
	p := praise{map[nostr.PubKey]bool{}, map[praiseKey]recommendation{}, map[ID][]nostr.PubKey{}}
	for _, key := range follow {
		p.follow[key] = true
	}
	return p
}

// of lists who recommends a service.
func (p praise) of(s guild.Service) []nostr.PubKey {
	if len(p.by) == 0 {
		return nil
	}
	return p.by[IDOf(s)]
}

// maxPraise is the number of recommendations that are kept of one key.
const maxPraise = 100

// put takes a recommendation, or one that was taken back when services is nil.
func (p praise) put(key praiseKey, said recommendation) error {
	old, ok := p.said[key]
	if ok && !newer(said.at, said.id, old.at, old.id) {
		return guild.Drop(guild.Outdated, "recommendation %q", key.d)
	}
	if !ok {
		mine := 0
		for other := range p.said {
			if other.by == key.by {
				mine++
			}
		}
		if mine >= maxPraise {
			return guild.Drop(guild.Flood, "%d recommendations of %.8s are known already", maxPraise, key.by.Hex())
		}
	}
	p.said[key] = said
	for _, i := range slices.Concat(old.services, said.services) {
		p.count(i)
	}
	return nil
}

// count finds anew who recommends a service.
func (p praise) count(i ID) {
	by := map[nostr.PubKey]bool{}
	for key, said := range p.said {
		if slices.Contains(said.services, i) {
			by[key.by] = true
		}
	}
	delete(p.by, i)
	if len(by) > 0 {
		p.by[i] = slices.SortedFunc(maps.Keys(by), func(a, b nostr.PubKey) int { return slices.Compare(a[:], b[:]) })
	}
}

// recommended takes a recommendation (kind 31989) of a key that we follow.
func (r *Registry) recommended(ctx context.Context, e nostr.Event) error {
	key, said, err := r.parsePraise(e)
	if err != nil {
		return err
	}
	r.mu.Lock()
	if r.praise.said[key].id == e.ID {
		r.mu.Unlock()
		return nil // a relay sends it again
	}
	err = r.praise.put(key, said)
	r.answers.forget()
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

func (r *Registry) parsePraise(e nostr.Event) (praiseKey, recommendation, error) {
	if !r.praise.follow[e.PubKey] {
		return praiseKey{}, recommendation{}, guild.Drop(guild.Stranger, "a recommendation by %.8s, whom we do not follow", e.PubKey.Hex())
	}
	said, err := nip89.ParseRecommendation(e)
	if err != nil {
		return praiseKey{}, recommendation{}, guild.Drop(guild.Malformed, "%v", err)
	}
	services := make([]ID, len(said.Handlers))
	for i, h := range said.Handlers {
		services[i] = IDOf(h.Service())
	}
	return praiseKey{e.PubKey, said.Handles}, recommendation{e.CreatedAt, e.ID, services}, nil
}

func (r *Registry) rememberPraise(e nostr.Event) {
	key, said, err := r.parsePraise(e)
	if err != nil {
		return // we follow somebody else now
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.praise.put(key, said) // an error says that it does not count
}

// Recommenders are the keys that we follow and that recommend a service.
func (r *Registry) Recommenders(s guild.Service) []nostr.PubKey {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.praise.of(s))
}
