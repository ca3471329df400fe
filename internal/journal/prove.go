package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"guild"
	"guild/seal"
)

// Tree returns the number of entries and the root of the Merkle tree over them (RFC 6962; package seal defines the leaves).
// Entries that were added since the last call are read back from the disk first, so that a signature of the root covers what
// is stored, and not only what is in memory. A journal without entries has size 0 and the zero root.
func (j *Journal) Tree(ctx context.Context) (size uint64, root guild.Hash, err error) {
	err = j.withHashes(ctx, func(h *hashes, now guild.Hash) error {
		size, root = h.n, now
		return nil
	})
	if err != nil {
		return 0, guild.Hash{}, fmt.Errorf("tree of the journal: %w", err)
	}
	return size, root, nil
}

// Prove returns a proof that an entry is in the tree over the first size entries, after a check that this tree is a prefix of
// the present one. It returns ErrNoEntry if seq is not in that tree, or the journal has fewer entries.
func (j *Journal) Prove(ctx context.Context, seq, size uint64) (seal.Proof, error) {
	if seq == 0 || seq > size || size > j.Last() {
		return seal.Proof{}, fmt.Errorf("prove entry %d in a tree of %d: %w", seq, size, ErrNoEntry)
	}
	entry, err := j.Stored(ctx, seq)
	if err != nil {
		return seal.Proof{}, fmt.Errorf("prove: %w", err)
	}
	p := seal.Proof{Index: seq - 1, Size: size}
	err = j.withHashes(ctx, func(h *hashes, root guild.Hash) (err error) {
		p.Path, err = h.prove(seq, size, seal.Leaf(entry), root)
		return err
	})
	if err != nil {
		return seal.Proof{}, fmt.Errorf("prove entry %d: %w", seq, err)
	}
	return p, nil
}

// ProveConsistency returns a proof that the tree over the first to entries has the first from ones, unchanged, after a check that both are
// prefixes of the present tree. It returns ErrNoEntry if a size is 0 or the journal has fewer entries.
func (j *Journal) ProveConsistency(ctx context.Context, from, to uint64) (seal.Consistency, error) {
	if from == 0 || from > to || to > j.Last() {
		return seal.Consistency{}, fmt.Errorf("prove the consistency of %d entries to %d: %w", from, to, ErrNoEntry)
	}
	g := seal.Consistency{From: from, To: to}
	err := j.withHashes(ctx, func(h *hashes, root guild.Hash) (err error) {
		g.Path, err = h.grow(from, to, root)
		return err
	})
	if err != nil {
		return seal.Consistency{}, fmt.Errorf("prove the consistency of %d entries to %d: %w", from, to, err)
	}
	return g, nil
}

// Stored returns the bytes of an entry that its leaf in the tree is computed from: its subject, a newline, and its JSON as
// stored. The entry may be archived. If there is no such entry, it returns ErrNoEntry.
func (j *Journal) Stored(ctx context.Context, seq uint64) ([]byte, error) {
	m, err := j.stored(ctx, seq)
	if errors.Is(err, ErrNoEntry) && seq <= j.mark.get().Archived {
		m, err = j.stored(ctx, seq) // it was archived just now
	}
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte(m.subject), []byte{'\n'}, m.data), nil
}

func (j *Journal) stored(ctx context.Context, seq uint64) (message, error) {
	through := j.mark.get().Archived
	if seq == 0 || seq > through {
		s, err := j.server(ctx)
		if err != nil {
			return message{}, fmt.Errorf("entry %d: %w", seq, err)
		}
		return s.entry(ctx, seq)
	}
	a, err := j.files.archiveOf(seq, through)
	if err != nil {
		return message{}, fmt.Errorf("entry %d: %w", seq, err)
	}
	return a.entry(seq)
}

// ID returns the journal's random id, which is in its files and seals.
func (j *Journal) ID() string { return j.id }
