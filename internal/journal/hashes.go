package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math/bits"
	"os"

	"golang.org/x/mod/sumdb/tlog"

	"guild"
)

// hashes is the file with every hash of the tree, in the order of tlog.StoredHashIndex: about 64 bytes for each entry. The
// journal itself needs only the right edge of its tree, but a proof needs some twenty hashes from all over it. To compute
// them takes one to three seconds with a million entries in the stream, and longer with archives; with the file a proof takes
// about a millisecond, mostly to fetch the entry. The file also has the hash of each entry as it was written, so Check can name
// an entry that was changed.
//
// The file is a cache and is not trusted: it must give the root of the tree that the journal has folded, and is made anew
// from the entries if it does not. So a process may die while it writes the file. It is extended and synced when somebody
// asks for the tree or a proof, not with every entry.
type hashes struct {
	f *os.File
	n uint64 // entries that have all their hashes in the file
}

func openHashes(path string) (*hashes, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &hashes{f, entriesOf(info.Size())}, nil
}

func (h *hashes) close() error { return h.f.Close() }

// entriesOf returns the number of entries that have all their hashes in a file of the given size in bytes.
func entriesOf(size int64) uint64 {
	count := size / tlog.HashSize
	n := count / 2
	for tlog.StoredHashCount(n+1) <= count {
		n++
	}
	return uint64(n)
}

