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

// examination is the check of the files before the server starts, which would truncate what it cannot read. Only the entry
// that was being written when the machine stopped may be incomplete: it is the last thing in the stream, and the mark does
// not cover it.
type examination struct {
	last  uint64                // all entries through this one are whole
	peaks []guild.Hash          // the right edge of the tree over them
	roots map[uint64]guild.Hash // of the tree through each of the entries that somebody asked for
}

// examine compares the files with all marks, of which h is the furthest, and returns the roots of the tree through each of
// the given entries.
func examine(f files, h high, marks []high, at ...uint64) (map[uint64]guild.Hash, error) {
	x := &examination{last: h.Archived, peaks: slices.Clone(h.Peaks), roots: make(map[uint64]guild.Hash)}
	for _, seq := range at {
		x.roots[seq] = guild.Hash{}
	}
	for _, m := range marks {
		x.roots[m.Seq] = guild.Hash{}
	}
	if !h.Made {
		return x.roots, nil
	}
	if err := x.archived(f, h, marks); err != nil {
		return nil, err
	}
	if err := f.complete(); err != nil {
		return nil, err
	}
	if err := x.stream(f.facts()); err != nil {
		return nil, err
	}
	if x.last < h.Seq {
		return nil, damaged("it ends at entry %d, but entry %d was on disk", x.last, h.Seq)
	}
	for _, m := range marks {
		if root := x.roots[m.Seq]; root.IsZero() && 0 < m.Seq && m.Seq < h.Archived {
			continue // its archive file was moved away; the furthest mark covers the entry
		}
		if x.roots[m.Seq] != m.Root {
			return nil, damaged("its entries through %d are not those that were on disk", m.Seq)
		}
	}
	return x.roots, nil
}

// archived finds the roots through archived entries that a mark has. Both marks are written together, so the archive files
// are read only if one mark was not updated.
func (x *examination) archived(f files, h high, marks []high) error {
	if slices.ContainsFunc(marks, func(m high) bool { return 0 < m.Seq && m.Seq < h.Archived }) {
		var peaks []guild.Hash
		_, err := f.readArchives(h.Archived, func(s scanned) error {
			peaks = grow(peaks, s.leaf, s.seq)
			x.note(s.seq, peaks)
			return nil
		})
		if _, gone := errors.AsType[*DamagedError](err); err != nil && !gone { // a missing file is no reason to refuse; Check reports it
			return err
		}
	}
	x.note(h.Archived, h.Peaks)
	return nil
}

// note keeps the root through an entry, if it was asked for.
func (x *examination) note(seq uint64, peaks []guild.Hash) {
	if _, wanted := x.roots[seq]; wanted {
		x.roots[seq] = rootOf(peaks)
	}
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
	return f.described()
}

// described compares the description of the stream of facts with its checksum.
func (f files) described() error {
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

// stream scans the stream of facts. Archived entries may still be there, since a process may have ended while they were being
// removed; they are ignored, as is an incomplete entry at the end.
func (x *examination) stream(path string) error {
	all, err := blocks(path)
	if err != nil {
		return err
	}
	return scanEntries(all, x.last, withLeaf, func(s scanned) error {
		switch s.place {
		case unreadable:
			return damaged("after entry %d something cannot be read", x.last)
		case afterGap:
			return damaged("entry %d is followed by entry %d", x.last, s.seq)
		case inOrder:
			x.last = s.seq
			x.peaks = grow(x.peaks, s.leaf, s.seq)
			x.note(s.seq, x.peaks)
		}
		return nil
	})
}
