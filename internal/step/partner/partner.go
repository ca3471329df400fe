// Package partner is the step that decides about providers. It owns the state of each service (the fact
// provider.moved). It moves a service along the table in provider.go of the vocabulary, by the results of attempts and
// meetings, by a person's orders and by the passing of time, and lists the benchmarks that are due. It also measures
// how each service answers (Observed). It does not read announcements, which package registry does, and sends nothing
// to providers.
package partner

import (
	"cmp"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/market/registry"
)

// Config configures Partners.
type Config struct {
	Journal  *journal.Journal
	Now      func() time.Time
	Latest   func(registry.ID) registry.Latest  // returns the latest announcement of a service
	Services func(nostr.PubKey) []guild.Service // returns the services that a key announces

	// Hears returns the time since which the node has been connected to relays, or zero if it is not. If nil, neither
	// silence nor a missing announcement counts against a provider.
	Hears    func() time.Time
	Patience time.Duration // time from then until all announcements should have arrived; default 1 minute
}

// Partners is the step.
type Partners struct {
	c    Config
	fold *Fold
}

// New returns the step on its fold, and has it look at every service anew.
func New(c Config, f *Fold) *Partners {
	c.Patience = cmp.Or(c.Patience, time.Minute)
	f.touchAll()
	return &Partners{c, f}
}
