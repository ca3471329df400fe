package exam

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"guild"
)

var update = flag.Bool("update", false, "rewrite the table of idioms in docs/JUDGE.md")

const (
	judgePage   = "../../../docs/JUDGE.md"
	idiomsBegin = "| tests in | all are strong | some are not: strong + mixed + weak |\n|---|---|---|\n"
	idiomsEnd   = "\n\n"
)

// TestIdioms examines the honest suites of testdata/*idioms*.txtar, which must pass, and compares their strength with
// the table in docs/JUDGE.md, which has a row for each language.
func TestIdioms(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a hundred sandboxes")
	}
	archives, err := filepath.Glob("testdata/*idioms*.txtar")
	archives = slices.DeleteFunc(archives, func(name string) bool { return filepath.Base(name) == "goidioms.txtar" })
	if err != nil || len(archives) == 0 {
		t.Fatal("no idioms", err)
	}
	documented := idiomRows(t)
	rows := map[string]string{} // what the table says of each; idioms that do not run here stay as they are
	idioms := map[string]map[string]string{}
	for _, archive := range archives {
		for name, files := range programs(t, filepath.Base(archive)) {
			if idioms[name] != nil {
				t.Errorf("two idioms have the name %s", name)
			}
			idioms[name] = files
			if row, known := documented[name]; known {
				rows[name] = row
			}
		}
	}
	part := sample(idioms, 5)
	if *update {
		part = idioms
	}
	var mu sync.Mutex
	e := quick(t)
	wait, done := some()
	t.Run("suites", func(t *testing.T) {
		for name, files := range part {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				wait()
				defer done()
				if !installed(t, files["needs"]) {
					t.Logf("no %s here", strings.TrimSpace(files["needs"]))
					return
				}
				row := idiom(t, e, name, files)
				mu.Lock()
				defer mu.Unlock()
				rows[name] = row
			})
		}
	})
	for name, row := range documented {
		if strings.HasPrefix(name, idiomLanguages["Go"]) && !*update && !whole() {
			rows[name] = row
		}
	}
	maps.Copy(rows, goIdioms(t))
	if *update {
		writeIdioms(t, rows)
	} else if !t.Failed() && !maps.Equal(rows, documented) {
		t.Errorf("the table of idioms in docs/JUDGE.md is not up to date: run this test with -update\n%s", idiomTable(rows))
	}
}

// goIdioms examines the honest suites in Go, which are packages of one module, and returns what the table says of each. Usually it takes
// the first part alone: TestVetTrustsHonestGoTests has the other.
func goIdioms(t *testing.T) map[string]string {
	var f Finding
	for name, files := range goIdiomParts(t) {
		if name != "first" && !*update && !whole() {
			continue
		}
		part := foundGo(t, goEngine(t), files, "a")
		f.Tests, f.Fault = append(f.Tests, part.Tests...), cmp.Or(f.Fault, part.Fault)
	}
	if len(f.Tests) < 7 || Passed(f.Tests) != len(f.Tests) || f.Fault != "" {
		t.Errorf("%d of %d passed, %q", Passed(f.Tests), len(f.Tests), f.Fault)
		unpassed(t, f)
	}
	counts := map[string]map[guild.Strength]int{}
	for _, test := range f.Tests {
		t.Logf("%s: %s %s", test.ID, test.Strength, test.Because)
		name := "go_" + goDir(test.ID)
		if counts[name] == nil {
			counts[name] = map[guild.Strength]int{}
		}
		counts[name][test.Strength]++
	}
	rows := map[string]string{}
	for name, n := range counts {
		rows[name] = counted(n)
	}
	return rows
}

// goIdiomParts returns these suites in two parts: the programs of all do not fit into one archive.
func goIdiomParts(t *testing.T) map[string]map[string]string {
	parts := map[string]map[string]string{"first": {}, "last": {}}
	for name, text := range goFiles(t, "goidioms.txtar") {
		switch {
		case len(name) < 3:
		case name[2] < 'p':
			parts["first"][name] = text
		default:
			parts["last"][name] = text
		}
	}
	return parts
}

