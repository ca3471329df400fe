// Package fold defines states that are computed from the journal, and stores snapshots of them, so that a start need not replay
// all entries. A snapshot is only a shortcut: if it is damaged or does not match, it is ignored and the entries are replayed.
// The package never reads the journal and decides nothing.
package fold

import "guild/internal/journal/fact"

// Fold is a state that is computed from the entries of the journal and nothing else. It has its own lock: one caller at a time
// applies entries, in order, while others read.
type Fold interface {
	// Name returns the unique name of the fold, in lower-case letters, digits and dashes.
	Name() string
	// Version returns the version of the snapshots. A snapshot of another version is not restored.
	Version() int
	// Apply applies the next entry. It only assigns: all computing was done before the facts were appended, so a replay with
	// other rules or another clock gives the same state. It ignores facts of other folds.
	Apply(fact.Entry)
	// Freeze copies the state. No decision is recorded meanwhile, so large parts of the state belong in a Table, which is
	// copied at once. encode encodes the copy and may be called while entries are applied.
	Freeze() (encode func() ([]byte, error))
	// Restore replaces the state by a snapshot. After an error the state is unchanged.
	Restore([]byte) error
}
