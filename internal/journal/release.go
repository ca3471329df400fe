package journal

import (
	"context"
	"fmt"
	"slices"

	"guild/internal/journal/fact"
)

const namedAtOnce = 500 // guards in one entry

// Quarantined returns the guards in quarantine, sorted. Repair puts a guard there if it lost entries, or may have: more may
// have been done than its entries say. So nothing is decided under it, and nothing due under it may be done, until Release.
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

// Release takes guards out of quarantine. They go on from the entries that are left. If one of them is not in quarantine, none
// is released, and the error matches ErrNotQuarantined.
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