// installed reports whether the machine's Python has a module. Without a name nothing is needed.
func installed(t *testing.T, module string) bool {
	module = strings.TrimSpace(module)
	return module == "" || exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import "+module).Run() == nil
}

// idiom examines an honest suite and returns what the table says of it.
func idiom(t *testing.T, e *Engine, name string, files map[string]string) string {
	var f Finding
	honest := under(files, "honest", "")
	if strings.HasPrefix(name, "javascript_") {
		needNode(t)
		f = foundScript(t, files, honest)
	} else {
		f = found(t, e, under(files, "t", "tests/"), honest)
	}
	if len(f.Tests) < 2 || Passed(f.Tests) != len(f.Tests) || f.Fault != "" || len(f.Breaches) > 0 {
		t.Errorf("%d of %d passed, %q, %v", Passed(f.Tests), len(f.Tests), f.Fault, f.Breaches)
		unpassed(t, f)
	}
	want, _, _ := strings.Cut(files["expected"], "\n")
	if weighed(f) && f.Strength != guild.Strength(want) {
		t.Errorf("%s (%s), want %s", f.Strength, f.Because, files["expected"])
	}
	t.Logf("%s, want %s: %s", f.Strength, want, f.Because)
	counts := map[guild.Strength]int{}
	for _, test := range f.Tests {
		counts[cmp.Or(test.Strength, f.Strength)]++
		if test.Because != "" {
			t.Logf("%s: %s because %s", test.ID, test.Strength, test.Because)
		}
	}
	return counted(counts)
}

// counted returns the numbers of strong, mixed and weak tests as the table has them: nothing if all are strong.
func counted(n map[guild.Strength]int) string {
	if n[guild.Mixed]+n[guild.Weak] == 0 {
		return ""
	}
	return fmt.Sprintf(" %d+%d+%d", n[guild.Strong], n[guild.Mixed], n[guild.Weak])
}

// idiomRows reads the table in docs/JUDGE.md: what it says of each idiom, by name.
func idiomRows(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(judgePage)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), idiomsBegin)
	text, _, found := strings.Cut(rest, idiomsEnd)
	if !found {
		t.Fatal("docs/JUDGE.md has no table of idioms")
	}
	rows := map[string]string{}
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		for _, idiom := range strings.Split(strings.Join(cells[1:], ", "), ", ") {
			numbers := numbersOf.FindString(idiom)
			name := strings.ReplaceAll(strings.TrimSuffix(idiom, numbers), " ", "_")
			rows[idiomLanguages[cells[0]]+name] = numbers
		}
	}
	return rows
}

// numbersOf matches what counted returns.
var numbersOf = regexp.MustCompile(` \d+\+\d+\+\d+$`)

// idiomLanguages has the languages of the table, with the prefix of the names of their idioms.
var idiomLanguages = map[string]string{"Python": "", "JavaScript": "javascript_", "Go": "go_"}

// idiomTable returns the table of docs/JUDGE.md.
func idiomTable(rows map[string]string) string {
	var table strings.Builder
	for _, language := range []string{"Python", "JavaScript", "Go"} {
		var strong, others []string
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			idiom, here := strings.CutPrefix(name, idiomLanguages[language])
			if !here || language == "Python" && (strings.HasPrefix(name, "javascript_") || strings.HasPrefix(name, "go_")) {
				continue
			}
			idiom = strings.ReplaceAll(idiom, "_", " ")
			if rows[name] == "" {
				strong = append(strong, idiom)
			} else {
				others = append(others, idiom+rows[name])
			}
		}
		fmt.Fprintf(&table, "| %s | %s | %s |\n", language, strings.Join(strong, ", "), strings.Join(others, ", "))
	}
	return strings.TrimSuffix(table.String(), "\n")
}

func writeIdioms(t *testing.T, rows map[string]string) {
	t.Helper()
	page, err := os.ReadFile(judgePage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(page), idiomsBegin)
	_, after, _ := strings.Cut(rest, idiomsEnd)
	if err := os.WriteFile(judgePage, []byte(before+idiomsBegin+idiomTable(rows)+idiomsEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
