package humaneval

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func all(t *testing.T) []Problem {
	t.Helper()
	ps, err := Problems()
	if err != nil {
		t.Fatal(err)
	}
	return ps
}

func TestProblemIDs(t *testing.T) {
	ids := map[string]bool{}
	for _, p := range all(t) {
		ids[p.BundleID()] = true
	}
	if len(ids) != 82 {
		t.Errorf("%d different ids, want 82", len(ids))
	}
}

func TestBundleIsComplete(t *testing.T) {
	for _, p := range all(t) {
		bundle, err := p.Bundle()
		if err != nil {
			t.Fatal(err)
		}
		if err := fstest.TestFS(bundle, "nutshell.json", "context/requirements.md", "files/solution.py",
			"tests/criteria.json", "tests/test_solution.py"); err != nil {
			t.Errorf("%s: %v", p.ID, err)
		}
		var manifest struct {
			Version string `json:"nutshell_version"`
			Type    string `json:"bundle_type"`
			ID      string
			Task    struct{ Title string }
		}
		read(t, bundle, "nutshell.json", &manifest)
		if manifest.Version == "" || manifest.Type != "request" || manifest.ID != p.BundleID() || manifest.Task.Title == "" {
			t.Errorf("%s: manifest lacks a required field: %+v", p.ID, manifest)
		}
	}
}

func read(t *testing.T, tree fs.FS, name string, into any) {
	t.Helper()
	b, err := fs.ReadFile(tree, name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func TestAssertListBecomesTests(t *testing.T) {
	p := Problem{Prompt: "def f(x):\n", Entry: "f", Test: "def check(candidate):\n\n    # easy\n    assert candidate(1) == 1, \"one\"\n    assert True\n    assert not candidate(0)\n"}
	tests := p.Tests()
	for _, want := range []string{"def test_01():\n    assert candidate(1) == 1, \"one\"\n", "def test_02():\n    assert not candidate(0)\n"} {
		if !strings.Contains(tests, want) {
			t.Errorf("no %q in:\n%s", want, tests)
		}
	}
	if strings.Contains(tests, "assert True") {
		t.Error("a test that never calls the candidate was kept")
	}
}

func TestCheckWithLoopIsOneTest(t *testing.T) {
	p := Problem{Prompt: "def f(x):\n", Entry: "f", Test: "def check(candidate):\n    assert candidate(1)\n    for x in range(3):\n        assert candidate(x)\n"}
	if n := strings.Count(p.Tests(), "def test_"); n != 1 {
		t.Errorf("%d tests, want 1:\n%s", n, p.Tests())
	}
}

// The test runs the generated tests in Python itself, without a judge.
func TestCanonicalAndMutants(t *testing.T) {
	dir := t.TempDir()
	for _, p := range all(t) {
		lay(t, filepath.Join(dir, p.BundleID(), "canonical"), p, p.Canonical())
		lay(t, filepath.Join(dir, p.BundleID(), "scaffold"), p, p.Scaffold())
		for name, source := range p.Mutants() {
			lay(t, filepath.Join(dir, p.BundleID(), name), p, source)
		}
	}
	run := exec.Command("python3", filepath.Join("testdata", "tally.py"), dir)
	run.Stderr = os.Stderr
	out, err := run.Output()
	if err != nil {
		t.Fatalf("tally.py (needs python3): %v", err)
	}
	var tallies []struct {
		Problem, Variant string
		Passed, Tests    int
	}
	if err := json.Unmarshal(bytes.TrimSpace(out), &tallies); err != nil {
		t.Fatalf("tally.py: %v", err)
	}
	if want := 82 * 6; len(tallies) != want {
		t.Fatalf("%d tallies, want %d", len(tallies), want)
	}
	for _, got := range tallies {
		want := 0
		if got.Variant == "canonical" {
			want = got.Tests
		}
		if got.Passed != want || got.Tests == 0 {
			t.Errorf("%s, %s: %d of %d tests passed, want %d", got.Problem, got.Variant, got.Passed, got.Tests, want)
		}
	}
}

func lay(t *testing.T, dir string, p Problem, source string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"solution.py": source, "test_solution.py": p.Tests()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMutants(t *testing.T) {
	var names []string
	for name := range all(t)[0].Mutants() {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{EndlessLoop, Exception, MissingFunction, WrongResult}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}
