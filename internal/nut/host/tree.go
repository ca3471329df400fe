package host

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"time"

	"guild"
)

// subset is some files of a tree, with the folders above them.
type subset struct {
	tree fs.FS
	has  map[string]bool // files and folders
}

// Subset returns the tree with these files only.
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

// Files lists the regular files of a tree for which want reports true, sorted. It does not enter a folder for which want
// reports false.
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

// WithFile returns a tree with a text in the place of one of its files.
func WithFile(tree fs.FS, name string, text []byte) fs.FS { return withFile{tree, name, text} }

type withFile struct {
	fs.FS
	name string
	text []byte
}

// Open implements fs.FS.
func (t withFile) Open(name string) (fs.File, error) {
	if name != t.name {
		return t.FS.Open(name)
	}
	return &textFile{bytes.NewReader(t.text), name}, nil
}

// textFile is a file whose content is in memory.
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

// HashFile returns the hash and the size of a file of a tree.
func HashFile(tree fs.FS, name string) (sum guild.Hash, size int64, err error) {
	f, err := tree.Open(name)
	if err != nil {
		return sum, 0, err
	}
	defer f.Close()
	h := sha256.New()
	if size, err = io.Copy(h, f); err != nil {
		return sum, 0, fmt.Errorf("%s: %w", name, err)
	}
	return guild.Hash(h.Sum(nil)), size, nil
}
