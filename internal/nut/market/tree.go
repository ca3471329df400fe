package market

import (
	"io/fs"
	"time"

	"guild/internal/nut/host"
)

// oneFile is a tree of one file in memory.
type oneFile struct {
	name string
	text []byte
}

// Open implements fs.FS.
func (t oneFile) Open(name string) (fs.File, error) {
	if name != t.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return host.TextFile(t.name, t.text), nil
}

// nothing is an empty tree.
type nothing struct{}

// Open implements fs.FS.
func (nothing) Open(name string) (fs.File, error) {
	if name == "." {
		return emptyDir{}, nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

type emptyDir struct{}

func (d emptyDir) Stat() (fs.FileInfo, error) { return d, nil }

func (emptyDir) Close() error { return nil }

func (emptyDir) Read([]byte) (int, error) { return 0, fs.ErrInvalid }

func (emptyDir) ReadDir(int) ([]fs.DirEntry, error) { return nil, nil }

func (emptyDir) Name() string { return "." }

func (emptyDir) Size() int64 { return 0 }

func (emptyDir) Mode() fs.FileMode { return fs.ModeDir | 0o755 }

func (emptyDir) ModTime() time.Time { return time.Time{} }

func (emptyDir) IsDir() bool { return true }

func (emptyDir) Sys() any { return nil }
