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

// WriteCopies writes what the copies hold as one tar stream whose names are relative to the root of the
// sandbox. Directories are opened as an os.Root, so that a link made by a stranger can lead nowhere.
func WriteCopies(w io.Writer, copies []Copy) error {
	tw := tar.NewWriter(w)
	for _, c := range copies {
		if err := writeCopy(tw, c); err != nil {
			return fmt.Errorf("copy %s: %w", c.Host, err)
		}
	}
	return tw.Close()
}

func writeCopy(tw *tar.Writer, c Copy) error {
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
		inside := strings.TrimPrefix(path.Join(c.Inside, name), "/")
		switch {
		case d.IsDir():
			return tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: inside + "/", Mode: 0o755})
		case d.Type().IsRegular():
			return writeFile(tw, root, name, inside)
		default:
			return fmt.Errorf("%s: only files and directories are copied", name)
		}
	})
}

func writeFile(tw *tar.Writer, root *os.Root, name, inside string) error {
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
		return fmt.Errorf("%s: only files and directories are copied", name)
	}
	mode := int64(0o644 | info.Mode().Perm()&0o111)
	if err := tw.WriteHeader(&tar.Header{Name: inside, Mode: mode, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.CopyN(tw, f, info.Size())
	return err
}
