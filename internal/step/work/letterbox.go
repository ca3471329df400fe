package work

import (
	"context"
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/hand/dm"
)

// letterbox is the list of relays at which we read private messages (NIP-17, kind 10050) to publish, nil for none. One
// that names a relay of ours stays as it is. Another one keeps what it says, after ours, because a key may be a person's
// too, but for relays of a machine's own: nobody else could reach them.
func (w *Work) letterbox(before *nostr.Event) *nostr.Event {
	list := dm.List(w.c.Relays())
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
	const most = 3 // as NIP-17 says
	list.Tags = slices.Concat(list.Tags[:min(len(list.Tags), max(1, most-len(theirs)))], theirs, rest)
	return &list
}

// hangLetterbox publishes that list alone, and tries again for as long as no relay takes it.
func (w *Work) hangLetterbox(ctx context.Context) {
	if w.c.Published == nil {
		return
	}
	for wait := time.Second; ctx.Err() == nil; wait = min(2*wait, look) {
		if w.tryLetterbox(ctx) == nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

func (w *Work) tryLetterbox(ctx context.Context) error {
	found, err := w.c.Published(ctx, nostr.KindDMRelayList)
	if err != nil {
		return err
	}
	var before *nostr.Event
	for _, v := range found {
		if e := v.Event(); e.PubKey == w.c.PubKey && e.Kind == nostr.KindDMRelayList && newest(before, e) {
			before = &e
		}
	}
	list := w.letterbox(before)
	if list == nil {
		return nil
	}
	list.CreatedAt = nostr.Timestamp(w.c.Now().Unix())
	if before != nil {
		list.CreatedAt = max(list.CreatedAt, before.CreatedAt+1)
	}
	_, err = w.broadcast(ctx, *list)
	return err
}
