//go:build !linux

package workdir

import (
	"io/fs"
	"os"
	"path/filepath"

	"guild/internal/durable"
)

// syncTree flushes all files below an open directory to the disk.
func syncTree(dir *os.File) error {
	return filepath.WalkDir(dir.Name(), func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return durable.SyncDir(p)
	})
}
