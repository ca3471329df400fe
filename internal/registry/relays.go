package registry

import (
	"net/url"
	"slices"

	"guild"
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
func rank(advertised, observed, listed []string, poor func(url string) bool) []string {
	all := unique(slices.Concat(advertised, observed, listed))
	if len(all) > maxRelays {
		all = all[:maxRelays]
	}
	slices.SortStableFunc(all, func(a, b string) int {
		switch a, b := poor(a), poor(b); {
		case a == b:
			return 0
		case a:
			return 1
		}
		return -1
	})
	return all
}

// ranked is rank for a card. The lock must be held.
func (r *Registry) ranked(c *card, said said) []string {
	return rank(said.relays, r.sources.names(c.from), r.lists.of(c.pubkey), r.poorly(c.service()))
}

// poorly says which relays have lost requests to a service.
func (r *Registry) poorly(s guild.Service) func(url string) bool {
	if r.c.Observed == nil {
		return func(string) bool { return false }
	}
	lost := r.c.Observed.lossy(s)
	return func(url string) bool { return slices.Contains(lost, url) }
}

// unique drops repetitions and keeps the order.
func unique(urls []string) []string {
	var once []string
	for _, u := range urls {
		if !slices.Contains(once, u) {
			once = append(once, u)
		}
	}
	return once
}
