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
	"os"
	"path"
	"path/filepath"
	"syscall"

	"guild/nutshell"
)

// Unpack writes the files of b into dir, which must be empty or not exist yet. They are written beside it
// first and moved in place when all are there: after an error, dir is as it was and nothing else is left.
// After a kill, a folder named ".<dir>.unpack-…" may be left beside it.
func Unpack(ctx context.Context, b *nutshell.Bundle, dir string) (err error) {
	dir = filepath.Clean(dir)
	temporary, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".unpack-")
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("unpack: %w", err), os.RemoveAll(temporary))
		}
	}()
	if err := fill(ctx, b, temporary); err != nil {
		return err
	}
	// Unlike os.Rename, the system call replaces an empty directory, in one step, and nothing else.
	if err := syscall.Rename(temporary, dir); err != nil {
		return &os.LinkError{Op: "rename", Old: temporary, New: dir, Err: err}
	}
	return nil
}

// fill writes the files of b into an empty directory.
func fill(ctx context.Context, b *nutshell.Bundle, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Chmod(".", 0o755); err != nil {
		return err
	}
	buf := make([]byte, 32<<10)
	return b.Walk(func(e nutshell.Entry, r io.Reader) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return write(root, e, r, buf)
	})
}

// write makes one file, which must not be there yet.
func write(root *os.Root, e nutshell.Entry, r io.Reader, buf []byte) error {
	if folder := path.Dir(e.Path); folder != "." {
		if err := root.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	f, err := root.OpenFile(e.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, e.Mode)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, r, buf)
	if err == nil {
		err = f.Chmod(e.Mode) // whatever the umask
	}
	return errors.Join(err, f.Close())
}
