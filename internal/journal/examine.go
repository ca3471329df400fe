package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/minio/highwayhash"

	"guild"
)

// examine checks the files before the server starts, which would truncate what it cannot read. It compares the entries with all
// marks, of which h is the furthest, and returns the roots of the tree through each of the given entries.
//
// Only the entry that was being written when the machine stopped may be incomplete: it is the last thing in the stream, and no
// mark covers it. Archived entries may still be in the stream, since a process may have ended while they were being removed.
func examine(f files, h high, marks []high, at ...uint64) (map[uint64]guild.Hash, error) {
	roots := make(map[uint64]guild.Hash) // those asked for, and those of the marks
	for _, seq := range at {
		roots[seq] = guild.Hash{}
	}
	for _, m := range marks {
		roots[m.Seq] = guild.Hash{}
	}
	if !h.Made {
		return roots, nil
	}
	note := func(seq uint64, peaks []guild.Hash) {
		if _, wanted := roots[seq]; wanted {
			roots[seq] = rootOf(peaks)
		}
	}
	// The marks are written together, so the archive files have to be read only if one of them was not updated.
	if slices.ContainsFunc(marks, func(m high) bool { return 0 < m.Seq && m.Seq < h.Archived }) {
		var peaks []guild.Hash
		_, err := f.readArchives(h.Archived, func(s scanned) error {
			peaks = grow(peaks, s.leaf, s.seq)
			note(s.seq, peaks)
			return nil
		})
		if _, gone := errors.AsType[*DamagedError](err); err != nil && !gone { // a missing file is no reason to refuse; Check reports it
			return nil, err
		}
	}
	note(h.Archived, h.Peaks)
	if err := f.complete(); err != nil {
		return nil, err
	}
	all, err := blocks(f.facts())
	if err != nil {
		return nil, err
	}
	last, peaks := h.Archived, slices.Clone(h.Peaks)
	err = scanEntries(all, last, withLeaf, func(s scanned) error {
		switch s.place {
		case unreadable:
			return damaged("after entry %d something cannot be read", last)
		case afterGap:
			return damaged("entry %d is followed by entry %d", last, s.seq)
		case inOrder:
			last, peaks = s.seq, grow(peaks, s.leaf, s.seq)
			note(last, peaks)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if last < h.Seq {
		return nil, damaged("it ends at entry %d, but entry %d was on disk", last, h.Seq)
	}
	for _, m := range marks {
		if root := roots[m.Seq]; root.IsZero() && 0 < m.Seq && m.Seq < h.Archived {
			continue // its archive file was moved away; the furthest mark covers the entry
		}
		if roots[m.Seq] != m.Root {
			return nil, damaged("its entries through %d are not those that were on disk", m.Seq)
		}
	}
	return roots, nil
}

// complete checks that the server will find the stream of facts. It ignores, without a word, a stream whose description or
// checksum is missing or wrong, and would start a new one.
func (f files) complete() error {
	for _, name := range []string{"meta.inf", "meta.sum", "msgs"} {
		_, err := os.Stat(filepath.Join(f.facts(), name))
		if errors.Is(err, fs.ErrNotExist) {
			return damaged("%s of its stream of facts is gone", name)
		}
		if err != nil {
			return err
		}
	}
	text, err := os.ReadFile(filepath.Join(f.facts(), "meta.inf"))
	if err != nil {
		return err
	}
	said, err := os.ReadFile(filepath.Join(f.facts(), "meta.sum"))
	if err != nil {
		return err
	}
	key := sha256.Sum256([]byte(factsStream))
	sum, err := highwayhash.New64(key[:])
	if err != nil {
		return err
	}
	sum.Write(text)
	if hex.EncodeToString(sum.Sum(nil)) != string(said) {
		return damaged("meta.inf or meta.sum of its stream of facts was changed")
	}
	var config struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(text, &config); err != nil || config.Name != factsStream {
		return damaged("meta.inf of its stream of facts does not describe it")
	}
	return nil
}
