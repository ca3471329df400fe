//go:build unix

package durable

import (
	"errors"
	"os"
	"syscall"
)

// NoFollow is the flag of os.OpenFile that refuses to follow a link. The file is either not opened, or is the link itself.
const NoFollow = syscall.O_NOFOLLOW

// SyncDir syncs a directory, so that new names in it survive a crash. It also syncs a file.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// OpenDir opens a directory, but not a link to one.
func OpenDir(dir string) (*os.File, error) {
	return os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|NoFollow, 0)
}

// LockDir opens a directory as OpenDir does, and locks it until the file is closed or the process ends. The error is ErrLocked
// if it is locked.
func LockDir(dir string) (*os.File, error) {
	d, err := OpenDir(dir)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return d, nil
	}
	d.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	return nil, &os.PathError{Op: "lock", Path: dir, Err: err}
}

// MoveDir renames a directory. Unlike os.Rename it also replaces a directory, in one step, but only an empty one.
func MoveDir(from, to string) error {
	if err := syscall.Rename(from, to); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}
