package exam

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"guild"
	"guild/examples/humaneval"
)

func vetted(t *testing.T, e *Engine, bundle string, keepGreen bool) Vetting {
	t.Helper()
	v, err := e.Vet(t.Context(), bundle, "", keepGreen)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestVetNamesWhatShowsNothing vets the suites of testdata/vet.txtar, and of vetscripts.txtar those in JavaScript.
func TestVetNamesWhatShowsNothing(t *testing.T) {
	wait, done := some()
	for archive, n := range map[string]uint32{"vet.txtar": 6, "vetscripts.txtar": 12} {
		for name, files := range sample(programs(t, archive), n) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				wait()
				defer done()
				bundle := bundleOf(t, under(files, "tests", "tests/"), nil, "")
				if archive == "vetscripts.txtar" {
					needNode(t)
					bundle = scriptBundle(t, runner(files), modeSplit, under(files, "t", "tests/"), under(files, "f", "files/"))
				}
				wants(t, vetted(t, vetEngine(t, files), bundle, false), files["want"])
			})
		}
	}
}

// TestVetNamesGoTests vets the packages of testdata/vetgo.txtar.
func TestVetNamesGoTests(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles many programs")
	}
	files := goFiles(t, "vetgo.txtar")
	v := vettedAnew(t, goEngine(t), goBundle(t, files, under(files, "f", "files/")))
	wants(t, v, files["want/"])
}

