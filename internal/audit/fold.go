package audit

import (
	"fmt"
	"sync"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/fact"
	"guild/internal/fold"
)

// Fold is the latest seal, and what came after it.
type Fold struct {
	mu    sync.RWMutex
	state state
}

type state struct {
	Last   *Sealed `json:"last"`
	First  uint64  `json:"first"`  // an entry that Last does not cover and that is not about seals; 0 if there is none
	Since  int64   `json:"since"`  // its time, Unix ms
	Latest uint64  `json:"latest"` // the last such entry, covered or not
}

// Sealed is a seal of the journal.
type Sealed struct {
	Entry  uint64      `json:"entry"` // that holds it
	At     int64       `json:"at"`    // Unix ms
	Size   uint64      `json:"size"`  // entries that it covers
	Root   guild.Hash  `json:"root"`
	Event  nostr.Event `json:"event"`
	Relays []string    `json:"relays,omitempty"` // that were given it
}

// NewFold returns an empty fold.
func NewFold() *Fold { return &Fold{} }

// Name implements fold.Fold.
func (*Fold) Name() string { return "audit" }

// Version implements fold.Fold.
func (*Fold) Version() int { return 1 }

// Last is the latest seal, if there is one.
func (f *Fold) Last() (Sealed, bool) {
	s := f.view()
	if s.Last == nil {
		return Sealed{}, false
	}
	return *s.Last, true
}

func (f *Fold) view() state {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.state
}

// size is how many entries the latest seal covers.
func (s state) size() uint64 {
	if s.Last == nil {
		return 0
	}
	return s.Last.Size
}

// open reports whether a seal of so many entries would say something new.
func (s state) open(size uint64) bool { return s.First != 0 && s.First <= size && size > s.size() }

// Apply implements fold.Fold. What is decided about seals is no reason for another one.
func (f *Fold) Apply(e fact.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.Subject != fact.SealSubject {
		if f.state.Latest = e.Seq; f.state.First == 0 {
			f.state.First, f.state.Since = e.Seq, e.At
		}
		return
	}
	for _, one := range e.Facts {
		switch one := one.(type) {
		case fact.JournalSealed:
			f.state.Last = &Sealed{Entry: e.Seq, At: e.At, Size: one.Size, Root: one.Root, Event: one.Event}
			f.state.First, f.state.Since = 0, 0
			if f.state.Latest > one.Size { // decided while the seal was signed; nobody knows the first of them any more
				f.state.First, f.state.Since = f.state.Latest, e.At
			}
		case fact.SealPublished:
			if last := f.state.Last; last != nil && last.Event.ID == one.Seal {
				now := *last
				now.Relays = one.Relays
				f.state.Last = &now
			}
		}
	}
}

// Freeze implements fold.Fold.
func (f *Fold) Freeze() func() ([]byte, error) {
	s := f.view()
	return func() ([]byte, error) { return fold.Encode(s) }
}

// Restore implements fold.Fold.
func (f *Fold) Restore(b []byte) error {
	var s state
	if err := fold.Decode(b, &s); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = s
	return nil
}
