package nutshell

import (
	"io/fs"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// checkPath refuses a path that is unsafe to write on any system, or beyond the limits.
func (l Limits) checkPath(p string) error {
	switch {
	case len(p) > l.Path:
		return &LimitError{What: "Path", Limit: int64(l.Path), Path: p}
	case strings.Count(p, "/") >= l.Depth:
		return &LimitError{What: "Depth", Limit: int64(l.Depth), Path: p}
	}
	if reason := unsafePath(p); reason != "" {
		return &EntryError{p, reason}
	}
	return nil
}

// unsafePath returns why a path is unsafe, or an empty string.
//
// A bundle must mean the same on every system, so a path is refused for what it means on any of them: a backslash
// separates folders on Windows, and a control character can drive the terminal that lists the files. Unpacking goes
// through os.Root, which would stop an escape as well; here it is refused before a byte is written.
func unsafePath(p string) string {
	switch {
	case !utf8.ValidString(p):
		return "the name is not UTF-8"
	case strings.ContainsRune(p, '\\'):
		return "the name has a backslash"
	case strings.ContainsFunc(p, unicode.IsControl):
		return "the name has a control character"
	case path.IsAbs(p):
		return "the path is absolute"
	case strings.Contains("/"+p+"/", "/../"):
		return `the path has a ".." segment`
	case !fs.ValidPath(p) || p == ".":
		return "the path has an empty segment or a dot for one"
	}
	return ""
}

// names remembers the paths of an archive, to refuse those that cannot be in one folder on every system: duplicates,
// names that differ in case alone, a file and a folder of the same name. Where case does not count, the second of two
// files would replace the first after its hash was checked.
type names struct {
	seen map[string]name // by case-folded path
}

type name struct {
	path string
	file bool
}

// add adds a path and the folders above it.
func (n *names) add(p string, file bool) error {
	if n.seen == nil {
		n.seen = make(map[string]name)
	}
	folded := strings.Map(fold, p)
	for end, foldedEnd := 0, 0; end < len(p); end, foldedEnd = end+1, foldedEnd+1 {
		end += segment(p[end:])
		foldedEnd += segment(folded[foldedEnd:])
		whole := end == len(p)
		if err := n.put(folded[:foldedEnd], name{p[:end], whole && file}); err != nil {
			return err
		}
	}
	return nil
}

// put adds one path.
func (n *names) put(folded string, as name) error {
	was, ok := n.seen[folded]
	switch {
	case !ok:
		n.seen[folded] = as
	case was.path != as.path:
		return &EntryError{as.path, "differs in case alone from " + was.path}
	case as.file && was.file:
		return &EntryError{as.path, "is in the archive twice"}
	case was.file != as.file:
		return &EntryError{as.path, "is a file and a folder"}
	}
	return nil
}

// segment returns the length of the first segment of p.
func segment(p string) int {
	if i := strings.IndexByte(p, '/'); i >= 0 {
		return i
	}
	return len(p)
}

// fold maps the runes that differ in case alone to one of them.
func fold(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return least
}
