package nutshell

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// overlay is a tree of a few files in memory and another tree below ArtifactsDir.
type overlay struct {
	files     map[string][]byte
	artifacts fs.FS
}

// Open implements fs.FS.
func (o overlay) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if b, ok := o.files[name]; ok {
		return &memFile{memInfo{path.Base(name), int64(len(b)), 0o644}, bytes.NewReader(b)}, nil
	}
	if inside, ok := strings.CutPrefix(name, ArtifactsDir+"/"); ok {
		return o.artifacts.Open(inside)
	}
	entries, err := o.ReadDir(name)
	if err != nil {
		return nil, err
	}
	return &memDir{memInfo{path.Base(name), 0, fs.ModeDir | 0o755}, entries}, nil
}

// ReadDir implements fs.ReadDirFS.
func (o overlay) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == ArtifactsDir {
		return fs.ReadDir(o.artifacts, ".")
	}
	if inside, ok := strings.CutPrefix(name, ArtifactsDir+"/"); ok {
		return fs.ReadDir(o.artifacts, inside)
	}
	children := o.children(name)
	if len(children) == 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	slices.SortFunc(children, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return children, nil
}

// children lists the files and folders in a folder, which exists because there are files below it.
func (o overlay) children(dir string) []fs.DirEntry {
	prefix := dir + "/"
	if dir == "." {
		prefix = ""
	}
	found := make(map[string]memInfo)
	if rest, ok := strings.CutPrefix(ArtifactsDir, prefix); ok {
		first, _, _ := strings.Cut(rest, "/")
		found[first] = memInfo{first, 0, fs.ModeDir | 0o755}
	}
	for p, b := range o.files {
		rest, ok := strings.CutPrefix(p, prefix)
		first, _, deeper := strings.Cut(rest, "/")
		switch {
		case ok && deeper:
			found[first] = memInfo{first, 0, fs.ModeDir | 0o755}
		case ok:
			found[first] = memInfo{first, int64(len(b)), 0o644}
		}
	}
	var entries []fs.DirEntry
	for _, info := range found {
		entries = append(entries, fs.FileInfoToDirEntry(info))
	}
	return entries
}

// memInfo describes a file or folder in memory.
type memInfo struct {
	name string
	size int64
	mode fs.FileMode
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return i.mode }
func (i memInfo) ModTime() time.Time { return time.Time{} }
func (i memInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memInfo) Sys() any           { return nil }

type memFile struct {
	info memInfo
	*bytes.Reader
}

func (f *memFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *memFile) Close() error               { return nil }

type memDir struct {
	info memInfo
	rest []fs.DirEntry
}

func (d *memDir) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *memDir) Close() error               { return nil }

func (d *memDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.info.name, Err: fs.ErrInvalid}
}

// ReadDir implements fs.ReadDirFile.
func (d *memDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		all := d.rest
		d.rest = nil
		return all, nil
	}
	if len(d.rest) == 0 {
		return nil, io.EOF
	}
	some := d.rest[:min(n, len(d.rest))]
	d.rest = d.rest[len(some):]
	return some, nil
}
