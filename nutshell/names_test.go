package nutshell_test

import (
	"slices"
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
		if got := nutshell.IsVersionControl(name); got != want {
			t.Errorf("%q: %t", name, got)
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
