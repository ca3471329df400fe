package parts

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// view is a tree of files from other trees or in memory.
type view struct {
	files   map[string]source
	folders map[string][]string // the names in each folder, sorted
}

// source is a file in a tree, or its content.
type source struct {
	fsys fs.FS
	name string
	text []byte // if fsys is nil
}

func newView(files map[string]source) *view {
	v := &view{files: files, folders: map[string][]string{".": nil}}
	for p := range files {
		for child := p; child != "."; child = path.Dir(child) {
			dir := path.Dir(child)
			names, known := v.folders[dir]
			if v.folders[dir] = append(names, path.Base(child)); known && dir != "." {
				break // the folders above have been seen
			}
		}
	}
	for dir, names := range v.folders {
		slices.Sort(names)
		v.folders[dir] = slices.Compact(names)
	}
	return v
}

// Open implements fs.FS.
func (v *view) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if s, ok := v.files[name]; ok {
		return s.open(name)
	}
	names, ok := v.folders[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	entries := make([]fs.DirEntry, 0, len(names))
	for _, base := range names {
		info, err := v.info(path.Join(name, base))
		if err != nil {
			return nil, err
		}
		entries = append(entries, fs.FileInfoToDirEntry(info))
	}
	return &folder{info{path.Base(name), 0, fs.ModeDir | 0o755}, entries}, nil
}

func (v *view) info(name string) (fs.FileInfo, error) {
	s, ok := v.files[name]
	switch {
	case !ok:
		return info{path.Base(name), 0, fs.ModeDir | 0o755}, nil
	case s.fsys == nil:
		return info{path.Base(name), int64(len(s.text)), 0o644}, nil
	}
	found, err := fs.Stat(s.fsys, s.name)
	if err != nil {
		return nil, err
	}
	return info{path.Base(name), found.Size(), found.Mode()}, nil
}

func (s source) open(name string) (fs.File, error) {
	if s.fsys == nil {
		return &memory{info{path.Base(name), int64(len(s.text)), 0o644}, bytes.NewReader(s.text)}, nil
	}
	f, err := s.fsys.Open(s.name)
	if err != nil {
		return nil, err
	}
	return renamed{f, path.Base(name)}, nil
}

// renamed is a file under another name.
type renamed struct {
	fs.File
	name string
}

func (f renamed) Stat() (fs.FileInfo, error) {
	found, err := f.File.Stat()
	if err != nil {
		return nil, err
	}
	return info{f.name, found.Size(), found.Mode()}, nil
}

// info describes a file or folder. It has no time, because bundles have none.
type info struct {
	name string
	size int64
	mode fs.FileMode
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }

type memory struct {
	info info
	*bytes.Reader
}

func (f *memory) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *memory) Close() error               { return nil }

type folder struct {
	info info
	rest []fs.DirEntry
}

func (f *folder) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *folder) Close() error               { return nil }

func (f *folder) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: f.info.name, Err: fs.ErrInvalid}
}

// ReadDir implements fs.ReadDirFile.
func (f *folder) ReadDir(n int) ([]fs.DirEntry, error) {
	if n > 0 && len(f.rest) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(f.rest) {
		n = len(f.rest)
	}
	some := f.rest[:n]
	f.rest = f.rest[n:]
	return some, nil
}

// clash returns two of the paths that cannot be in one bundle: they differ in case alone, or one is a file and a folder
// of the other.
func clash(paths []string) (a, b string) {
	seen := make(map[string]string, len(paths))
	for _, p := range paths {
		folded := strings.ToLower(p)
		if other, twice := seen[folded]; twice {
			return other, p
		}
		seen[folded] = p
	}
	for _, p := range paths {
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			if other, isFile := seen[strings.ToLower(dir)]; isFile {
				return other, p
			}
		}
	}
	return "", ""
}
