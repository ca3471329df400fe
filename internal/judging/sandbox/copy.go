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
	Mode    fs.FileMode // permissions: readable by all, writable by the owner; execute bits as on the host
	Size    int64
	Content io.Reader // of Size bytes; nil for a directory
}

// Walk calls visit for each directory and file of the copy, a directory before its contents. Anything else is an
// error. Host is opened as an os.Root, so a stranger's link cannot lead out of it.
func (c Copy) Walk(visit func(Entry) error) error {
	root, err := os.OpenRoot(c.Host)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case c.Skip != nil && name != "." && c.Skip(name):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return visit(Entry{Name: name, Mode: 0o755})
		case !d.Type().IsRegular():
			return fmt.Errorf("%s: only files and directories are copied", name)
		}
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() { // it was replaced since WalkDir saw it
			return fmt.Errorf("%s: only files and directories are copied", name)
		}
		return visit(Entry{
			Name: name, Mode: 0o644 | info.Mode().Perm()&0o111, Size: info.Size(), Content: io.LimitReader(f, info.Size()),
		})
	})
}

// WriteCopies writes the copies as one tar stream. Names in it are relative to the root of the sandbox.
func WriteCopies(w io.Writer, copies []Copy) error {
	tw := tar.NewWriter(w)
	for _, c := range copies {
		err := c.Walk(func(e Entry) error {
			name := strings.TrimPrefix(path.Join(c.Inside, e.Name), "/")
			if e.Content == nil {
				return tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: int64(e.Mode)})
			}
			if err := tw.WriteHeader(&tar.Header{Name: name, Mode: int64(e.Mode), Size: e.Size}); err != nil {
				return err
			}
			_, err := io.CopyN(tw, e.Content, e.Size)
			return err
		})
		if err != nil {
			return fmt.Errorf("copy %s: %w", c.Host, err)
		}
	}
	return tw.Close()
}
