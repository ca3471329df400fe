package nutshell

import (
	"archive/tar"
	"errors"
	"io"
	"strings"
)

// block is the unit of a tar archive, and endMarker the two empty ones that end it.
const (
	block     = 512
	endMarker = 2 * block
)

// archive is the file of a bundle and the limits it is read with. It can be scanned many times.
type archive struct {
	r      io.ReaderAt
	size   int64
	limits Limits
}

// scan reads the archive from end to end and calls visit with each regular file, whose Hash is not set yet.
// The rest of a file that visit has not read is skipped. It refuses everything that a bundle must not have, and that can
// be seen without the manifest.
func (a archive) scan(visit func(Entry, io.Reader) error) error {
	p, err := openPayload(a.r, a.size)
	if err != nil {
		return err
	}
	defer p.close()
	in := a.limits.budget(p, a.size)
	if err := a.entries(in, visit); err != nil {
		return err
	}
	if err := padding(in); err != nil {
		return err
	}
	return p.finish()
}

// entries reads the tar archive up to its end marker. Package tar takes the end of the stream for the end of the archive
// if the marker is missing; a bundle that was cut between two files would look whole. So the bytes must be there.
func (a archive) entries(in *budgetReader, visit func(Entry, io.Reader) error) error {
	t := tar.NewReader(in)
	sum := tally{limits: a.limits}
	end := int64(0) // of the last entry
	for {
		header, err := t.Next()
		if errors.Is(err, io.EOF) && in.n >= end+endMarker {
			return nil
		}
		if err != nil {
			return tarError(err)
		}
		if err := sum.add(header); err != nil {
			return err
		}
		end = in.n + (header.Size+block-1)/block*block
		if header.Typeflag == tar.TypeDir {
			continue
		}
		if err := visit(entryOf(header), entryReader{t}); err != nil {
			return err
		}
	}
}

// entryReader reads the content of one entry and makes its errors those of this package.
type entryReader struct{ r io.Reader }

func (e entryReader) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = tarError(err)
	}
	return n, err
}

// tarError returns the errors of this package as they are, and those of package tar as ErrTruncated or ErrDamaged.
func tarError(err error) error {
	if _, ok := errors.AsType[*LimitError](err); ok || errors.Is(err, ErrTruncated) || errors.Is(err, ErrDamaged) {
		return err
	}
	return damage(err)
}

func entryOf(h *tar.Header) Entry {
	e := Entry{Path: h.Name, Size: h.Size, Mode: 0o644}
	if h.Mode&0o111 != 0 {
		e.Mode = 0o755
	}
	return e
}

// tally counts the entries of an archive and checks them against the limits.
type tally struct {
	limits  Limits
	names   names
	entries int
	bytes   int64
	root    bool // its entry was read
}

// add counts an entry, and takes off the "./" that tar puts before the paths. The error says why it is refused.
func (t *tally) add(h *tar.Header) error {
	if reason := unwanted(h); reason != "" {
		return &EntryError{h.Name, reason}
	}
	if h.Typeflag == tar.TypeDir {
		h.Name, h.Size = strings.TrimSuffix(h.Name, "/"), 0
		if h.Name == "." && !t.root {
			t.root = true // of the folder that the archive is of, which "tar c ." writes first
			return nil
		}
	}
	h.Name = strings.TrimPrefix(h.Name, "./")
	return t.addPath(h.Name, h.Size, h.Typeflag == tar.TypeReg)
}

// addPath counts a file or folder. The error says why it is refused.
func (t *tally) addPath(path string, size int64, file bool) error {
	t.entries++
	if t.entries > t.limits.Entries {
		return &LimitError{What: "Entries", Limit: int64(t.limits.Entries), Path: path}
	}
	if err := t.resize(path, 0, size); err != nil {
		return err
	}
	if err := t.limits.checkPath(path); err != nil {
		return err
	}
	return t.names.add(path, file)
}

// resize changes the size that a file was counted with.
func (t *tally) resize(path string, was, size int64) error {
	t.bytes += size - was
	switch {
	case size > t.limits.File:
		return &LimitError{What: "File", Limit: t.limits.File, Path: path}
	case t.bytes > t.limits.Total:
		return &LimitError{What: "Total", Limit: t.limits.Total, Path: path}
	}
	return nil
}

// remove takes back that a file of this size was counted.
func (t *tally) remove(size int64) {
	t.entries--
	t.bytes -= size
}

// unwanted says why an entry is neither a regular file nor a folder, or nothing.
func unwanted(h *tar.Header) string {
	switch h.Typeflag {
	case tar.TypeReg:
		for key := range h.PAXRecords {
			if strings.HasPrefix(key, "GNU.sparse.") {
				return "is a sparse file"
			}
		}
		return ""
	case tar.TypeDir:
		return ""
	case tar.TypeSymlink, tar.TypeLink:
		return "is a link"
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return "is a device or a pipe"
	}
	return "is neither a regular file nor a folder"
}

// padding reads the rest of the stream, which may only be the zeros that fill the last record.
func padding(r io.Reader) error {
	buf := make([]byte, 4<<10)
	for {
		n, err := r.Read(buf)
		for _, b := range buf[:n] {
			if b != 0 {
				return ErrTrailing
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return tarError(err)
		}
	}
}
