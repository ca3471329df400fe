// Package durable writes files atomically: after a crash or a power cut a file has either its old content or the new one.
package durable

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Write replaces the file at path by what fill writes, or leaves it unchanged after an error. It writes and syncs a temporary file
// in the same directory, renames it and syncs the directory. The file is readable by its owner only.
func Write(path string, fill func(io.Writer) error) error {
	return beside(path, fill, Rename)
}

// temporary begins the names of temporary files.
const temporary = ".tmp-"

// Sweep removes the temporary files that processes left in some directories when they were killed: those over an hour old.
// What cannot be removed stays.
func Sweep(dirs ...string) {
	for _, dir := range dirs {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			info, err := e.Info()
			if err == nil && strings.HasPrefix(e.Name(), temporary) && info.Mode().IsRegular() && time.Since(info.ModTime()) > time.Hour {
				_ = os.Remove(filepath.Join(dir, e.Name()))
			}
		}
	}
}

// ErrLocked is the error of LockDir if the directory is locked.
var ErrLocked = errors.New("is locked")

// beside fills a temporary file beside path, syncs it, and has it take its place. After an error no file is left.
func beside(path string, fill func(io.Writer) error, place func(f *os.File, path string) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), temporary+"*") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := fill(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return place(f, path)
}

// WriteBytes replaces the file at path by b, as Write does.
func WriteBytes(path string, b []byte) error {
	return Write(path, func(w io.Writer) error { _, err := w.Write(b); return err })
}

// Create writes a file that does not exist yet, as Write does. The error is fs.ErrExist if it exists, whoever made it meanwhile.
func Create(path string, b []byte) error {
	return beside(path, func(w io.Writer) error { _, err := w.Write(b); return err }, link)
}

// link closes f and gives it the name path instead of its own. It fails if path exists.
func link(f *os.File, path string) error {
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	return errors.Join(os.Remove(f.Name()), SyncDir(filepath.Dir(path)))
}

// Rename closes f, which must be written and synced, renames it to path, and syncs the directory. Windows cannot rename an
// open file.
func Rename(f *os.File, path string) error {
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// ReadRegular reads a regular file of at most limit bytes. It neither follows a link nor waits for a pipe.
func ReadRegular(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|NoFollow, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s: more than %d bytes", path, limit)
	}
	return b, err
}
