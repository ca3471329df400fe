package host

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

// Subset is the tree with these files only.
func Subset(tree fs.FS, files []string) subset {
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

// Files lists the regular files of a tree that want has, sorted. A folder that it does not have takes all in it
// with it.
func Files(tree fs.FS, want func(name string, isDir bool) bool) ([]string, error) {
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

// TextFile is a text as a file.
func TextFile(name string, text []byte) fs.File { return &textFile{bytes.NewReader(text), name} }

// textFile is a text in memory as a file.
type textFile struct {
	*bytes.Reader
	name string
}

func (f *textFile) Stat() (fs.FileInfo, error) { return f, nil }

func (f *textFile) Close() error { return nil }

func (f *textFile) Name() string { return f.name }

func (f *textFile) Mode() fs.FileMode { return 0o644 }

func (f *textFile) ModTime() time.Time { return time.Time{} }

func (f *textFile) IsDir() bool { return false }

func (f *textFile) Sys() any { return nil }
