package registry

import (
	"net/url"
	"slices"

	"guild/internal/hand/dial"
	"guild/internal/hand/relay"
)

// maxRelays bounds the relays of an offer.
const maxRelays = 16

// relays returns the valid ones of the relays that a stranger names, normalized, without duplicates and at most so many.
// ws:// is valid only for this machine. An address that is not public is valid only if it is the owner's. Nothing is
// connected.
func (r *Registry) relays(urls []string, most int) []string {
	var good []string
	for _, raw := range urls {
		if len(good) == most {
			break
		}
		clean, err := relay.Normalize(raw)
		if err == nil && !slices.Contains(good, clean) && (slices.Contains(r.own, clean) || leadsOut(clean)) {
			good = append(good, clean)
		}
	}
	return good
}

// leadsOut reports whether a relay has a public address, or is on this machine.
func leadsOut(relay string) bool {
	u, err := url.Parse(relay)
	return err == nil && (dial.IsLoopback(u.Hostname()) || dial.MayBePublic(u.Hostname()))
}

// rank orders the relays of a service (the partnership protocol, sections 1.2.4 and 1.4.3): those it advertises, then those
// its announcement was seen on, then its NIP-65 list. Those that lose its requests come last in any case.
func rank(advertised, observed, listed, lossy []string) []string {
	all := make([]string, 0, len(advertised)+len(observed)+len(listed))
	for _, source := range [][]string{advertised, observed, listed} {
		for _, url := range source {
			if !slices.Contains(all, url) && len(all) < maxRelays {
				all = append(all, url)
			}
		}
	}
	if len(lossy) == 0 {
		return all
	}
	bad := func(url string) bool { return slices.Contains(lossy, url) }
	return append(slices.DeleteFunc(slices.Clone(all), bad),
		slices.DeleteFunc(all, func(url string) bool { return !bad(url) })...)
}

// ranked is rank for a card. The lock must be held.
func (r *Registry) ranked(c *card, says summary) []string {
	var lossy []string
	if r.c.Observed != nil {
		lossy = r.c.Observed.Lossy(c.service())
	}
	return rank(says.relays, r.sources.names(c.from), r.lists.of(c.pubkey), lossy)
}
