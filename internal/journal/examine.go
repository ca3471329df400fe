package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"guild"
)

// examination reads everything that the server stored, before the server does: it would cut off what it cannot
// read, and carry on. Only an entry that was being written when the machine stopped may be incomplete, at the
// very end and after the mark.
type examination struct {
	last  uint64       // all entries through here are whole
	torn  bool         // after that something is not
	peaks []guild.Hash // the right edge of the tree over all entries
	roots map[uint64]guild.Hash
}

// examine holds what is stored against the mark, and returns the roots of the tree over the entries through
// each of the given sequences.
func examine(f files, h high, at ...uint64) (map[uint64]guild.Hash, error) {
	x := &examination{last: h.Archived, peaks: slices.Clone(h.Peaks), roots: make(map[uint64]guild.Hash)}
	for _, seq := range append(at, h.Seq) {
		x.roots[seq] = guild.Hash{}
	}
	if !h.Made {
		return x.roots, nil
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
	if x.roots[h.Seq] != h.Root && h.Seq > h.Archived {
		return nil, damaged("its entries through %d are not those that were on disk", h.Seq)
	}
	return x.roots, nil
}

// complete makes sure that the server will find the stream of facts, and not begin a new one.
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
	return nil
}

func (x *examination) stream(path string) error {
	all, err := blocks(path)
	if err != nil {
		return err
	}
	return readBlocks(all, block.leaves, x.take)
}

// readBlocks parses blocks, several at a time, and visits what was in them in its order.
func readBlocks[T any](all []block, parse func(block) ([]T, error), visit func(T) error) error {
	for some := range slices.Chunk(all, runtime.GOMAXPROCS(0)) {
		parsed := make([][]T, len(some))
		var reading errgroup.Group
		for i, b := range some {
			reading.Go(func() (err error) {
				parsed[i], err = parse(b)
				return err
			})
		}
		if err := reading.Wait(); err != nil {
			return err
		}
		for _, one := range parsed {
			for _, t := range one {
				if err := visit(t); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// leaf is an entry in the tree, or a stretch of bytes that is none.
type leaf struct {
	seq  uint64 // 0 for what cannot be read
	hash guild.Hash
}

// leaves reads a block.
func (b block) leaves() (all []leaf, err error) {
	buf, err := b.load()
	if err != nil {
		return nil, err
	}
	records, err := b.records(buf)
	if err != nil {
		return nil, err
	}
	for rec, ok := range records {
		if !ok {
			all = append(all, leaf{})
			continue
		}
		all = append(all, leaf{rec.seq, leafOf(guardOf(rec.subject), rec.data)})
	}
	return all, nil
}

func (x *examination) take(l leaf) error {
	switch {
	case x.torn: // and something follows: it was not the end
		return damaged("after entry %d something cannot be read", x.last)
	case l.seq == 0:
		x.torn = true
	case l.seq > x.last+1:
		return damaged("entry %d is followed by entry %d", x.last, l.seq)
	case l.seq == x.last+1:
		x.last = l.seq
		x.peaks = grow(x.peaks, l.hash, l.seq)
		if _, wanted := x.roots[l.seq]; wanted {
			x.roots[l.seq] = rootOf(x.peaks)
		}
	}
	return nil
}
