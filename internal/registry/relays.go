package registry

import (
	"net/url"
	"slices"

	"guild/internal/dial"
	"guild/internal/relay"
)

// maxRelays is the number of relays that an offer names.
const maxRelays = 16

// relays checks the addresses that a stranger names: each in the one spelling under which it is known, each once.
// Plain ws:// leads to this machine only, and an address that is not public nowhere, unless it is one of the owner's
// own. Whether a relay is there is found out by whoever connects.
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

// leadsOut reports whether a relay may be reached by others too, or is on this machine.
func leadsOut(relay string) bool {
	u, err := url.Parse(relay)
	return err == nil && (dial.IsLoopback(u.Hostname()) || dial.MayBePublic(u.Hostname()))
}

// rank orders the relays of a service (the partnership protocol, sections 1.2.4 and 1.4.3): what it prefers, then
// where its announcement was seen, then its NIP-65 list. Those that have lost its requests come last, whatever it
// says about them.
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
func (r *Registry) ranked(c *card, said said) []string {
	var lossy []string
	if r.c.Observed != nil {
		lossy = r.c.Observed.Lossy(c.service())
	}
	return rank(said.relays, r.sources.names(c.from), r.lists.of(c.pubkey), lossy)
}
