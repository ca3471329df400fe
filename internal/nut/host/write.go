package host

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"

	"guild/internal/durable"
	"guild/nutshell"
)

// RewriteManifest changes the manifest of a directory in place, whole or not at all. It writes nothing if change changes
// nothing.
func RewriteManifest(dir string, change func(*nutshell.Manifest) error) error {
	file := filepath.Join(dir, nutshell.ManifestFile)
	raw, mode, err := readOwn(file)
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
	return os.Chmod(file, mode)
}

// readOwn reads a file that will be replaced. It refuses a link: the file that replaces the link would contain a file
// from elsewhere, for others to read.
func readOwn(file string) ([]byte, fs.FileMode, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|durable.NoFollow|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: is not a regular file", file)
	}
	if err != nil {
		return nil, 0, err
	}
	raw, err := io.ReadAll(io.LimitReader(f, nutshell.DefaultLimits().File))
	return raw, info.Mode().Perm(), err
}

// ErrExists reports a file that is there already. It is never overwritten.
var ErrExists = errors.New("exists already, and was not changed")

// WriteNew makes a file in a directory, with the folders above it, whole or not at all. It follows no link out of the
// directory. The error is ErrExists if there is anything of that name.
func WriteNew(dir, name string, content []byte, mode fs.FileMode) error {
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
	// Unlike a rename, a link replaces nothing.
	err = root.Link(temporary, name)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w", name, ErrExists)
	}
	if err != nil {
		return err
	}
	return durable.SyncDir(filepath.Join(dir, filepath.FromSlash(path.Dir(name))))
}

// Replace writes a private file in a directory, whole or not at all. It follows no link out of the directory.
func Replace(dir, name string, content []byte) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	temporary := path.Join(path.Dir(name), ".tmp-"+rand.Text())
	if err := fillNew(root, temporary, content, 0o600); err != nil {
		return err
	}
	if err := root.Rename(temporary, name); err != nil {
		return errors.Join(err, root.Remove(temporary))
	}
	return durable.SyncDir(filepath.Join(dir, filepath.FromSlash(path.Dir(name))))
}

// fillNew writes a file that must not exist.
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

// WriteOutput writes to a file, whole or not at all, or to standard output if path is empty.
func (p *Program) WriteOutput(path string, fill func(io.Writer) error) error {
	if path == "" {
		return fill(p.Out)
	}
	if err := durable.Write(path, fill); err != nil {
		return err
	}
	return os.Chmod(path, 0o644)
}
