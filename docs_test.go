package guild_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documents returns the project's own pages and doc.go. Pages inside the example bundles are not ours.
func documents(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := filepath.Base(name)
		if d.IsDir() && (slices.Contains([]string{"testdata", "context"}, base) || len(base) > 1 && strings.HasPrefix(base, ".")) {
			return filepath.SkipDir
		}
		if name != "doc.go" && filepath.Ext(name) != ".md" {
			return nil
		}
		text, err := os.ReadFile(name)
		pages[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

var (
	link      = regexp.MustCompile(`\]\(([^)\s#]+)(#[^)]*)?\)`)
	placeName = regexp.MustCompile(`(?:^|[\s` + "`" + `("=])((?:\.ci|bench|cmd|docs|examples|internal|scripts|tools)/[\w./-]+)`)
	lineRef   = regexp.MustCompile(`\.go:\d+|\.go#L\d+|\blines? \d+`)
)

func TestLinksLeadSomewhere(t *testing.T) {
	for page, text := range documents(t) {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			target := found[1]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			if _, err := os.Stat(path.Join(path.Dir(page), target)); err != nil {
				t.Errorf("%s links to %s, which is not there", page, target)
			}
		}
	}
}

func TestDocumentedPathsExist(t *testing.T) {
	for page, text := range documents(t) {
		for _, found := range placeName.FindAllStringSubmatch(text, -1) {
			place := strings.TrimRight(found[1], "./-")
			if !exists(place) && !exists(strings.TrimSuffix(place, path.Ext(place))) {
				t.Errorf("%s names %s, which is not there", page, place)
			}
		}
	}
}

func exists(place string) bool {
	_, err := os.Stat(filepath.FromSlash(place))
	return err == nil
}

func TestDocumentsNameNoLines(t *testing.T) {
	for page, text := range documents(t) {
		if found := lineRef.FindString(text); found != "" {
			t.Errorf("%s says %q: line numbers are wrong after the next change; name the function", page, found)
		}
	}
}

func TestDecisionNumbers(t *testing.T) {
	names, err := filepath.Glob("docs/adr/0*.md")
	if err != nil || len(names) == 0 {
		t.Fatalf("no decisions in docs/adr: %v", err)
	}
	slices.Sort(names)
	for i, name := range names {
		if want := fmt.Sprintf("%04d-", i+1); !strings.HasPrefix(filepath.Base(name), want) {
			t.Errorf("%s should begin with %s", name, want)
		}
	}
}
