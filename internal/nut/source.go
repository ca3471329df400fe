package nut

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"guild/internal/cli"
	"guild/internal/workdir"
	"guild/nutshell"
)

// errNoBundle is what a directory without a manifest is.
func (p *Program) errNoBundle(dir string) error {
	err := fmt.Errorf("%s: %w", dir, nutshell.ErrNoManifest)
	return cli.WithHint(err, "make one with '"+p.hint("init --dir "+dir)+"'")
}

// openBundle opens a bundle file, or standard input for "-". What must be closed is closed by done.
func (p *Program) openBundle(path string) (b *nutshell.Bundle, f *os.File, done func(), err error) {
	if path == "-" {
		f, err = p.spool()
	} else {
		f, err = os.Open(path)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	done = func() { f.Close() }
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is not a regular file")
	}
	if err == nil {
		b, err = nutshell.Open(f, info.Size(), nutshell.Limits{})
	}
	if err != nil {
		done()
		return nil, nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, f, done, nil
}

// maxInput is the size of a bundle on standard input at most, in bytes: what the default limits let one unpack to.
const maxInput = 600 << 20

// spool copies standard input to a file without a name, because a bundle is read more than once.
func (p *Program) spool() (*os.File, error) {
	f, err := os.CreateTemp("", "nutshell-stdin-")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name())
	n, err := io.Copy(f, io.LimitReader(p.In, maxInput+1))
	if err == nil && n > maxInput {
		err = fmt.Errorf("standard input is more than %d bytes", maxInput)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openTree is the files of a directory, or of a bundle file, which it unpacks into a temporary directory.
func (p *Program) openTree(ctx context.Context, path string) (tree fs.FS, done func(), err error) {
	if info, err := os.Stat(path); path == "-" || err == nil && !info.IsDir() {
		return p.unpacked(ctx, path)
	}
	t, err := workdir.FS(path, nutshell.Limits{})
	if err != nil {
		return nil, nil, err
	}
	if _, err := fs.Stat(t, nutshell.ManifestFile); err != nil {
		t.Close()
		return nil, nil, p.errNoBundle(path)
	}
	return t, func() { t.Close() }, nil
}

func (p *Program) unpacked(ctx context.Context, path string) (fs.FS, func(), error) {
	b, _, closeBundle, err := p.openBundle(path)
	if err != nil {
		return nil, nil, err
	}
	defer closeBundle()
	dir, err := os.MkdirTemp("", "nutshell-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() { os.RemoveAll(dir) }
	tree, err := p.unpackInto(ctx, b, filepath.Join(dir, "tree"))
	if err != nil {
		remove()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return tree, func() { tree.Close(); remove() }, nil
}

func (p *Program) unpackInto(ctx context.Context, b *nutshell.Bundle, dir string) (*workdir.Tree, error) {
	if err := workdir.Unpack(ctx, b, dir); err != nil {
		return nil, err
	}
	return workdir.FS(dir, nutshell.Limits{})
}

// readManifest reads the manifest of a tree.
func readManifest(tree fs.FS) (*nutshell.Manifest, error) {
	raw, err := fs.ReadFile(tree, nutshell.ManifestFile)
	if err != nil {
		return nil, err
	}
	return nutshell.ParseManifest(raw)
}

// dirFlag adds --dir, which the verbs that work on a directory have.
func dirFlag(flags interface {
	StringVarP(p *string, name, shorthand, value, usage string)
}, dir *string) {
	flags.StringVarP(dir, "dir", "d", ".", "directory of the bundle")
}
