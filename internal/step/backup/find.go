package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fiatjaf.com/nostr"

	"guild"
)

// The bounds of looking for messages. Anybody may send us any number, of which nothing is kept but the ids.
const (
	page     = 500       // events asked for at once
	maxFound = 1_000_000 // at one relay
	maxLook  = 10 * time.Minute
	noteLook = time.Minute // where a note names a backup already
)

// kindNote is the kind of our note about the latest backup.
const kindNote = nostr.KindApplicationSpecificData

// Query is the Query of a relay.Pool.
type Query func(ctx context.Context, filters []nostr.Filter, urls ...string) ([]guild.Verified, error)

// Find brings from relays what names backups of ours, each once: our note, which nobody can hide, and the private messages
// to us among those of others. Gift wraps are dated at random, so that none is too old to be looked at; how many were is
// looked. It takes ten minutes at most, and one where there is a note. The error is nil when at least one relay was read,
// to its end or as far as that went.
func (s *Step) Find(ctx context.Context, query Query, relays []string) (found []guild.Verified, looked int, err error) {
	all := map[nostr.ID]guild.Verified{}
	for _, url := range relays {
		notes, err := query(ctx, []nostr.Filter{{Kinds: []nostr.Kind{kindNote}, Authors: []nostr.PubKey{s.c.PubKey},
			Tags: nostr.TagMap{"d": {messageType}}, Limit: page}}, url)
		if err != nil {
			continue // it fails once more below
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

// find reads the gift wraps at one relay page by page, back from the newest.
func (s *Step) find(ctx context.Context, query Query, url string, patience time.Duration, all map[nostr.ID]guild.Verified) (looked int, err error) {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	filter := nostr.Filter{Kinds: []nostr.Kind{nostr.KindGiftWrap}, Tags: nostr.TagMap{"p": {s.c.PubKey.Hex()}}, Limit: page}
	seen := map[nostr.ID]bool{}
	barren := 0 // pages in a row with nothing new
	for len(seen) < maxFound {
		events, err := query(limited, []nostr.Filter{filter}, url)
		if err == nil {
			events, filter.Until = unseen(events, filter.Until, seen)
			err = s.sift(limited, events, all)
		}
		switch {
		case err != nil && limited.Err() != nil && ctx.Err() == nil && len(seen) > 0:
			return len(seen), nil // it has more than there is time for
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
			return len(seen), nil // it was asked for what is older than all of these, and does not look at that
		case barren == 1:
			filter.Until-- // that second has been read as far as the relay gives it
		}
	}
	return len(seen), nil
}

// unseen leaves the events that were not seen before, and finds the date of the oldest of all, 0 where there are none.
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

// sift keeps what names a backup of ours.
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
