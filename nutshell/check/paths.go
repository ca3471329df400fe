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
	by    string // what names it if not the manifest: "AC-001"; may be empty
	fix   string // what to do if it is missing
}

// named returns the reference for the path in a field of the manifest, with the fix of the table.
func named(field, path string) reference {
	f, _ := nutshell.FieldAt(field) // a path of ours
	return reference{field: field, path: path, fix: strings.ReplaceAll(f.File, "{path}", short(path))}
}

// cleaned returns the path within the tree, or why it is not one.
func (r reference) cleaned() (p, reason string) {
	p = path.Clean(r.path)
	switch {
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

// follow finds the file of a reference, and reports it if it is missing. ok is false if there is no file to read: it is
// missing, already reported, or the path is empty.
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

// told returns whether the file of a reference is reported already.
func (c *checker) told(r reference) bool {
	p, reason := r.cleaned()
	return reason == "" && c.seen[p]
}

// file adds a finding about a file.
func (c *checker) file(k kind, r reference, p, text, fix string) {
	c.found = append(c.found, finding{Item{Field: r.field, Text: short(p) + ": " + text, Fix: fix, Path: p}, k})
}

// present follows a reference to a file that only has to exist.
func (c *checker) present(r reference) {
	if p, info, ok := c.follow(r); ok {
		c.exists(r, p, info)
	}
}

// exists reports a file or folder that exists.
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

// explains follows a reference to a text for the agent, and reports a template that is still empty.
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

// maxTemplate is the size in bytes from which on a text is not taken for a template.
const maxTemplate = 64 << 10

// unwritten reports whether a text has only the headings, comments and placeholders of a template.
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

// placeholder reports whether a line is a heading or a placeholder such as "(what belongs here)" or "- FR-1: ...".
func placeholder(line string) bool {
	return line == "" || strings.HasPrefix(line, "#") ||
		strings.HasPrefix(line, "(") && strings.HasSuffix(line, ")") ||
		strings.HasPrefix(line, "- ") && (strings.HasSuffix(line, "...") || strings.HasSuffix(line, "…"))
}

// document parses the JSON document of a reference. It returns false, and reports why, if it cannot be used.
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

// withoutFile returns the text of an error about a document without the path of the document.
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
