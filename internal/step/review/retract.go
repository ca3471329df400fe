package review

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nipreview"
)

// Deletes reports whether a deletion (kind 5) is about reviews: its tags say so, or it names a review that is known
// here.
func (r *Review) Deletes(e nostr.Event) bool {
	r.others.mu.RLock()
	defer r.others.mu.RUnlock()
	for _, t := range e.Tags {
		if len(t) < 2 {
			continue
		}
		switch t[0] {
		case "k":
			if t[1] == strconv.Itoa(int(Kind)) || t[1] == strconv.Itoa(int(KindSet)) {
				return true
			}
		case "a":
			if strings.HasPrefix(t[1], address(e.PubKey)) {
				return true
			}
		case "e":
			if id, err := nostr.IDFromHex(t[1]); err == nil {
				if _, known := r.others.ids[id]; known {
					return true
				}
			}
		}
	}
	return false
}

// address returns the prefix of the addresses (NIP-01) of a key's opinions.
func address(by nostr.PubKey) string { return fmt.Sprintf("%d:%s:", KindSet, by.Hex()) }

// deleted retracts the reviews that a deletion names, if they have the same author (NIP-09). An address retracts
// everything up to the deletion's date, an id only the review that counts.
func (o *others) deleted(ctx context.Context, e nostr.Event) error {
	o.writes.Lock()
	defer o.writes.Unlock()
	targets := o.targets(e)
	if len(targets) == 0 {
		return guild.Drop(guild.Misdirected, "deletion of an unknown review")
	}
	counts := o.counts(e.PubKey)
	for p, until := range targets {
		if err := o.withdraw(ctx, p, until, counts); err != nil {
			return err
		}
	}
	return nil
}

// targets returns the reviews that a deletion retracts, each with the time up to which it does.
func (o *others) targets(e nostr.Event) map[place]nostr.Timestamp {
	o.mu.RLock()
	defer o.mu.RUnlock()
	targets := map[place]nostr.Timestamp{}
	for _, t := range e.Tags[:min(len(e.Tags), nipreview.MaxTags)] {
		if len(t) < 2 {
			continue
		}
		if id, err := nostr.IDFromHex(t[1]); t[0] == "e" && err == nil {
			if p, known := o.ids[id]; known && o.by[p].reviewer == e.PubKey {
				targets[p] = max(targets[p], o.by[p].at)
			}
		}
		d, ok := strings.CutPrefix(t[1], address(e.PubKey))
		subject, task, found := strings.Cut(d, ":")
		if key, err := nostr.PubKeyFromHex(subject); t[0] == "a" && ok && found && err == nil {
			p := placeOf(e.PubKey, key, task)
			targets[p] = max(targets[p], e.CreatedAt)
		}
	}
	return targets
}

// withdraw retracts a review. It writes that to SEEN only if the review was known. Keys that do not count get half of
// the room, because anybody can make keys and send deletions of reviews that never existed.
func (o *others) withdraw(ctx context.Context, p place, until nostr.Timestamp, counts bool) error {
	room := mostGone
	if !counts {
		room /= 2
	}
	o.mu.Lock()
	old := o.by[p]
	removed := old != nil && old.at <= until
	if removed {
		o.remove(p)
	}
	_, known := o.gone[p]
	kept := known || len(o.gone) < room
	if kept {
		o.gone[p] = max(o.gone[p], until)
		until = o.gone[p]
	}
	o.mu.Unlock()
	if !removed {
		return nil
	}
	if !kept {
		return o.c.Journal.Unsee(ctx, p.subject())
	}
	b, err := json.Marshal(sighting{Gone: until})
	if err != nil {
		return fmt.Errorf("delete a review: %w", err)
	}
	return o.c.Journal.See(ctx, p.subject(), b)
}
