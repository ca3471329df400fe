// Package due performs the effects of the steps on the world. What is due is a pure function of a step's state. The runner claims
// an effect (a fact), acts, and appends the result (a fact). If a claim ends without a result, because its process died or the
// act failed, the effect is due again.
//
// There is one claim for each try, and an effect that was tried too often is parked. A try that ended with its process counts
// less than one that failed, since a process seldom dies of what it is doing. Effects under a guard in quarantine are not
// touched: they may have been done already, by an entry that is lost.
//
// Most sources list everything that is due after each change. For steps with many guards that would cost more with each open
// job, so a Large source is asked about the guards that changed and those whose time has come.
//
// The package owns the facts effect.claimed, effect.renewed, effect.settled and effect.parked. It does not know what an effect
// means.
package due

import (
	"cmp"
	"context"
	"errors"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/journal"
	"guild/internal/journal/fact"
)

// Work is an effect or a decision that is due.
type Work struct {
	Key   string       // identifies it, the same for every try: "publish <event id>"
	Guard fact.Subject // of its facts
	Of    fact.Subject // the guard under which a Large source lists it, if that is not Guard
	Ready time.Time    // the earliest time; zero for now
	Class string       // works of one class share a limit on concurrency; "" has none

	// Act performs it and returns the decision that records the result. An error is a failed try.
	Act func(ctx context.Context) (Decision, error)

	// Free marks work that can be repeated without harm, such as computing or signing. It is not claimed, and is tried until it
	// succeeds or is not due any more.
	Free bool

	Tries  int                                 // failures after which it is parked; 4 if zero
	Deaths int                                 // of the process during it, after which it is parked; 25 if zero
	Lease  time.Duration                       // of a claim, against other nodes; a minute if zero
	Park   func(tx *journal.Tx, reason string) // adds facts of the step when it is parked; may be nil
}

// ErrLater is for an Act that could not even try, because something is missing that has nothing to do with this effect: there is
// no relay at all, say. The try does not count as a failure, and the claim stays valid. The same holds for an act that had to
// decide under a guard in quarantine.
var ErrLater = errors.New("not possible now")

// Decision reads the state again and appends facts. It may be called several times.
type Decision func(tx *journal.Tx) error

// of returns the guard under which the work is listed.
func (w Work) of() fact.Subject { return cmp.Or(w.Of, w.Guard) }

// Source returns what is due by the state of a step, the most urgent first. It has no effects.
type Source func(now time.Time) []Work

// Decide returns work that only takes a decision.
func Decide(key string, guard fact.Subject, ready time.Time, d Decision) Work {
	return Work{Key: key, Guard: guard, Ready: ready, Free: true,
		Act: func(context.Context) (Decision, error) { return d, nil }}
}

// Claim claims an effect in the same decision that makes it due, which saves a second decision.
func Claim(tx *journal.Tx, key, node string) {
	tx.Append(fact.EffectClaimed{Effect: key, Node: node, Until: tx.Now().Add(lease).UnixMilli()})
}

const (
	lease  = time.Minute
	tries  = 4
	deaths = 25
)

// Publishing returns the key of the effect that publishes an event.
func Publishing(event nostr.ID) string { return "publish " + event.Hex() }
