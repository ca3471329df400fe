package meet

import (
	"guild/internal/fact"
)

// Fold is the state of every meeting.
type Fold struct{}

// NewFold returns an empty fold.
func NewFold() *Fold { return &Fold{} }

// Name implements fold.Fold.
func (*Fold) Name() string { return "meet" }

// Version implements fold.Fold.
func (*Fold) Version() int { return 1 }

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {}

// Snapshot implements fold.Fold.
func (f *Fold) Snapshot() ([]byte, error) { return []byte("{}"), nil }

// Restore implements fold.Fold.
func (f *Fold) Restore(b []byte) error { return nil }
