package journal

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/zstd"

	"guild"
)

// archiveFormat names an archive file by its first and its last entry. The names sort by sequence.
const archiveFormat = "%020d-%020d.jsonl.zst"

// maxWindow limits the memory for decompressing an archive file, in bytes.
const maxWindow = 64 << 20

// archiveFile is a file with entries that are no longer in the stream.
type archiveFile struct {
	path          string
	from, through uint64
}

func (f files) archived(from, through uint64) string {
	return filepath.Join(f.archive(), fmt.Sprintf(archiveFormat, from, through))
}

// archives lists the archive files, oldest first.
func (f files) archives() ([]archiveFile, error) {
	entries, err := os.ReadDir(f.archive())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []archiveFile
	for _, e := range entries {
		a := archiveFile{path: filepath.Join(f.archive(), e.Name())}
		_, err := fmt.Sscanf(e.Name(), archiveFormat, &a.from, &a.through)
		if err == nil && a.path == f.archived(a.from, a.through) { // Sscanf ignores what follows
			all = append(all, a)
		}
	}
	return all, nil
}

// archivesThrough yields the files that together hold the entries 1 to through, and a *DamagedError if one is missing.
func (f files) archivesThrough(through uint64) iter.Seq2[archiveFile, error] {
	return func(yield func(archiveFile, error) bool) {
		all, err := f.archives()
		if err != nil {
			yield(archiveFile{}, err)
			return
		}
		for next := uint64(1); next <= through; {
			i := slices.IndexFunc(all, func(a archiveFile) bool { return a.from == next && a.through <= through })
			if i < 0 {
				yield(archiveFile{}, damaged("the archive file that begins with entry %d is gone", next))
				return
			}
			if !yield(all[i], nil) {
				return
			}
			next = all[i].through + 1
		}
	}
}

// archivedThrough returns the last entry up to which there are archive files without a gap.
func (f files) archivedThrough() (through uint64, err error) {
	all, err := f.archives()
	for _, a := range all {
		if a.from == through+1 {
			through = a.through
		}
	}
	return through, err
}

// archiveThrough returns the file whose last entry is given.
func (f files) archiveThrough(through uint64) (archiveFile, error) {
	all, err := f.archives()
	if err != nil {
		return archiveFile{}, err
	}
	i := slices.IndexFunc(all, func(a archiveFile) bool { return a.through == through })
	if i < 0 {
		return archiveFile{}, damaged("the archive file that ends with entry %d is gone", through)
	}
	return all[i], nil
}

// discardArchives removes the files with entries from a given one on. Their entries are still in the stream: Archive was
// interrupted.
func (f files) discardArchives(from uint64) error {
	all, err := f.archives()
	if err != nil {
		return err
	}
	for _, a := range all {
		if a.from >= from {
			if err := os.Remove(a.path); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkpoint reads the archives through a sequence and returns the last checkpoint.
func (f files) checkpoint(through uint64) (Checkpoint, error) {
	return f.readArchives(through, func(scanned) error { return nil })
}

// readArchives visits the archived entries 1 to through, in their order, and returns the last checkpoint.
func (f files) readArchives(through uint64, visit func(scanned) error) (point Checkpoint, err error) {
	for a, err := range f.archivesThrough(through) {
		if err != nil {
			return Checkpoint{}, err
		}
		if point, err = a.read(point, visit); err != nil {
			return Checkpoint{}, err
		}
	}
	return point, nil
}

// replayArchives folds the archived entries from a sequence on.
func (j *Journal) replayArchives(from uint64) error {
	h := j.mark.get()
	point, err := j.files.readArchives(h.Archived, func(s scanned) error {
		if s.seq < from {
			return nil
		}
		m, err := s.decode(j.keys)
		if err != nil {
			return err
		}
		return j.state.replay(m)
	})
	if err != nil {
		return err
	}
	if point.Root != rootOf(h.Peaks) {
		return damaged("the archive files are not those of the entries through %d", h.Archived)
	}
	return nil
}

// sum returns the SHA-256 of the file.
func (a archiveFile) sum() (h guild.Hash, err error) {
	f, err := os.Open(a.path)
	if err != nil {
		return h, err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return h, err
	}
	return guild.Hash(sum.Sum(nil)), nil
}

// lines calls read with a decoder of the file's lines.
func (a archiveFile) lines(read func(*json.Decoder) error) error {
	f, err := os.Open(a.path)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := zstd.NewReader(f, zstd.WithDecoderMaxMemory(maxWindow))
	if err != nil {
		return err
	}
	defer z.Close()
	if err := read(json.NewDecoder(z)); err != nil {
		return fmt.Errorf("archive file %s: %w", filepath.Base(a.path), err)
	}
	return nil
}

// entry returns one of the entries of the file. Nothing is compared with the checkpoint.
func (a archiveFile) entry(seq uint64) (m message, err error) {
	err = a.lines(func(lines *json.Decoder) error {
		for next := a.from; next <= a.through; next++ {
			var line archived
			if err := lines.Decode(&line); err != nil || line.Seq != next {
				return damaged("the line of entry %d cannot be read", next)
			}
			if next == seq {
				m = message{seq: seq, subject: line.Subject, data: line.Entry}
				return nil
			}
		}
		return damaged("entry %d is not in the file", seq)
	})
	return m, err
}

// read visits the entries of the file and returns its checkpoint, which it has computed from them and the checkpoint of the
// file before. So the file is unchanged if the caller knows the checkpoint by other means, such as the mark.
func (a archiveFile) read(before Checkpoint, visit func(scanned) error) (point Checkpoint, err error) {
	err = a.lines(func(lines *json.Decoder) error {
		point, err = readEntries(lines, before, visit)
		return err
	})
	if err != nil {
		return Checkpoint{}, err
	}
	if point.From != a.from || point.Through != a.through {
		return Checkpoint{}, damaged("the archive file %s was renamed", a.path)
	}
	return point, nil
}

// readEntries visits the entries of lines, each with its leaf, and returns the checkpoint after them.
func readEntries(lines *json.Decoder, before Checkpoint, visit func(scanned) error) (Checkpoint, error) {
	peaks := slices.Clone(before.Peaks)
	for next := before.Through + 1; ; next++ {
		var line archived
		if err := lines.Decode(&line); err != nil {
			return Checkpoint{}, damaged("the line of entry %d cannot be read: %v", next, err)
		}
		if line.Checkpoint != nil {
			return readCheckpoint(line.Checkpoint, before.Through+1, next-1, rootOf(peaks))
		}
		if line.Seq != next {
			return Checkpoint{}, damaged("entry %d is followed by entry %d", next-1, line.Seq)
		}
		s := scanned{seq: line.Seq, subject: line.Subject, data: line.Entry, leaf: leafOf(line.Subject, line.Entry)}
		peaks = grow(peaks, s.leaf, s.seq)
		if err := visit(s); err != nil {
			return Checkpoint{}, err
		}
	}
}

// readCheckpoint decodes a checkpoint and compares it with the computed values.
func readCheckpoint(text json.RawMessage, from, through uint64, root guild.Hash) (Checkpoint, error) {
	var point Checkpoint
	if err := json.Unmarshal(text, &point); err != nil {
		return Checkpoint{}, damaged("a checkpoint cannot be read: %v", err)
	}
	if point.From != from || point.Through != through || point.Root != root || rootOf(point.Peaks) != root {
		return Checkpoint{}, damaged("the checkpoint at entry %d does not fit its entries", through)
	}
	return point, nil
}
