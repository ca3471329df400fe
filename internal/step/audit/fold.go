package audit

import (
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// Fold holds the latest seal, and the first entry that it does not cover.
type Fold struct{ *fold.State[state] }

type state struct {
	Last   *Sealed `json:"last"`
	First  uint64  `json:"first"`  // an entry that Last does not cover and that is not about seals; 0 if there is none
	Since  int64   `json:"since"`  // its time in Unix ms
	Latest uint64  `json:"latest"` // the last entry that is not about seals
}

// Sealed is a seal of the journal.
type Sealed struct {
	Entry  uint64      `json:"entry"` // the entry that contains it
	At     int64       `json:"at"`    // Unix ms
	Size   uint64      `json:"size"`  // entries that it covers
	Root   guild.Hash  `json:"root"`
	Event  nostr.Event `json:"event"`
	Relays []string    `json:"relays,omitempty"` // relays that took it
}

// NewFold returns an empty fold.
func NewFold() *Fold { return &Fold{fold.NewState[state]("audit", 2)} }

// Last returns the latest seal, if there is one.
func (f *Fold) Last() (Sealed, bool) {
	s := f.view()
	if s.Last == nil {
		return Sealed{}, false
	}
	return *s.Last, true
}

func (f *Fold) view() state { return fold.Read(f.State, func(s *state) state { return *s }) }

// size returns the number of entries that the latest seal covers.
func (s state) size() uint64 {
	if s.Last == nil {
		return 0
	}
	return s.Last.Size
}

// open reports whether a seal of size entries would cover a new entry that is not about seals.
func (s state) open(size uint64) bool { return s.First != 0 && s.First <= size && size > s.size() }

// Apply implements fold.Fold. Entries about seals do not make another seal due, because otherwise each seal would make
// the next one due.
func (f *Fold) Apply(e fact.Entry) { f.Change(func(s *state) { s.apply(e) }) }

// apply folds one entry. Since is kept from the first unsealed entry on, so that a restart does not delay the next
// seal.
func (s *state) apply(e fact.Entry) {
	if e.Subject != fact.SealSubject {
		for _, one := range e.Facts {
			if repaired, ok := one.(fact.JournalRepaired); ok {
				s.repaired(repaired)
			}
		}
		s.Latest = e.Seq
		if s.First == 0 {
			s.First, s.Since = e.Seq, e.At
		}
		return
	}
	for _, one := range e.Facts {
		switch one := one.(type) {
		case fact.JournalSealed:
			s.Last = &Sealed{Entry: e.Seq, At: e.At, Size: one.Size, Root: one.Root, Event: one.Event}
			s.First, s.Since = 0, 0
			if s.Latest > one.Size { // appended while the seal was signed; the fold no longer knows the first of them
				s.First, s.Since = s.Latest, e.At
			}
		case fact.SealPublished:
			if s.Last != nil && s.Last.Event.ID == one.Seal {
				published := *s.Last
				published.Relays = one.Relays
				s.Last = &published
			}
		}
	}
}

// repaired forgets the seal if entries that it covers are gone: nothing can be proven by it any more.
func (s *state) repaired(r fact.JournalRepaired) {
	if slices.ContainsFunc(r.Dropped, func(seq uint64) bool { return seq <= s.size() }) {
		s.Last = nil
	}
}
