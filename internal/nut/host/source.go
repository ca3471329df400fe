package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"guild"
	"guild/internal/cli"
	"guild/internal/workdir"
	"guild/nutshell"
	"guild/nutshell/ignore"
)

// IsFile reports whether a path is that of a file, or standard input.
func IsFile(path string) bool {
	info, err := os.Stat(path)
	return path == "-" || err == nil && !info.IsDir()
}

// NoBundle is what a directory without a manifest is.
func (p *Program) NoBundle(dir string) error {
	err := fmt.Errorf("%s: %w", dir, nutshell.ErrNoManifest)
	return cli.WithHint(err, "make one with '"+p.Hint("init --dir "+dir)+"'")
}

// OwnTree is a directory in which the person works, with its manifest. Nobody else is suspected of changing it, so
// it is read as it is, and links in it are for Pack to refuse.
func (p *Program) OwnTree(dir string) (fs.FS, *nutshell.Manifest, error) {
	if info, err := os.Stat(dir); err != nil {
		return nil, nil, err
	} else if !info.IsDir() {
		return nil, nil, cli.WithHint(cli.Usage(fmt.Errorf("%s is not a directory", dir)), "give --dir the directory with the nutshell.json")
	}
	if err := p.Editable(dir); err != nil {
		return nil, nil, err
	}
	tree := ownDir(dir)
	m, err := nutshell.ReadManifest(tree)
	if errors.Is(err, nutshell.ErrNoManifest) {
		return nil, nil, p.NoBundle(dir)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", dir, err)
	}
	return tree, m, nil
}

// Editable reports whether a directory has a manifest that can be replaced.
func (p *Program) Editable(dir string) error {
	path := filepath.Join(dir, nutshell.ManifestFile)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return p.NoBundle(dir)
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return cli.WithHint(fmt.Errorf("%s is not a regular file", path), "name the directory that has the file itself")
	}
	return nil
}

// OpenRegular opens a file, or what a link leads to. What is no file is an error at once: nobody waits for a pipe.
func OpenRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: is not a regular file", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ownDir is a directory as it is, links and all. Unlike in os.DirFS, a pipe in it keeps nobody waiting.
type ownDir string

// Open implements fs.FS.
func (d ownDir) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	f, err := os.OpenFile(filepath.Join(string(d), filepath.FromSlash(name)), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, &fs.PathError{Op: e.Op, Path: name, Err: e.Err}
	}
	return f, err
}

// OpenBundle opens a bundle file, or standard input for "-". What must be closed is closed by done.
func (p *Program) OpenBundle(path string) (b *nutshell.Bundle, f *os.File, done func(), err error) {
	if path == "-" {
		f, err = p.Spool()
	} else {
		f, err = OpenRegular(path)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	done = func() { f.Close() }
	info, err := f.Stat()
	if err == nil {
		b, err = nutshell.Open(f, info.Size(), nutshell.Limits{})
	}
	if err != nil {
		done()
		return nil, nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, f, done, nil
}

// Ignored are the patterns of the tree's .nutignore; without one they match nothing.
func Ignored(tree fs.FS) (*ignore.Patterns, error) {
	f, err := tree.Open(ignore.File)
	if errors.Is(err, fs.ErrNotExist) {
		return ignore.Parse(nil)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, 1<<20)) // more than Parse takes
	if err != nil {
		return nil, err
	}
	return ignore.Parse(raw)
}

// MaxInput is the size of a bundle on standard input at most, in bytes: what the default limits let one unpack to.
const MaxInput = 600 << 20

// Spool copies standard input to a file without a name, because a bundle is read more than once.
func (p *Program) Spool() (*os.File, error) {
	f, err := os.CreateTemp("", "nutshell-stdin-")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name())
	n, err := io.Copy(f, io.LimitReader(p.In, MaxInput+1))
	if err == nil && n > MaxInput {
		err = fmt.Errorf("standard input is more than %d bytes", MaxInput)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// OpenTree is the files of a directory, or of a bundle file, which it unpacks into a temporary directory.
func (p *Program) OpenTree(ctx context.Context, path string) (tree fs.FS, done func(), err error) {
	if info, err := os.Stat(path); path == "-" || err == nil && !info.IsDir() {
		return p.unpacked(ctx, path)
	}
	t, err := workdir.FS(path, nutshell.Limits{})
	if err != nil {
		return nil, nil, err
	}
	if _, err := fs.Stat(t, nutshell.ManifestFile); err != nil {
		t.Close()
		return nil, nil, p.NoBundle(path)
	}
	return t, func() { t.Close() }, nil
}

func (p *Program) unpacked(ctx context.Context, path string) (fs.FS, func(), error) {
	b, _, closeBundle, err := p.OpenBundle(path)
	if err != nil {
		return nil, nil, err
	}
	defer closeBundle()
	dir, err := os.MkdirTemp("", "nutshell-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() { os.RemoveAll(dir) }
	tree, err := p.UnpackInto(ctx, b, filepath.Join(dir, "tree"))
	if err != nil {
		remove()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return tree, func() { tree.Close(); remove() }, nil
}

func (p *Program) UnpackInto(ctx context.Context, b *nutshell.Bundle, dir string) (*workdir.Tree, error) {
	if err := workdir.Unpack(ctx, b, dir); err != nil {
		return nil, err
	}
	return workdir.FS(dir, nutshell.Limits{})
}

// Unnamed makes a temporary file that is gone when it is closed.
func Unnamed() (*os.File, error) {
	f, err := os.CreateTemp("", "nutshell-")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

func HashOf(f *os.File) (sum guild.Hash, err error) {
	info, err := f.Stat()
	if err != nil {
		return guild.Hash{}, err
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, info.Size())); err != nil {
		return guild.Hash{}, err
	}
	h.Sum(sum[:0])
	return sum, nil
}
