package journal

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"guild"
	"guild/internal/journal/fold"
)

// extent is the first and the last entry in the stream.
type extent struct{ first, last uint64 }

// extent asks the server for the first and the last entry. If others are missing between them, it returns a *DamagedError.
func (s *store) extent(ctx context.Context) (extent, error) {
	info, err := s.facts.Info(ctx)
	if err != nil {
		return extent{}, fmt.Errorf("stream %s: %w", factsStream, err)
	}
	st := info.State
	if st.NumDeleted != 0 || st.Lost != nil || st.Msgs != st.LastSeq+1-max(st.FirstSeq, 1) {
		return extent{}, damaged("the stream has only %d of the entries %d to %d", st.Msgs, st.FirstSeq, st.LastSeq)
	}
	return extent{max(st.FirstSeq, 1), st.LastSeq}, nil
}

// matches checks that the stream reaches to the entry seq, and that this entry has the given leaf. It cannot check an archived
// entry.
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
		return damaged("entry %d was changed", seq)
	}
	return nil
}

// recover brings the folds up to the last entry, with snapshots and the entries after them. roots, which examine has computed
// from the files, decide which snapshots are of this history: a snapshot from before a repair or of a copied directory is not.
func (j *Journal) recover(ctx context.Context, s *store, chains []fold.Snapshot, roots map[uint64]guild.Hash) error {
	e, err := s.extent(ctx)
	if err != nil {
		return err
	}
	archived := j.mark.get().Archived
	if e.first > archived+1 {
		return damaged("it begins at entry %d, but only those through %d are archived", e.first, archived)
	}
	if e.first <= archived {
		if err := s.cutOff(ctx, archived); err != nil {
			return err
		}
	}
	if err := j.restoreChain(chains, roots, e); err != nil {
		return err
	}
	var restoring errgroup.Group // the folds are independent
	restoring.SetLimit(runtime.GOMAXPROCS(0))
	for _, f := range j.state.folds {
		restoring.Go(func() error {
			j.restore(f, roots)
			return nil
		})
	}
	_ = restoring.Wait() // a fold that was not restored is replayed
	if err := j.replay(ctx, s, e); err != nil {
		return err
	}
	return j.state.explained()
}

// sequences returns the last entry of each snapshot.
func sequences(snaps []fold.Snapshot) []uint64 {
	seqs := make([]uint64, len(snaps))
	for i, snap := range snaps {
		seqs[i] = snap.Seq
	}
	return seqs
}

// restoreChain restores the chain from its newest snapshot that fits the entries. A snapshot of an entry that is not there is
// proof that entries are missing.
func (j *Journal) restoreChain(chains []fold.Snapshot, roots map[uint64]guild.Hash, e extent) error {
	for _, snap := range chains {
		if snap.Seq > e.last {
			return damaged("it ends at entry %d, but a snapshot was made at entry %d", e.last, snap.Seq)
		}
	}
	for _, snap := range chains {
		c, err := decodeChain(snap.State)
		if err == nil && c.last == snap.Seq && c.root() == snap.Prefix && fitting(snap, roots) {
			j.state.chain = c
			return nil
		}
	}
	return nil
}

// fitting reports whether a snapshot is of the entries on the disk.
func fitting(snap fold.Snapshot, roots map[uint64]guild.Hash) bool {
	return !snap.Prefix.IsZero() && roots[snap.Seq] == snap.Prefix
}

// restore restores a fold from its newest snapshot that fits the entries.
func (j *Journal) restore(f *follower, roots map[uint64]guild.Hash) {
	for snap := range j.snaps.Load(f.fold.Name(), f.fold.Version()) {
		if !fitting(snap, roots) {
			continue
		}
		err := f.fold.Restore(snap.State)
		if err == nil {
			f.seq = snap.Seq
			return
		}
		j.o.Log.Warn("a snapshot is ignored", "fold", snap.Fold, "seq", snap.Seq, "error", err)
	}
}

// replay folds the entries after the snapshots. Those in the stream are read through the server and not by a scan, although
// examine has just scanned its files: the server may have truncated an incomplete end since, and the folds must have exactly
// the entries that it continues.
func (j *Journal) replay(ctx context.Context, s *store, e extent) error {
	from := j.state.needs()
	if from > e.last {
		j.snapped = e.last
	}
	if archived := j.mark.get().Archived; from <= archived {
		if err := j.replayArchives(from); err != nil {
			return err
		}
		from = archived + 1
	}
	for m, err := range s.history(ctx, from, e.last) {
		if err == nil {
			err = j.state.replay(m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// needs returns the first entry that the chain or a fold does not have.
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
