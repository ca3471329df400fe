package journal

import (
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"guild"
	"guild/internal/journal/fact"
)

// scanned is something that a scan found in a file of the journal: an entry, the mark of a deleted one, or bytes that are
// neither.
type scanned struct {
	file    string
	place   place        // set by scanEntries
	seq     uint64       // 0 if the bytes cannot be read
	erased  bool         // the record only says that the entry seq is deleted
	subject fact.Subject // the guard of the entry
	data    []byte       // the entry as encoded, or the bytes that cannot be read

	// What a digest computes of an entry.
	leaf guild.Hash // in the tree
	hash guild.Hash // of data
	prev string
	at   int64 // Unix ms
}

// decode reads the entry.
func (s *scanned) decode() (message, error) { return read(s.seq, s.subject, s.data) }

// place says how something scanned continues the entries before it.
type place int

const (
	inOrder    place = iota // the entry after the last one
	afterGap                // an entry, and some between it and the last one are missing
	repeated                // an entry that is not after the last one
	deleted                 // the mark of a deleted entry
	unreadable              // bytes that cannot be read, and something follows them
	torn                    // bytes that cannot be read at the end, where an entry may have been written when the machine stopped
)

// A digest computes, of an entry that was read, what takes long. An error means that it is not an entry of ours.
type digest func(*scanned) error

// withLeaf is the digest of those who only need the tree.
func withLeaf(s *scanned) error {
	s.leaf = leafOf(s.subject, s.data)
	return nil
}

// scanEntries visits the entries after last in the blocks of the stream of facts, and whatever else is there. Only what is
// inOrder continues the journal; the caller decides what anything else means, and may go on.
func scanEntries(all []block, last uint64, digest digest, visit func(scanned) error) error {
	var held *scanned // bytes that cannot be read; what follows decides their place
	err := scanBlocks(all, digest, func(s scanned) error {
		if s.erased {
			s.place = deleted
			return visit(s)
		}
		if held != nil {
			if err := visit(*held); err != nil {
				return err
			}
			held = nil
		}
		switch {
		case s.seq == 0:
			s.place = unreadable
			held = &s
			return nil
		case s.seq == last+1:
			last++ // s.place is inOrder
		case s.seq > last:
			s.place = afterGap
		default:
			s.place = repeated
		}
		return visit(s)
	})
	if err != nil || held == nil {
		return err
	}
	held.place = torn
	return visit(*held)
}

// scanBlocks visits all that is in the blocks of a stream, in its order; it sets no places. It reads several blocks at a
// time, and calls digest, which may be nil, from several goroutines.
func scanBlocks(all []block, digest digest, visit func(scanned) error) error {
	for some := range slices.Chunk(all, runtime.GOMAXPROCS(0)) {
		found := make([][]scanned, len(some))
		var reading errgroup.Group
		for i, b := range some {
			reading.Go(func() (err error) {
				found[i], err = b.scan(digest)
				return err
			})
		}
		if err := reading.Wait(); err != nil {
			return err
		}
		for _, s := range slices.Concat(found...) {
			if err := visit(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// scan reads a block.
func (b block) scan(digest digest) (all []scanned, err error) {
	buf, err := b.load()
	if err != nil {
		return nil, err
	}
	records, err := b.records(buf)
	if err != nil {
		return nil, err
	}
	for rec, ok := range records {
		s := scanned{file: b.path, data: rec.data}
		if ok {
			s.seq, s.erased, s.subject = rec.seq, rec.erased, guardOf(rec.subject)
		}
		if ok && !rec.erased && digest != nil && digest(&s) != nil {
			s = scanned{file: b.path, data: rec.data}
		}
		all = append(all, s)
	}
	return all, nil
}
