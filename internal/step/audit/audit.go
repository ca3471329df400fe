// Package audit is the step that seals the journal. At intervals it signs a checkpoint of the Merkle tree over all
// entries (package seal), so that a later change to these entries is detected. It owns the facts journal.sealed and
// seal.published. It also verifies a journal, and proves to others that an entry is in it. It decides nothing about
// jobs, and publishes seals only if the owner wants that.
//
// A provider countersigns published seals of its customers that cover its jobs (facts checkpoint.witnessed and
// witness.published). The customer asks for that in a private message, and keeps the latest answer of each provider
// (witness.asked, seal.witnessed).
package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/seal"
)

// The reasons why there is no seal.
var (
	ErrEmpty    = errors.New("the journal is empty")
	ErrUnsealed = errors.New("no seal covers it yet")
)

// Config configures the step.
type Config struct {
	Journal *journal.Journal
	Signer  nostr.Signer     // nil if this process cannot sign
	Now     func() time.Time // stamps checkpoints

	Every   time.Duration                                                      // from the first unsealed entry to the next seal; default 1 hour
	Publish func(ctx context.Context, v guild.Verified, relays []string) error // nil error once a relay took the event; optional
	Relays  func() []string                                                    // relays to publish to; required with Publish

	Witness *Witnessing // optional: without it, nothing is countersigned
}

// Step is the step.
type Step struct {
	c    Config
	fold *Fold
}

// New returns the step on its fold.
func New(c Config, f *Fold) *Step {
	if c.Every == 0 {
		c.Every = time.Hour
	}
	return &Step{c, f}
}

// Due lists the latest seal, if no relay has it yet, the next seal, and what is to be sent about countersignatures. It
// implements due.Source.
func (s *Step) Due(time.Time) []due.Work {
	now, work := s.fold.view(), []due.Work(nil)
	if s.c.Publish != nil && now.Last != nil && len(now.Last.Relays) == 0 {
		work = append(work, s.publish(*now.Last))
	}
	if now.First != 0 {
		work = append(work, due.Work{
			Key: fmt.Sprintf("seal the journal after %d", now.size()), Guard: fact.SealSubject, Free: true,
			Ready: time.UnixMilli(now.Since).Add(s.c.Every), Act: s.sign,
		})
	}
	return slices.Concat(work, s.asks(), s.countersignatures())
}

// publish sends a checkpoint to relays. Each try sends the same event.
func (s *Step) publish(l Sealed) due.Work {
	return due.Work{
		Key: due.Publishing(l.Event.ID), Guard: fact.SealSubject,
		Act: func(ctx context.Context) (due.Decision, error) {
			v, err := guild.Verify(l.Event)
			if err != nil {
				return nil, fmt.Errorf("publish a seal: %w", err)
			}
			relays := s.c.Relays()
			if err := s.c.Publish(ctx, v, relays); err != nil {
				return nil, fmt.Errorf("publish the seal of %d entries: %w", l.Size, err)
			}
			return func(tx *journal.Tx) error {
				tx.Append(fact.SealPublished{Seal: l.Event.ID, Relays: relays})
				return nil
			}, nil
		},
	}
}

// sign signs a checkpoint of the journal in its present state, and returns the decision that records it. The decision
// records nothing if another node has sealed the journal meanwhile.
func (s *Step) sign(ctx context.Context) (due.Decision, error) {
	if s.c.Signer == nil {
		return nil, fmt.Errorf("seal the journal: there is no signer: %w", ErrUnsealed)
	}
	size, root, err := s.c.Journal.Tree(ctx)
	if err != nil {
		return nil, fmt.Errorf("seal the journal: %w", err)
	}
	point := seal.Checkpoint{Journal: s.c.Journal.ID(), Size: size, Root: root}
	v, err := guild.Sign(ctx, s.c.Signer, point.Event(s.c.Now().Unix()))
	if err != nil {
		return nil, fmt.Errorf("seal the journal: %w", err)
	}
	return func(tx *journal.Tx) error {
		if s.fold.view().open(size) {
			tx.Append(fact.JournalSealed{Size: size, Root: root, Event: v.Event()})
		}
		return nil
	}, nil
}

