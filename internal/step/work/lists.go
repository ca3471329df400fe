package work

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/hand/dial"
	"guild/internal/hand/dm"
)

// Our key may be a person's too, who has lists of relays of its own. So neither list below is overwritten: ours are added
// to what is published. Only relays on loopback go that are no longer ours, since nobody else can reach them.

// relayList returns the list of relays (NIP-65, kind 10002) to publish in place of the one before it.
func (w *Work) relayList(before *nostr.Event) *nostr.Event {
	list := &nostr.Event{Kind: 10002, Tags: nostr.Tags{}}
	ours := w.c.Relays.Ours()
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

// inboxList returns the list of relays at which we read private messages (NIP-17, kind 10050) to publish in place of the
// one before it. It is nil if we have no relays, or if the one before names a relay of ours already.
func (w *Work) inboxList(before *nostr.Event) *nostr.Event {
	list := dm.List(w.c.Relays.Ours())
	switch {
	case len(list.Tags) == 0:
		return nil
	case before == nil:
		return &list
	}
	list.Content = before.Content
	var theirs, rest nostr.Tags
	for _, tag := range before.Tags {
		switch {
		case len(tag) < 2 || tag[0] != "relay":
			rest = append(rest, tag)
		case slices.ContainsFunc(list.Tags, func(t nostr.Tag) bool { return sameRelay(t[1], tag[1]) }):
			return nil
		case !isLocal(tag[1]):
			theirs = append(theirs, tag)
		}
	}
	const most = 3 // as NIP-17 recommends
	list.Tags = slices.Concat(list.Tags[:min(len(list.Tags), max(1, most-len(theirs)))], theirs, rest)
	return &list
}

// announceInbox publishes the inbox list alone, and tries again until a relay takes it.
func (w *Work) announceInbox(ctx context.Context) {
	for wait := time.Second; ctx.Err() == nil; wait = min(2*wait, look) {
		before, err := w.replaceable(ctx, nostr.KindDMRelayList)
		if err == nil {
			err = w.replace(ctx, w.inboxList(before[nostr.KindDMRelayList]), before, nostr.Timestamp(w.c.Now().Unix()))
		}
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// replaceable finds our newest event of each kind at our relays.
func (w *Work) replaceable(ctx context.Context, kinds ...nostr.Kind) (map[nostr.Kind]*nostr.Event, error) {
	const enough = 100
	found, err := w.c.Relays.Find(ctx, nostr.Filter{Kinds: kinds, Authors: []nostr.PubKey{w.c.PubKey}, Limit: enough}, w.c.Relays.Ours())
	if err != nil {
		return nil, err
	}
	newest := map[nostr.Kind]*nostr.Event{}
	for _, v := range found {
		if e := v.Event(); e.PubKey == w.c.PubKey && slices.Contains(kinds, e.Kind) && isNewer(e, newest[e.Kind]) {
			newest[e.Kind] = &e
		}
	}
	return newest, nil
}

// isNewer reports whether e replaces before: the later one, and of two in the same second the one with the lower id
// (NIP-01).
func isNewer(e nostr.Event, before *nostr.Event) bool {
	return before == nil || e.CreatedAt > before.CreatedAt || e.CreatedAt == before.CreatedAt && slices.Compare(e.ID[:], before.ID[:]) < 0
}

// replace publishes an event, dated after the one of its kind before it. It does nothing for nil.
func (w *Work) replace(ctx context.Context, e *nostr.Event, before map[nostr.Kind]*nostr.Event, at nostr.Timestamp) error {
	if e == nil {
		return nil
	}
	e.CreatedAt = at
	if old := before[e.Kind]; old != nil {
		e.CreatedAt = max(at, old.CreatedAt+1)
	}
	_, err := w.broadcast(ctx, *e)
	return err
}

func sameRelay(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, "/"), strings.TrimSuffix(b, "/"))
}

func isLocal(relay string) bool {
	u, err := url.Parse(relay)
	return err == nil && dial.IsLoopback(u.Hostname())
}
