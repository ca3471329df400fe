package nut

import (
	"bytes"
	"io/fs"
	"path"
	"slices"
	"time"
)

// subset is some files of a tree, with the folders above them.
type subset struct {
	tree fs.FS
	has  map[string]bool // files and folders
}

// subsetOf is the tree with these files only.
func subsetOf(tree fs.FS, files []string) subset {
	s := subset{tree, map[string]bool{".": true}}
	for _, name := range files {
		for ; name != "."; name = path.Dir(name) {
			s.has[name] = true
		}
	}
	return s
}

// Open implements fs.FS.
func (s subset) Open(name string) (fs.File, error) {
	if !s.has[name] {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return s.tree.Open(name)
}

// ReadDir implements fs.ReadDirFS.
func (s subset) ReadDir(name string) ([]fs.DirEntry, error) {
	if !s.has[name] {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	entries, err := fs.ReadDir(s.tree, name)
	return slices.DeleteFunc(slices.Clone(entries), func(d fs.DirEntry) bool { return !s.has[path.Join(name, d.Name())] }), err
}

// filesOf lists the regular files of a tree that want has, sorted. A folder that it does not have takes all in it
// with it.
func filesOf(tree fs.FS, want func(name string, isDir bool) bool) ([]string, error) {
	var files []string
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || name == ".":
			return err
		case !want(name, d.IsDir()) && d.IsDir():
			return fs.SkipDir
		case d.Type().IsRegular() && want(name, false):
			files = append(files, name)
		}
		return nil
	})
	return files, err
}

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
	return &textFile{bytes.NewReader(t.text), t.name}, nil
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

func (d emptyDir) Stat() (fs.FileInfo, error)       { return d, nil }
func (emptyDir) Close() error                       { return nil }
func (emptyDir) Read([]byte) (int, error)           { return 0, fs.ErrInvalid }
func (emptyDir) ReadDir(int) ([]fs.DirEntry, error) { return nil, nil }
func (emptyDir) Name() string                       { return "." }
func (emptyDir) Size() int64                        { return 0 }
func (emptyDir) Mode() fs.FileMode                  { return fs.ModeDir | 0o755 }
func (emptyDir) ModTime() time.Time                 { return time.Time{} }
func (emptyDir) IsDir() bool                        { return true }
func (emptyDir) Sys() any                           { return nil }

// textFile is a text in memory as a file.
type textFile struct {
	*bytes.Reader
	name string
}

func (f *textFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f *textFile) Close() error               { return nil }
func (f *textFile) Name() string               { return f.name }
func (f *textFile) Mode() fs.FileMode          { return 0o644 }
func (f *textFile) ModTime() time.Time         { return time.Time{} }
func (f *textFile) IsDir() bool                { return false }
func (f *textFile) Sys() any                   { return nil }
