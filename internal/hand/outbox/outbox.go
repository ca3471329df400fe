// Package outbox signs the events of a step and keeps them in memory until they are published, so that a process need not
// verify events that it signed itself. It publishes nothing and stores nothing: after a restart our own events are verified
// like all others.
package outbox

import (
	"context"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
)

// most is the number of events that are kept. Some are signed and never published, because the decision to publish was
// overtaken by another one.
const most = 256

// Outbox holds the events that one step has signed.
type Outbox struct {
	keyer nostr.Keyer
	now   func() time.Time // stamps events

	mu     sync.Mutex
	signed map[nostr.ID]guild.Verified
	order  []nostr.ID // the oldest first; some may be published already
}

// New returns an empty outbox of a key.
func New(keyer nostr.Keyer, now func() time.Time) *Outbox {
	return &Outbox{keyer: keyer, now: now, signed: map[nostr.ID]guild.Verified{}}
}

// Sign dates an event now, signs it and keeps it.
func (o *Outbox) Sign(ctx context.Context, e nostr.Event) (nostr.Event, error) {
	e.CreatedAt = nostr.Timestamp(o.now().Unix())
	return o.SignDated(ctx, e)
}

// SignDated signs an event with the date that it has, and keeps it.
func (o *Outbox) SignDated(ctx context.Context, e nostr.Event) (nostr.Event, error) {
	v, err := guild.Sign(ctx, o.keyer, e)
	if err != nil {
		return nostr.Event{}, err
	}
	e = v.Event()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.signed[e.ID] = v
	if o.order = append(o.order, e.ID); len(o.order) > most {
		delete(o.signed, o.order[0])
		o.order = o.order[1:]
	}
	return e, nil
}

// Own returns one of our events as verified, and forgets it. An event that it does not know is verified first.
func (o *Outbox) Own(e nostr.Event) (guild.Verified, error) {
	o.mu.Lock()
	v, ok := o.signed[e.ID]
	delete(o.signed, e.ID)
	o.mu.Unlock()
	if ok {
		return v, nil
	}
	return guild.Verify(e)
}
