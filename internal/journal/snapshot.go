package journal

import (
	"context"
	"fmt"
	"time"

	"guild/internal/fold"
)

// undisturbed is how often snapshots are tried without holding up decisions.
const undisturbed = 3

// Snapshot writes snapshots of all folds, unless there are some of the last entry already.
func (j *Journal) Snapshot(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return j.takeSnapshots()
}

// snapshotRegularly writes snapshots until the journal is closed.
func (j *Journal) snapshotRegularly() {
	tick := time.NewTicker(j.o.SnapshotEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := j.takeSnapshots(); err != nil { // only a start would be slower
				j.o.Log.Warn("the journal's snapshots could not be written", "error", err)
			}
			if err := j.space.reserve(); err != nil {
				j.o.Log.Warn("no space could be set aside for the journal", "error", err)
			}
		case <-j.closing.Done():
			return
		}
	}
}

func (j *Journal) takeSnapshots() error {
	j.snapshotting.Lock()
	defer j.snapshotting.Unlock()
	if j.state.last() == j.snapped {
		return nil
	}
	snaps, err := j.state.snapshots()
	if err != nil {
		return err
	}
	for _, snap := range snaps {
		if err := j.snaps.Save(snap); err != nil {
			return err
		}
	}
	j.snapped = snaps[0].Seq
	return nil
}

// snapshots takes a snapshot of the chain and of all folds after the same entry. The folds copy and encode by
// themselves while entries go on being applied; only if that never leaves them alone long enough, entries wait.
func (s *state) snapshots() ([]fold.Snapshot, error) {
	for range undisturbed {
		chain := s.copyChain()
		snaps, err := s.snapshotsAt(chain)
		if err != nil || s.settled(chain.last) {
			return snaps, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snapshotsAt(s.chain.clone())
}

func (s *state) copyChain() *chain {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chain.clone()
}

// settled reports whether the last entry is still seq, with none being applied.
func (s *state) settled(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chain.last == seq
}

// snapshotsAt asks the folds for their states, which are those after the chain's last entry if nothing is
// applied meanwhile.
func (s *state) snapshotsAt(c *chain) ([]fold.Snapshot, error) {
	at := fold.Snapshot{Fold: chainName, Version: chainVersion, Seq: c.last, Prefix: c.root(), State: c.encode()}
	snaps := []fold.Snapshot{at}
	for _, f := range s.folds {
		b, err := f.fold.Snapshot()
		if err != nil {
			return nil, fmt.Errorf("snapshot of %s: %w", f.fold.Name(), err)
		}
		at.Fold, at.Version, at.State = f.fold.Name(), f.fold.Version(), b
		snaps = append(snaps, at)
	}
	return snaps, nil
}
