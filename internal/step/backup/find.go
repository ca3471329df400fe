package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fiatjaf.com/nostr"

	"guild"
)

// Limits of the search for messages. Anybody can send this node any number of messages. Only their ids are kept in
// memory.
const (
	page     = 500       // events of one query
	maxFound = 1_000_000 // of one relay
	maxLook  = 10 * time.Minute
	noteLook = time.Minute // if a note has named a backup already
)

// kindNote is the kind of the note about the latest backup.
const kindNote = nostr.KindApplicationSpecificData

// Query is the method Query of relay.Pool.
type Query func(ctx context.Context, filters []nostr.Filter, urls ...string) ([]guild.Verified, error)

// Find reads from relays the events that name backups of this node: its note, and the private messages among those that
// anybody has sent. It returns each once, and how many events it looked at. It takes ten minutes at most, and one
// minute if it finds a note. The error is nil if at least one relay was read, at least in part.
//
// Others can hide the messages behind any number of gift wraps, because only the recipient can tell whose they are, and
// because their dates are random. They cannot hide the note, which is found by the node's own key.
func (s *Step) Find(ctx context.Context, query Query, relays []string) (found []guild.Verified, looked int, err error) {
	all := map[nostr.ID]guild.Verified{}
	for _, url := range relays {
		notes, err := query(ctx, []nostr.Filter{{Kinds: []nostr.Kind{kindNote}, Authors: []nostr.PubKey{s.c.PubKey},
			Tags: nostr.TagMap{"d": {messageType}}, Limit: page}}, url)
		if err != nil {
			continue // the search below reports the error
		}
		if err := s.sift(ctx, notes, all); err != nil {
			return nil, looked, fmt.Errorf("look for backups: %w", err)
		}
		looked += len(notes)
	}
	patience := maxLook
	if len(all) > 0 {
		patience = noteLook
	}
	var errs []error
	for _, url := range relays {
		n, err := s.find(ctx, query, url, patience/time.Duration(len(relays)), all)
		looked += n
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", url, err))
		}
	}
	for _, v := range all {
		found = append(found, v)
	}
	if len(errs) < len(relays) || len(all) > 0 && ctx.Err() == nil {
		return found, looked, nil
	}
	return found, looked, fmt.Errorf("look for private messages: %w", errors.Join(errs...))
}

// find reads the gift wraps at one relay page by page, from the newest to the oldest.
func (s *Step) find(ctx context.Context, query Query, url string, patience time.Duration, all map[nostr.ID]guild.Verified) (looked int, err error) {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	filter := nostr.Filter{Kinds: []nostr.Kind{nostr.KindGiftWrap}, Tags: nostr.TagMap{"p": {s.c.PubKey.Hex()}}, Limit: page}
	seen := map[nostr.ID]bool{}
	barren := 0 // pages in a row without a new event
	for len(seen) < maxFound {
		events, err := query(limited, []nostr.Filter{filter}, url)
		if err == nil {
			events, filter.Until = unseen(events, filter.Until, seen)
			err = s.sift(limited, events, all)
		}
		switch {
		case err != nil && limited.Err() != nil && ctx.Err() == nil && len(seen) > 0:
			return len(seen), nil // the relay has more than there is time for
		case err != nil:
			return len(seen), err
		}
		barren++
		if len(events) > 0 {
			barren = 0
		}
		switch {
		case filter.Until <= 0:
			return len(seen), nil
		case barren > 1:
			return len(seen), nil // the relay returns the same events for an earlier date
		case barren == 1:
			filter.Until-- // the relay returns no more events of this second
		}
	}
	return len(seen), nil
}

// unseen returns the events that were not seen before, and the date of the oldest of all events, or 0 if there are
// none.
func unseen(events []guild.Verified, until nostr.Timestamp, seen map[nostr.ID]bool) (fresh []guild.Verified, oldest nostr.Timestamp) {
	if len(events) == 0 {
		return nil, 0
	}
	for _, v := range events {
		e := v.Event()
		if until == 0 || e.CreatedAt < until {
			until = e.CreatedAt
		}
		if !seen[e.ID] {
			seen[e.ID] = true
			fresh = append(fresh, v)
		}
	}
	return fresh, until
}

// sift keeps the events that name a backup of this node.
func (s *Step) sift(ctx context.Context, events []guild.Verified, all map[nostr.ID]guild.Verified) error {
	for _, v := range events {
		_, err := s.read(ctx, v)
		switch {
		case err == nil || errors.Is(err, ErrNewer):
			all[v.Event().ID] = v
		case !errors.Is(err, errOther):
			return err
		}
	}
	return nil
}
