package journal

import (
	"context"
	"fmt"
	"slices"

	"guild/internal/journal/fact"
)

const namedAtOnce = 500 // guards in one entry

// Quarantined returns the guards in quarantine, sorted. Repair puts a guard there if it lost entries, or may have: more may
// have been done than its entries say. So nothing is decided under it, and nothing due under it may be done, until Release or
// CloseGuard.
func (j *Journal) Quarantined() []fact.Subject {
	j.state.mu.Lock()
	defer j.state.mu.Unlock()
	return j.state.chain.quarantined()
}

// InQuarantine reports whether a guard is in quarantine.
func (j *Journal) InQuarantine(guard fact.Subject) bool {
	j.state.mu.Lock()
	defer j.state.mu.Unlock()
	return j.state.chain.held.Has(guard) && !j.state.chain.closed(guard)
}

// Held reports whether nothing may be decided or done under a guard, because it is in quarantine or was closed there.
func (j *Journal) Held(guard fact.Subject) bool {
	j.state.mu.Lock()
	defer j.state.mu.Unlock()
	return j.state.chain.held.Has(guard)
}

func (c *chain) quarantined() []fact.Subject {
	var all []fact.Subject
	for guard, by := range c.held.All() {
		if by != forGood {
			all = append(all, guard)
		}
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

// CloseGuard ends a guard in quarantine for good, as it is: it can be neither decided under nor released any more. decide adds
// the last facts under it; it must add none from which an effect follows, since that may have been done already. Nothing
// happens if the guard is closed already. If it is not in quarantine, the error matches ErrNotQuarantined.
func (j *Journal) CloseGuard(ctx context.Context, guard fact.Subject, decide func(*Tx) error) error {
	return j.do(ctx, decision{j: j, guard: guard, closes: true, decide: func(tx *Tx) error {
		j.state.mu.Lock()
		held, done := j.state.chain.held.Has(guard), j.state.chain.closed(guard)
		j.state.mu.Unlock()
		if done {
			return nil
		}
		if !held {
			return fmt.Errorf("close %.80q: %w", guard, ErrNotQuarantined)
		}
		err := decide(tx)
		tx.Append(fact.JournalClosed{})
		return err
	}})
}
