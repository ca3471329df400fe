package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/nip90"
)

// oldest is the age at which a request without a deadline is too old to start.
const oldest = time.Hour

// Observe takes a request (5000-5999) from a relay. It works on it, makes an offer, or refuses. The error is a
// *guild.DropError if nothing was recorded and no offer made.
func (w *Work) Observe(ctx context.Context, from string, v guild.Verified) error {
	e := v.Event()
	if _, known := w.fold.request(e.ID); known || w.refused.has(e.ID) {
		return nil // relays send it again
	}
	if len(w.services) == 0 {
		return guild.Drop(guild.Misdirected, "we offer nothing")
	}
	received := fact.RequestReceived{Request: e.ID, Customer: e.PubKey, Event: e, From: from}
	if bits := w.leastWork(); difficulty(e) < bits && e.Tags.FindWithValue("p", w.c.PubKey.Hex()) != nil {
		received.Encrypted = isEncrypted(e)
		return w.turnDown(ctx, received, tooLittle(bits, e))
	}
	r, err := nip90.ParseRequest(e, nip90.OpenWith(ctx, w.c.Keyer))
	if err != nil {
		if first := e.Tags.Find("p"); first == nil || first[1] != w.c.PubKey.Hex() {
			return guild.Drop(guild.Malformed, "%v", err) // it may be encrypted for somebody else
		}
		received.Encrypted = isEncrypted(e)
		return w.turnDown(ctx, received, refuse(guild.Malformed, "this request cannot be read: %v", err))
	}
	if !r.Asks(w.c.PubKey) {
		return guild.Drop(guild.Misdirected, "request %.8s is for somebody else", e.ID.Hex())
	}
	deadline := w.deadline(e, r)
	if !deadline.After(w.c.Now()) {
		return guild.Drop(guild.Late, "request %.8s ended %s", e.ID.Hex(), deadline)
	}
	received.Task, received.Kind, received.Job, received.Key = r.Get(nip90.ParamJobType), r.Kind, r.Job, r.Get(nip90.ParamIdempotencyKey)
	received.Prepaid, received.Onchain = r.Get(nip90.ParamSettle) == "prepaid", r.Get(nip90.ParamSettle) == "onchain"
	received.Encrypted, received.Relays, received.Deadline = r.Encrypted != "", r.Relays, deadline.UnixMilli()
	received.Hold, received.Arbiter = nip90.HoldOf(r.Extra), nip90.ArbiterOf(r.Extra)
	received.Payout = r.Payout()
	if r.Solicits() || r.Provider == nil && !w.worksUnasked(r) {
		return w.offer(received, r)
	}
	return w.receive(ctx, received, r)
}

// farthest bounds the time to a deadline. A later deadline is replaced by this one.
const farthest = 24 * time.Hour

// deadline returns when the work on a request must end: when its customer says, or an hour after it was signed.
func (w *Work) deadline(e nostr.Event, r nip90.Request) time.Time {
	if said := r.Deadline(); !said.IsZero() {
		if latest := w.c.Now().Add(farthest); said.After(latest) {
			return latest
		}
		return said
	}
	return e.CreatedAt.Time().Add(oldest)
}

// receive records a request as ours to work on, or tells the customer why not. A refusal at this point is no fact, so
// that strangers cannot fill the journal. Requests are received one at a time: two of them cannot both take the last
// place in the queue, and one cannot miss that it repeats the other.
func (w *Work) receive(ctx context.Context, received fact.RequestReceived, r nip90.Request) error {
	id := received.Request
	s, ok := w.service(received.Task, r.Kind)
	if !ok {
		return w.turnDown(ctx, received, refuse(guild.Misdirected, "this provider does not offer the task %q in kind %d", guild.Cut(received.Task, 80), r.Kind))
	}
	received.Service, received.Task = s.D, cmp.Or(received.Task, s.Task)
	w.receiving.Lock()
	defer w.receiving.Unlock()
	if refused := w.admit(s, received.Event, r); refused != nil {
		return w.turnDown(ctx, received, refused)
	}
	err := w.c.Journal.Do(ctx, fact.RequestSubject(id), id.Hex(), func(tx *journal.Tx) error {
		if _, known := w.fold.request(id); known {
			return nil
		}
		received.Repeats = w.fold.standing(received.Customer, received.Key)
		tx.Append(received)
		if received.Repeats == (nostr.ID{}) && !w.wantsMoney(s) {
			due.Claim(tx, doing(id), w.c.Node)
		}
		return nil
	})
	if errors.Is(err, journal.ErrTooLarge) {
		return w.turnDown(ctx, received, refuse(guild.Malformed, "the request is too large: send the bundle by URL"))
	}
	if err != nil {
		return fmt.Errorf("request %.8s: %w", id.Hex(), err)
	}
	return nil
}

// check returns an error if a request has no usable bundle, content, vault or inputs.
func (w *Work) check(r nip90.Request) error {
	if n := len(r.Get(nip90.ParamIdempotencyKey)); n > maxKey {
		return fmt.Errorf("the %s has %d bytes, and %d are enough", nip90.ParamIdempotencyKey, n, maxKey)
	}
	_, err := r.Bundle()
	switch {
	case isPlain(r):
	case errors.Is(err, nip90.ErrNoBundle):
		return errors.New("there is nothing to do: no input, no content and no bundle")
	case err != nil:
		return err
	}
	if _, err := r.Vault(); err != nil {
		return err
	}
	return w.checkInputs(r)
}

// ObserveDeletion takes a kind 5 event by which a customer withdraws its request.
func (w *Work) ObserveDeletion(ctx context.Context, v guild.Verified) error {
	e := v.Event()
	for _, t := range e.Tags {
		if len(t) < 2 || t[0] != "e" {
			continue
		}
		id, err := nostr.IDFromHex(t[1])
		if r, ok := w.fold.request(id); err == nil && ok && r.Customer == e.PubKey && r.Ending == "" && !r.Withdrew {
			if !w.limits.allowIdle(e.PubKey, w.c.Now()) {
				return guild.Drop(guild.Flood, "too many requests are taken back: %.8s is worked on", id.Hex())
			}
			return w.cancelled(ctx, id, e)
		}
	}
	return guild.Drop(guild.Misdirected, "deletion of no request that we work on")
}

func (w *Work) cancelled(ctx context.Context, id nostr.ID, e nostr.Event) error {
	err := w.c.Journal.Do(ctx, fact.RequestSubject(id), e.ID.Hex(), func(tx *journal.Tx) error {
		if r, ok := w.fold.request(id); ok && r.Ending == "" && !r.Withdrew {
			tx.Append(fact.RequestCancelled{Request: id, Unpaid: w.awaitsMoney(r)}, fact.EffectSettled{Effect: doing(id)})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cancel request %.8s: %w", id.Hex(), err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if one, runs := w.running[id]; runs {
		one.stop()
	}
	return nil
}
