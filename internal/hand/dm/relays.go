package dm

import (
	"net/url"
	"slices"

	"fiatjaf.com/nostr"

	"guild/internal/hand/dial"
	"guild/internal/hand/relay"
)

// maxRelays is how many relays somebody reads private messages at: NIP-17 says one to three.
const maxRelays = 3

// Relays are those at which somebody reads private messages, by their list (NIP-17, kind 10050): at most three, in the
// spelling of relay.Normalize. Addresses that lead to no public place, nor to this machine, are left out.
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

// List is the list of the relays at which we read private messages, to be signed: the first three, those of this
// machine only if there are no others.
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
