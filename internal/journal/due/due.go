// Package due acts on the world for the steps. A step's state says what is due, as a pure function; the runner
// claims it (a fact), acts, and appends what came of it (a fact). A claim that ends without a result is due
// again; the number of claims is the number of tries, and one too many parks the effect before it is tried. A
// process dies of many things and seldom of what it was about to do, so a try that ended with its process weighs
// less than one that failed. What is due under a guard in quarantine is left alone. It owns the facts
// effect.claimed, effect.settled and effect.parked, and knows nothing of what an effect means.
package due

import (
	"context"
	"errors"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/journal"
	"guild/internal/journal/fact"
)

// Work is one thing that a state makes due.
type Work struct {
	Key   string       // what it is, the same for every try: "publish <event id>"
	Guard fact.Subject // the boundary its facts are decided under
	Ready time.Time    // not before; zero is at once
	Class string       // what it shares a limit on concurrency with; "" has none

	// Act does it, and returns the decision that records what came of it. An error is a failed try.
	Act func(ctx context.Context) (Decision, error)

	// Free marks what may be done any number of times without harm, such as computing or signing. No claim is
	// kept for it, and it is tried until it succeeds or the state changes.
	Free bool

	Tries  int                                 // failures that park it; 4 if zero
	Deaths int                                 // of the process during it, that park it; 25 if zero
	Lease  time.Duration                       // how long a claim holds against other nodes; a minute if zero
	Park   func(tx *journal.Tx, reason string) // what parking means to the step; nil: nothing more
}

// ErrLater is matched by the error of an act that could not even be tried: what it needs is not there for anybody,
// such as any relay at all. That is not counted as a failure, and the claim stays as it is. So it is with an act that
// had to decide under a guard in quarantine.
var ErrLater = errors.New("not possible now")

// Decision appends facts after looking at the state once more; it may be called several times.
type Decision func(tx *journal.Tx) error

// Source is a step's pure function from its state to what is due, the most urgent first.
type Source func(now time.Time) []Work

// Decide makes work that only decides, and acts on nothing.
func Decide(key string, guard fact.Subject, ready time.Time, d Decision) Work {
	return Work{Key: key, Guard: guard, Ready: ready, Free: true,
		Act: func(context.Context) (Decision, error) { return d, nil }}
}

// Claim appends a claim on an effect in the very decision that makes it due, which saves a decision later.
func Claim(tx *journal.Tx, key, node string) {
	tx.Append(fact.EffectClaimed{Effect: key, Node: node, Until: tx.Now().Add(lease).UnixMilli()})
}

const (
	lease  = time.Minute
	tries  = 4
	deaths = 25
)

// Publishing is the key of the effect that publishes an event.
func Publishing(event nostr.ID) string { return "publish " + event.Hex() }
