package nut

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"guild/internal/durable"
	"guild/nutshell"
	"guild/nutshell/check"
)

// writeCompleteness writes what was found into the manifest of a directory, and changes nothing else in it.
func writeCompleteness(dir string, r check.Report) error {
	return rewriteManifest(dir, func(m *nutshell.Manifest) error {
		was := m.Completeness()
		if was.Status == r.Status && slices.Equal(was.Missing, r.Missing()) && slices.Equal(was.Warnings, r.Warnings()) {
			return nil
		}
		return errors.Join(
			m.Set("completeness.status", r.Status),
			m.Set("completeness.missing", r.Missing()),
			m.Set("completeness.warnings", r.Warnings()),
		)
	})
}

// rewriteManifest changes the manifest of a directory in place: whole or not at all, and only if it really changes.
func rewriteManifest(dir string, change func(*nutshell.Manifest) error) error {
	file := filepath.Join(dir, nutshell.ManifestFile)
	info, err := os.Lstat(file)
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	m, err := nutshell.ParseManifest(raw)
	if err != nil {
		return err
	}
	if err := change(m); err != nil || slices.Equal(raw, m.Bytes()) {
		return err
	}
	if err := durable.WriteBytes(file, m.Bytes()); err != nil {
		return err
	}
	return os.Chmod(file, info.Mode().Perm())
}

// errExists is that a file is there already, which is never overwritten.
var errExists = errors.New("is there already, and stays as it is")

// writeNew makes a file in a directory, with the folders above it, whole or not at all. It follows no link out of the
// directory, and it is errExists if anything of that name is there.
func writeNew(dir, name string, content []byte, mode fs.FileMode) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	temporary := path.Join(path.Dir(name), ".tmp-"+rand.Text())
	if err := fillNew(root, temporary, content, mode); err != nil {
		return err
	}
	defer root.Remove(temporary)
	// Unlike a rename, a link takes nobody's place.
	err = root.Link(temporary, name)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w", name, errExists)
	}
	if err != nil {
		return err
	}
	return durable.SyncDir(filepath.Join(dir, filepath.FromSlash(path.Dir(name))))
}

// fillNew writes a file that must not be there yet.
func fillNew(root *os.Root, name string, content []byte, mode fs.FileMode) (err error) {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, root.Remove(name))
		}
	}()
	if _, err := f.Write(content); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil { // whatever the umask
		return err
	}
	return f.Sync()
}
