package workdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"guild/internal/durable"
	"guild/nutshell"
)

// Tree is a directory that untrusted code wrote, as an fs.FS. It has the regular files and folders that FS found. Files that
// are made later do not appear, and files that are replaced later cannot be opened.
type Tree struct {
	Skipped []nutshell.Skipped // links, devices, pipes and sockets, sorted by path

	root    *os.Root
	files   map[string]fs.FileInfo   // files and folders by path
	folders map[string][]fs.DirEntry // entries of each folder, sorted by name
}

// FS reads the names in dir, which must be a directory and not a link to one. The untrusted code must not be able to write to
// the directory above it. The error is a *nutshell.LimitError if there is more than the limits allow; FS stops there. The
// caller closes the Tree.
func FS(dir string, l nutshell.Limits) (*Tree, error) {
	named, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	t := &Tree{root: root, files: make(map[string]fs.FileInfo), folders: make(map[string][]fs.DirEntry)}
	s := scan{Tree: t, l: l.OrDefault()}
	if err := s.folder(".", named); err != nil {
		root.Close()
		return nil, fmt.Errorf("read the directory %s: %w", dir, err)
	}
	slices.SortFunc(t.Skipped, func(a, b nutshell.Skipped) int { return strings.Compare(a.Path, b.Path) })
	return t, nil
}

// Close closes the directory.
func (t *Tree) Close() error { return t.root.Close() }

// Open implements fs.FS. A file can be read up to the size that it had when FS found it. If it has grown, reading on gives
// nutshell.ErrChanged.
func (t *Tree) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	info, ok := t.files[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	if info.IsDir() {
		return &folder{info: info, rest: t.folders[name]}, nil
	}
	f, err := openRegular(t.root, name)
	if err != nil {
		return nil, err
	}
	return &file{f, info.Size()}, nil
}

// openRegular opens a file if it is a regular one. The untrusted code may have put a pipe or a device in its place, which must
// not block and must not be read, or a link, which must not be followed.
func openRegular(root *os.Root, name string) (*os.File, error) {
	named, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !named.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: nutshell.ErrChanged}
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|durable.NoFollow, 0)
	if err != nil {
		return nil, err
	}
	if err := same(f, named); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// scan is one pass of FS.
type scan struct {
	*Tree
	l       nutshell.Limits
	entries int
	bytes   int64
}

// folder adds a folder, which was found as named, and its entries.
func (s *scan) folder(name string, named fs.FileInfo) error {
	f, err := s.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|durable.NoFollow, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := same(f, named); err != nil {
		return err
	}
	s.files[name] = named
	for {
		some, err := f.ReadDir(256)
		for _, d := range some {
			if err := s.entry(name, d.Name()); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	slices.SortFunc(s.folders[name], func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return nil
}

// same returns an error if the opened file is not the one that had the name before.
func same(f *os.File, named fs.FileInfo) error {
	opened, err := f.Stat()
	if err == nil && !os.SameFile(named, opened) {
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: nutshell.ErrChanged}
	}
	return err
}

// entry adds one name of a folder. One that has vanished meanwhile is left out.
func (s *scan) entry(in, base string) error {
	name := path.Join(in, base)
	s.entries++
	if s.entries > s.l.Entries {
		return &nutshell.LimitError{What: "Entries", Limit: int64(s.l.Entries), Path: name}
	}
	if !utf8.ValidString(base) {
		s.Skipped = append(s.Skipped, nutshell.Skipped{Path: name, Reason: "the name is not UTF-8"})
		return nil
	}
	if strings.Count(name, "/") >= s.l.Depth {
		return &nutshell.LimitError{What: "Depth", Limit: int64(s.l.Depth), Path: name}
	}
	info, err := s.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case info.IsDir():
		err = s.folder(name, info)
	case info.Mode().IsRegular():
		err = s.file(name, info)
	default:
		s.Skipped = append(s.Skipped, nutshell.Skipped{Path: name, Reason: kind(info.Mode())})
		return nil
	}
	if err == nil {
		s.folders[in] = append(s.folders[in], fs.FileInfoToDirEntry(s.files[name]))
	}
	return err
}

func (s *scan) file(name string, info fs.FileInfo) error {
	if info.Size() > s.l.File {
		return &nutshell.LimitError{What: "File", Limit: s.l.File, Path: name}
	}
	if s.bytes += info.Size(); s.bytes > s.l.Total {
		return &nutshell.LimitError{What: "Total", Limit: s.l.Total, Path: name}
	}
	s.files[name] = info
	return nil
}

// kind returns in words what a name is that is neither a file nor a folder.
func kind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "is a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "is a pipe"
	case mode&fs.ModeSocket != 0:
		return "is a socket"
	}
	return "is a device"
}

// file reads no more than left bytes. It hides the other methods for reading of an os.File.
type file struct {
	f    *os.File
	left int64
}

func (f *file) Stat() (fs.FileInfo, error) { return f.f.Stat() }
func (f *file) Close() error               { return f.f.Close() }

func (f *file) Read(p []byte) (int, error) {
	n, err := f.f.Read(p[:min(int64(len(p)), f.left+1)])
	if int64(n) > f.left {
		return 0, &fs.PathError{Op: "read", Path: f.f.Name(), Err: nutshell.ErrChanged}
	}
	f.left -= int64(n)
	return n, err
}

// folder is an open folder.
type folder struct {
	info fs.FileInfo
	rest []fs.DirEntry
}

func (f *folder) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *folder) Close() error               { return nil }

func (f *folder) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: f.info.Name(), Err: syscall.EISDIR}
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
