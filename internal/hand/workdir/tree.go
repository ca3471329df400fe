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

	"guild/nutshell"
)

// Tree is a directory that untrusted code wrote, as an fs.FS. It has the regular files and folders that were
// there when FS looked; what is made later does not appear, and what is replaced by something else meanwhile
// cannot be opened.
type Tree struct {
	Skipped []nutshell.Skipped // links, devices, pipes and sockets, sorted by path

	root    *os.Root
	files   map[string]fs.FileInfo   // files and folders by path
	folders map[string][]fs.DirEntry // what is in each folder, sorted by name
}

// FS looks through dir, which must be a directory itself and not a link to one. The directory above it must be
// out of that code's reach. More than the limits allow is a *nutshell.LimitError, and it takes no longer than
// the limits allow to find that out. The caller closes the Tree.
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
		return nil, fmt.Errorf("look through %s: %w", dir, err)
	}
	slices.SortFunc(t.Skipped, func(a, b nutshell.Skipped) int { return strings.Compare(a.Path, b.Path) })
	return t, nil
}

// Close releases the directory.
func (t *Tree) Close() error { return t.root.Close() }

// Open implements fs.FS. A file reads as many bytes as it had when FS looked; if it has more by now, reading
// them is nutshell.ErrChanged.
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

// openRegular opens a file only if it is one. A pipe or a device that was put in its place must neither block
// nor be read, and a link must not be followed.
func openRegular(root *os.Root, name string) (*os.File, error) {
	named, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !named.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: nutshell.ErrChanged}
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := same(f, named); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// scan is a look through a directory.
type scan struct {
	*Tree
	l       nutshell.Limits
	entries int
	bytes   int64
}

// folder takes in a folder, known to be there as named, and what is in it.
func (s *scan) folder(name string, named fs.FileInfo) error {
	f, err := s.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_DIRECTORY, 0)
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

// same complains if what was opened is not what had the name before.
func same(f *os.File, named fs.FileInfo) error {
	opened, err := f.Stat()
	if err == nil && !os.SameFile(named, opened) {
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: nutshell.ErrChanged}
	}
	return err
}

// entry takes in one name of a folder. What has vanished meanwhile was not there.
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

// kind names what is neither file nor folder.
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

// file reads no more than it had. It hides the other ways that an os.File can be read.
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
