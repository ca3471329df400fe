package host

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"syscall"

	"guild"
	"guild/internal/cli"
	"guild/internal/hand/workdir"
	"guild/nutshell"
	"guild/nutshell/ignore"
	"guild/nutshell/vault"
	"guild/nutshell/vault/age"
)

// IsFile reports whether a path is that of a file, or standard input.
func IsFile(path string) bool {
	info, err := os.Stat(path)
	return path == "-" || err == nil && !info.IsDir()
}

// NoBundle is the error for a directory without a manifest.
func (p *Program) NoBundle(dir string) error {
	err := fmt.Errorf("%s: %w", dir, nutshell.ErrNoManifest)
	return cli.WithHint(err, "make one with '"+p.Hint("init --dir "+dir)+"'")
}

// OwnTree opens a directory in which the person works, and reads its manifest. The directory is trusted: it is read as
// it is, and Pack refuses the links in it.
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

// Editable returns an error if a directory has no manifest, or one that cannot be replaced, such as a link.
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

// OpenRegular opens a regular file, or the one that a link leads to. Anything else is an error at once: opening a pipe
// does not block.
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

// ownDir is a directory as it is, with its links. Unlike with os.DirFS, opening a pipe in it does not block: a directory
// may hold anything that an agent has left there, and a verb must not wait for ever.
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

// Bundle is a bundle in an open file.
type Bundle struct {
	*nutshell.Bundle
	File *os.File
	Size int64 // of the file, in bytes

	limits nutshell.Limits
}

