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

// hashTree is the hash of everything that matters in a directory: the names, kinds, permissions, contents and
// targets of what is there, in order. Owners and times do not matter, for no run sees or needs them.
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
		return hashEntry(w, root, name, d)
	})
	if err != nil {
		return "", err
	}
	w.Flush() // a hash takes everything
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

func hashEntry(w io.Writer, root *os.Root, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%q %o %d\n", name, info.Mode(), fileSize(info))
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
		_, err = io.CopyN(w, f, info.Size())
		return err
	default:
		return nil
	}
}

// fileSize is 0 for what has a size of its file system's own making.
func fileSize(info fs.FileInfo) int64 {
	if !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}
