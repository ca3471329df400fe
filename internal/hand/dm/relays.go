package dm

import (
	"net/url"
	"slices"

	"fiatjaf.com/nostr"

	"guild/internal/hand/dial"
	"guild/internal/hand/relay"
)

// maxRelays is the number of relays in a list (NIP-17: one to three).
const maxRelays = 3

// Relays returns the relays in a list (NIP-17, kind 10050) of those where its author reads private messages: at most three,
// as relay.Normalize writes them. Addresses that are neither public nor on this machine are left out.
func Relays(list nostr.Event) []string {
	var urls []string
	for _, tag := range list.Tags {
		if len(tag) < 2 || tag[0] != "relay" || len(urls) == maxRelays {
			continue
		}
		clean, err := relay.Normalize(tag[1])
		if err == nil && !slices.Contains(urls, clean) && (isLocal(clean) || leadsOut(clean)) {
			urls = append(urls, clean)
		}
	}
	return urls
}

// List returns the unsigned list of the relays where we read private messages: the first three that are not on this
// machine, or if there are none, the first three.
func List(urls []string) nostr.Event {
	if others := slices.DeleteFunc(slices.Clone(urls), isLocal); len(others) > 0 {
		urls = others
	}
	e := nostr.Event{Kind: nostr.KindDMRelayList, Tags: nostr.Tags{}}
	for _, u := range urls[:min(len(urls), maxRelays)] {
		e.Tags = append(e.Tags, nostr.Tag{"relay", u})
	}
	return e
}

func isLocal(relay string) bool {
	u, err := url.Parse(relay)
	return err == nil && dial.IsLoopback(u.Hostname())
}

func leadsOut(relay string) bool {
	u, err := url.Parse(relay)
	return err == nil && dial.MayBePublic(u.Hostname())
}
