// Package seal proves that a journal was not changed later. It has an append-only Merkle tree over the entries (RFC
// 6962, as in golang.org/x/mod/sumdb/tlog), checkpoints that name the root of the tree and are signed as Nostr events,
// and proofs that an entry is in the tree of a checkpoint, and that one checkpoint's tree grew out of another's. Providers
// countersign the checkpoints of their customers. The package only converts values; it does not read a journal.
package seal

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/tlog"

	"guild"
	"guild/canon"
)

// MaxProof limits the size of an encoded proof, in bytes. The longest path fits. A proof for a journal of 1,000,000
// entries takes 1 KiB.
const MaxProof = 4 << 10

// maxPath limits the length of a path, in hashes: no tree is higher.
const maxPath = 64

// MaxSize limits the size of a tree, in entries. Every JSON reader represents numbers up to it exactly.
const MaxSize = 1 << 53

// Reasons why a proof or a checkpoint is refused.
var (
	ErrInvalid      = errors.New("invalid")
	ErrProof        = errors.New("the proof does not lead to the root")
	ErrInconsistent = errors.New("the later tree does not have all entries of the earlier one")
)

// Proof shows that one entry is in the tree of a checkpoint: the audit path of RFC 6962, section 2.1.1.
type Proof struct {
	Index uint64   `json:"index"` // of the entry, from 0
	Size  uint64   `json:"size"`  // number of entries in the tree
	Path  [][]byte `json:"path"`  // hashes of 32 bytes, from the leaf's sibling up; base64 in JSON
}

// Leaf returns the hash of an entry in the tree. An entry is its subject, a newline, and its JSON as stored.
func Leaf(entry []byte) guild.Hash { return guild.Hash(tlog.RecordHash(entry)) }

// Check checks that the proof leads from leaf to root. The error matches ErrInvalid if the proof is malformed, and
// ErrProof if it belongs to another leaf or root.
func (p Proof) Check(leaf, root guild.Hash) error {
	if err := p.validate(); err != nil {
		return err
	}
	path := make(tlog.RecordProof, len(p.Path))
	for i, h := range p.Path {
		path[i] = tlog.Hash(h)
	}
	if tlog.CheckRecord(path, int64(p.Size), tlog.Hash(root), int64(p.Index), tlog.Hash(leaf)) != nil {
		return fmt.Errorf("entry %d of %d: %w", p.Index+1, p.Size, ErrProof)
	}
	return nil
}

// Encode returns the proof as canonical JSON of at most MaxProof bytes.
func (p Proof) Encode() ([]byte, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	if p.Path == nil {
		p.Path = [][]byte{} // for the only entry of a tree; null would be a second spelling
	}
	b, err := canon.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("proof: %w", err)
	}
	return b, nil
}

// DecodeProof parses a proof. White space can make it longer than MaxProof, up to twice as long.
func DecodeProof(b []byte) (Proof, error) {
	var p Proof
	if err := decode(b, 2*MaxProof, &p); err != nil {
		return Proof{}, fmt.Errorf("proof: %w", err)
	}
	if err := p.validate(); err != nil {
		return Proof{}, err
	}
	return p, nil
}

// validate returns an error if the proof is malformed.
func (p Proof) validate() error {
	switch {
	case p.Size > MaxSize:
		return fmt.Errorf("proof: a tree of %d entries: %w", p.Size, ErrInvalid)
	case p.Index >= p.Size:
		return fmt.Errorf("proof: entry %d of a tree of %d: %w", p.Index+1, p.Size, ErrInvalid)
	}
	if err := validPath(p.Path); err != nil {
		return fmt.Errorf("proof: %w", err)
	}
	return nil
}

// validPath returns an error if no proof has such a path.
func validPath(path [][]byte) error {
	if len(path) > maxPath {
		return fmt.Errorf("a path of %d hashes: %w", len(path), ErrInvalid)
	}
	for i, h := range path {
		if len(h) != len(guild.Hash{}) {
			return fmt.Errorf("hash %d of the path has %d bytes: %w", i+1, len(h), ErrInvalid)
		}
	}
	return nil
}

// decode parses an object of at most most bytes into v. Unknown members are an error.
func decode(b []byte, most int, v any) error {
	if len(b) > most {
		return fmt.Errorf("%d bytes, at most %d: %w", len(b), most, ErrInvalid)
	}
	canonical, err := canon.Canonical(b) // refuses JSON that two parsers could read differently
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := json.Unmarshal(canonical, v, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}
