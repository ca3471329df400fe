package registry

import (
	"guild"
	"guild/internal/fact"
)

// Observed is what this node has measured of each provider that it asked: the other side of what is announced.
type Observed struct{}

// Measured is what was measured of one service. Times are in milliseconds; what was never seen is zero.
type Measured struct {
	Since     int64 // Unix ms: the first request
	Asked     int   // requests that a relay took
	Answered  int   // of them, those that were heard of at all
	Delivered int
	Accepted  int // deliveries whose verdict was SUCCESS
	Expired   int // silent for too long
	Refused   int
	Faults    int        // answers that broke the protocol
	P50, P95  int64      // request to result
	Quoted    guild.Msat // the latest price asked for
	Encrypted int        // results that came encrypted for encrypted requests
	InClear   int        // and in clear for encrypted ones
	Kinds     []int      // of the requests that were delivered
	Relays    []Path     // by which it was reached, the best first
}

// Path is how well a provider is reached over one relay (the partnership protocol, section 1.4.3).
type Path struct {
	URL          string
	Worked, Lost int
}

// SuccessRate is the share of requests with an end whose delivery was accepted, from 0 to 1; ok is false when none
// has ended.
func (m Measured) SuccessRate() (rate float64, ok bool) { return 0, false }

// NewObserved returns an empty fold.
func NewObserved() *Observed { return &Observed{} }

// Of returns what was measured of a service.
func (o *Observed) Of(s guild.Service) (Measured, bool) { return Measured{}, false }

// Name implements fold.Fold.
func (*Observed) Name() string { return "observed" }

// Version implements fold.Fold.
func (*Observed) Version() int { return 1 }

// Apply implements fold.Fold.
func (o *Observed) Apply(e fact.Entry) {}

// Snapshot implements fold.Fold.
func (o *Observed) Snapshot() ([]byte, error) { return []byte("{}"), nil }

// Restore implements fold.Fold.
func (o *Observed) Restore(b []byte) error { return nil }