// OpenBundle opens a bundle file, or standard input for "-". The caller closes it.
func (p *Program) OpenBundle(path string) (*Bundle, error) {
	f, err := p.OpenFile(path)
	if err != nil {
		return nil, err
	}
	b, err := p.ReadBundle(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// ReadBundle reads a bundle from a file, which it closes if there is an error.
func (p *Program) ReadBundle(f *os.File) (*Bundle, error) {
	b := &Bundle{File: f, limits: p.Limits}
	info, err := f.Stat()
	if err == nil {
		b.Size = info.Size()
		b.Bundle, err = nutshell.Open(f, b.Size, p.Limits)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return b, nil
}

// Hash returns the hash of the whole file.
func (b *Bundle) Hash() (sum guild.Hash, err error) {
	h := sha256.New()
	if _, err := io.Copy(h, b.Content()); err != nil {
		return guild.Hash{}, err
	}
	h.Sum(sum[:0])
	return sum, nil
}

// Content reads the file from its beginning.
func (b *Bundle) Content() io.Reader { return io.NewSectionReader(b.File, 0, b.Size) }

// Close closes the file.
func (b *Bundle) Close() { b.File.Close() }

// OpenFile opens a file for OpenBundle. It copies standard input to a file without a name, because a bundle is read more
// than once, and decrypts a bundle that is encrypted as a whole into such a file.
func (p *Program) OpenFile(path string) (f *os.File, err error) {
	if path == "-" {
		f, err = p.unnamedCopy("standard input", p.In)
	} else {
		f, err = OpenRegular(path)
	}
	if err != nil {
		return nil, err
	}
	head := make([]byte, len(age.Begin))
	n, err := f.ReadAt(head, 0)
	if p.Decrypt == nil || !age.IsFile(head[:n]) {
		return f, nil // what is wrong with it is found when it is read
	}
	defer f.Close()
	plain, err := p.Decrypt(context.Background(), io.NewSectionReader(f, 0, math.MaxInt64))
	if err == nil {
		f, err = p.unnamedCopy("the encrypted bundle", plain)
	}
	if errors.Is(err, vault.ErrTampered) || errors.Is(err, vault.ErrNotSealed) {
		err = fmt.Errorf("%w, or was changed after it was encrypted", nutshell.ErrTruncated)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// unnamedCopy copies what a bundle may have of bytes to a file without a name.
func (p *Program) unnamedCopy(what string, r io.Reader) (*os.File, error) {
	f, err := Unnamed()
	if err != nil {
		return nil, err
	}
	most := max(MaxInput, p.Limits.Total)
	n, err := io.Copy(f, io.LimitReader(r, most+1))
	if err == nil && n > most {
		err = fmt.Errorf("%s is more than %d bytes", what, most)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ReadAtMost reads all of r. It returns tooLarge if that is more than limit bytes.
func ReadAtMost(r io.Reader, limit int64, tooLarge error) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(raw)) > limit {
		err = tooLarge
	}
	return raw, err
}

// Ignored returns the patterns of the tree's .nutignore. They match nothing if there is none.
func Ignored(tree fs.FS) (*ignore.Patterns, error) {
	f, err := tree.Open(ignore.File)
	if errors.Is(err, fs.ErrNotExist) {
		return ignore.Parse(nil)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, 1<<20)) // Parse refuses more than it allows
	if err != nil {
		return nil, err
	}
	return ignore.Parse(raw)
}

// MaxInput limits the size of a bundle on standard input, in bytes. It is the size that the default limits let one unpack.
const MaxInput = 600 << 20

// OpenTree returns the files of a directory, or those of a bundle file unpacked into a temporary directory. The caller
// calls done when it is done with them.
func (p *Program) OpenTree(ctx context.Context, path string) (tree fs.FS, done func(), err error) {
	if IsManifest(path) {
		tree, err := openManifest(path)
		return tree, func() {}, err
	}
	if IsFile(path) {
		b, err := p.OpenBundle(path)
		if err != nil {
			return nil, nil, err
		}
		defer b.Close()
		tree, done, err := b.Unpack(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		return tree, done, nil
	}
	t, err := workdir.FS(path, p.Limits)
	if err != nil {
		return nil, nil, err
	}
	if _, err := fs.Stat(t, nutshell.ManifestFile); err != nil {
		t.Close()
		return nil, nil, p.NoBundle(path)
	}
	return t, func() { t.Close() }, nil
}

// IsManifest reports whether a path is that of a manifest without its bundle: a file that is named .json.
func IsManifest(path string) bool { return IsFile(path) && filepath.Ext(path) == ".json" }

// openManifest returns a tree that has nothing but the manifest in a file.
func openManifest(path string) (fs.FS, error) {
	f, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	most := nutshell.DefaultLimits().File
	raw, err := ReadAtMost(f, most, fmt.Errorf("%s has more than %d bytes", path, most))
	return alone(raw), err
}

// alone is a tree that has nothing but a manifest.
type alone []byte

// Open implements fs.FS.
func (a alone) Open(name string) (fs.File, error) {
	switch name {
	case nutshell.ManifestFile:
		return &textFile{bytes.NewReader(a), name}, nil
	case ".":
		return &aloneDir{textFile{bytes.NewReader(nil), name}, a}, nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// aloneDir is the folder with the manifest.
type aloneDir struct {
	textFile
	manifest alone
}

func (d *aloneDir) Stat() (fs.FileInfo, error) { return d, nil }

func (d *aloneDir) Mode() fs.FileMode { return fs.ModeDir | 0o755 }

func (d *aloneDir) IsDir() bool { return true }

// ReadDir implements fs.ReadDirFile.
func (d *aloneDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if d.manifest == nil {
		if n > 0 {
			return nil, io.EOF
		}
		return nil, nil
	}
	f := &textFile{bytes.NewReader(d.manifest), nutshell.ManifestFile}
	d.manifest = nil
	return []fs.DirEntry{fs.FileInfoToDirEntry(f)}, nil
}

// ManifestOf returns the manifest of a bundle file or a directory.
func (p *Program) ManifestOf(path string) (*nutshell.Manifest, error) {
	if IsFile(path) && !IsManifest(path) {
		b, err := p.OpenBundle(path)
		if err != nil {
			return nil, err
		}
		defer b.Close()
		return b.Manifest(), nil
	}
	tree, done, err := p.OpenTree(context.Background(), path)
	if err != nil {
		return nil, err
	}
	defer done()
	m, err := nutshell.ReadManifest(tree)
	if errors.Is(err, nutshell.ErrNoManifest) {
		return nil, p.NoBundle(path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Unpack unpacks a bundle into a temporary directory, which done removes.
func (b *Bundle) Unpack(ctx context.Context) (tree fs.FS, done func(), err error) {
	dir, err := os.MkdirTemp("", "nutshell-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() { os.RemoveAll(dir) }
	inside := filepath.Join(dir, "tree")
	if err := workdir.Unpack(ctx, b.Bundle, inside); err != nil {
		remove()
		return nil, nil, err
	}
	t, err := workdir.FS(inside, b.limits)
	if err != nil {
		remove()
		return nil, nil, err
	}
	return t, func() { t.Close(); remove() }, nil
}
