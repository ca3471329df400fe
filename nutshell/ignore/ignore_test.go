package ignore_test

import (
	"errors"
	"strings"
	"testing"

	"guild/nutshell"
	"guild/nutshell/ignore"
)

func parse(t testing.TB, text string) *ignore.Patterns {
	t.Helper()
	p, err := ignore.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPatternsLikeGit(t *testing.T) {
	for text, c := range map[string]struct{ out, in string }{
		"*.log":                      {"a.log x/y/a.log .log a.log/x", "a.logs log"},
		"/build":                     {"build build/x", "x/build"},
		"build/":                     {"build/ x/build/ build/x", "build"},
		"doc/*.txt":                  {"doc/a.txt", "a/doc/a.txt doc/x/a.txt"},
		"doc/**/*.txt":               {"doc/a.txt doc/x/y/a.txt", "doc.txt"},
		"**/tmp":                     {"tmp a/b/tmp tmp/x", "tmpx"},
		"out/**":                     {"out/a out/b/c", "out"},
		"a?c":                        {"abc x/abc", "ac a/c"},
		"[a-cx].go":                  {"b.go x.go", "d.go"},
		"[!a]":                       {"b x/b", "a"},
		"[[:digit:]]*":               {"1 22x", "x1"},
		"[]-]":                       {"] -", "a"},
		"# a":                        {"", "a #"},
		`\#a`:                        {"#a", "a"},
		`\!a`:                        {"!a", "a"},
		"a   ":                       {"a", "a-"},
		"*.log\n!keep.log":           {"a.log", "keep.log x/keep.log"},
		"logs\n!logs/keep":           {"logs/keep logs", ""},
		"/*\n!/src\n/src/*\n!/src/a": {"x src/b", "src src/a src/a/b"},
		"a\r\nb\r\n":                 {"a b", "c"},
		"\ufeffa":                    {"a", "b"},
		"/\n//\n!\n\n  \n[a\na\\":    {"", "a [a b"},
	} {
		p := parse(t, text)
		for _, name := range strings.Fields(c.out) {
			if !p.Match(strings.TrimSuffix(name, "/"), strings.HasSuffix(name, "/")) {
				t.Errorf("%q does not match %q", text, name)
			}
		}
		for _, name := range strings.Fields(c.in) {
			if p.Match(name, false) {
				t.Errorf("%q matches %q", text, name)
			}
		}
	}
}

func TestBounds(t *testing.T) {
	for what, text := range map[string]string{
		"bytes":           strings.Repeat("aaaaaaa\n", 40_000),
		"lines":           strings.Repeat("\n", 10_001),
		"bytes of a line": "a\n" + strings.Repeat("a", 5_000),
	} {
		_, err := ignore.Parse([]byte(text))
		if e, ok := errors.AsType[*nutshell.LimitError](err); !ok || e.What != what {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := ignore.Parse([]byte("a\x00\n\x00")); err == nil || !strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("a file in UTF-16: %v", err)
	}
}

func TestNoPatternsMatchNothing(t *testing.T) {
	var none *ignore.Patterns
	if none.Match("a", false) || (&ignore.Patterns{}).Match("a", true) || parse(t, "").Match("a", false) {
		t.Error("nothing matches something")
	}
}

// A matcher that backtracks would take years for these. The test proves that ours does not, because it ends.
func TestWorstPatterns(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("*a", 2_000) + "[b]", strings.Repeat("**/a/", 800) + "[b]", strings.Repeat("a*", 2_000) + "*[b]",
		strings.Repeat("[a]*", 1_000) + "[b]", strings.Repeat("**/", 1_300) + "[b]", strings.Repeat("?*", 2_000) + "/[b]",
	} {
		p := parse(t, text)
		if p.Match(strings.Repeat("a", 1_000), false) || p.Match(strings.Repeat("a/", 31)+strings.Repeat("a", 1_000), false) {
			t.Errorf("%.20q… matches", text)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("*.log\n!keep.log\n/build/\n", "build/keep.log", true)
	f.Add("a**/[[:alpha:]-z]\\\n[!]a-]\n[a-\\", "a/b", false)
	f.Add("**/**/*\\ \n", "a b/c", false)
	f.Fuzz(func(t *testing.T, text, path string, isDir bool) {
		p, err := ignore.Parse([]byte(text))
		if err != nil || len(path) > 4_096 {
			return
		}
		got := p.Match(path, isDir)
		if dir, _, below := strings.Cut(path, "/"); below && p.Match(dir, true) && !got {
			t.Errorf("%q: %q is out, and %q is in", text, dir, path)
		}
		all, err := ignore.Parse([]byte(text + "\n!*\n"))
		if err == nil && !strings.Contains(path, "/") && path != "" && all.Match(path, isDir) {
			t.Errorf("%q: %q stays out after all was taken back in", text, path)
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	p := parse(b, "# made\n*.log\n/build/\nnode_modules/\n**/testdata/*.golden\n!keep.log\n.DS_Store\n*.py[co]\n*~\ndist/**\n")
	for b.Loop() {
		p.Match("src/internal/server/handlers/user_test.go", false)
	}
}