// Seal seals the journal now and returns the latest seal. It makes no new one if the latest covers every entry that is
// not about seals.
func (s *Step) Seal(ctx context.Context) (Sealed, error) {
	want := s.fold.view().Latest
	for {
		now := s.fold.view()
		switch {
		case now.Last != nil && (now.First == 0 || now.Last.Size >= want):
			return *now.Last, nil
		case now.First == 0:
			return Sealed{}, fmt.Errorf("seal the journal: %w", ErrEmpty)
		}
		decide, err := s.sign(ctx)
		if err != nil {
			return Sealed{}, err
		}
		// The decision records nothing if another seal came first. The loop then returns that one, or signs again.
		if err := s.c.Journal.Do(ctx, fact.SealSubject, "", decide); err != nil {
			return Sealed{}, fmt.Errorf("seal the journal: %w", err)
		}
	}
}

// Proven is an entry with the proof that it is in a sealed journal.
type Proven struct {
	Seq        uint64      `json:"seq"`
	Entry      string      `json:"entry"` // its subject, a newline, and its JSON as stored
	Proof      seal.Proof  `json:"proof"`
	Checkpoint nostr.Event `json:"checkpoint"`
}

// Prove proves that an entry is in the journal that the latest seal covers. If that does not cover the entry, Prove
// seals the journal first. It returns ErrUnsealed if it cannot sign.
func (s *Step) Prove(ctx context.Context, seq uint64) (Proven, error) {
	p, err := s.prove(ctx, seq)
	if err != nil {
		return Proven{}, fmt.Errorf("prove entry %d: %w", seq, err)
	}
	return p, nil
}

// prove checks the proof against the root of the seal before it returns it. If an entry was changed on the disk since
// it was sealed, that is reported here and not by the reader of the proof.
func (s *Step) prove(ctx context.Context, seq uint64) (Proven, error) {
	if end := s.c.Journal.Last(); seq == 0 || seq > end {
		return Proven{}, fmt.Errorf("the journal has %d: %w", end, journal.ErrNoEntry)
	}
	last, ok := s.fold.Last()
	if !ok || seq > last.Size {
		var err error
		if last, err = s.Seal(ctx); err != nil {
			return Proven{}, err
		}
	}
	if seq > last.Size { // it is about seals, and the next seal will cover it
		return Proven{}, ErrUnsealed
	}
	return s.proveIn(ctx, seq, last)
}

// proveIn proves that an entry is in the journal that a seal covers.
func (s *Step) proveIn(ctx context.Context, seq uint64, last Sealed) (Proven, error) {
	entry, err := s.c.Journal.Stored(ctx, seq)
	if err != nil {
		return Proven{}, err
	}
	proof, err := s.c.Journal.Prove(ctx, seq, last.Size)
	if err != nil {
		return Proven{}, err
	}
	if err := proof.Check(seal.Leaf(entry), last.Root); err != nil {
		return Proven{}, fmt.Errorf("the journal is not the one that was sealed at %d entries: %w", last.Size, err)
	}
	return Proven{Seq: seq, Entry: string(entry), Proof: proof, Checkpoint: last.Event}, nil
}

// ProveTo is like Prove, to the latest seal that a provider has countersigned, if that covers the entry. It also returns the
// countersignature; its event is zero if the proof leads to a seal that the provider has not countersigned.
func (s *Step) ProveTo(ctx context.Context, seq uint64, provider nostr.PubKey) (Proven, nostr.Event, error) {
	if s.c.Witness != nil {
		if c, ok := s.c.Witness.Fold.Of(provider); ok && seq <= c.Size {
			// After a repair the countersigned tree may be gone.
			if p, err := s.proveIn(ctx, seq, Sealed{Size: c.Size, Root: c.Root, Event: c.Checkpoint}); err == nil {
				return p, c.Event, nil
			}
		}
	}
	p, err := s.Prove(ctx, seq)
	return p, nostr.Event{}, err
}

// Consistency is the proof that the tree of a later checkpoint has all entries of an earlier one.
type Consistency struct {
	Proof      seal.Consistency `json:"proof"`
	Checkpoint nostr.Event      `json:"checkpoint,omitzero"` // the later one, if it is the latest seal
}

// ProveConsistency proves that the first from entries of the journal are unchanged among the first to ones. With 0 for to it is
// about the latest seal; if that has fewer entries than from, the journal is sealed before.
func (s *Step) ProveConsistency(ctx context.Context, from, to uint64) (Consistency, error) {
	var g Consistency
	if to == 0 {
		last, ok := s.fold.Last()
		if !ok || from > last.Size {
			var err error
			if last, err = s.Seal(ctx); err != nil {
				return Consistency{}, err
			}
		}
		to, g.Checkpoint = last.Size, last.Event
	}
	var err error
	if g.Proof, err = s.c.Journal.ProveConsistency(ctx, from, to); err != nil {
		return Consistency{}, err
	}
	return g, nil
}
