// Package outbox signs the events of a step and remembers them until they are published, so that a process does not
// verify what it signed itself. It publishes nothing and keeps nothing on a disk: an event that it has forgotten is
// verified like anybody's.
package outbox

import (
	"context"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
)

// most is how many events are remembered. Some are signed and never published, because what they are about was decided
// otherwise meanwhile.
const most = 256

// Outbox is what one step has signed.
type Outbox struct {
	keyer nostr.Keyer
	now   func() time.Time // stamps events

	mu     sync.Mutex
	signed map[nostr.ID]guild.Verified
	order  []nostr.ID // the oldest first; it may name what was taken already
}

// New returns an empty outbox of a key.
func New(keyer nostr.Keyer, now func() time.Time) *Outbox {
	return &Outbox{keyer: keyer, now: now, signed: map[nostr.ID]guild.Verified{}}
}

// Sign dates an event now, signs and remembers it.
func (o *Outbox) Sign(ctx context.Context, e nostr.Event) (nostr.Event, error) {
	e.CreatedAt = nostr.Timestamp(o.now().Unix())
	return o.SignDated(ctx, e)
}

// SignDated signs and remembers an event with the date that it has: one that replaces another must be later.
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

// Own returns one of our own events as verified: at once if it is remembered, which it is no more after that.
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
