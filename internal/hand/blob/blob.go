// Package blob stores data that is too large for the journal: bundles, deliveries, the judge's evidence, full tool outputs.
// A blob is a file whose name is the SHA-256 of its content. It is written once and never changed, and verified when it is
// read. The package does not know the purpose of a blob, and deletes one only when it is told to.
package blob

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"guild"
	"guild/internal/durable"
)

// Errors that callers branch on.
var (
	// ErrMissing means that the store does not have the blob.
	ErrMissing = errors.New("no such blob")
	// ErrTooLarge means that the blob is larger than the caller's limit.
	ErrTooLarge = errors.New("the blob is too large")
	// ErrDamaged means that the content does not have the hash in the file's name.
	ErrDamaged = errors.New("the blob is not what was stored")
)

// Store keeps blobs in one directory. Several goroutines may use it.
type Store struct {
	NoSync bool // skip fsync, as the journal beside it does; to be set before the first use

	dir string
	tmp string // directory for files that are being written
}

// Open opens the store in dir, which no other process may use. It makes the directory if it is missing, and removes files
// that a crash left unfinished.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir, tmp: filepath.Join(dir, "tmp")}
	if err := os.RemoveAll(s.tmp); err != nil {
		return nil, fmt.Errorf("blobs: %w", err)
	}
	if err := os.MkdirAll(s.tmp, 0o700); err != nil {
		return nil, fmt.Errorf("blobs: %w", err)
	}
	return s, nil
}

// Put stores the data of r and returns its hash and its size in bytes. When it returns a nil error the blob is on the disk,
// unless NoSync is set.
func (s *Store) Put(ctx context.Context, r io.Reader) (guild.Hash, int64, error) {
	return s.PutMax(ctx, r, math.MaxInt64)
}

// PutMax is Put for at most limit bytes. If there are more, it stores nothing and returns ErrTooLarge.
func (s *Store) PutMax(ctx context.Context, r io.Reader, limit int64) (guild.Hash, int64, error) {
	return s.put(!s.NoSync, func(f *os.File) (guild.Hash, int64, error) {
		return receive(f, &capped{ctx, r, limit})
	})
}

// PutBytes stores b.
func (s *Store) PutBytes(ctx context.Context, b []byte) (guild.Hash, error) {
	return s.putBytes(ctx, b, guild.Sum(b), !s.NoSync)
}

// PutCopy stores b without waiting for the disk. It is for data that the journal has as well: if the machine loses power
// now, that copy remains.
func (s *Store) PutCopy(ctx context.Context, b []byte) (guild.Hash, error) {
	h := guild.Sum(b)
	if info, err := os.Stat(s.path(h)); err == nil && info.Size() == int64(len(b)) {
		return h, nil // replacing a file that is on the disk by one that is not would lose it in a crash
	}
	return s.putBytes(ctx, b, h, false)
}

func (s *Store) putBytes(ctx context.Context, b []byte, h guild.Hash, sync bool) (guild.Hash, error) {
	h, _, err := s.put(sync, func(f *os.File) (guild.Hash, int64, error) {
		if err := ctx.Err(); err != nil {
			return guild.Hash{}, 0, err
		}
		n, err := f.Write(b)
		return h, int64(n), err
	})
	return h, err
}

// put stores a file that fill writes.
func (s *Store) put(sync bool, fill func(*os.File) (guild.Hash, int64, error)) (guild.Hash, int64, error) {
	f, err := os.CreateTemp(s.tmp, "") // 0600
	if err != nil {
		return guild.Hash{}, 0, fmt.Errorf("blob: %w", err)
	}
	h, size, err := fill(f)
	if err == nil {
		err = keep(f, s.path(h), sync)
	}
	if err != nil {
		discard(f)
		return guild.Hash{}, 0, fmt.Errorf("blob: %w", err)
	}
	return h, size, nil
}

// Open opens a blob for reading and returns its size in bytes. It does not verify the content: use ReadAll, or hash the data.
// The caller closes the file.
func (s *Store) Open(h guild.Hash) (f *os.File, size int64, err error) {
	f, err = os.Open(s.path(h))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fmt.Errorf("%v: %w", h, ErrMissing)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("blob: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("blob: %w", errors.Join(err, f.Close()))
	}
	return f, info.Size(), nil
}

// ReadAll reads a blob of at most limit bytes and verifies its hash.
func (s *Store) ReadAll(h guild.Hash, limit int64) ([]byte, error) {
	f, size, err := s.Open(h)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > limit {
		return nil, fmt.Errorf("%v: %d bytes, at most %d wanted: %w", h, size, limit, ErrTooLarge)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("%v: %w", h, err)
	}
	if guild.Sum(b) != h {
		return nil, fmt.Errorf("%v: %w", h, ErrDamaged)
	}
	return b, nil
}

// Has reports whether the store holds the blob.
func (s *Store) Has(h guild.Hash) bool {
	info, err := os.Stat(s.path(h))
	return err == nil && info.Mode().IsRegular()
}

// Remove deletes a blob and reports whether it was there. When it returns a nil error the name is gone from the disk, unless
// NoSync is set; whoever reads the raw disk may still find the bytes.
func (s *Store) Remove(h guild.Hash) (bool, error) {
	err := os.Remove(s.path(h))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil && !s.NoSync {
		err = durable.SyncDir(s.dir)
	}
	if err != nil {
		return false, fmt.Errorf("remove blob: %w", err)
	}
	return true, nil
}

func (s *Store) path(h guild.Hash) string { return filepath.Join(s.dir, h.Hex()) }

// receive copies r to f, and returns its hash and size.
func receive(f *os.File, r io.Reader) (guild.Hash, int64, error) {
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(f, sum), r)
	return guild.Hash(sum.Sum(nil)), size, err
}

// keep renames a written file to path. With sync set, the file and its name are on the disk afterwards.
func keep(f *os.File, path string, sync bool) error {
	if !sync {
		return errors.Join(os.Rename(f.Name(), path), f.Close())
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return durable.Rename(f, path)
}

// discard removes an unfinished file. If that fails, the next Open removes it.
func discard(f *os.File) {
	f.Close()
	os.Remove(f.Name())
}

// capped is a reader that fails when its context ends, and when there are more than left bytes.
type capped struct {
	ctx  context.Context
	r    io.Reader
	left int64
}

// Read reads up to one byte more than is left, to find out whether there are more.
func (c *capped) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	if int64(len(p))-1 > c.left {
		p = p[:c.left+1]
	}
	n, err := c.r.Read(p)
	if int64(n) > c.left {
		return 0, ErrTooLarge
	}
	c.left -= int64(n)
	return n, err
}
