package diff

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
)

// Limits of the comparison line by line. Beyond them only sizes and hashes are compared.
const (
	maxText  = 1 << 20 // bytes of a file
	maxTexts = 8 << 20 // bytes of all diffs together
)

// Notes about files whose content differs but is not shown.
const (
	noteBinary = "binary files differ"
	noteLarge  = "too large to be compared line by line"
	noteSecret = "credentials differ"
	noteMany   = "too many differences to show them all"
)

// contents compares the contents of files.
type contents struct {
	ctx  context.Context
	a, b *tree
	used int // bytes of the diffs so far

	open bool // a secret is only what A's manifest calls one: B is a stranger's, who could hide files by their names
}

func (c *contents) compare(all []pair) ([]File, error) {
	files := []File{}
	for _, p := range all {
		if err := c.ctx.Err(); err != nil {
			return nil, err
		}
		f := File{Path: p.path(), Change: p.change}
		if p.a != nil {
			f.Old = &p.a.State
			if p.b != nil && p.as == "" && p.a.path != p.b.path {
				f.OldPath = p.a.path
			}
		}
		if p.b != nil {
			f.New = &p.b.State
		}
		if err := c.describe(&f, p); err != nil {
			return nil, fmt.Errorf("%.200q: %w", f.Path, err)
		}
		files = append(files, f)
	}
	return files, nil
}

// describe adds the difference between the contents, or a note.
func (c *contents) describe(f *File, p pair) error {
	size := int64(0)
	for _, s := range []*State{f.Old, f.New} {
		if s != nil {
			size = max(size, s.Size)
		}
	}
	switch {
	case f.Old != nil && f.New != nil && f.Old.Hash == f.New.Hash:
		return nil
	case c.isSecret(p):
		f.Note = noteSecret
		return nil
	case size > maxText:
		f.Note = noteLarge
		return nil
	}
	before, err := contentOf(c.a.fsys, p.a)
	if err != nil {
		return err
	}
	after, err := contentOf(c.b.fsys, p.b)
	if err != nil {
		return err
	}
	switch {
	case !isText(before) || !isText(after):
		f.Note = noteBinary
	case c.used > maxTexts:
		f.Note = noteMany
	default:
		f.unify(label("a/", p.a, p.as), label("b/", p.b, p.as), string(before), string(after))
		c.used += len(f.Text)
	}
	return nil
}

// isSecret reports whether the contents of a pair are not shown.
func (c *contents) isSecret(p pair) bool {
	if c.open {
		return p.a != nil && c.a.manifest.HoldsCredentials(p.a.path)
	}
	return p.a != nil && isSecretIn(c.a, p.a.path) || p.b != nil && isSecretIn(c.b, p.b.path)
}

// isSecretIn reports whether the content of a file is not shown: it is a vault, or named like an environment file or a
// private key.
func isSecretIn(t *tree, p string) bool {
	return t.manifest.HoldsCredentials(p) || slices.ContainsFunc(secretNames, func(name string) bool {
		matches, err := path.Match(name, strings.ToLower(path.Base(p)))
		return err == nil && matches
	})
}

// secretNames are patterns of the usual names of files with secrets.
var secretNames = []string{".env*", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "*.key", "*.pem", ".netrc", ".npmrc"}

// contentOf reads the first maxText bytes of a file; e may be nil.
func contentOf(fsys fs.FS, e *entry) ([]byte, error) {
	if e == nil {
		return nil, nil
	}
	f, err := fsys.Open(e.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxText))
}

func isText(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }

// label returns the label of one side in a unified diff, with the path as, or its own if that is empty.
func label(prefix string, e *entry, as string) string {
	if e == nil {
		return "/dev/null"
	}
	p := cmp.Or(as, e.path)
	if quoted := strconv.Quote(p); quoted != `"`+p+`"` || strings.Contains(p, " ") {
		return strconv.Quote(prefix + p)
	}
	return prefix + p
}

// unify sets the unified diff and counts its lines.
func (f *File) unify(oldLabel, newLabel, before, after string) {
	f.Text = udiff.Unified(oldLabel, newLabel, before, after)
	_, lines, _ := strings.Cut(f.Text, "\n") // the labels
	_, lines, _ = strings.Cut(lines, "\n")
	for line := range strings.Lines(lines) {
		switch line[0] {
		case '+':
			f.Added++
		case '-':
			f.Removed++
		}
	}
}
