package exam

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"guild"
	"guild/internal/judging/sandbox/namespaces"
	"guild/internal/judging/sandbox/tiers"
)

// lay writes files below a directory.
func lay(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// request creates the directory of an unpacked request bundle.
func request(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	lay(t, dir, files)
	return dir
}

// deliver creates the directory of an unpacked delivery with these artifacts.
func deliver(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	lay(t, filepath.Join(dir, "delivery", "artifacts"), files)
	return dir
}

// newEngine returns an engine with real sandboxes: those of the tier in GUILD_TIER, else namespaces.
func newEngine(t *testing.T) *Engine {
	t.Helper()
	runner, _, err := tiers.Pick(t.Context(), cmp.Or(os.Getenv("GUILD_TIER"), namespaces.Tier))
	if err != nil {
		t.Fatal(err)
	}
	if c, ok := runner.(io.Closer); ok {
		t.Cleanup(func() { c.Close() })
	}
	return &Engine{Runner: runner}
}

// examined examines a delivery and expects no error.
func examined(t *testing.T, bundle, delivery string) Report {
	t.Helper()
	r, err := newEngine(t).Examine(t.Context(), bundle, delivery)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// states returns the tests of a report, one line "id state" for each.
func states(r Report) string {
	var lines []string
	for _, f := range r.Findings {
		for _, test := range f.Tests {
			lines = append(lines, test.ID+" "+test.State)
		}
	}
	return strings.Join(lines, "\n")
}

// wants checks the states of all tests and the strength of the findings.
func (r Report) wants(t *testing.T, strength guild.Strength, lines ...string) {
	t.Helper()
	if got := states(r); got != strings.Join(lines, "\n") {
		t.Errorf("tests:\n%s\nwant:\n%s\n%+v", got, strings.Join(lines, "\n"), r.Findings)
	}
	for _, f := range r.Findings {
		if f.Strength != strength || f.Because == "" {
			t.Errorf("criterion %s is %s because %q, want %s", f.Criterion, f.Strength, f.Because, strength)
		}
	}
}
