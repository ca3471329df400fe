package namespaces

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// hashTree returns the hash of a directory: of the names, kinds, permissions, contents and link targets in it, in
// order. It omits owners and times, because no run sees them.
func hashTree(dir string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	h := sha256.New()
	w := bufio.NewWriterSize(h, 64<<10)
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		size := info.Size()
		if !info.Mode().IsRegular() { // the size of anything else depends on the file system
			size = 0
		}
		fmt.Fprintf(w, "%q %o %d\n", name, info.Mode(), size)
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := root.Readlink(name)
			fmt.Fprintf(w, "%q\n", to)
			return err
		case info.Mode().IsRegular():
			f, err := root.Open(name)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = io.CopyN(w, f, size)
			return err
		default:
			return nil
		}
	})
	if err != nil {
		return "", err
	}
	w.Flush() // a hash never fails
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}
