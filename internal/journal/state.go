package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// state is the chain and the folds. Entries are applied one at a time, in order, under one lock, by whichever goroutine has the
// next entry first. That is usually the caller of Do that appended it: a goroutine of its own for the folds would cost each
// decision two context switches.
type state struct {
	appended func(fact.Entry) // may be nil
	moved    func()           // called after entries were appended, and after a stop
	at       atomic.Uint64    // the last sequence applied

	mu       sync.Mutex // held while an entry is applied
	chain    *chain
	folds    []*follower
	waiting  map[uint64]message // entries that were offered before an earlier one
	err      error              // why nothing is applied any more
	advanced chan struct{}      // closed when entries were applied; nil if nobody waits
	watchers map[chan struct{}]bool
}

// follower is a fold and the last entry that it has.
type follower struct {
	fold fold.Fold
	seq  uint64
}

func newState(folds []fold.Fold, appended func(fact.Entry), moved func()) *state {
	s := &state{
		appended: appended,
		moved:    moved,
		chain:    &chain{},
		waiting:  make(map[uint64]message),
		watchers: make(map[chan struct{}]bool),
	}
	for _, f := range folds {
		s.folds = append(s.folds, &follower{fold: f})
	}
	return s
}

// read decodes a stored entry. Without keys, encrypted members stay zero.
func (k *keys) read(seq uint64, subject fact.Subject, data []byte) (message, error) {
	var decrypt func([]byte) ([]byte, error)
	if k != nil {
		decrypt = func(sealed []byte) ([]byte, error) { return k.open(subject, sealed) }
	}
	e, err := fact.Decode(data, decrypt)
	if errors.Is(err, errNoKey) {
		return message{}, damaged("entry %d: %v", seq, err)
	}
	if err != nil {
		return message{}, fmt.Errorf("entry %d of %s: %w", seq, subject, err)
	}
	e.Seq, e.Subject, e.Hash = seq, subject, guild.Sum(data)
	return message{seq: seq, subject: subject, data: data, entry: e}, nil
}

// replay applies an entry of the history to the chain and the folds that do not have it from a snapshot.
func (s *state) replay(m message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.seq > s.chain.last {
		if err := s.chain.follows(m); err != nil {
			return err
		}
		s.chain.add(m)
	}
	s.apply(m.entry)
	return nil
}

// apply gives an entry to the folds that do not have it.
func (s *state) apply(e fact.Entry) {
	for _, f := range s.folds {
		if e.Seq > f.seq {
			f.fold.Apply(e)
			f.seq = e.Seq
		}
	}
	s.at.Store(s.chain.last)
}

// offer applies an entry, or keeps it until those before it were offered.
func (s *state) offer(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || m.seq <= s.chain.last {
		return
	}
	if m.seq > s.chain.last+1 {
		s.waiting[m.seq] = m
		return
	}
	for ok := true; ok && s.err == nil; {
		s.advance(m)
		m, ok = s.waiting[s.chain.last+1]
		delete(s.waiting, m.seq)
	}
	s.announce()
}

// advance applies the next entry.
func (s *state) advance(m message) {
	if err := s.chain.fits(m); err != nil {
		s.err = err
		return
	}
	s.chain.add(m)
	s.apply(m.entry)
	if s.appended != nil {
		s.appended(m.entry)
	}
}

// announce wakes everybody who waits for a change.
func (s *state) announce() {
	if s.advanced != nil {
		close(s.advanced)
		s.advanced = nil
	}
	for ch := range s.watchers {
		select {
		case ch <- struct{}{}:
		default: // there is a value in it already
		}
	}
	s.moved()
}

// stop ends the applying of entries, with the reason.
func (s *state) stop(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		s.announce()
	}
}

// reach waits until the entry seq is folded.
func (s *state) reach(ctx context.Context, seq uint64) error {
	for {
		advanced, err := s.reached(seq)
		if advanced == nil {
			return err
		}
		select {
		case <-advanced:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// reached returns a channel to wait for if the entry seq is not folded and may still be.
func (s *state) reached(seq uint64) (<-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.chain.last >= seq {
		return nil, nil
	}
	if s.err != nil {
		return nil, s.err
	}
	if s.advanced == nil {
		s.advanced = make(chan struct{})
	}
	return s.advanced, nil
}

// tip returns the last entry under a guard and the latest time of all entries. The error says why nothing can be appended
// under the guard; the other results are valid all the same.
func (s *state) tip(guard fact.Subject) (t tip, latest int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.err
	if err == nil && s.chain.held.Has(guard) {
		err = &quarantinedError{guard, s.chain.closed(guard)}
	}
	return s.chain.tips.Of(guard), s.chain.at, err
}

// explained is chain.explained.
func (s *state) explained() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chain.explained()
}

// position returns the last entry and the root of the tree through it.
func (s *state) position() (seq uint64, root guild.Hash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chain.last, s.chain.root()
}

// newest returns the last entry and its leaf.
func (s *state) newest() (seq uint64, leaf guild.Hash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chain.last, s.chain.leaf
}

func (s *state) last() uint64 { return s.at.Load() }

// subscribe adds a watcher.
func (s *state) subscribe() (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers[ch] = true
	return ch, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, ch)
	}
}
