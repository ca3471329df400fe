package durable

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// NoFollow is the flag of os.OpenFile that refuses to follow a link. The file is either not opened, or is the link itself.
const NoFollow = syscall.FILE_FLAG_OPEN_REPARSE_POINT

// SyncDir does nothing: Windows has no call that syncs a directory. NTFS writes names to its own journal, so after a power
// cut the last new names may be missing, but none is half there.
func SyncDir(string) error { return nil }

// OpenDir opens a directory, but not a link to one.
func OpenDir(dir string) (*os.File, error) {
	d, err := os.OpenFile(dir, os.O_RDONLY|NoFollow, 0)
	if err != nil {
		return nil, err
	}
	return onlyDir(d)
}

// onlyDir returns d if it is a directory. Otherwise it closes d and returns an error.
func onlyDir(d *os.File) (*os.File, error) {
	info, err := d.Stat()
	if err == nil && !info.IsDir() {
		err = &os.PathError{Op: "open", Path: d.Name(), Err: syscall.ENOTDIR}
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// LockDir opens a directory as OpenDir does, and locks it until the file is closed or the process ends. The error is ErrLocked
// if it is locked.
//
// The lock is the sharing mode: the directory is opened for writing, and nobody else can do that meanwhile. Go opens
// directories for reading only, so files in it can be made, and it can be renamed and removed.
func LockDir(dir string) (*os.File, error) {
	const (
		addFile      = 0x2 // FILE_ADD_FILE
		onlyOneAdder = syscall.FILE_SHARE_READ | syscall.FILE_SHARE_DELETE
		violation    = syscall.Errno(32) // ERROR_SHARING_VIOLATION
	)
	name, err := syscall.UTF16PtrFromString(dir)
	if err != nil {
		return nil, &os.PathError{Op: "lock", Path: dir, Err: err}
	}
	h, err := syscall.CreateFile(name, syscall.GENERIC_READ|addFile, onlyOneAdder, nil, syscall.OPEN_EXISTING,
		syscall.FILE_FLAG_BACKUP_SEMANTICS|syscall.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	if errors.Is(err, violation) {
		err = ErrLocked
	}
	if err != nil {
		return nil, &os.PathError{Op: "lock", Path: dir, Err: err}
	}
	return onlyDir(os.NewFile(uintptr(h), dir))
}

// MoveDir renames a directory. Unlike os.Rename it also replaces a directory, but only an empty one. Windows cannot do that in
// one step: after a crash the empty directory may be missing.
func MoveDir(from, to string) error {
	err := removeEmpty(to)
	if err == nil {
		err = syscall.Rename(from, to) // refuses to replace anything
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// removeEmpty removes a directory if it exists and is empty, and refuses anything else.
func removeEmpty(dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.IsDir() { // a link is not
		err = syscall.ENOTDIR
	}
	if err == nil {
		err = syscall.Rmdir(dir)
	}
	return err
}
