package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/due"
	"guild/internal/fact"
	"guild/internal/journal"
	"guild/nip90"
)

// oldest is the age beyond which a request without a deadline is not worth starting.
const oldest = time.Hour

// Observe takes a request (5000-5999) from a relay. What changes nothing is a *guild.DropError.
func (w *Work) Observe(ctx context.Context, from string, v guild.Verified) error {
	e := v.Event()
	if _, known := w.fold.request(e.ID); known {
		return nil // a relay sends it again
	}
	if len(w.services) == 0 {
		return guild.Drop(guild.Misdirected, "we offer nothing")
	}
	r, err := nip90.ParseRequest(e, nip90.OpenWith(ctx, w.c.Keyer))
	if err != nil {
		return guild.Drop(guild.Malformed, "%v", err)
	}
	if r.Provider == nil || *r.Provider != w.c.PubKey {
		return guild.Drop(guild.Misdirected, "request %.8s is for somebody else", e.ID.Hex())
	}
	deadline := w.deadline(e, r)
	if !deadline.After(w.c.Now()) {
		return guild.Drop(guild.Late, "request %.8s ended %s", e.ID.Hex(), deadline)
	}
	return w.receive(ctx, from, e, r, deadline)
}

// farthest is how far ahead a deadline counts, whatever the customer says.
const farthest = 24 * time.Hour

func (w *Work) deadline(e nostr.Event, r nip90.Request) time.Time {
	if said := r.Deadline(); !said.IsZero() {
		if latest := w.c.Now().Add(farthest); said.After(latest) {
			return latest
		}
		return said
	}
	return e.CreatedAt.Time().Add(oldest)
}

// receive takes the request on, or tells the customer why not. What we refuse at once is no fact: strangers must
// not be able to fill the journal.
func (w *Work) receive(ctx context.Context, from string, e nostr.Event, r nip90.Request, deadline time.Time) error {
	task := r.Get(nip90.ParamJobType)
	s, ok := w.service(task, r.Kind)
	switch {
	case !ok:
		w.decline(ctx, from, e, r, fmt.Sprintf("this provider does not offer the task %q in kind %d", task, r.Kind))
		return guild.Drop(guild.Misdirected, "task %.80q of kind %d", task, r.Kind)
	case w.Draining() || w.fold.waiting(s.D) >= s.Slots+s.Queue:
		w.decline(ctx, from, e, r, "at capacity, try again later")
		return guild.Drop(guild.Flood, "the queue of %q is full", s.D)
	}
	if err := check(r); err != nil {
		w.decline(ctx, from, e, r, err.Error())
		return guild.Drop(guild.Malformed, "request %.8s: %v", e.ID.Hex(), err)
	}
	received := fact.RequestReceived{
		Request: e.ID, Customer: e.PubKey, Task: task, Service: s.D, Kind: r.Kind, Job: r.Job, Event: e,
		Encrypted: r.Encrypted != "", Relays: r.Relays, From: from, Deadline: deadline.UnixMilli(),
	}
	err := w.c.Journal.Do(ctx, fact.RequestSubject(e.ID), e.ID.Hex(), func(tx *journal.Tx) error {
		if _, known := w.fold.request(e.ID); known {
			return nil
		}
		tx.Append(received)
		due.Claim(tx, doing(e.ID), w.c.Node)
		return nil
	})
	if errors.Is(err, journal.ErrTooLarge) {
		w.decline(ctx, from, e, r, "the request is too large: send the bundle by URL")
		return guild.Drop(guild.Malformed, "request %.8s: %v", e.ID.Hex(), err)
	}
	if err != nil {
		return fmt.Errorf("request %.8s: %w", e.ID.Hex(), err)
	}
	return nil
}

// check says what is wrong with what a request carries.
func check(r nip90.Request) error {
	if _, err := r.Bundle(); err != nil {
		return err
	}
	_, err := r.Vault()
	return err
}

// ObserveDeletion takes a kind 5 event by which a customer takes its request back.
func (w *Work) ObserveDeletion(ctx context.Context, v guild.Verified) error {
	e := v.Event()
	for _, t := range e.Tags {
		if len(t) < 2 || t[0] != "e" {
			continue
		}
		id, err := nostr.IDFromHex(t[1])
		if r, ok := w.fold.request(id); err == nil && ok && r.Customer == e.PubKey && r.Ending == "" && !r.Withdrew {
			return w.cancelled(ctx, id, e)
		}
	}
	return guild.Drop(guild.Misdirected, "deletion of no request that we work on")
}

func (w *Work) cancelled(ctx context.Context, id nostr.ID, e nostr.Event) error {
	err := w.c.Journal.Do(ctx, fact.RequestSubject(id), e.ID.Hex(), func(tx *journal.Tx) error {
		if r, ok := w.fold.request(id); ok && r.Ending == "" && !r.Withdrew {
			tx.Append(fact.RequestCancelled{Request: id}, fact.EffectSettled{Effect: doing(id)})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cancel request %.8s: %w", id.Hex(), err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if stop := w.running[id]; stop != nil {
		stop()
	}
	return nil
}
