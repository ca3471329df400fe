package check

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"strings"

	"guild/nutshell"
)

// reference is a path that the bundle names.
type reference struct {
	field string // in which member
	path  string
	by    string // who names it if not the manifest: "AC-001"; may be empty
	fix   string // what to do if it is not there
}

// named is a path that a field of the manifest holds.
func named(field, path string) reference {
	f, _ := nutshell.FieldAt(field) // a path of ours
	return reference{field: field, path: path, fix: strings.ReplaceAll(f.File, "{path}", short(path))}
}

// cleaned is the path within the tree, or why there is none.
func (r reference) cleaned() (p, reason string) {
	switch p = path.Clean(r.path); {
	case strings.ContainsRune(r.path, '\\'):
		return "", "the path has a backslash"
	case path.IsAbs(r.path):
		return "", "the path is absolute"
	case p == ".." || strings.HasPrefix(p, "../"):
		return "", "leads out of the bundle"
	case !fs.ValidPath(p):
		return "", "is not a path"
	}
	return p, ""
}

// follow looks for the file of a reference and tells about it unless it is there, or none is named. It returns the path to go on with,
// and whether there is a file that can be read.
func (c *checker) follow(r reference) (p string, info fs.FileInfo, ok bool) {
	if blank(r.path) {
		return "", nil, false
	}
	if strings.Contains(r.path, "://") {
		c.add(strange, r.field, short(r.path)+": is not in the bundle — agent may not reach it", "")
		return "", nil, false
	}
	p, reason := r.cleaned()
	if reason != "" {
		c.add(gap, r.field, short(r.path)+": "+reason, "Set "+r.field+" to a path within the bundle")
		return "", nil, false
	}
	if c.seen[p] {
		return p, nil, false
	}
	c.seen[p] = true
	info, err := fs.Stat(c.fsys, p)
	switch {
	case c.isHidden(p) && (err == nil && !c.o.Packed || c.committed(p)):
		c.file(strange, r, p, "a hidden test, which does not go into the bundle — agent can't see it", "")
	case errors.Is(err, fs.ErrNotExist):
		words := "referenced but missing"
		if r.by != "" {
			words = "named by " + short(r.by) + " but missing"
		}
		c.file(gap, r, p, words, r.fix)
	case err != nil:
		c.file(gap, r, p, "cannot be read: "+err.Error(), "")
	case !info.IsDir() && !info.Mode().IsRegular():
		c.file(gap, r, p, "is not a regular file, and bundles have no others", "Put a copy in its place")
	case c.o.Exclude != nil && c.o.Exclude(p):
		c.file(gap, r, p, "referenced but left out when packing", "Take it out of .nutignore")
	default:
		return p, info, true
	}
	return p, info, false
}

// told reports whether something has been said about the file of a reference.
func (c *checker) told(r reference) bool {
	p, reason := r.cleaned()
	return reason == "" && c.seen[p]
}

// file tells a finding about a file.
func (c *checker) file(k kind, r reference, p, text, fix string) {
	c.found = append(c.found, finding{Item{Field: r.field, Text: short(p) + ": " + text, Fix: fix, Path: p}, k})
}

// present follows a reference to a file that only has to be there.
func (c *checker) present(r reference) {
	if p, info, ok := c.follow(r); ok {
		c.exists(r, p, info)
	}
}

// exists tells about a file or folder that is there.
func (c *checker) exists(r reference, p string, info fs.FileInfo) {
	switch {
	case info.IsDir():
		c.file(fine, r, p, "exists (folder)", "")
	case info.Size() == 0:
		c.file(strange, r, p, "empty — agent gets nothing from it", "Write "+short(p))
	default:
		c.file(fine, r, p, "exists ("+size(info.Size())+")", "")
	}
}

// explains follows a reference to a file that an agent reads as text, and tells if nobody has written it yet.
func (c *checker) explains(r reference) {
	p, info, ok := c.follow(r)
	if !ok {
		return
	}
	if !info.IsDir() && info.Size() > 0 && info.Size() < maxTemplate {
		if b, err := nutshell.ReadDocument(c.fsys, p); err == nil && unwritten(b) {
			c.file(advice, r, p, "only a template — agent has to guess", "Write "+short(p))
			return
		}
	}
	c.exists(r, p, info)
}

// maxTemplate is the size from which on a text is not looked through for words of its own.
const maxTemplate = 64 << 10

// unwritten reports whether a text has nothing but headings, comments and places to fill in, as templates have.
func unwritten(text []byte) bool {
	comment := false
	for line := range bytes.Lines(text) {
		s := strings.TrimSpace(string(line))
		if strings.HasPrefix(s, "<!--") {
			comment = true
		}
		was := comment
		if strings.HasSuffix(s, "-->") {
			comment = false
		}
		if !was && !placeholder(s) {
			return false
		}
	}
	return true
}

// placeholder reports whether a line says nothing yet: a heading, "(what belongs here)", "- FR-1: ...".
func placeholder(line string) bool {
	return line == "" || strings.HasPrefix(line, "#") ||
		strings.HasPrefix(line, "(") && strings.HasSuffix(line, ")") ||
		strings.HasPrefix(line, "- ") && (strings.HasSuffix(line, "...") || strings.HasSuffix(line, "…"))
}

// document reads the JSON document behind a reference. It tells what is wrong with it, and reports false then.
func (c *checker) document(r reference, parse func([]byte) error) bool {
	p, info, ok := c.follow(r)
	if !ok {
		return false
	}
	if info.IsDir() {
		c.file(gap, r, p, "is a folder", "")
		return false
	}
	b, err := nutshell.ReadDocument(c.fsys, p)
	if err == nil {
		err = parse(b)
	}
	if err != nil {
		c.file(gap, r, p, "cannot be used: "+withoutFile(err), "Correct "+short(p))
		return false
	}
	c.exists(r, p, info)
	return true
}

// withoutFile words an error about a document for a line that names the document already.
func withoutFile(err error) string {
	wrong, ok := errors.AsType[*nutshell.ManifestError](err)
	switch {
	case ok && wrong.Field != "":
		return short(wrong.Field + " " + wrong.Reason)
	case ok:
		return short(wrong.Reason)
	}
	return short(err.Error())
}
