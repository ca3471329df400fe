package nutshell

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"hash/maphash"
	"io"
	"io/fs"
	"sync"
)

// file is a file to pack. A file is read twice, because the manifest, which comes first in the archive, has the
// hashes of all. The mark is a second hash with a random seed, which is faster than SHA-256: it shows whether the file
// is the same the second time. Readers of the bundle check the SHA-256.
type file struct {
	Entry
	mark uint64
}

// intake reads the files of a tree, one after the other.
type intake struct {
	ctx  context.Context
	fsys fs.FS
	sum  hash.Hash
	mark maphash.Hash
	head []byte // of the file that was hashed last, up to its capacity
	buf  *[]byte
}

// buffers keeps buffers for the next intake.
var buffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// newIntake returns an intake that keeps the first bytes of each file that it hashes.
func newIntake(ctx context.Context, fsys fs.FS, seed maphash.Seed, keep int) *intake {
	in := &intake{ctx: ctx, fsys: fsys, sum: sha256.New(), buf: buffers.Get().(*[]byte), head: make([]byte, 0, keep)}
	in.mark.SetSeed(seed)
	return in
}

// close gives back the memory.
func (in *intake) close() { buffers.Put(in.buf) }

// hash reads a file of at most limit bytes, and one more of a longer one. It reports whether it is a private key.
func (in *intake) hash(path string, limit int64) (f file, key bool, err error) {
	from, err := in.fsys.Open(path)
	if err != nil {
		return file{}, false, err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return file{}, false, err
	}
	if !info.Mode().IsRegular() {
		return file{}, false, &EntryError{path, irregular(info.Mode())}
	}
	f.Entry = Entry{Path: path, Mode: 0o644}
	if info.Mode()&0o111 != 0 {
		f.Mode = 0o755
	}
	in.head = in.head[:0]
	in.sum.Reset()
	f.Size, f.mark, err = in.each(from, limit+1, func(b []byte) error {
		in.head = append(in.head, b[:min(len(b), cap(in.head)-len(in.head))]...)
		_, err := in.sum.Write(b)
		return err
	})
	if err != nil {
		return file{}, false, fmt.Errorf("%.200q: %w", path, err)
	}
	in.sum.Sum(f.Hash[:0])
	return f, IsPrivateKey(in.head[:min(len(in.head), keyHead)]), nil
}

// copyTo writes a file to the archive. It is ErrChanged if the file is not the one that was hashed.
func (in *intake) copyTo(w io.Writer, f file) error {
	from, err := in.fsys.Open(f.Path)
	if err != nil {
		return err
	}
	defer from.Close()
	n, mark, err := in.each(from, f.Size+1, func(b []byte) error {
		_, err := w.Write(b)
		return err
	})
	switch {
	case n > f.Size, err == nil && (n != f.Size || mark != f.mark):
		return fmt.Errorf("%.200q: %w", f.Path, ErrChanged)
	case err != nil:
		return fmt.Errorf("%.200q: %w", f.Path, err)
	}
	return nil
}

// each calls fn with the bytes that it reads, at most limit, and returns their number and their mark.
func (in *intake) each(r io.Reader, limit int64, fn func([]byte) error) (n int64, mark uint64, err error) {
	in.mark.Reset()
	for n < limit {
		if err := in.ctx.Err(); err != nil {
			return n, 0, err
		}
		buf := *in.buf
		got, err := r.Read(buf[:min(int64(len(buf)), limit-n)])
		n += int64(got)
		in.mark.Write(buf[:got])
		if failed := fn(buf[:got]); failed != nil {
			return n, 0, failed
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return n, 0, err
		}
	}
	return n, in.mark.Sum64(), nil
}

// keyHead limits the part of a file that is searched for a private key, in bytes.
const keyHead = 1 << 10

// reader stops reading when the context is done.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
