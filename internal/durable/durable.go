// Package durable writes files so that a crash, or a machine without power, leaves either what was there before
// or what was written. It does not know what it writes.
package durable

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Write makes path hold what fill writes, or leaves it as it was: a temporary file beside it is written, synced
// and renamed, and the directory is synced. The file is readable by its owner only.
func Write(path string, fill func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	if err := fill(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return Rename(f, path)
}

// WriteBytes is Write for bytes at hand.
func WriteBytes(path string, b []byte) error {
	return Write(path, func(w io.Writer) error { _, err := w.Write(b); return err })
}

// Rename closes f, which was written and synced, and gives it the name path for good.
func Rename(f *os.File, path string) error {
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes the names in a directory durable. For a file it syncs the file.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
