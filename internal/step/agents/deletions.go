package agents

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nipae"
)

const kindDeletion nostr.Kind = 5

// Limits of the deletions that are kept.
const (
	maxDeletions = 1000
	maxDeleted   = 500 // events that one of them names
)

// deletions holds the deletions of others' events, so that an event that comes after its deletion, or again from a relay
// that keeps deleted events, is not taken.
type deletions struct {
	all []deletion           // in the order of their arrival
	by  map[deleted]nostr.ID // the deletion of an event
}

type deletion struct {
	id      nostr.ID
	matters bool // its author
}

// deleted names an event and its author. Nobody else can delete it.
type deleted struct {
	author nostr.PubKey
	event  nostr.ID
}

// Deletes reports whether a deletion (kind 5) concerns this step: it names an event of its author that is known here, or
// its author matters and its k tags name a kind of NIP-AE.
func (s *Step) Deletes(e nostr.Event) bool {
	about := func(kind nostr.Kind) bool { return e.Tags.FindWithValue("k", strconv.Itoa(int(kind))) != nil }
	kinds := []nostr.Kind{nipae.KindLesson, nipae.KindComment, nipae.KindDefinition, nipae.KindNudge, nipae.KindProfile, nipae.KindClaims}
	return len(s.deleted(e)) > 0 || s.library.Keeps(e.PubKey) && slices.ContainsFunc(kinds, about)
}

// ObserveDeletion removes what its author deleted, and keeps the deletion.
func (s *Step) ObserveDeletion(ctx context.Context, v guild.Verified) error {
	e := v.Event()
	if !s.Deletes(e) {
		return nil
	}
	raw, err := e.MarshalJSON()
	if err != nil {
		return err
	}
	if err := s.c.Journal.See(ctx, seenPrefix+"."+e.ID.Hex(), raw); err != nil {
		return err
	}
	s.delete(ctx, e)
	return nil
}

// delete removes what a deletion names, and remembers it. The oldest deletion over the limit is forgotten: of a stranger,
// if there is one.
func (s *Step) delete(ctx context.Context, e nostr.Event) {
	for _, id := range s.deleted(e) {
		if s.library.Remove(id) {
			s.forget(ctx, id)
		}
	}
	matters := s.library.Keeps(e.PubKey)
	s.mu.Lock()
	forgotten, full := s.deletions.add(e, matters)
	s.mu.Unlock()
	if full {
		s.forget(ctx, forgotten)
	}
}

// add adds a deletion by an author who matters or not. It returns the deletion that it forgot.
func (d *deletions) add(e nostr.Event, matters bool) (forgotten nostr.ID, full bool) {
	if slices.ContainsFunc(d.all, func(one deletion) bool { return one.id == e.ID }) {
		return forgotten, false
	}
	d.all = append(d.all, deletion{e.ID, matters})
	for _, id := range named(e) {
		d.by[deleted{e.PubKey, id}] = e.ID
	}
	if len(d.all) <= maxDeletions {
		return forgotten, false
	}
	i := max(0, slices.IndexFunc(d.all, func(one deletion) bool { return !one.matters }))
	forgotten = d.all[i].id
	d.all = slices.Delete(d.all, i, i+1)
	maps.DeleteFunc(d.by, func(_ deleted, by nostr.ID) bool { return by == forgotten })
	return forgotten, true
}

// isDeleted reports whether the author of an event deleted it.
func (s *Step) isDeleted(e nostr.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, is := s.deletions.by[deleted{e.PubKey, e.ID}]
	return is
}

// deleted returns the known events that a deletion by their author names, but for those that the owner signed, installed
// or kept.
func (s *Step) deleted(e nostr.Event) []nostr.ID {
	return slices.DeleteFunc(named(e), func(id nostr.ID) bool {
		author, known := s.library.Author(id)
		return !known || author != e.PubKey || s.fold.holds(id)
	})
}

// named returns the ids that a deletion names.
func named(e nostr.Event) (ids []nostr.ID) {
	for tag := range e.Tags.FindAll("e") {
		if id, err := nostr.IDFromHex(tag[1]); err == nil && len(ids) < maxDeleted {
			ids = append(ids, id)
		}
	}
	return ids
}