// ReadHashes implements tlog.HashReader.
func (h *hashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	all := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		if _, err := h.f.ReadAt(all[i][:], index*tlog.HashSize); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// leaves reads the leaves of the first n entries.
func (h *hashes) leaves(n uint64) ([]guild.Hash, error) {
	all := make([]guild.Hash, n)
	for i := range all {
		if _, err := h.f.ReadAt(all[i][:], tlog.StoredHashIndex(0, int64(i))*tlog.HashSize); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// peaks returns the right edge of the tree over the entries in the file.
func (h *hashes) peaks() ([]guild.Hash, error) {
	var peaks []guild.Hash
	for rest := h.n; rest > 0; {
		level := bits.Len64(rest) - 1
		before := h.n - rest
		found, err := h.ReadHashes([]int64{tlog.StoredHashIndex(level, int64(before>>level))})
		if err != nil {
			return nil, err
		}
		peaks = append(peaks, guild.Hash(found[0]))
		rest -= 1 << level
	}
	return peaks, nil
}

// errStale means that the file has to be made anew.
var errStale = errors.New("the file of hashes is not of these entries")

// extend adds the hashes of the entries through a sequence, the tree over which has the given root. It returns errStale if the
// file is of another tree.
func (h *hashes) extend(through uint64, root guild.Hash, entries func(from uint64, visit func(scanned) error) error) error {
	if h.n > through {
		return errStale
	}
	peaks, err := h.peaks()
	if err != nil {
		return err
	}
	w := hashWriter{f: h.f, at: tlog.StoredHashCount(int64(h.n)) * tlog.HashSize}
	if h.n < through {
		err = entries(h.n+1, func(s scanned) error {
			peaks = growing(peaks, s.leaf, s.seq, w.add)
			return w.err
		})
	}
	if err != nil {
		return err
	}
	if rootOf(peaks) != root {
		return errStale
	}
	if h.n == through {
		return nil
	}
	if err := errors.Join(w.flush(), h.f.Sync()); err != nil { // without the sync, Check could not tell a power cut from an attack
		return err
	}
	h.n = through
	return nil
}

// hashWriter buffers hashes and writes them from an offset on.
type hashWriter struct {
	f   io.WriterAt
	at  int64
	buf []byte
	err error
}

func (w *hashWriter) add(h guild.Hash) {
	const many = 1 << 20 // bytes
	w.buf = append(w.buf, h[:]...)
	if len(w.buf) >= many {
		w.err = errors.Join(w.err, w.flush())
	}
}

func (w *hashWriter) flush() error {
	n, err := w.f.WriteAt(w.buf, w.at)
	w.at, w.buf = w.at+int64(n), w.buf[:0]
	return err
}

// prove returns the path from an entry to the root of the tree of some size. It also checks that this tree is a prefix of
// the one over all entries in the file, which has the given root. It returns errStale if the file does not agree.
func (h *hashes) prove(seq, size uint64, leaf, root guild.Hash) ([][]byte, error) {
	then, err := h.prefix(size, root)
	if err != nil {
		return nil, err
	}
	proof, err := tlog.ProveRecord(int64(size), int64(seq-1), h)
	if err != nil {
		return nil, err
	}
	if tlog.CheckRecord(proof, int64(size), then, int64(seq-1), tlog.Hash(leaf)) != nil {
		return nil, errStale
	}
	return paths(proof), nil
}

// grow returns the consistency proof between the trees of two sizes, the later of which must be a prefix of the one over all
// entries in the file, which has the given root. It returns errStale if the file does not agree.
func (h *hashes) grow(from, to uint64, root guild.Hash) ([][]byte, error) {
	early, err := tlog.TreeHash(int64(from), h)
	if err != nil {
		return nil, err
	}
	late, err := h.prefix(to, root)
	if err != nil {
		return nil, err
	}
	proof, err := tlog.ProveTree(int64(to), int64(from), h)
	if err != nil {
		return nil, err
	}
	if tlog.CheckTree(proof, int64(to), late, int64(from), early) != nil {
		return nil, errStale
	}
	return paths(proof), nil
}

// prefix returns the root of the tree of some size, after a check that it is a prefix of the one over all entries in the file,
// which has the given root.
func (h *hashes) prefix(size uint64, root guild.Hash) (tlog.Hash, error) {
	all := int64(h.n)
	then, err := tlog.TreeHash(int64(size), h)
	if err != nil {
		return tlog.Hash{}, err
	}
	growth, err := tlog.ProveTree(all, int64(size), h)
	if err != nil {
		return tlog.Hash{}, err
	}
	if tlog.CheckTree(growth, all, tlog.Hash(root), int64(size), then) != nil {
		return tlog.Hash{}, errStale
	}
	return then, nil
}

func paths(proof []tlog.Hash) [][]byte {
	path := make([][]byte, len(proof))
	for i := range proof {
		path[i] = proof[i][:]
	}
	return path
}

// withHashes calls use with the file of hashes, extended to all present entries, and the root of their tree. If the file turns
// out to be stale, it is made anew, once.
func (j *Journal) withHashes(ctx context.Context, use func(h *hashes, root guild.Hash) error) error {
	j.hashing.Lock()
	defer j.hashing.Unlock()
	h, err := openHashes(j.files.hashes())
	if err != nil {
		return err
	}
	through, root := j.state.position() // after the lock: the caller before us may have extended the file
	entries := func(from uint64, visit func(scanned) error) error { return j.onDisk(ctx, from, through, visit) }
	try := func() error {
		if err := h.extend(through, root, entries); err != nil {
			return err
		}
		return use(h, root)
	}
	err = try()
	if errors.Is(err, errStale) || errors.Is(err, io.EOF) {
		h.n, err = 0, h.f.Truncate(0)
		if err == nil {
			err = try()
		}
	}
	if errors.Is(err, errStale) {
		err = damaged("its entries on the disk are not those that were recorded")
	}
	return errors.Join(err, h.close())
}

// proven returns the leaves of the entries through a mark as they were when the mark was written: those in the file of hashes,
// and then those computed from the entries on the disk. If they do not give the root of the mark, it returns none.
func (f files) proven(mark high) ([]guild.Hash, error) {
	if _, err := os.Stat(f.hashes()); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	h, err := openHashes(f.hashes())
	if err != nil {
		return nil, err
	}
	defer h.close() // only read
	all, err := h.leaves(min(h.n, mark.Seq))
	if err != nil {
		return nil, err
	}
	if uint64(len(all)) < mark.Seq {
		err = f.scan(uint64(len(all))+1, mark.Archived, func(s scanned) error {
			if s.place == inOrder && s.seq <= mark.Seq {
				all = append(all, s.leaf)
			}
			return nil
		})
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !wrong(err) {
		return nil, err
	}
	if rootOf(growAll(nil, 0, all)) != mark.Root {
		return nil, nil
	}
	return all, nil
}

// errEnough ends a visit early.
var errEnough = errors.New("enough")

// onDisk visits the entries from one sequence through another, with their leaves, as they are in the files.
func (j *Journal) onDisk(ctx context.Context, from, through uint64, visit func(scanned) error) error {
	j.cutting.RLock()
	defer j.cutting.RUnlock()
	next := from
	err := j.files.scan(from, j.mark.get().Archived, func(s scanned) error {
		switch s.place {
		case repeated, deleted:
			return nil
		case inOrder:
			next++
		default:
			return damaged("entry %d cannot be read", next)
		}
		if err := visit(s); err != nil {
			return err
		}
		if s.seq == through {
			return errEnough
		}
		return ctx.Err()
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	if err == nil {
		err = damaged("entry %d cannot be read", next)
	}
	return err
}

// scan visits everything that is on the disk from a sequence on, with the leaves: first the archive files if the entry is in
// them, then the stream. Entries before that one may come first, and are repeated.
func (f files) scan(from, archived uint64, visit func(scanned) error) error {
	if from <= archived {
		_, err := f.readArchives(archived, func(s scanned) error {
			if s.seq < from {
				s.place = repeated
			}
			return visit(s)
		})
		if err != nil {
			return err
		}
	}
	all, err := blocks(f.facts())
	if err != nil {
		return err
	}
	first := len(all) - 1
	for ; first > 0; first-- {
		begins, err := all[first].begins()
		if err != nil {
			return err
		}
		if begins != 0 && begins <= from {
			break
		}
	}
	return scanEntries(all[max(first, 0):], max(from-1, archived), withLeaf, visit)
}

// begins returns the sequence of the block's first record, 0 if there is none. It also returns 0 for a deletion: when entries
// are archived, the server may note that at the start of a new block, with the sequence of a much older entry.
func (b block) begins() (uint64, error) {
	f, err := os.Open(b.path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	head := make([]byte, recordHead)
	_, err = io.ReadFull(f, head)
	switch {
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return 0, nil // too short for a record
	case err != nil:
		return 0, err
	}
	seq := binary.LittleEndian.Uint64(head[4:])
	if seq&erasedBits != 0 {
		return 0, nil
	}
	return seq, nil
}
