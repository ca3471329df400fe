// Package fold owns what a state computed from the journal must be able to do, and keeps snapshots of such
// states in files so that a start need not replay everything. A snapshot is only ever a shortcut: one that is
// damaged or does not match is passed over, and the journal is replayed instead. The package never reads the
// journal and never decides anything.
package fold

import "guild/internal/journal/fact"

// Fold is a state computed from the entries of the journal and from nothing else. It locks itself: entries are
// applied by one caller at a time, in the order of the journal, while others read.
type Fold interface {
	// Name tells the fold apart from others, in lower-case letters, digits and dashes.
	Name() string
	// Version is the version of what Freeze writes; a snapshot of another version is not restored.
	Version() int
	// Apply takes the next entry. It assigns, it does not compute or judge; types of fact that are not its own
	// it ignores.
	Apply(fact.Entry)
	// Freeze takes a copy of the state, which every decision waits for: what may grow large belongs in a Table. What
	// it returns writes the copy, while entries go on being applied.
	Freeze() (encode func() ([]byte, error))
	// Restore replaces the state by one that Freeze wrote. After an error the state is as it was.
	Restore([]byte) error
}
