package workdir

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncTree flushes all files below an open directory to the disk. One call for the whole file system costs as much as syncing
// a few files one by one, and a bundle may have ten thousand.
func syncTree(dir *os.File) error {
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return &os.PathError{Op: "syncfs", Path: dir.Name(), Err: err}
	}
	return nil
}
