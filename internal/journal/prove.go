package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"guild"
	"guild/seal"
)

// Tree is the Merkle tree over all entries at one moment: how many they are, and its root (RFC 6962; package seal has
// the leaves). The entries that were added since somebody last asked are read back from the disk first, so that what is
// signed is what is stored there, and not only what is remembered. A journal without entries has size 0 and no root.
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

// Prove shows that the entry of a sequence is in the tree over the first size entries, and that this tree is a beginning
// of the one that the journal has now. A sequence that is not among them is ErrNoEntry.
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

// Stored is an entry as it counts in the tree, also one that is in an archive file: its subject, a newline, and its
// JSON as stored. One that was never there is ErrNoEntry.
func (j *Journal) Stored(ctx context.Context, seq uint64) ([]byte, error) {
	m, err := j.stored(ctx, seq)
	if errors.Is(err, ErrNoEntry) && seq <= j.mark.get().Archived {
		m, err = j.stored(ctx, seq) // it was cut off just now
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

// ID names the journal in its files and in its seals.
func (j *Journal) ID() string { return j.id }
