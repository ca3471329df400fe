// Package seal has the proofs that a journal was not changed after the fact: an append-only Merkle tree over its entries
// (RFC 6962, as golang.org/x/mod/sumdb/tlog has it), checkpoints that name the tree's root and are signed as Nostr
// events, and proofs that an entry is in the tree of a checkpoint. The package is bytes in and values out; it reads no
// journal.
package seal

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/tlog"

	"guild"
	"guild/canon"
)

// MaxProof is the largest encoded proof, in bytes: there is room for the longest path. That of an entry of a journal of
// 1,000,000 takes 1 KiB.
const MaxProof = 4 << 10

// maxPath is the longest path, in hashes: no tree is higher.
const maxPath = 64

// MaxSize is the largest tree, in entries: what every reader of JSON can tell apart.
const MaxSize = 1 << 53

// Reasons why a proof or a checkpoint is refused.
var (
	ErrInvalid = errors.New("invalid")
	ErrProof   = errors.New("the proof does not lead to the root")
)

// Proof shows that one entry is in the tree of a checkpoint: the audit path of RFC 6962, section 2.1.1.
type Proof struct {
	Index uint64   `json:"index"` // of the entry, from 0
	Size  uint64   `json:"size"`  // of the tree
	Path  [][]byte `json:"path"`  // hashes of 32 bytes, from the leaf's sibling up; in JSON base64
}

// Leaf is the hash of an entry in the tree. The entry is its subject, a newline, and its JSON as stored.
func Leaf(entry []byte) guild.Hash { return guild.Hash(tlog.RecordHash(entry)) }

// Check reports whether the proof leads from a leaf to a root. An error matches ErrInvalid if this is no proof, and
// ErrProof if it is one of something else.
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

// Encode writes a proof as canonical JSON, of at most MaxProof bytes.
func (p Proof) Encode() ([]byte, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	if p.Path == nil {
		p.Path = [][]byte{} // of the only entry of a tree; null would be another spelling
	}
	b, err := canon.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("proof: %w", err)
	}
	return b, nil
}

// DecodeProof reads a proof. White space between its parts may make it longer than MaxProof, but not than twice that.
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

// validate refuses what has not the shape of a proof.
func (p Proof) validate() error {
	switch {
	case p.Size > MaxSize:
		return fmt.Errorf("proof: a tree of %d entries: %w", p.Size, ErrInvalid)
	case p.Index >= p.Size:
		return fmt.Errorf("proof: entry %d of a tree of %d: %w", p.Index+1, p.Size, ErrInvalid)
	case len(p.Path) > maxPath:
		return fmt.Errorf("proof: a path of %d hashes: %w", len(p.Path), ErrInvalid)
	}
	for i, h := range p.Path {
		if len(h) != len(guild.Hash{}) {
			return fmt.Errorf("proof: hash %d of the path has %d bytes: %w", i+1, len(h), ErrInvalid)
		}
	}
	return nil
}

// decode reads an object of at most so many bytes into v, which has a field for every member of it.
func decode(b []byte, most int, v any) error {
	if len(b) > most {
		return fmt.Errorf("%d bytes, at most %d: %w", len(b), most, ErrInvalid)
	}
	canonical, err := canon.Canonical(b) // refuses what two readers could read differently
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := json.Unmarshal(canonical, v, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}
