package nutshell

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
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
	case strings.ContainsFunc(p, func(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }):
		return "the name has a bidirectional control, which shows it as another one"
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
// names that differ only in case or in whether an accent is a character of its own, a file and a folder of the same name.
// Where that does not count, as on macOS, the second of two files would replace the first after its hash was checked.
type names struct {
	seen map[string]name // by path in NFC, folded
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
	folded := strings.Map(fold, norm.NFC.String(p))
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
		return &EntryError{as.path, "differs only in case or in its Unicode form from " + was.path}
	case as.file && was.file:
		return &EntryError{as.path, "is in the archive twice"}
	case was.file != as.file:
		return &EntryError{as.path, "is a file and a folder"}
	}
	return nil
}

// VersionControl returns whether a file, of those with the paths, is a part of what git on any file system, or another program for
// version control, takes for a repository: by the name of a folder, or in a folder with all that a bare one needs. Such programs run
// what is configured there.
func VersionControl(paths []string) func(path string) bool {
	type parts struct{ head, objects, refs, common bool }
	folders := map[string]parts{}
	for _, p := range paths {
		p = plain(p)
		for at := range len(p) + 1 {
			if at > 0 && p[at-1] != '/' {
				continue
			}
			folder, name := p[:at], p[at:]
			has := folders[folder]
			has.head = has.head || name == "head"
			has.common = has.common || name == "commondir"
			has.objects = has.objects || strings.HasPrefix(name, "objects/")
			has.refs = has.refs || strings.HasPrefix(name, "refs/")
			folders[folder] = has
		}
	}
	return func(path string) bool {
		path = plain(path)
		if slices.ContainsFunc(strings.Split(path, "/"), isVersionControl) {
			return true
		}
		for at := range len(path) + 1 {
			has := folders[path[:at]]
			if has.head && (has.common || has.objects && has.refs) {
				return true
			}
		}
		return false
	}
}

// plain returns what a path is on file systems that take different names for one.
func plain(path string) string {
	parts := strings.Split(unseen.ReplaceAllString(path, ""), "/")
	for i, part := range parts {
		part, _, _ = strings.Cut(part, ":") // NTFS has streams
		parts[i] = strings.ToLower(strings.TrimRight(part, ". "))
	}
	return strings.Join(parts, "/")
}

func isVersionControl(name string) bool {
	return slices.Contains([]string{".git", "git~1", ".hg", ".svn", ".bzr", ".jj", "_darcs"}, name)
}

// unseen are characters that HFS+ leaves out of names.
var unseen = regexp.MustCompile(`[\x{200c}-\x{200f}\x{202a}-\x{202e}\x{206a}-\x{206f}\x{feff}]`)

// RefuseVersionControl returns an *EntryError if one of the files must not be packed, or unpacked for a person to work with.
func RefuseVersionControl(files []Entry) error {
	paths := make([]string, len(files))
	for i, f := range files {
		paths[i] = f.Path
	}
	i := slices.IndexFunc(paths, VersionControl(paths))
	if i < 0 {
		return nil
	}
	return &EntryError{paths[i], "belongs to version control, which runs what is configured there"}
}

// notForWindows returns a warning about the paths that Windows cannot have, or none.
func notForWindows(files []Entry) []string {
	var all []string
	for _, e := range files {
		if slices.ContainsFunc(strings.Split(e.Path, "/"), isNotForWindows) {
			all = append(all, e.Path)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return []string{fmt.Sprintf("%.200q: Windows cannot have a file of this name", all[0])}
	}
	return []string{fmt.Sprintf("%.200q and %d more: Windows cannot have files of these names", all[0], len(all)-1)}
}

// isNotForWindows reports whether Windows has no file or folder of this name, or takes it for a device.
func isNotForWindows(base string) bool {
	if strings.ContainsAny(base, `<>:"|?*`) || strings.HasSuffix(base, ".") || strings.HasSuffix(base, " ") {
		return true
	}
	stem, _, _ := strings.Cut(base, ".")
	return device.MatchString(strings.TrimRight(stem, " "))
}

var device = regexp.MustCompile(`^(?i:con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9\x{b9}\x{b2}\x{b3}])$`)

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
