package check_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"guild/nutshell/check"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestReferenceTrees compares the reports about the trees of the reference program's bundles with testdata.
func TestReferenceTrees(t *testing.T) {
	for _, name := range []string{"delivery", "full-request", "init-default", "minimal"} {
		fsys := os.DirFS(filepath.Join("../testdata/reference/src", name))
		for verb, look := range map[string]func() (check.Report, error){
			"tree":     func() (check.Report, error) { return check.Tree(fsys, check.Options{Now: now}) },
			"validate": func() (check.Report, error) { return check.Validate(fsys, check.Options{Now: now}) },
		} {
			r, err := look()
			if err != nil {
				t.Fatal(err)
			}
			got := r.Status + "\n" + strings.Join(lines(r), "\n") + "\n"
			golden := filepath.Join("testdata", name+"."+verb+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(golden); err != nil || got != string(want) {
				t.Errorf("%s %s: %v\n%s", verb, name, err, got)
			}
		}
	}
}
