package nutshell

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// found is what a tree has to pack.
type found struct {
	files   []Entry // sorted by path, without the manifest
	skipped []Skipped
	sum     tally
}

// collector goes through a tree.
type collector struct {
	found
	ctx  context.Context
	fsys fs.FS
	o    Options
	buf  []byte
}

// collect finds the files of a tree and hashes them.
func collect(ctx context.Context, fsys fs.FS, o Options) (found, error) {
	c := collector{found: found{sum: tally{limits: o.Limits}}, ctx: ctx, fsys: fsys, o: o, buf: make([]byte, 32<<10)}
	if err := fs.WalkDir(fsys, ".", c.visit); err != nil {
		return found{}, err
	}
	slices.SortFunc(c.files, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	return c.found, nil
}

func (c *collector) visit(p string, d fs.DirEntry, err error) error {
	if err == nil {
		err = c.ctx.Err()
	}
	if err != nil || p == "." {
		return err
	}
	if p == ManifestFile && d.Type().IsRegular() {
		return nil // it comes first, with what is found here
	}
	if reason := c.excluded(p); reason != "" {
		c.skipped = append(c.skipped, Skipped{p, reason})
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	switch {
	case d.IsDir():
		return c.sum.limits.checkPath(p)
	case !d.Type().IsRegular():
		return &EntryError{p, irregular(d.Type())}
	}
	return c.add(p)
}

// excluded says why a path must not be packed, or nothing.
func (c *collector) excluded(p string) string {
	if reason := secretName(path.Base(p)); reason != "" {
		return reason
	}
	if p == HiddenDir {
		return "hidden tests stay with the customer"
	}
	if c.o.Exclude != nil && c.o.Exclude(p) {
		return "excluded"
	}
	return ""
}

// secretName says why files or folders of this name are never packed, or nothing.
func secretName(base string) string {
	lower := strings.ToLower(base)
	switch {
	case strings.HasPrefix(lower, ".env"):
		return "environment files may hold secrets"
	case slices.Contains([]string{".git", ".hg", ".svn", ".bzr", ".jj", "cvs", "_darcs"}, lower):
		return "belongs to version control"
	case path.Ext(lower) == ".nut":
		return "is a bundle itself"
	case slices.Contains([]string{"id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk"}, lower),
		slices.Contains([]string{".key", ".p12", ".pfx", ".ppk", ".jks", ".keystore", ".kdbx"}, path.Ext(lower)):
		return "is named like a private key"
	}
	return ""
}

func irregular(mode fs.FileMode) string {
	if mode&fs.ModeSymlink != 0 {
		return "is a symbolic link, and bundles have none; put a copy in its place"
	}
	return "is not a regular file"
}

// add hashes a file and takes it in, unless it turns out to be a private key.
func (c *collector) add(p string) error {
	e, head, err := c.read(p)
	if err != nil {
		return err
	}
	if isPrivateKey(head) {
		c.skipped = append(c.skipped, Skipped{p, "is a private key"})
		return nil
	}
	if err := c.sum.addPath(p, e.Size, true); err != nil {
		return err
	}
	c.files = append(c.files, e)
	return nil
}

// read hashes a file and returns its beginning.
func (c *collector) read(p string) (e Entry, head []byte, err error) {
	f, err := c.fsys.Open(p)
	if err != nil {
		return Entry{}, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Entry{}, nil, err
	}
	if !info.Mode().IsRegular() {
		return Entry{}, nil, &EntryError{p, irregular(info.Mode())}
	}
	begin := &prefix{}
	sum := sha256.New()
	n, err := io.CopyBuffer(io.MultiWriter(sum, begin), io.LimitReader(reader{c.ctx, f}, c.sum.limits.File+1), c.buf)
	if err != nil {
		return Entry{}, nil, fmt.Errorf("%.200q: %w", p, err)
	}
	e = Entry{Path: p, Size: n, Mode: 0o644}
	if info.Mode()&0o111 != 0 {
		e.Mode = 0o755
	}
	sum.Sum(e.Hash[:0])
	return e, begin.b, nil
}

// prefix keeps the first KiB of what is written to it.
type prefix struct{ b []byte }

func (p *prefix) Write(b []byte) (int, error) {
	p.b = append(p.b, b[:min(len(b), 1<<10-len(p.b))]...)
	return len(b), nil
}

// isPrivateKey recognises keys by their first lines: PEM, OpenSSH, PGP, age and Nostr.
func isPrivateKey(head []byte) bool {
	for line := range bytes.Lines(head) {
		line = bytes.TrimSpace(line)
		switch {
		case bytes.HasPrefix(line, []byte("-----BEGIN ")) && bytes.Contains(line, []byte("PRIVATE KEY")),
			bytes.HasPrefix(line, []byte("AGE-SECRET-KEY-")),
			bytes.HasPrefix(line, []byte("nsec1")) && len(line) == len("nsec1")+58:
			return true
		case len(line) > 0 && line[0] != '#':
			return false // what comes later is text about keys, or a test
		}
	}
	return false
}
