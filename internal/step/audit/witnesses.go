package audit

import (
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// Bounds on questions and journals.
const (
	maxAsks     = 3 // questions to a provider about the latest entry of its, one for each seal, and answers to them
	maxJournals = 4 // journals of one customer that we countersign

	between = 60_000 // ms between two countersignatures for one journal, at least
)

// Witnesses is the fold of countersignatures: those of our seals by our providers, and ours of our customers' checkpoints.
type Witnesses struct{ *fold.State[witnesses] }

type witnesses struct {
	Wanted fold.Table[string, wanted]      `json:"wanted"` // by the provider's key in hex: those that have to countersign something
	Signed fold.Table[string, Cosigned]    `json:"signed"` // by the same: the latest seal that it has countersigned
	Seen   fold.Table[string, []seen]      `json:"seen"`   // by the customer's key in hex: the latest of each journal; never changed in place
	Unsent fold.Table[string, countersign] `json:"unsent"` // ours that no relay has yet, by the event's id in hex
}

// wanted is a provider that has not yet countersigned a seal that covers all its receipts.
type wanted struct {
	Provider nostr.PubKey `json:"provider"`
	Entry    uint64       `json:"entry"`   // the latest that records a receipt of its
	Attempt  nostr.ID     `json:"attempt"` // of that receipt
	Asks     int          `json:"asks"`    // questions since that entry
	Asked    []Cosigned   `json:"asked"`   // seals without an answer, at most maxAsks, the latest last; never changed in place
}

// Cosigned is a seal of ours with the countersignature of a provider, which is zero before it has answered.
type Cosigned struct {
	Size       uint64      `json:"size"` // entries that the seal covers
	Root       guild.Hash  `json:"root"`
	Checkpoint nostr.Event `json:"checkpoint"`
	Event      nostr.Event `json:"event,omitzero"`
}

// seen is the latest checkpoint of one journal that we have countersigned.
type seen struct {
	Journal string     `json:"journal"`
	Size    uint64     `json:"size"`
	Root    guild.Hash `json:"root"`
	Times   int        `json:"times"` // checkpoints that we have countersigned for the receipt that this covers
	At      int64      `json:"at"`    // Unix ms when we did
}

type countersign struct {
	Event  nostr.Event `json:"event"`
	Relays []string    `json:"relays"`
}

// NewWitnesses returns an empty fold.
func NewWitnesses() *Witnesses { return &Witnesses{fold.NewState[witnesses]("witnesses", 1)} }

// Of returns the latest seal that a provider has countersigned, if there is one.
func (f *Witnesses) Of(provider nostr.PubKey) (c Cosigned, ok bool) {
	f.View(func(s *witnesses) { c, ok = s.Signed.Get(provider.Hex()) })
	return c, ok
}

// wanted returns the providers that have to be asked about a seal.
func (f *Witnesses) wanted(last Sealed) (all []wanted) {
	f.View(func(s *witnesses) {
		for _, w := range s.Wanted.All() {
			if w.ask(last) {
				all = append(all, w)
			}
		}
	})
	return all
}

// ask reports whether the provider is to be asked about a seal.
func (w wanted) ask(last Sealed) bool {
	asked := slices.ContainsFunc(w.Asked, func(c Cosigned) bool { return c.Size >= last.Size })
	return w.Entry != 0 && w.Entry <= last.Size && w.Asks < maxAsks && !asked
}

func (f *Witnesses) of(provider nostr.PubKey) wanted {
	return fold.Read(f.State, func(s *witnesses) wanted { return s.Wanted.Of(provider.Hex()) })
}

// seen returns the latest checkpoint of a customer's journal that we have countersigned, and how many journals of the
// customer are known.
func (f *Witnesses) seen(customer nostr.PubKey, journal string) (last seen, known bool, journals int) {
	all := fold.Read(f.State, func(s *witnesses) []seen { return s.Seen.Of(customer.Hex()) })
	i := slices.IndexFunc(all, func(one seen) bool { return one.Journal == journal })
	if i < 0 {
		return seen{}, false, len(all)
	}
	return all[i], true, len(all)
}

func (f *Witnesses) unsent() (all []countersign) {
	f.View(func(s *witnesses) {
		for _, one := range s.Unsent.All() {
			all = append(all, one)
		}
	})
	return all
}

// Apply implements fold.Fold.
func (f *Witnesses) Apply(e fact.Entry) {
	if e.Subject != fact.SealSubject && e.Subject.Noun() != "job" {
		return
	}
	f.Change(func(s *witnesses) {
		for _, one := range e.Facts {
			s.apply(one, e.Seq, e.At)
		}
	})
}

func (s *witnesses) apply(one fact.Fact, seq uint64, at int64) {
	switch one := one.(type) {
	case fact.AttemptRecorded:
		if one.Receipt != "" && one.Provider != nostr.ZeroPK {
			w := s.Wanted.Of(one.Provider.Hex())
			s.Wanted.Set(one.Provider.Hex(), wanted{Provider: one.Provider, Entry: seq, Attempt: one.Attempt, Asked: w.Asked})
		}
	case fact.WitnessAsked:
		w := s.Wanted.Of(one.Provider.Hex())
		w.Asks++
		asked := append(slices.Clone(w.Asked), Cosigned{Size: one.Size, Root: one.Root, Checkpoint: one.Checkpoint})
		w.Asked = asked[max(0, len(asked)-maxAsks):]
		s.Wanted.Set(one.Provider.Hex(), w)
	case fact.SealWitnessed:
		s.witnessed(one)
	case fact.CheckpointWitnessed:
		customer := one.Customer.Hex()
		all, now := slices.Clone(s.Seen.Of(customer)), seen{Journal: one.Journal, Size: one.Size, Root: one.Root, Times: 1, At: at}
		if i := slices.IndexFunc(all, func(old seen) bool { return old.Journal == one.Journal }); i < 0 {
			all = append(all, now)
		} else {
			if one.Entry < all[i].Size { // another answer about the same receipt
				now.Times += all[i].Times
			}
			all[i] = now
		}
		s.Seen.Set(customer, all)
		s.Unsent.Set(one.Event.ID.Hex(), countersign{one.Event, one.Relays})
	case fact.WitnessPublished:
		s.Unsent.Delete(one.Event.Hex())
	}
}

// witnessed notes a countersignature, and drops the questions that it answers.
func (s *witnesses) witnessed(one fact.SealWitnessed) {
	provider := one.Provider.Hex()
	w := s.Wanted.Of(provider)
	i := slices.IndexFunc(w.Asked, func(c Cosigned) bool { return c.Size == one.Size })
	if i < 0 {
		return
	}
	signed := w.Asked[i]
	signed.Event = one.Event
	s.Signed.Set(provider, signed)
	if w.Entry <= one.Size {
		s.Wanted.Delete(provider)
		return
	}
	w.Asked = slices.Clone(w.Asked[i+1:])
	s.Wanted.Set(provider, w)
}
