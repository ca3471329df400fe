package sandbox

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// Bounds of what is collected, beside Limits.Disk for its bytes and Limits.Inodes for its entries.
const (
	maxDepth = 64   // directories below one another
	maxName  = 1024 // bytes of a name
)

// WriteFiles writes what the names hold below root, the workspace of a run that has ended, as one tar stream
// for IO.Files. It takes regular files and directories only. The rest, what cannot be read, and what goes beyond
// the limits is left out and counted. No link leads anywhere, and no pipe is waited for.
func WriteFiles(w io.Writer, root *os.Root, names []string, l Limits) (left int, err error) {
	c := newCollector(w, l)
	for _, name := range names {
		if err := c.walk(root, filepath.ToSlash(filepath.Clean(name))); err != nil {
			return c.left, fmt.Errorf("collect %s: %w", name, err)
		}
	}
	return c.left, c.tw.Close()
}

// SiftFiles passes on, of a tar stream that was made inside a run by whoever, what WriteFiles could have written
// for the names. Where it is no tar any more it ends; an error, which wraps io.ErrUnexpectedEOF, is one that ends
// within a file, for what was written by then is no tar either.
func SiftFiles(w io.Writer, r io.Reader, names []string, l Limits) (left int, err error) {
	c := newCollector(w, l)
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return c.left, c.tw.Close()
		} else if err != nil {
			c.left++
			return c.left, c.tw.Close()
		}
		if err := c.sift(h, tr, names); err != nil {
			return c.left, err
		}
	}
}

// collector writes one stream of collected files.
type collector struct {
	tw      *tar.Writer
	bytes   int64 // that may still be written
	entries int64
	left    int // how many were left out
}

func newCollector(w io.Writer, l Limits) *collector {
	l = l.WithDefaults()
	return &collector{tw: tar.NewWriter(w), bytes: l.Disk, entries: l.Inodes}
}

// admits reports whether one more entry of this name and size is within the bounds.
func (c *collector) admits(name string, size int64) bool {
	if c.entries == 0 || size > c.bytes || len(name) > maxName || strings.Count(name, "/") >= maxDepth {
		c.left++
		return false
	}
	c.entries--
	c.bytes -= size
	return true
}

func (c *collector) directory(name string) error {
	return c.tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755})
}

// file writes an entry of exactly size bytes.
func (c *collector) file(name string, mode, size int64, r io.Reader) error {
	if err := c.tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644 | mode&0o111, Size: size}); err != nil {
		return err
	}
	_, err := io.CopyN(c.tw, r, size)
	return err
}

func (c *collector) walk(root *os.Root, top string) error {
	if _, err := root.Lstat(top); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fs.WalkDir(root.FS(), top, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil: // an unreadable directory, or a link out in the middle of top
			c.left++
			return nil
		case d.IsDir() && name == ".":
			return nil
		case d.IsDir() && !c.admits(name, 0):
			return fs.SkipDir
		case d.IsDir():
			return c.directory(name)
		case d.Type().IsRegular():
			return c.open(root, name)
		default:
			c.left++
			return nil
		}
	})
}

// open writes one file of a run that has ended: what Lstat saw is what is opened.
func (c *collector) open(root *os.Root, name string) error {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		c.left++
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || !c.admits(name, info.Size()) {
		return err
	}
	return c.file(name, int64(info.Mode().Perm()), info.Size(), f)
}

// sift passes one entry on if it is one that was asked for.
func (c *collector) sift(h *tar.Header, r io.Reader, names []string) error {
	name := path.Clean(h.Name)
	plain := h.Typeflag == tar.TypeReg || h.Typeflag == tar.TypeDir
	if !plain || h.Size < 0 || !filepath.IsLocal(name) || !wanted(name, names) {
		c.left++
		return nil
	}
	if !c.admits(name, h.Size) {
		return nil
	}
	if h.Typeflag == tar.TypeDir {
		return c.directory(name)
	}
	err := c.file(name, h.Mode, h.Size, r)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("collect %s: %w", name, err)
	}
	return nil
}

// wanted reports whether a name is one of names or below one.
func wanted(name string, names []string) bool {
	for _, n := range names {
		if n = filepath.ToSlash(filepath.Clean(n)); n == "." || below(name, n) {
			return true
		}
	}
	return false
}
