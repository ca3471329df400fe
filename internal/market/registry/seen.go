package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"fiatjaf.com/nostr"
	"golang.org/x/sync/errgroup"

	"guild"
	"guild/internal/journal"
	"guild/nip89"
)

// sighting is the first of the two lines of JSON that SEEN holds for a service; the second is the announcement as
// received. A deleted service has only the first line. Other events, and announcements written before sightings
// existed, have no first line.
type sighting struct {
	First int64       `json:"first"`          // Unix ms: when the service was first seen
	From  []string    `json:"from,omitempty"` // relays that the announcement came from
	Gone  *retraction `json:"gone,omitempty"`
}

// retraction records that everything announced by a service up to a time was deleted. It names the service by an ID,
// whose length does not depend on that of d.
type retraction struct {
	ID      ID              `json:"id,omitzero"`
	Service guild.Service   `json:"service,omitzero"` // instead of the ID, in old retractions
	Until   nostr.Timestamp `json:"until"`
}

// encode returns a sighting followed by its event, which is given as JSON.
func (s sighting) encode(raw []byte) ([]byte, error) {
	head, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return append(append(head, '\n'), raw...), nil
}

// parseSighting parses the output of encode, a retraction, or an event alone.
func parseSighting(data []byte) (s sighting, e nostr.Event, err error) {
	head, raw, ok := bytes.Cut(data, []byte{'\n'})
	if ok || bytes.HasPrefix(data, []byte(`{"first":`)) {
		err = json.Unmarshal(head, &s)
	} else {
		raw = data
	}
	if err == nil && s.Gone == nil {
		err = e.UnmarshalJSON(raw)
	}
	return s, e, err
}

// keep writes the announcement of a service, given as JSON, to SEEN. The service's order must be held.
func (r *Registry) keep(ctx context.Context, i ID, c *card, raw []byte) error {
	r.mu.RLock()
	from := r.sources.names(c.from)
	r.mu.RUnlock()
	b, err := sighting{First: c.first, From: from}.encode(raw)
	if err != nil {
		return fmt.Errorf("announcement %.8s: %w", c.id.Hex(), err)
	}
	r.mu.Lock()
	if r.index.find(i) == c {
		r.index.stored += len(b) + framing - int(c.stored)
		c.stored = uint32(len(b) + framing)
	}
	r.mu.Unlock()
	return r.c.Journal.See(ctx, seenPrefix+i.place(), b)
}

// keepEvent writes an event to SEEN unchanged.
func (r *Registry) keepEvent(ctx context.Context, place string, e nostr.Event) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("kind %d %.8s: %w", e.Kind, e.ID.Hex(), err)
	}
	return r.c.Journal.See(ctx, seenPrefix+place, raw)
}

const seenPrefix = "registry."

// recall reads SEEN into memory, on all processors. It does not verify the events again: they were verified on arrival.
func (r *Registry) recall(ctx context.Context) error {
	const batch = 256
	readers, ctx := errgroup.WithContext(ctx)
	batches := make(chan []journal.SeenMessage, runtime.GOMAXPROCS(0))
	for range runtime.GOMAXPROCS(0) {
		readers.Go(func() error {
			// Messages come in batches to save channel operations.
			for messages := range batches {
				for _, m := range messages {
					r.remember(m)
				}
			}
			return nil
		})
	}
	readers.Go(func() error {
		defer close(batches)
		var messages []journal.SeenMessage
		for m, err := range r.c.Journal.Seen(ctx, strings.TrimSuffix(seenPrefix, ".")) {
			if err != nil {
				return err
			}
			messages = append(messages, m)
			if len(messages) == batch {
				batches <- messages
				messages = nil
			}
		}
		batches <- messages
		return nil
	})
	return readers.Wait()
}

// remember processes one message of SEEN. The order of the messages does not matter.
func (r *Registry) remember(m journal.SeenMessage) {
	s, e, err := parseSighting(m.Data)
	if err != nil {
		return
	}
	if s.Gone != nil {
		i := s.Gone.ID
		if i == (ID{}) {
			i = IDOf(s.Gone.Service)
		}
		r.mu.Lock()
		r.retract(i, s.Gone.Until)
		r.mu.Unlock()
		return
	}
	if s.First == 0 {
		s.First = m.At.UnixMilli()
	}
	switch e.Kind {
	case Kind:
		r.rememberCard(e, s, m)
	case KindRelays:
		r.mu.Lock()
		r.lists.put(e, r.reads(e)) // see pruneLists
		r.mu.Unlock()
	case KindRecommendation:
		key, one, err := r.parsePraise(e)
		if err != nil {
			return // its author is no longer followed
		}
		r.mu.Lock()
		r.praise.put(key, one) // on an error it is outdated, or one too many
		r.mu.Unlock()
	case KindDeletion:
		// It may be of announcements too: an old version kept the events themselves.
		services, praises := r.targets(e)
		r.mu.Lock()
		for _, t := range services {
			r.retract(IDOf(t.service), t.until)
		}
		for _, key := range praises {
			r.praise.remove(key, e)
		}
		r.mu.Unlock()
	}
}

// rememberCard processes an announcement from SEEN. If there is no room for it, it is dropped from SEEN too.
func (r *Registry) rememberCard(e nostr.Event, s sighting, m journal.SeenMessage) {
	h, err := nip89.Parse(e)
	if err != nil {
		return
	}
	service := h.Service()
	c := &card{pubkey: e.PubKey, id: e.ID, d: service.D, packed: summarize(h, r.relays(h.Relays, maxNamed)).pack(),
		at: e.CreatedAt, first: s.First, stored: uint32(len(m.Data) + framing), work: workOf(e)}
	i := IDOf(service)
	if len(m.Data) > mostOfStranger { // the message contains the event, so a shorter one needs no check
		_, err = r.fitting(i, e)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, url := range s.From[:min(len(s.From), maxFrom)] {
		c.note(r.sources.number(url))
	}
	if err == nil {
		_, err = r.put(i, c, "")
	}
	if drop, ok := errors.AsType[*guild.DropError](err); ok && drop.Reason != guild.Outdated {
		r.left = append(r.left, leftover{i, strings.TrimPrefix(m.Subject, seenPrefix)})
	}
}
