package registry

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"fiatjaf.com/nostr"

	"guild"
)

// lists holds the relays that keys read from, by their NIP-65 lists.
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

// put stores a list. It returns an error if it has a newer one.
func (l lists) put(e nostr.Event, urls []string) error {
	old, ok := l[e.PubKey]
	if ok && !newer(e.CreatedAt, e.ID, old.at, old.id) {
		return guild.Drop(guild.Outdated, "relay list")
	}
	l[e.PubKey] = list{at: e.CreatedAt, id: e.ID, urls: strings.Join(urls, "\n")}
	return nil
}

// reads returns the relays of a NIP-65 list that its author reads from. They are sorted, because the list states no
// preference.
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

// listed takes the relay list of a key that announces a service, is followed, or has done jobs with us. It keeps only
// the relays that are used.
//
// It stores only the used relays, and not the event: a list may have thousands of tags, and its signature is not needed
// again.
func (r *Registry) listed(ctx context.Context, e nostr.Event) error {
	urls := r.reads(e)
	r.mu.Lock()
	if r.lists[e.PubKey].id == e.ID {
		r.mu.Unlock()
		return nil // a relay sends it again
	}
	if !r.matters(e.PubKey) {
		r.mu.Unlock()
		return guild.Drop(guild.Stranger, "relay list of %.8s, who has no announcement", e.PubKey.Hex())
	}
	err := r.lists.put(e, urls)
	r.boundLists(e.PubKey)
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

// matters reports whether the relay list of a key may be used. The lock must be held.
func (r *Registry) matters(key nostr.PubKey) bool {
	return len(r.index.keys[key]) > 0 || r.praise.follow[key] || r.partners.Deals(key)
}

// boundLists drops lists while there are too many: first those of keys that announce nothing any more, then the oldest
// ones of strangers. It never drops the list of the key but. The lock must be held.
func (r *Registry) boundLists(but nostr.PubKey) {
	for len(r.lists) > mostLists {
		var first nostr.PubKey
		found, silent := false, false
		for key, l := range r.lists {
			quiet := len(r.index.keys[key]) == 0
			older := cmp.Or(cmp.Compare(l.at, r.lists[first].at), slices.Compare(key[:], first[:])) < 0
			better := !found || quiet && !silent || quiet == silent && older
			if key != but && better && !r.praise.follow[key] && !r.partners.Deals(key) {
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

// pruneLists drops the lists of keys that no longer matter.
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
