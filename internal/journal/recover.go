package journal

import (
	"context"
	"errors"
	"fmt"

	"guild"
	"guild/internal/fold"
)

// extent is what the server says it stores.
type extent struct{ first, last uint64 }

// extent asks the server what it stores, which is contiguous or damaged.
func (s *store) extent(ctx context.Context) (extent, error) {
	info, err := s.facts.Info(ctx)
	if err != nil {
		return extent{}, fmt.Errorf("stream %s: %w", factsStream, err)
	}
	st := info.State
	if st.NumDeleted != 0 || st.Lost != nil || st.Msgs != st.LastSeq+1-max(st.FirstSeq, 1) {
		return extent{}, damaged("of the entries %d to %d there are %d", st.FirstSeq, st.LastSeq, st.Msgs)
	}
	return extent{max(st.FirstSeq, 1), st.LastSeq}, nil
}

// matches makes sure that what is stored reaches to the entry seq, and that this is the one with the given
// hash. Only what is in an archive is taken on trust.
func (s *store) matches(ctx context.Context, e extent, seq uint64, leaf guild.Hash) error {
	if seq > e.last {
		return damaged("it ends at entry %d, but entry %d was on disk", e.last, seq)
	}
	if seq < e.first {
		return nil
	}
	m, err := s.entry(ctx, seq)
	if errors.Is(err, ErrNoEntry) {
		return damaged("entry %d cannot be read", seq)
	}
	if err != nil {
		return err
	}
	if leafOf(m.subject, m.data) != leaf {
		return damaged("entry %d is another than the one recorded", seq)
	}
	return nil
}

// recover brings the folds up to the last entry, from snapshots and from what came after them.
func (j *Journal) recover(ctx context.Context, s *store) error {
	e, err := s.extent(ctx)
	if err != nil {
		return err
	}
	h := j.mark.get()
	if err := s.matches(ctx, e, h.Seq, h.Leaf); err != nil {
		return err
	}
	if e.first > h.Archived+1 {
		return damaged("it begins at entry %d, but only those through %d are archived", e.first, h.Archived)
	}
	if e.first <= h.Archived {
		if err := s.cutOff(ctx, h.Archived); err != nil {
			return err
		}
	}
	if err := j.restore(ctx, s, e); err != nil {
		return err
	}
	return j.replay(ctx, s, e)
}

// restore takes the newest snapshots that fit the journal.
func (j *Journal) restore(ctx context.Context, s *store, e extent) error {
	roots, err := j.restoreChain(ctx, s, e)
	if err != nil {
		return err
	}
	for _, f := range j.state.folds {
		for snap := range j.snaps.Load(f.fold.Name(), f.fold.Version()) {
			if root, known := roots[snap.Seq]; !known || root != snap.Prefix {
				continue
			}
			if err := f.fold.Restore(snap.State); err != nil {
				j.o.Log.Warn("a snapshot was passed over", "fold", snap.Fold, "seq", snap.Seq, "error", err)
				continue
			}
			f.seq = snap.Seq
			break
		}
	}
	return nil
}

// restoreChain takes the newest snapshot of the chain that fits, and returns the prefix hashes that all those
// that fit vouch for, by sequence.
func (j *Journal) restoreChain(ctx context.Context, s *store, e extent) (map[uint64]guild.Hash, error) {
	roots := make(map[uint64]guild.Hash)
	archived := j.mark.get().Archived
	for snap := range j.snaps.Load(chainName, chainVersion) {
		if snap.Seq > e.last {
			return nil, damaged("it ends at entry %d, but a snapshot was made at entry %d", e.last, snap.Seq)
		}
		c, ok := chainOf(snap)
		if !ok || snap.Seq <= archived {
			continue
		}
		if err := s.matches(ctx, e, c.last, c.leaf); err != nil {
			return nil, err
		}
		if len(roots) == 0 {
			j.state.chain = c
		}
		roots[snap.Seq] = snap.Prefix
	}
	return roots, nil
}

// chainOf reads a snapshot of the chain.
func chainOf(snap fold.Snapshot) (*chain, bool) {
	c, err := decodeChain(snap.State)
	return c, err == nil && c.last == snap.Seq && c.root() == snap.Prefix
}

// replay applies what the snapshots do not hold.
func (j *Journal) replay(ctx context.Context, s *store, e extent) error {
	from := j.state.needs()
	if archived := j.mark.get().Archived; from <= archived {
		if err := j.replayArchives(from); err != nil {
			return err
		}
		from = archived + 1
	}
	for m, err := range s.history(ctx, from, e.last) {
		if err != nil {
			return err
		}
		if m.seq != from {
			return damaged("entry %d cannot be read", from)
		}
		if err := j.state.replay(m); err != nil {
			return err
		}
		from++
	}
	if from <= e.last {
		return damaged("entry %d cannot be read", from)
	}
	return nil
}

// needs is the first entry that the chain or a fold does not have.
func (s *state) needs() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at.Store(s.chain.last)
	from := s.chain.last
	for _, f := range s.folds {
		from = min(from, f.seq)
	}
	return from + 1
}
