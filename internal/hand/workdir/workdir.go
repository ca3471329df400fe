// Package workdir is the hand that puts a bundle on the disk and takes a directory back. It owns no fact.
//
// It distrusts both: a bundle may come from a stranger, and a directory may have been filled by a stranger's
// code that is perhaps still running. It goes through os.Root only, so that no name and no link leads out of
// the directory it was given, it reads nothing but regular files, and it never runs anything.
package workdir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"guild/internal/durable"
	"guild/nutshell"
)

// ErrBusy is that another process unpacks into the same directory.
var ErrBusy = errors.New("something else is unpacking there")

// Unpack writes the files of b into dir, which must be empty or not exist yet. They are written beside it
// first, into a folder named ".<dir>.unpacking", and moved in place when all are there: whatever happens, dir is
// either as it was or has all of them. After an error nothing else is left; after a kill that folder is, until the
// next Unpack into the same directory. It belongs to whoever has a lock on it, and a dead process has none.
//
// The files are not synced, because who unpacks for a job does so again after a crash. Extract syncs.
func Unpack(ctx context.Context, b *nutshell.Bundle, dir string) error {
	return unpack(ctx, dir, false, func(w *filler) error { return b.Walk(w.entry) })
}

// Extract opens a bundle of size bytes and unpacks it into dir as Unpack does, but reads it only once: nothing has
// the name dir before all of it was found sound. Once it returns, the directory survives a power cut; and if the
// power is cut before, dir still is as it was or has all files with their content. Its errors are those of
// nutshell.Open and of the disk.
func Extract(ctx context.Context, r io.ReaderAt, size int64, l nutshell.Limits, dir string) (b *nutshell.Bundle, err error) {
	err = unpack(ctx, dir, true, func(w *filler) (err error) {
		b, err = nutshell.Extract(r, size, l, w.entry)
		return err
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// UnpackSome is Unpack for some of the files, and syncs as Extract does: where returns under which path below dir a file of
// the bundle goes, or false for one that is not written. No two files go to one path.
func UnpackSome(ctx context.Context, b *nutshell.Bundle, dir string, where func(name string) (string, bool)) error {
	return unpack(ctx, dir, true, func(w *filler) error {
		return b.Walk(func(e nutshell.Entry, r io.Reader) error {
			name, ok := where(e.Path)
			if !ok {
				return nil
			}
			e.Path = name
			return w.entry(e, r)
		})
	})
}

// unpack lets fill write into a temporary directory, which becomes dir.
func unpack(ctx context.Context, dir string, sync bool, fill func(*filler) error) (err error) {
	dir = filepath.Clean(dir)
	if err := vacant(dir); err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	temporary := filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".unpacking")
	lock, err := claim(temporary)
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("unpack: %w", err), os.RemoveAll(temporary))
		}
		lock.Close()
	}()
	if err := fillAll(ctx, temporary, fill); err != nil {
		return err
	}
	if sync {
		if err := syncTree(lock); err != nil {
			return err
		}
	}
	// Unlike os.Rename, the system call replaces an empty directory, in one step, and nothing else.
	if err := syscall.Rename(temporary, dir); err != nil {
		return &os.LinkError{Op: "rename", Old: temporary, New: dir, Err: err}
	}
	if sync {
		// The directory is there whole; a failure here only means that nobody knows for how long.
		return durable.SyncDir(filepath.Dir(dir))
	}
	return nil
}

// vacant complains early about what the last step would be refused for: a directory with something in it, or none.
func vacant(dir string) error {
	d, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	_, err = d.Readdirnames(1)
	switch {
	case err == nil:
		return &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTEMPTY}
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

// claim makes a directory and locks it. What a dead process left under that name is removed. Whoever has the lock
// and finds the directory still under its name owns both, so that a leftover is never mistaken for one in use, nor
// the other way round, whatever happens between two system calls.
func claim(name string) (*os.File, error) {
	for range 100 {
		err := os.Mkdir(name, 0o755)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		made := err == nil
		d, err := lockDir(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // swept by another, who took it for a leftover
		case err != nil:
			return nil, err
		case made:
			return d, nil
		}
		err = os.RemoveAll(name)
		d.Close()
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s: %w", name, ErrBusy)
}

// lockDir opens and locks a directory, not a link to one. It is fs.ErrNotExist if it lost its name meanwhile.
func lockDir(name string) (*os.File, error) {
	d, err := os.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%s: %w", name, ErrBusy)
	}
	if err == nil {
		var named fs.FileInfo
		if named, err = os.Lstat(name); err == nil && same(d, named) != nil {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}
