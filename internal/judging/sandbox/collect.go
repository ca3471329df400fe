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
	"slices"
	"strings"
	"syscall"
)

// Bounds of collected files, beside Limits.Disk for their bytes and Limits.Inodes for their number.
const (
	maxDepth = 64   // nested directories
	maxName  = 1024 // bytes of a name
)

// WriteFiles writes the named files and directories below root, the workspace of a run that has ended, as one tar
// stream for IO.Files. It writes regular files and directories only; everything else, unreadable files, and what
// exceeds the limits are skipped. It returns the number of skipped files. It follows no link out of root and never
// blocks on a pipe.
func WriteFiles(w io.Writer, root *os.Root, names []string, l Limits) (skipped int, err error) {
	c := newCollector(w, l)
	for _, name := range names {
		if err := c.walk(root, filepath.ToSlash(filepath.Clean(name))); err != nil {
			return c.skipped, fmt.Errorf("collect %s: %w", name, err)
		}
	}
	return c.skipped, c.tw.Close()
}

// SiftFiles copies a tar stream that hostile code may have made, and passes on only entries that WriteFiles could have
// written for names. It returns the number of skipped entries. It stops without an error where the stream is no longer
// a valid tar. The error wraps io.ErrUnexpectedEOF if the stream ends within a file; the output is then not a valid tar
// either.
//
// A runner uses it if a process inside the sandbox reads the files. That process has no more privileges than the run,
// so the run may have written its output: links, names outside the workspace, or any number of files.
func SiftFiles(w io.Writer, r io.Reader, names []string, l Limits) (skipped int, err error) {
	c := newCollector(w, l)
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return c.skipped, c.tw.Close()
		} else if err != nil {
			c.skipped++
			return c.skipped, c.tw.Close()
		}
		if err := c.sift(h, tr, names); err != nil {
			return c.skipped, err
		}
	}
}

// collector writes one stream of collected files.
type collector struct {
	tw      *tar.Writer
	bytes   int64 // bytes that may still be written
	entries int64 // entries that may still be written
	skipped int
}

func newCollector(w io.Writer, l Limits) *collector {
	l = l.WithDefaults()
	return &collector{tw: tar.NewWriter(w), bytes: l.Disk, entries: l.Inodes}
}

// admits reports whether one more entry of this name and size is within the limits, and counts it.
func (c *collector) admits(name string, size int64) bool {
	if c.entries == 0 || size > c.bytes || len(name) > maxName || strings.Count(name, "/") >= maxDepth {
		c.skipped++
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

// walk writes the entry top and everything below it.
func (c *collector) walk(root *os.Root, top string) error {
	if _, err := root.Lstat(top); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fs.WalkDir(root.FS(), top, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil: // an unreadable directory, or a link in the middle of top that leads out
			c.skipped++
			return nil
		case d.IsDir() && name == ".":
			return nil
		case d.IsDir() && !c.admits(name, 0):
			return fs.SkipDir
		case d.IsDir():
			return c.directory(name)
		case !d.Type().IsRegular():
			c.skipped++
			return nil
		}
		// A link could have replaced the file since WalkDir saw it, and a pipe would block. os.Root refuses a link that leads
		// out, and O_NONBLOCK prevents the wait.
		f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			c.skipped++
			return nil
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil || !info.Mode().IsRegular() || !c.admits(name, info.Size()) {
			return err
		}
		return c.file(name, int64(info.Mode().Perm()), info.Size(), f)
	})
}

// sift passes on an entry if it is a regular file or directory below one of names.
func (c *collector) sift(h *tar.Header, r io.Reader, names []string) error {
	name := path.Clean(h.Name)
	wanted := slices.ContainsFunc(names, func(n string) bool {
		n = filepath.ToSlash(filepath.Clean(n))
		return n == "." || below(name, n)
	})
	plain := h.Typeflag == tar.TypeReg || h.Typeflag == tar.TypeDir
	if !plain || h.Size < 0 || !filepath.IsLocal(name) || !wanted {
		c.skipped++
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
