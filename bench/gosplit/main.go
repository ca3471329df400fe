// Gosplit measures which share of the tests of public Go packages the judge runs apart from the code that they test. It
// takes the packages from the module proxy, judges each as a delivery against its own tests, and prints a table.
//
//	go run -C bench ./gosplit [-v] [MODULE@VERSION …]
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"guild"
	"guild/internal/judging/exam"
	"guild/internal/judging/sandbox/namespaces"
)

// modules are 20 small ones with external tests that need no other module. They were chosen before any was measured, and
// none was taken out. Of their 664 tests 412 ran apart when this was written, by module: 85 to 100 % of levenshtein,
// mergo (30 of 83 pass: it reflects on the tests' own types), quant, run, shortid (1 of 33: a million calls each), stats,
// strftime, tagparser, terminfo, timefmt-go and x/xerrors (3 of 12); 25 to 54 % of gotextdiff, uax29 (read by
// for iter.Next()) and x/sync; 6 % of x/mod; none of go-cmp, goldmark, toml, ulid and x/time.
var modules = []string{
	"dario.cat/mergo@v1.0.2",
	"github.com/BurntSushi/toml@v1.4.0",
	"github.com/agnivade/levenshtein@v1.2.0",
	"github.com/clipperhouse/uax29/v2@v2.7.0",
	"github.com/google/go-cmp@v0.7.0",
	"github.com/hexops/gotextdiff@v1.0.3",
	"github.com/itchyny/timefmt-go@v0.1.9",
	"github.com/montanaflynn/stats@v0.14.0",
	"github.com/ncruces/go-strftime@v1.1.0",
	"github.com/oklog/run@v1.2.0",
	"github.com/oklog/ulid/v2@v2.1.0",
	"github.com/soniakeys/quant@v1.0.0",
	"github.com/teris-io/shortid@v0.0.0-20220617161101-71ec9f2aa569",
	"github.com/vmihailenco/tagparser/v2@v2.0.0",
	"github.com/xo/terminfo@v1.3.1",
	"github.com/yuin/goldmark@v1.7.4",
	"golang.org/x/mod@v0.20.0",
	"golang.org/x/sync@v0.8.0",
	"golang.org/x/time@v0.6.0",
	"golang.org/x/xerrors@v0.0.0-20240903120638-7835f813f4da",
}

// share has the counts of one module.
type share struct {
	external, split, passed, decided int
	because                          map[string]int
}

func main() {
	log.SetFlags(0)
	verbose := flag.Bool("v", false, "print why tests were not split, and which did not pass")
	flag.Parse()
	list := flag.Args()
	if len(list) == 0 {
		list = modules
	}
	if err := table(context.Background(), list, *verbose); err != nil {
		log.Fatal(err)
	}
}

// table measures the modules and prints the table. A module that cannot be measured ends it: without that one it would
// say less than it seems to.
func table(ctx context.Context, list []string, verbose bool) error {
	runner := &namespaces.Runner{}
	defer runner.Close()
	engine := &exam.Engine{Runner: runner}
	if cache, err := os.UserCacheDir(); err == nil {
		engine.Cache = filepath.Join(cache, "guild-judge-test")
	}
	fmt.Println("| module | external tests | run apart | of these passed | decided by the delivery |\n|---|---|---|---|---|")
	var all share
	for _, m := range list {
		s, err := measure(ctx, engine, m, verbose)
		if err != nil {
			return fmt.Errorf("%s: %w", m, err)
		}
		s.print("`" + m + "`")
		all.external, all.split = all.external+s.external, all.split+s.split
		all.passed, all.decided = all.passed+s.passed, all.decided+s.decided
		if verbose {
			for _, why := range slices.SortedFunc(func(yield func(string) bool) {
				for why := range s.because {
					if !yield(why) {
						return
					}
				}
			}, func(a, b string) int { return cmp.Or(s.because[b]-s.because[a], strings.Compare(a, b)) }) {
				log.Printf("\t%d × %s", s.because[why], why)
			}
		}
	}
	all.print("all")
	return nil
}

func (s share) print(name string) {
	fmt.Printf("| %s | %d | %d (%d %%) | %d | %d |\n", name, s.external, s.split, 100*s.split/max(1, s.external), s.passed, s.decided)
}

// measure judges a module as a delivery against its own external tests.
func measure(ctx context.Context, engine *exam.Engine, module string, verbose bool) (share, error) {
	out, err := exec.CommandContext(ctx, "go", "mod", "download", "-json", module).Output()
	var found struct{ Dir string }
	if err := cmp.Or(err, json.Unmarshal(out, &found)); err != nil {
		return share{}, err
	}
	dir, err := os.MkdirTemp("", "gosplit-")
	if err != nil {
		return share{}, err
	}
	defer os.RemoveAll(dir)
	if err := layOut(found.Dir, dir); err != nil {
		return share{}, err
	}
	report, err := engine.Examine(ctx, filepath.Join(dir, "bundle"), filepath.Join(dir, "delivered"))
	if err != nil {
		return share{}, err
	}
	f := report.Findings[0]
	s := share{because: map[string]int{}}
	if verbose {
		for _, run := range f.Runs {
			log.Printf("%.60q %d\n%.1500s\n%.300s", run.Argv, run.Result.Exit, run.Stdout, run.Stderr)
		}
	}
	if f.Fault != "" {
		log.Printf("%s: %s", module, f.Fault)
	}
	for _, t := range f.Tests {
		if strings.Contains(t.Because, "it is in package ") {
			continue
		}
		s.external++
		switch {
		case t.Strength == guild.Strong:
			s.split, s.passed = s.split+1, s.passed+1
		case t.Decided > 0:
			s.split, s.passed, s.decided = s.split+1, s.passed+1, s.decided+1
		case t.State == guild.TestSkipped || t.Because == "it passed only in one process with the delivery":
			s.split++
			s.because[t.Because]++
		default:
			s.because[cmp.Or(t.Because, t.State+": "+t.Message)]++
		}
	}
	return s, nil
}

// layOut makes a bundle of the tests of a module, and a delivery of the rest. Directories without external tests have
// no tests.
func layOut(module, dir string) error {
	tested := map[string]bool{}
	criteria := []byte(`{"time_limit_seconds": 60, "criteria": [{"type": "go-test"}]}`)
	if err := write(filepath.Join(dir, "bundle/tests/criteria.json"), criteria); err != nil {
		return err
	}
	if err := write(filepath.Join(dir, "bundle/nutshell.json"), []byte("{}")); err != nil {
		return err
	}
	return filepath.WalkDir(module, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(module, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil && rel != "." {
				return fs.SkipDir
			}
			tested[rel] = external(name)
			return nil
		}
		to := filepath.Join("bundle/files", rel)
		switch {
		case strings.HasSuffix(rel, "_test.go"):
			to = filepath.Join("bundle/tests", rel)
			if !tested[filepath.Dir(rel)] {
				return nil
			}
		case strings.HasSuffix(rel, ".go"):
			to = filepath.Join("delivered/delivery/artifacts", rel)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return write(filepath.Join(dir, to), b)
	})
}

// external reports whether a directory has tests of an external package.
func external(dir string) bool {
	names, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
	return slices.ContainsFunc(names, func(name string) bool {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly)
		return err == nil && strings.HasSuffix(f.Name.Name, "_test")
	})
}

func write(name string, b []byte) error {
	if err := os.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	return os.WriteFile(name, b, 0o600)
}
