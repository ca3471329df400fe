package registry

import (
	"net/url"
	"slices"

	"guild/internal/hand/dial"
	"guild/internal/hand/relay"
)

// maxRelays limits the relays of an offer.
const maxRelays = 16

// relays filters the relay URLs of a stranger: it returns the valid ones, normalized, without duplicates, and at most
// most. A ws:// URL is valid only for this machine. A non-public address is valid only if the owner configured it:
// otherwise an announcement could make the node connect to hosts in its private network. No connection is made here.
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

// rank orders the relays of a service (the partnership protocol, sections 1.2.4 and 1.4.3): the advertised ones, then
// those on which its announcement was seen, then its NIP-65 list. Relays that lose its requests come last in any case.
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

// ranked calls rank for a card. The lock must be held.
func (r *Registry) ranked(c *card, says summary) []string {
	var lossy []string
	if r.c.Observed != nil {
		lossy = r.c.Observed.Lossy(c.service())
	}
	return rank(says.relays, r.sources.names(c.from), r.lists.of(c.pubkey), lossy)
}
