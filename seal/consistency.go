package seal

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"guild"
	"guild/canon"
)

// Consistency shows that the tree of a later checkpoint has the entries of an earlier one, in the same places, and then more: the
// consistency proof of RFC 6962, section 2.1.2.
type Consistency struct {
	From uint64   `json:"from"` // size of the earlier tree, in entries
	Path [][]byte `json:"path"` // hashes of 32 bytes, in the order of the RFC; base64 in JSON
	To   uint64   `json:"to"`   // size of the later tree
}

// Check checks that a tree with the root from grew into one with the root to. The error matches ErrInvalid if the proof
// is malformed, and ErrInconsistent if it belongs to other roots. Trees of one size must have one root.
func (g Consistency) Check(from, to guild.Hash) error {
	if err := g.validate(); err != nil {
		return err
	}
	path := make(tlog.TreeProof, len(g.Path))
	for i, h := range g.Path {
		path[i] = tlog.Hash(h)
	}
	if tlog.CheckTree(path, int64(g.To), tlog.Hash(to), int64(g.From), tlog.Hash(from)) != nil {
		return fmt.Errorf("from %d entries to %d: %w", g.From, g.To, ErrInconsistent)
	}
	return nil
}

// Encode returns the proof as canonical JSON of at most MaxProof bytes.
func (g Consistency) Encode() ([]byte, error) {
	if err := g.validate(); err != nil {
		return nil, err
	}
	if g.Path == nil {
		g.Path = [][]byte{} // between trees of one size; null would be a second spelling
	}
	b, err := canon.Marshal(g)
	if err != nil {
		return nil, fmt.Errorf("consistency: %w", err)
	}
	return b, nil
}

// DecodeConsistency parses a consistency proof. White space can make it longer than MaxProof, up to twice as long.
func DecodeConsistency(b []byte) (Consistency, error) {
	var g Consistency
	if err := decode(b, 2*MaxProof, &g); err != nil {
		return Consistency{}, fmt.Errorf("consistency: %w", err)
	}
	if err := g.validate(); err != nil {
		return Consistency{}, err
	}
	return g, nil
}

// validate returns an error if the proof is malformed.
func (g Consistency) validate() error {
	if g.From == 0 || g.From > g.To || g.To > MaxSize {
		return fmt.Errorf("consistency: from %d entries to %d: %w", g.From, g.To, ErrInvalid)
	}
	if err := validPath(g.Path); err != nil {
		return fmt.Errorf("consistency: %w", err)
	}
	return nil
}
