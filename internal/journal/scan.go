package journal

import (
	"os"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"guild"
	"guild/internal/journal/fact"
)

// Opening, checking, repairing and proving a journal all read its files with the scanner below, before or without the server,
// which keeps silent about damage. The scanner finds; the caller decides what a finding means. Opening refuses a gap, a check
// reports it, and a repair fills it.
//
// Archived entries come in the same form, from readArchives. Only the replay of a start reads the stream through the server.

// scanned is a finding of a scan: an entry, the mark of a deleted entry, or bytes that cannot be read.
type scanned struct {
	file    string
	place   place        // set by scanEntries
	seq     uint64       // 0 if the bytes cannot be read
	erased  bool         // the record only says that the entry seq is deleted
	subject fact.Subject // of the entry
	data    []byte       // the encoded entry, or the bytes that cannot be read

	// Set by a digest.
	leaf guild.Hash // of the tree
	hash guild.Hash // of data
	prev string
	at   int64 // Unix ms
}

// decode decodes the entry. The keys may be nil.
func (s *scanned) decode(k *keys) (message, error) { return k.read(s.seq, s.subject, s.data) }

// place says how a finding continues the entries before it.
type place int

const (
	inOrder    place = iota // the next entry
	afterGap                // a later entry
	repeated                // an earlier entry
	deleted                 // the mark of a deleted entry
	unreadable              // bytes that cannot be read; another entry or more such bytes follow
	torn                    // bytes at the end that cannot be read; the machine may have stopped while they were written
)

// digest computes hashes of an entry and sets them. If it returns an error, the entry counts as bytes that cannot be read.
type digest func(*scanned) error

// withLeaf is the digest for callers that only need the tree.
func withLeaf(s *scanned) error {
	s.leaf = leafOf(s.subject, s.data)
	return nil
}

// scanEntries visits everything in blocks of the stream of facts, and says how it continues the entries through last and those
// that were inOrder since. An error of visit ends the scan.
func scanEntries(all []block, last uint64, digest digest, visit func(scanned) error) error {
	var held *scanned // bytes that cannot be read; the next finding decides their place
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

// scanBlocks visits everything in blocks of any stream, in order, and sets no places. It reads several blocks at a time, and
// calls digest, which may be nil, for several entries at a time. An error of visit ends the scan.
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
		for i := range found {
			for _, s := range found[i] {
				if err := visit(s); err != nil {
					return err
				}
			}
			found[i] = nil // its bytes are not needed while the next ones are visited
		}
	}
	return nil
}

// scan reads a block.
func (b block) scan(digest digest) (all []scanned, err error) {
	info, err := os.Stat(b.path)
	if err != nil {
		return nil, err
	}
	if info.Size() > blockLimit {
		return nil, damaged("%s has %d bytes", b.path, info.Size())
	}
	buf, err := os.ReadFile(b.path)
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
