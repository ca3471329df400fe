package work

import (
	"net/url"
	"slices"
	"strings"

	"fiatjaf.com/nostr"

	"guild/internal/hand/dial"
)

// relayList is the list of relays (NIP-65, kind 10002) to publish. What stands in the one before it stays, except
// relays of a machine's own that are no longer ours: nobody else could reach them.
func (w *Work) relayList(before *nostr.Event) *nostr.Event {
	list := &nostr.Event{Kind: 10002, Tags: nostr.Tags{}}
	ours := w.c.Relays()
	if before != nil {
		list.Content = before.Content
		for _, tag := range before.Tags {
			if len(tag) < 2 || tag[0] != "r" {
				list.Tags = append(list.Tags, tag)
				continue
			}
			isThis := func(url string) bool { return sameRelay(url, tag[1]) }
			if !isLocal(tag[1]) && !slices.ContainsFunc(ours, isThis) {
				list.Tags = append(list.Tags, tag)
			}
		}
	}
	for _, url := range ours {
		list.Tags = append(list.Tags, nostr.Tag{"r", url})
	}
	return list
}

func sameRelay(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, "/"), strings.TrimSuffix(b, "/"))
}

func isLocal(relay string) bool {
	u, err := url.Parse(relay)
	return err == nil && dial.IsLoopback(u.Hostname())
}
