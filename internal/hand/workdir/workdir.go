// Package workdir unpacks bundles into directories and reads directories back. It owns no fact.
//
// It trusts neither: a bundle may come from a stranger, and a stranger's code may have filled a directory and may still be
// running. It uses os.Root, so that no name and no link leads out of the directory, reads only regular files, and runs
// nothing.
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

// ErrBusy is the error if another process unpacks into the same directory.
var ErrBusy = errors.New("something else is unpacking there")

// Unpack writes the files of b into dir, which must be empty or not exist. It writes them into a folder beside it, named
// ".<dir>.unpacking", and renames that when it is complete: whatever happens, dir is either unchanged or has all files. After
// an error nothing else is left. After a kill that folder is left until the next Unpack into the same directory. It belongs
// to the process that has locked it; a dead process has no lock.
//
// The files are not synced, because a job is unpacked again after a crash. Extract syncs.
func Unpack(ctx context.Context, b *nutshell.Bundle, dir string) error {
	return unpack(ctx, dir, false, func(w *filler) error { return b.Walk(w.entry) })
}

// Extract opens a bundle of size bytes and unpacks it into dir as Unpack does, but reads it only once: dir gets its name after
// the whole bundle was checked. When it returns, the directory survives a power cut. If the power is cut before, dir is
// unchanged or has all files with their content. A file of version control is refused, because a person works in the
// directory. The errors are those of nutshell.Open, of nutshell.RefuseVersionControl and of the disk.
func Extract(ctx context.Context, r io.ReaderAt, size int64, l nutshell.Limits, dir string) (b *nutshell.Bundle, err error) {
	err = unpack(ctx, dir, true, func(w *filler) (err error) {
		if b, err = nutshell.Extract(r, size, l, w.entry); err != nil {
			return err
		}
		return nutshell.RefuseVersionControl(b.Files())
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Fill makes dir, opens a bundle of size bytes and unpacks it there, reading it only once. After an error the bundle is not to be
// used, and dir may have some of its files. So it is for a directory within one that the caller has made for itself and removes in
// any case: there, the lock and the rename of Unpack protect nobody, and are half of its system calls for a small bundle. Nothing is
// synced. The errors are those of nutshell.Open and of the disk.
func Fill(ctx context.Context, r io.ReaderAt, size int64, l nutshell.Limits, dir string) (b *nutshell.Bundle, err error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	err = fillAll(ctx, dir, func(w *filler) (err error) {
		b, err = nutshell.Extract(r, size, l, w.entry)
		return err
	})
	return b, err
}

// UnpackSome is Unpack for some of the files, and syncs as Extract does. where returns the path below dir for a file of the
// bundle, or false to leave it out. The paths must differ.
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
	if err := durable.MoveDir(temporary, dir); err != nil {
		return err
	}
	if sync {
		// The directory is complete. After a failure here it might not survive a power cut.
		return durable.SyncDir(filepath.Dir(dir))
	}
	return nil
}

// vacant returns an error early if the rename at the end would fail: dir is not empty, or is not a directory.
func vacant(dir string) error {
	d, err := durable.OpenDir(dir)
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

// claim makes a directory and locks it. It removes one that a dead process left under that name.
//
// Between two system calls another process may remove the directory, or make one. So the owner is the process that has the
// lock and, having it, still finds the same directory under the name. A directory in use is locked, so it is not taken for a
// leftover; and one that lost its name is not used.
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
			continue // another process removed it before we had the lock
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

// lockDir opens and locks a directory, but not a link to one. The error is fs.ErrNotExist if it lost its name meanwhile.
func lockDir(name string) (*os.File, error) {
	d, err := durable.LockDir(name)
	if errors.Is(err, durable.ErrLocked) {
		return nil, fmt.Errorf("%s: %w", name, ErrBusy)
	}
	if err != nil {
		return nil, err
	}
	named, err := os.Lstat(name)
	if err == nil && same(d, named) != nil {
		err = fs.ErrNotExist
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}
