package nutshell_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"guild/nutshell"
)

func TestVersionControl(t *testing.T) {
	for name, want := range map[string]bool{
		".git": true, "a/.GIT/config": true, ".git . /x": true, "git~1/x": true, ".g\u200cit/config": true, ".git::$INDEX_ALLOCATION/x": true,
		"sub/.hg/hgrc": true, ".jj/repo/config.toml": true, "_darcs/prefs/defaults": true,
		".gitignore": false, "git/x": false, ".github/x": false, "cvs/letter.md": false,
	} {
		if got := nutshell.VersionControl([]string{name})(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}

// git runs what the config of a folder names that looks like a bare repository.
func TestBareRepository(t *testing.T) {
	for _, c := range []struct {
		paths []string
		want  string // the paths that belong to it
	}{
		{[]string{"repo/HEAD", "repo/objects/x", "repo/refs/x", "repo/config", "a.py"}, "repo/HEAD repo/objects/x repo/refs/x repo/config"},
		{[]string{"HEAD", "objects/x", "refs/heads/x", "src/a.py"}, "HEAD objects/x refs/heads/x src/a.py"},
		{[]string{"a/b/Head", "a/b/OBJECTS/x", "a/b/refs./x", "a/c"}, "a/b/Head a/b/OBJECTS/x a/b/refs./x"},
		{[]string{"a/HEAD", "a/commondir", "b/objects/x", "b/refs/x"}, "a/HEAD a/commondir"},
		{[]string{"HEAD", "objects/x", "refs", "a/refs/x"}, ""},
		{[]string{"docs/HEAD", "objects/x", "refs/x"}, ""},
	} {
		versioned := nutshell.VersionControl(c.paths)
		var got []string
		for _, p := range c.paths {
			if versioned(p) {
				got = append(got, p)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q: %q", c.paths, got)
		}
	}
}

func TestNamesThatWindowsCannotHave(t *testing.T) {
	for name, bad := range map[string]bool{
		"files/CON": true, "aux.txt": true, "Com1/x": true, "a:b": true, "what?": true, "end.": true, "end /x": true, "nul .tar.gz": true,
		"console": false, "com10": false, "a.con": false, ".gitignore": false, "ä b.txt": false,
	} {
		tree := fstest.MapFS{"nutshell.json": {Data: []byte(someManifest)}, name: {}}
		packed, info := pack(t, tree, nutshell.Options{})
		b, err := open(packed)
		if err != nil {
			t.Fatal(err)
		}
		if (len(info.Warnings) > 0) != bad || !slices.Equal(info.Warnings, b.Warnings) {
			t.Errorf("%q: packed with %q, opened with %q", name, info.Warnings, b.Warnings)
		}
	}
}
