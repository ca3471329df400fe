package journal

import (
	"context"
	"fmt"
	"time"

	"guild/internal/journal/fold"
)

// Snapshot writes snapshots of all folds, unless those of the last entry were written already.
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
			if err := j.takeSnapshots(); err != nil { // the next start is slower, no more
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
	// No entry is folded while the states are copied. They are then written one by one, while entries are folded again.
	c, states := j.state.freeze()
	at := fold.Snapshot{Fold: chainName, Version: chainVersion, Seq: c.last, Prefix: c.root(), State: c.encode()}
	if err := j.snaps.Save(at); err != nil {
		return err
	}
	for i, encode := range states {
		f := j.state.folds[i].fold
		state, err := encode()
		if err != nil {
			return fmt.Errorf("snapshot of %s: %w", f.Name(), err)
		}
		at.Fold, at.Version, at.State = f.Name(), f.Version(), state
		if err := j.snaps.Save(at); err != nil {
			return err
		}
		states[i] = nil // to free the copy
	}
	j.snapped = c.last
	return nil
}

// freeze copies the chain and the states of all folds at the last entry.
func (s *state) freeze() (*chain, []func() ([]byte, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var states []func() ([]byte, error)
	for _, f := range s.folds {
		states = append(states, f.fold.Freeze())
	}
	return s.chain.clone(), states
}
