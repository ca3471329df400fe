package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"guild/internal/durable"
)

// copyTree copies a file, or a directory with its contents, if it exists.
func copyTree(from, to string) error {
	info, err := os.Stat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		if err := os.MkdirAll(to, 0o700); err != nil {
			return err
		}
		return os.CopyFS(to, os.DirFS(from))
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return durable.WriteBytes(to, b)
}

// syncTree syncs all files in a directory.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return durable.SyncDir(path)
	})
}
