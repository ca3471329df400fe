package credential

import (
	"golang.org/x/sys/unix"
)

// inMemory reports whether a directory is on a file system without a disk.
func inMemory(dir string) bool {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return false
	}
	return s.Type == unix.TMPFS_MAGIC || s.Type == unix.RAMFS_MAGIC
}
