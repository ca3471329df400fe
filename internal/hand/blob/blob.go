// Package blob owns the bytes that are too large for the journal: bundles, deliveries, the judge's evidence,
// full tool outputs. A blob is a file named by the SHA-256 of its content; it is written once, never changed,
// and never trusted when read. The package does not know what a blob is for, and never deletes one.
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
	// ErrMissing means that the store does not hold the blob.
	ErrMissing = errors.New("no such blob")
	// ErrTooLarge means that there are more bytes than the caller wants.
	ErrTooLarge = errors.New("the blob is too large")
	// ErrDamaged means that the file no longer has the hash that it is named by.
	ErrDamaged = errors.New("the blob is not what was stored")
)

// Store keeps blobs in one directory. Several goroutines may use it.
type Store struct {
	NoSync bool // no fsync of what is stored: only beside a journal that does without, and set before the first use

	dir string
	tmp string // what is being written
}

// Open opens the store in dir, which is one process's own. It makes the directory if there is none and removes
// what a crash left half written.
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

// Put stores all that r yields and returns its hash and its size in bytes. When it returns nil the blob is on
// the disk, unless NoSync.
func (s *Store) Put(ctx context.Context, r io.Reader) (guild.Hash, int64, error) {
	return s.PutMax(ctx, r, math.MaxInt64)
}

// PutMax is Put for at most limit bytes. More is ErrTooLarge, and nothing is stored.
func (s *Store) PutMax(ctx context.Context, r io.Reader, limit int64) (guild.Hash, int64, error) {
	return s.put(!s.NoSync, func(f *os.File) (guild.Hash, int64, error) {
		return receive(f, &capped{ctx, r, limit})
	})
}

// PutBytes stores b.
func (s *Store) PutBytes(ctx context.Context, b []byte) (guild.Hash, error) {
	return s.putBytes(ctx, b, guild.Sum(b), !s.NoSync)
}

// PutCopy stores b without waiting for the disk: for what the journal holds as well, which is all that is left
// should the machine lose power now.
func (s *Store) PutCopy(ctx context.Context, b []byte) (guild.Hash, error) {
	h := guild.Sum(b)
	if info, err := os.Stat(s.path(h)); err == nil && info.Size() == int64(len(b)) {
		return h, nil // it may be on the disk already, and must not come off it
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

// put stores what fill writes.
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

// Open opens a blob for reading and returns its size in bytes. The content is not verified: for that use
// ReadAll, or hash what is read. The caller closes the file.
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

// ReadAll reads a blob of at most limit bytes and verifies that it is what was stored.
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

func (s *Store) path(h guild.Hash) string { return filepath.Join(s.dir, h.Hex()) }

// receive copies r to f, and returns its hash and size.
func receive(f *os.File, r io.Reader) (guild.Hash, int64, error) {
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(f, sum), r)
	return guild.Hash(sum.Sum(nil)), size, err
}

// keep gives a file that was written its name, and puts both on the disk if it is to be synced.
func keep(f *os.File, path string, sync bool) error {
	if !sync {
		return errors.Join(os.Rename(f.Name(), path), f.Close())
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return durable.Rename(f, path)
}

// discard removes what was written in vain. If that fails, the next Open removes it.
func discard(f *os.File) {
	f.Close()
	os.Remove(f.Name())
}

// capped is a reader that ends with its context, and fails after left bytes.
type capped struct {
	ctx  context.Context
	r    io.Reader
	left int64
}

// Read reads at most one byte more than is left, to learn whether there is one.
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
