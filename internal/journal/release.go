package journal

import (
	"context"
	"fmt"
	"slices"

	"guild/internal/journal/fact"
)

// namedAtOnce bounds the guards that one entry names.
const namedAtOnce = 500

// Quarantined lists the guards in quarantine, sorted. Repair puts a guard there whose history has a hole: what its
// entries say may be less than what was done, so nothing is decided under it, and nothing that is due under it is to be
// done, until Release.
func (j *Journal) Quarantined() []fact.Subject {
	j.state.mu.Lock()
	defer j.state.mu.Unlock()
	return j.state.chain.quarantined()
}

// InQuarantine reports whether a guard is in quarantine.
func (j *Journal) InQuarantine(guard fact.Subject) bool {
	j.state.mu.Lock()
	defer j.state.mu.Unlock()
	return j.state.chain.held.Has(guard)
}

func (c *chain) quarantined() []fact.Subject {
	var all []fact.Subject
	for guard := range c.held.All() {
		all = append(all, guard)
	}
	slices.Sort(all)
	return all
}

// Release lets guards go on from what is left of their entries. If one of them is not in quarantine the error matches
// ErrNotQuarantined, and none is released.
func (j *Journal) Release(ctx context.Context, guards ...fact.Subject) error {
	for _, guard := range guards {
		if !j.InQuarantine(guard) {
			return fmt.Errorf("release %.80q: %w", guard, ErrNotQuarantined)
		}
	}
	for some := range slices.Chunk(guards, namedAtOnce) {
		err := j.Do(ctx, fact.JournalSubject, "", func(tx *Tx) error {
			for _, guard := range some {
				tx.Append(fact.JournalReleased{Guard: guard})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
