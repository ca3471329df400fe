package sandbox

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// Entry is a directory or a file of a Copy.
type Entry struct {
	Name    string      // relative to Copy.Host, with slashes
	Mode    fs.FileMode // permissions: everybody may read it, and the owner write; it keeps who may execute it
	Size    int64
	Content io.Reader // of Size bytes; nil for a directory
}

// Walk calls visit for what the copy holds, a directory before what is in it, and refuses all that is neither file
// nor directory. Host is opened as an os.Root, so that a link made by a stranger can lead nowhere.
func (c Copy) Walk(visit func(Entry) error) error {
	root, err := os.OpenRoot(c.Host)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if c.Skip != nil && name != "." && c.Skip(name) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		switch {
		case d.IsDir():
			return visit(Entry{Name: name, Mode: 0o755})
		case d.Type().IsRegular():
			return visitFile(root, name, visit)
		default:
			return notCopied(name)
		}
	})
}

// visitFile calls visit for a file, unless it has become something else since it was seen.
func visitFile(root *os.Root, name string, visit func(Entry) error) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return notCopied(name)
	}
	return visit(Entry{name, 0o644 | info.Mode().Perm()&0o111, info.Size(), io.LimitReader(f, info.Size())})
}

func notCopied(name string) error {
	return fmt.Errorf("%s: only files and directories are copied", name)
}

// WriteCopies writes what the copies hold as one tar stream whose names are relative to the root of the sandbox.
func WriteCopies(w io.Writer, copies []Copy) error {
	tw := tar.NewWriter(w)
	for _, c := range copies {
		err := c.Walk(func(e Entry) error { return writeEntry(tw, c.Inside, e) })
		if err != nil {
			return fmt.Errorf("copy %s: %w", c.Host, err)
		}
	}
	return tw.Close()
}

func writeEntry(tw *tar.Writer, inside string, e Entry) error {
	name := strings.TrimPrefix(path.Join(inside, e.Name), "/")
	if e.Content == nil {
		return tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: int64(e.Mode)})
	}
	if err := tw.WriteHeader(&tar.Header{Name: name, Mode: int64(e.Mode), Size: e.Size}); err != nil {
		return err
	}
	_, err := io.CopyN(tw, e.Content, e.Size)
	return err
}
