package exam

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"guild"
)

var update = flag.Bool("update", false, "rewrite "+idiomsFile)

// idiomsFile has a line for each idiom: its name, and how many of its tests are strong, mixed and weak.
const idiomsFile = "testdata/idioms.txt"

// TestIdioms examines the honest suites of testdata/*idioms*.txtar, which must pass, and compares their strength with
// idiomsFile.
func TestIdioms(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a hundred sandboxes")
	}
	archives, err := filepath.Glob("testdata/*idioms*.txtar")
	archives = slices.DeleteFunc(archives, func(name string) bool { return filepath.Base(name) == "goidioms.txtar" })
	if err != nil || len(archives) == 0 {
		t.Fatal("no idioms", err)
	}
	known := idiomCounts(t)
	counts := map[string]string{} // idioms that do not run here stay as they are
	idioms := map[string]map[string]string{}
	for _, archive := range archives {
		for name, files := range programs(t, filepath.Base(archive)) {
			if idioms[name] != nil {
				t.Errorf("two idioms have the name %s", name)
			}
			idioms[name] = files
			if count, has := known[name]; has {
				counts[name] = count
			}
		}
	}
	part := sample(idioms, 10)
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
				count := idiom(t, e, name, files)
				mu.Lock()
				defer mu.Unlock()
				counts[name] = count
			})
		}
	})
	for name, count := range known {
		if language, _ := idiomLanguage(name); language == "Go" && !*update && !whole() {
			counts[name] = count
		}
	}
	maps.Copy(counts, goIdioms(t))
	if *update {
		writeIdioms(t, counts)
	} else if !t.Failed() && !maps.Equal(counts, known) {
		t.Errorf("%s is not up to date: run this test with -update\n%v", idiomsFile, counts)
	}
}

// TestWeakIdiomsDocumented compares docs/JUDGE.md with idiomsFile: a line for each language names the idioms of which at most
// half of the tests are strong.
func TestWeakIdiomsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/JUDGE.md")
	if err != nil {
		t.Fatal(err)
	}
	counts := idiomCounts(t)
	weakest := map[string][]string{}
	strong, all := 0, 0
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		var n, mixed, weak int
		if _, err := fmt.Sscanf(counts[name], "%d+%d+%d", &n, &mixed, &weak); err != nil {
			t.Fatalf("%s: %s: %v", idiomsFile, name, err)
		}
		strong, all = strong+n, all+n+mixed+weak
		if n <= mixed+weak {
			language, idiom := idiomLanguage(name)
			weakest[language] = append(weakest[language], strings.ReplaceAll(idiom, "_", " "))
		}
	}
	want := []string{fmt.Sprintf("%d of %d tests are strong", strong, all)}
	for language, idioms := range weakest {
		want = append(want, "- "+language+": "+strings.Join(idioms, ", ")+"\n")
	}
	for _, text := range want {
		if !strings.Contains(string(page), text) {
			t.Errorf("docs/JUDGE.md does not say\n%s", text)
		}
	}
}

// idiomLanguage cuts the language off the name of an idiom.
func idiomLanguage(name string) (language, idiom string) {
	if idiom, found := strings.CutPrefix(name, "javascript_"); found {
		return "JavaScript", idiom
	}
	if idiom, found := strings.CutPrefix(name, "go_"); found {
		return "Go", idiom
	}
	return "Python", name
}

// goIdioms examines the honest suites in Go, which are packages of one module, and returns the counts of each. Usually it takes
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
	lines := map[string]string{}
	for name, n := range counts {
		lines[name] = counted(n)
	}
	return lines
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

// idiom examines an honest suite and returns its counts.
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

// counted returns the numbers of strong, mixed and weak tests as idiomsFile has them.
func counted(n map[guild.Strength]int) string {
	return fmt.Sprintf("%d+%d+%d", n[guild.Strong], n[guild.Mixed], n[guild.Weak])
}

// idiomCounts reads idiomsFile: the counts of each idiom, by name.
func idiomCounts(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(idiomsFile)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, count, _ := strings.Cut(strings.TrimSpace(line), " ")
		counts[name] = count
	}
	return counts
}

func writeIdioms(t *testing.T, counts map[string]string) {
	t.Helper()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&text, "%s %s\n", name, counts[name])
	}
	if err := os.WriteFile(idiomsFile, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