// vettedAnew vets with an engine whose cache may have an older vetting.
func vettedAnew(t *testing.T, e *Engine, bundle string) Vetting {
	t.Helper()
	v, err := e.vet(t.Context(), bundle, "")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// goBundle returns a bundle of Go tests.
func goBundle(t *testing.T, files, more map[string]string) string {
	all := map[string]string{
		"tests/criteria.json": `{"time_limit_seconds": 20, "criteria": [{"id": "AC-1", "type": "go-test"}]}`,
		"files/go.mod":        "module task\n\ngo 1.24\n",
	}
	maps.Copy(all, under(files, "t", "tests/"))
	maps.Copy(all, more)
	return request(t, all)
}

// vetEngine returns an engine for the suite of a program.
func vetEngine(t *testing.T, files map[string]string) *Engine {
	e := quick(t)
	if runner(files) == "jest" {
		e.Jest = jestDir(t)
	}
	return e
}

// wants compares a vetting with what is wanted of each test: "shows", or a part of why it shows nothing.
func wants(t *testing.T, v Vetting, want string) {
	t.Helper()
	got, showing := map[string]VettedTest{}, false
	for _, test := range v.Criteria[0].Tests {
		_, name, _ := strings.Cut("::"+test.ID, "::")
		if _, inside, ok := strings.Cut(name, "::"); ok {
			name = inside
		}
		got[name] = test
	}
	lines := slices.Collect(strings.Lines(strings.TrimSpace(want)))
	for _, line := range lines {
		name, why, _ := strings.Cut(strings.TrimSpace(line), ": ")
		test, there := got[name]
		showing = showing || why == "shows"
		if !there || test.Nothing != (why != "shows") || test.Nothing && !strings.Contains(test.Because, why) {
			t.Errorf("%s: %v %q, want %s", name, test.Nothing, test.Because, why)
		}
	}
	if len(got) != len(lines) || t.Failed() {
		t.Errorf("%d tests, want %d: %+v", len(got), len(lines), v.Criteria[0])
	}
	if (len(v.Problems) > 0) == showing {
		t.Errorf("problems %q", v.Problems)
	}
}

func TestVetNeedsATestThatFails(t *testing.T) {
	e := quick(t)
	bundle := bundleOf(t, map[string]string{"tests/test_solution.py": "from solution import add\ndef test_sum():\n    assert add(2, 3) == 5\n"},
		map[string]string{"files/solution.py": "def add(a, b):\n    return a + b\n"}, "")
	if v := vetted(t, e, bundle, false); len(v.Problems) != 1 || !strings.Contains(v.Problems[0], "every test passes") {
		t.Errorf("problems %q", v.Problems)
	}
	if v := vetted(t, e, bundle, true); len(v.Problems) != 0 || v.Strength != guild.Strong {
		t.Errorf("%s, problems %q", v.Strength, v.Problems)
	}
}

// TestVetJudgesSolvedTests vets tests that the bundle's own files pass: there a lie is found that only repeats what was recorded.
func TestVetJudgesSolvedTests(t *testing.T) {
	e := quick(t)
	for name, want := range map[string]guild.Strength{"list_beside_a_file": guild.Weak, "argument_beside_a_file": guild.Weak, "": guild.Strong} {
		files := map[string]string{
			"t/test_solution.py": "from solution import double\ndef test_double(): assert double(2) == 4 and double(5) == 10\n",
			"forged/solution.py": "def double(n): return n + n\n",
		}
		if name != "" {
			files = programs(t, "attacks_beside.txtar")[name]
		}
		bundle := bundleOf(t, under(files, "t", "tests/"), under(files, "forged", "files/"), "")
		v := vetted(t, e, bundle, true)
		if c := v.Criteria[0]; v.Strength != want || (len(c.Unproven) > 0) != (want != guild.Strong) || (c.Because == "") != (want == guild.Strong) {
			t.Errorf("%q: %s, want %s: %+v", name, v.Strength, want, c)
		}
	}
}

func TestVetBlamesTheTests(t *testing.T) {
	bundle := bundleOf(t, map[string]string{"tests/test_solution.py": "from solution import add\ndef test_sum():\n    assert ad(2, 3) == 5\n"}, nil, "")
	v := vetted(t, quick(t), bundle, false)
	if len(v.Problems) == 0 || !strings.Contains(v.Problems[0], "test_sum fails whatever is delivered: NameError: name 'ad' is not defined") {
		t.Errorf("problems %q", v.Problems)
	}
}

// TestVetMissesPrograms vets scripts whose program is not installed, and one whose program may be delivered.
func TestVetMissesPrograms(t *testing.T) {
	e := quick(t)
	for script, want := range map[string]string{
		"cd ws && no-such-program -q":                         "the program no-such-program is not installed here",
		"./no-such-program":                                   "",
		"echo 'run.sh: 1: no-such-program: not found'; false": "",
	} {
		v := vetted(t, e, request(t, map[string]string{
			"tests/criteria.json": `{"criteria": [{"id": "AC-1", "type": "shell", "script": "tests/run.sh"}]}`, "tests/run.sh": "mkdir -p ws\n" + script + "\n",
		}), false)
		if got := strings.Join(v.Problems, "; "); !strings.HasSuffix(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: problems %q, want %q", script, got, want)
		}
	}
}

// TestVetSaysHowStrong vets criteria whose verdicts cannot be strong, and one that has hidden tests.
func TestVetSaysHowStrong(t *testing.T) {
	e := quick(t)
	suite := map[string]string{"tests/test_solution.py": "from solution import add\ndef test_sum():\n    assert add(2, 3) == 5\n"}
	if v := vetted(t, e, bundleOf(t, suite, nil, modeInproc), false); v.Strength != guild.Weak || len(v.Problems) > 0 {
		t.Errorf("in one process: %s, problems %q", v.Strength, v.Problems)
	}
	if v := vetted(t, e, bundleOf(t, suite, nil, ""), false); v.Strength != guild.Strong || len(v.Hints) != 1 || !strings.Contains(v.Hints[0], "visible") {
		t.Errorf("visible: %s, hints %q", v.Strength, v.Hints)
	}
	shell := request(t, map[string]string{
		"tests/criteria.json": `{"criteria": [{"id": "AC-1", "type": "shell", "script": "tests/run.sh"}]}`, "tests/run.sh": "test -e done\n",
	})
	if v := vetted(t, e, shell, false); v.Strength != guild.Weak {
		t.Errorf("shell: %s", v.Strength)
	}
}

func TestVettingIsKept(t *testing.T) {
	e := quick(t)
	cached := &Engine{Runner: e.Runner, Cache: t.TempDir()}
	bundle := bundleOf(t, map[string]string{"tests/test_solution.py": "from solution import f\ndef test_f():\n    assert f() == 5\n"}, nil, "")
	first := vetted(t, cached, bundle, false)
	again := &Engine{Cache: cached.Cache}
	if v := vetted(t, again, bundle, false); v.Strength != first.Strength || len(v.Criteria) != 1 {
		t.Errorf("kept %+v", v)
	}
	if err := os.WriteFile(filepath.Join(bundle, "tests", "test_more.py"), []byte("def test_g():\n    assert True\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := again.Vet(context.Background(), bundle, "", false); err == nil {
		t.Error("what was kept is used for other tests")
	}
}

// TestVetTrustsHonestTests vets tasks of HumanEval, and idioms: a test that is strong with an honest delivery must not be
// named.
func TestVetTrustsHonestTests(t *testing.T) {
	if testing.Short() {
		t.Skip("runs many sandboxes")
	}
	e := quick(t)
	problems, err := humaneval.Problems()
	if err != nil {
		t.Fatal(err)
	}
	every := 9
	if os.Getenv("GUILD_SOAK") != "" {
		every = 1
	}
	wait, done := some()
	for i, p := range problems {
		if i%every != 4%every {
			continue
		}
		t.Run(p.BundleID(), func(t *testing.T) {
			t.Parallel()
			wait()
			defer done()
			files, err := p.Bundle()
			dir := t.TempDir()
			if err == nil {
				err = os.CopyFS(dir, files)
			}
			if err != nil {
				t.Fatal(err)
			}
			v := vetted(t, e, dir, false)
			if v.Strength != guild.Strong || len(v.Problems) > 0 {
				t.Errorf("%s, problems %q: %+v", v.Strength, v.Problems, v.Criteria)
			}
		})
	}
}

// TestDrawnInputs checks which tests are called drawn: those whose inputs nobody could know before.
func TestDrawnInputs(t *testing.T) {
	const suite = `import random
import pytest
from solution import double, through

@pytest.fixture
def number():
    return random.randint(0, 10**9)

def test_drawn():
    n = random.randint(0, 10**9)
    assert double(n) == 2 * n

def test_drawn_by_a_fixture(number):
    assert double(number) == 2 * number

def test_seeded():
    random.seed(7)
    n = random.randint(0, 10**9)
    assert double(n) == 2 * n

def test_fixed():
    assert double(4) == 8

def test_the_delivery_draws():
    assert through(random.random) == 1
`
	f := found(t, quick(t), map[string]string{"tests/test_solution.py": suite},
		map[string]string{"solution.py": "def double(n): return n + n\ndef through(f):\n    f()\n    return 1\n"})
	want := map[string]guild.Exposure{
		"test_drawn": guild.Drawn, "test_drawn_by_a_fixture": guild.Drawn, "test_seeded": guild.Visible, "test_fixed": guild.Visible,
		"test_the_delivery_draws": guild.Visible,
	}
	for _, test := range f.Tests {
		name := strings.TrimPrefix(test.ID, "tests/test_solution.py::")
		if test.State != guild.TestPassed || test.Exposure != want[name] {
			t.Errorf("%s: %s %s, want %s", name, test.State, test.Exposure, want[name])
		}
	}
	if len(f.Tests) != len(want) {
		t.Errorf("%d tests", len(f.Tests))
	}
}
