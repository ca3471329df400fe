// Package partner is the step that decides about providers. It owns the state of each service (the fact provider.moved):
// from what attempts and meetings come to, from what a person orders and from the passing of time it moves a service along
// the table in provider.go of the vocabulary, and it lists the benchmarks that are due. Beside that it measures how each
// service answers (Observed). What a provider announces is package registry's. It never asks a provider for anything.
package partner

import (
	"cmp"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/market/registry"
)

// Config says what Partners needs.
type Config struct {
	Journal  *journal.Journal
	Now      func() time.Time
	Latest   func(registry.ID) registry.Latest  // what a service announced last
	Services func(nostr.PubKey) []guild.Service // that a key announces

	// Hears returns since when the node has been connected to relays, zero while it is not. Without it a provider's
	// silence, or a missing announcement, means nothing.
	Hears    func() time.Time
	Patience time.Duration // from then on, until all announcements should have come; a minute if zero
}

// Partners decides about providers.
type Partners struct {
	c    Config
	fold *Fold
}

// New returns a step that decides by the fold, and has it look at every service anew.
func New(c Config, f *Fold) *Partners {
	c.Patience = cmp.Or(c.Patience, time.Minute)
	f.touchAll()
	return &Partners{c, f}
}
