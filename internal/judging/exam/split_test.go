package exam

import (
	"context"
	"flag"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"guild"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/namespaces"
)

// sample returns one in n programs, always the same ones whichever are added: to try all takes too long for each run. make
// soak does, and a run that names one of them.
func sample(all map[string]map[string]string, n uint32) map[string]map[string]string {
	part := map[string]map[string]string{}
	for name, files := range all {
		if drawn(name, n) {
			part[name] = files
		}
	}
	return part
}

// drawn reports whether a case is one of those that sample takes.
func drawn(name string, n uint32) bool {
	return whole() || crc32.ChecksumIEEE([]byte(name))%n == 0
}

// whole reports whether all cases are to be tried.
func whole() bool {
	return os.Getenv("GUILD_SOAK") != "" || strings.Contains(flag.Lookup("test.run").Value.String(), "/")
}

// dealt gives one in sixteen programs to the engine that starts cold, and one in six to the one that forks, none to both: only the start
// is different. Where sample takes all, both have all.
func dealt(all map[string]map[string]string) map[string]map[string]map[string]string {
	cold, forked := sample(all, 16), sample(all, 6)
	if len(cold) < len(all) {
		maps.DeleteFunc(forked, func(name string, _ map[string]string) bool { return cold[name] != nil })
	}
	return map[string]map[string]map[string]string{"cold": cold, "forked": forked}
}

// programs reads an archive of NAME/… files, and returns name → files.
func programs(t *testing.T, archive string) map[string]map[string]string {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", archive))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]string{}
	for _, f := range a.Files {
		name, inside, _ := strings.Cut(f.Name, "/")
		if all[name] == nil {
			all[name] = map[string]string{}
		}
		all[name][inside] = string(f.Data)
	}
	return all
}

// under returns the files below a directory, with as in place of its name.
func under(files map[string]string, dir, as string) map[string]string {
	found := map[string]string{}
	for name, content := range files {
		if rest, inside := strings.CutPrefix(name, dir+"/"); inside {
			found[as+rest] = content
		}
	}
	return found
}

// bundleOf creates a request bundle of tests and files.
func bundleOf(t *testing.T, tests, files map[string]string, mode string) string {
	t.Helper()
	all := map[string]string{"tests/criteria.json": fmt.Sprintf(
		`{"test_framework": "pytest", "python_mode": %q, "time_limit_seconds": 20, "criteria": [{"id": "AC-1", "type": "pytest"}]}`, mode)}
	for _, m := range []map[string]string{tests, files} {
		for name, content := range m {
			all[name] = content
		}
	}
	return request(t, all)
}

// some limits concurrent runs to half of the processors: an overloaded machine makes honest programs exceed their
// limits.
func some() (wait func(), done func()) {
	gate := make(chan struct{}, max(1, runtime.NumCPU()/2+1))
	return func() { gate <- struct{}{} }, func() { <-gate }
}

func TestHonestProgramsPass(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a hundred sandboxes")
	}
	all := programs(t, "honest.txtar")
	split := 0
	for _, files := range all {
		if _, inproc := files["inproc"]; !inproc {
			split++
		}
	}
	t.Logf("%d of %d programs are judged split", split, len(all))
	part := dealt(all)
	for tier, e := range engines(t) {
		t.Run(tier, func(t *testing.T) { honestPass(t, e, part[tier]) })
	}
}

// coldRunner starts an interpreter for each run, while namespaces.Runner would fork a warm one.
type coldRunner struct{ *namespaces.Runner }

func (r coldRunner) Run(ctx context.Context, s sandbox.Spec, streams sandbox.IO) (sandbox.Result, error) {
	s.Argv, s.Program = s.Command(), nil
	return r.Runner.Run(ctx, s, streams)
}

// engines returns engines for both ways in which our own sandbox starts a program: cold, or by forking a warm
// interpreter.
func engines(t *testing.T) map[string]*Engine {
	t.Helper()
	own := &namespaces.Runner{}
	t.Cleanup(func() { own.Close() })
	if c := own.Probe(t.Context()); !c.Usable {
		t.Fatal(c.Reason)
	}
	return map[string]*Engine{"cold": {Runner: coldRunner{own}}, "forked": {Runner: own}}
}

func honestPass(t *testing.T, e *Engine, all map[string]map[string]string) {
	wait, done := some()
	for name, files := range all {
		reason, inproc := files["inproc"]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wait()
			defer done()
			mode := modeSplit
			if inproc {
				t.Logf("needs inproc: %s", strings.TrimSpace(reason))
				mode = modeInproc
			}
			bundle := bundleOf(t, under(files, "t", "tests/"), under(files, "f", "files/"), mode)
			r, err := e.Examine(t.Context(), bundle, deliver(t, under(files, "a", "")))
			if err != nil {
				t.Fatal(err)
			}
			f := r.Findings[0]
			if len(f.Tests) == 0 || Passed(f.Tests) != len(f.Tests) || f.Fault != "" || len(f.Breaches) > 0 || inproc && f.Strength != guild.Weak {
				t.Errorf("%s, %d of %d, %q, %v", f.Strength, Passed(f.Tests), len(f.Tests), f.Fault, f.Breaches)
				unpassed(t, f)
			}
		})
	}
}

// unpassed logs what a finding says about tests that did not pass.
func unpassed(t *testing.T, f Finding) {
	t.Helper()
	for _, test := range f.Tests {
		if test.State != guild.TestPassed {
			t.Logf("%s %s: %s", test.ID, test.State, test.Message)
		}
	}
	t.Log(f.Warnings)
	for _, r := range f.Runs {
		t.Logf("exit %d %s %s\n%.2000s", r.Result.Exit, r.Result.Killed, r.Argv[len(r.Argv)-1], r.Stderr)
	}
}

func TestUnsupportedInSplit(t *testing.T) {
	for name, files := range programs(t, "honest.txtar") {
		if _, inproc := files["inproc"]; !inproc || name == "output_of_children" || name == "own_equality" {
			continue // neither of these two is refused: the first cannot be detected, and a warning names the second
		}
		bundle := bundleOf(t, under(files, "t", "tests/"), nil, modeSplit)
		f := examined(t, bundle, deliver(t, under(files, "a", ""))).Findings[0]
		if Passed(f.Tests) == len(f.Tests) || !strings.Contains(fmt.Sprint(f.Warnings), "needs mode inproc") {
			t.Errorf("%s: %d of %d, %s, %v", name, Passed(f.Tests), len(f.Tests), f.Strength, f.Warnings)
			unpassed(t, f)
		}
	}
}

func TestLayers(t *testing.T) {
	files := programs(t, "honest.txtar")["layers"]
	f := examined(t, bundleOf(t, under(files, "t", "tests/"), nil, ""), deliver(t, under(files, "a", ""))).Findings[0]
	want := map[string]string{
		"test_import": guild.LayerSmoke, "test_edge": guild.LayerEdge,
		"test_fast": guild.LayerPerformance, "test_safe": guild.LayerSecurity,
	}
	for _, test := range f.Tests {
		if layer := want[test.ID[strings.LastIndex(test.ID, ":")+1:]]; test.Layer != layer || test.Micros <= 0 {
			t.Errorf("%+v, want %s", test, layer)
		}
	}
}

// forgeries has the expected results of the deliveries in testdata/forgeries.txtar.
var forgeries = map[string]struct {
	passed int    // maximum number of passed tests in "tests"
	fault  string // part of the fault; "" if there must be none, * for any or none
}{
	"honest":                    {6, ""},
	"always_equal":              {0, ""},
	"always_equal_subclass":     {0, ""},
	"computes_nothing":          {0, ""},
	"lies_about_its_class":      {0, "*"},
	"class_with_the_name":       {2, ""},
	"registers_as_number":       {0, ""},
	"builtin_in_its_place":      {0, ""},
	"patches_builtins":          {0, "*"},
	"patches_pytest":            {0, ""},
	"walks_frames_and_garbage":  {0, ""},
	"looks_for_tests":           {0, ""},
	"poisoned_names":            {0, ""},
	"skips":                     {0, ""},
	"says_it_is_skipped":        {0, ""},
	"unsolicited_answers":       {0, "cannot be read"},
	"answers_twice":             {6, "cannot be read"},
	"huge_frame":                {0, "cannot be read"},
	"deep_frame":                {0, "cannot be read"},
	"wrong_numbers":             {0, "cannot be read"},
	"asks_for_the_examiner":     {0, ""},
	"asks_what_it_was_not_lent": {0, ""},
	"exits":                     {0, "exit code 0"},
	"exits_with_threads":        {0, "exit code 7"},
	"killed":                    {0, "SIGKILL"},
	"closes_the_channel":        {0, "the delivery's process ended"},
	"child_keeps_the_channel":   {0, ""},
	"endless_text":              {0, "*"},
	"hostile_exceptions":        {0, "*"},
	"writes_results":            {0, ""},
	"endless_answer":            {0, "*"},
	"stubborn":                  {6, "did not end"},
}

func TestForgeriesDoNotPass(t *testing.T) {
	all := programs(t, "forgeries.txtar")
	for name := range all {
		if _, listed := forgeries[name]; !listed && name != "tests" {
			t.Errorf("%s is not in the table", name)
		}
	}
	for name := range forgeries {
		if all[name] == nil {
			t.Errorf("no %s in the archive", name)
		}
	}
	part := dealt(all)
	for tier, e := range engines(t) {
		part[tier]["tests"], part[tier]["honest"] = all["tests"], all["honest"]
		t.Run(tier, func(t *testing.T) { nothingForged(t, e, part[tier]) })
	}
}

func nothingForged(t *testing.T, e *Engine, all map[string]map[string]string) {
	tests := map[string]string{"tests/test_solution.py": all["tests"]["test_solution.py"]}
	wait, done := some()
	for name, want := range forgeries {
		if all[name] == nil {
			continue // the other engine has it
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wait()
			defer done()
			bundle := bundleOf(t, tests, nil, "")
			if want.fault == "*" { // the time limit may end it
				lay(t, bundle, map[string]string{"tests/criteria.json": `{"time_limit_seconds": 4, "criteria": [{"id": "AC-1", "type": "pytest"}]}`})
			}
			r, err := e.Examine(t.Context(), bundle, deliver(t, all[name]))
			if err != nil {
				t.Fatal(err)
			}
			f := r.Findings[0]
			strong := 0
			for _, test := range f.Tests {
				if test.Strength == guild.Strong {
					strong++
				}
			}
			if strong > want.passed || len(f.Tests) != 6 ||
				want.fault != "*" && ((f.Fault == "") != (want.fault == "") || !strings.Contains(f.Fault, want.fault)) {
				t.Errorf("%d of %d passed, %q, want at most %d, %q", Passed(f.Tests), len(f.Tests), f.Fault, want.passed, want.fault)
				unpassed(t, f)
			}
			if name == "honest" && Passed(f.Tests) != 6 {
				t.Error("the honest one must pass")
			}
		})
	}
}

func TestDecidedCounted(t *testing.T) {
	bundle := bundleOf(t, map[string]string{"tests/test_solution.py": "from solution import Box\n" +
		"def test_equal(): assert Box() == Box() and Box()\n" +
		"def test_plain(): assert Box().value == 1\n"}, nil, "")
	f := examined(t, bundle, deliver(t, map[string]string{"solution.py": "class Box:\n value = 1\n" +
		" def __eq__(self, o): return True\n def __bool__(self): return True\n"})).Findings[0]
	if Passed(f.Tests) != 2 || f.Tests[0].Decided != 2 || f.Tests[1].Decided != 0 || f.Decided != 2 {
		t.Errorf("%+v", f.Tests)
	}
}

func TestDecidedIsWeak(t *testing.T) {
	for asserts, want := range map[string]guild.Strength{
		"    assert Box() == Box()\n":                                           guild.Weak,
		"    assert Box() == Box()\n    assert Box().value == 1\n":              guild.Weak,
		"    assert Box() == Box() and Box().value == 1\n":                      guild.Weak,
		"    n = [2, 1]\n    assert emptied(n) == sorted(n)\n":                  guild.Weak,
		"    n = [2, 1]\n    emptied(n)\n    assert n == []\n":                  guild.Weak,
		"    assert double(4) == 8\n":                                           guild.Strong,
		"    n = [2, 3]\n    doubled(n)\n    assert n == [4, 6]\n":              guild.Strong,
		"    assert text().startswith('a')\n":                                   guild.Weak,
		"    assert odd().startswith('a')\n":                                    guild.Weak,
		"    assert odd().valid('a')\n":                                         guild.Weak,
		"    assert Box().startswith('a')\n":                                    guild.Weak,
		"    from unittest import TestCase\n    TestCase().assertEqual(1, 1)\n": guild.Weak,
	} {
		bundle := bundleOf(t, map[string]string{"tests/test_solution.py": "from solution import *\ndef test_it():\n" + asserts}, nil, "")
		f := examined(t, bundle, deliver(t, map[string]string{"solution.py": "class Box:\n value = 1\n" +
			" def __eq__(self, o): return True\n def startswith(self, o): return True\n" +
			"class Yes:\n def __call__(self, *a): return True\nclass no:\n def __new__(self, *a): return True\n" +
			"class Odd:\n startswith, valid = Yes(), no\ndef odd(): return Odd()\n" +
			"def emptied(n):\n n.clear()\n return []\ndef text(): return Box()\n" +
			"def double(n): return 2 * n\ndef doubled(n): n[:] = map(double, n)\n"})).Findings[0]
		if Passed(f.Tests) != 1 || f.Strength != want {
			t.Errorf("%s%d passed, %s, decided %d: %s, want %s", asserts, Passed(f.Tests), f.Strength, f.Decided, f.Because, want)
			unpassed(t, f)
		}
	}
}

func TestLowercaseClasses(t *testing.T) {
	tests := map[string]string{"tests/test_solution.py": "from solution import stack, add, make\n" +
		"def test_stack():\n    s = stack()\n    s.push(3)\n    assert 3 in s and s + 1 == 4 and s.size == 1\n" +
		"def test_add(): assert add(1, 2) + 1 == 4\n" +
		"def test_made(): assert make().depth + 1 == 4\n"}
	f := examined(t, bundleOf(t, tests, nil, ""), deliver(t, map[string]string{"solution.py": "class stack:\n size = 1\n" +
		" def push(self, n): pass\n def __contains__(self, n): return True\n def __add__(self, n): return 4\n" +
		"class add:\n def __init__(self, *a): pass\n def __add__(self, n): return 4\n" +
		"class odd(add): pass\nclass make: depth = odd()\n"})).Findings[0]
	for _, test := range f.Tests {
		if test.State != guild.TestPassed || test.Strength == guild.Strong {
			t.Errorf("%+v, want one that passed and is not strong", test)
		}
	}
}

func TestInterruptFailsOneTest(t *testing.T) {
	tests := map[string]string{"tests/test_solution.py": "import pytest, solution\ndef test_a(): solution.interrupt()\n" +
		"def test_b():\n    with pytest.raises(KeyboardInterrupt): solution.interrupt()\n"}
	f := examined(t, bundleOf(t, tests, nil, ""), deliver(t, map[string]string{"solution.py": "def interrupt(): raise KeyboardInterrupt"})).Findings[0]
	if Passed(f.Tests) != 1 || f.Tests[0].State != guild.TestFailed || f.Fault != "" {
		t.Errorf("%+v, %s", f.Tests, f.Fault)
	}
}

func TestUsageOfDelivery(t *testing.T) {
	tests := map[string]string{"tests/test_solution.py": "import solution\ndef test_slow():\n    sum(range(20_000_000))\n    assert solution.f() == 1\n"}
	f := examined(t, bundleOf(t, tests, nil, ""), deliver(t, map[string]string{"solution.py": "def f(): return 1"})).Findings[0]
	if Passed(f.Tests) != 1 || len(f.Runs) != 2 || f.Usage.CPUMs != f.Runs[1].Result.Usage.CPUMs {
		t.Errorf("%+v", f)
	}
}

// TestWire runs the Python tests of the protocol, with plain values and hostile frames.
func TestWire(t *testing.T) {
	python := "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Fatal("there is no Python: scripts/needs test")
	}
	out, err := exec.CommandContext(t.Context(), python, "-I", "-B", "testdata/wire_test.py").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// BenchmarkSplit judges fifteen tests of six calls each, and for comparison runs them with pytest alone.
func BenchmarkSplit(b *testing.B) {
	tests := "import solution\n"
	for i := range 15 {
		tests += fmt.Sprintf("def test_%d():\n    for n in range(6): assert solution.add(n, %[1]d) == n + %[1]d\n", i)
	}
	bundle, delivery := b.TempDir(), b.TempDir()
	for name, content := range map[string]string{
		filepath.Join(bundle, "tests", "test_solution.py"):              tests,
		filepath.Join(bundle, "tests", "criteria.json"):                 `{"criteria": [{"type": "pytest"}]}`,
		filepath.Join(delivery, "delivery", "artifacts", "solution.py"): "def add(a, b): return a + b\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("bare", func(b *testing.B) {
		b.SetParallelism(1)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				cmd := exec.CommandContext(b.Context(), "/usr/bin/python3", "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider",
					filepath.Join(bundle, "tests", "test_solution.py"))
				cmd.Env = []string{"PYTHONPATH=" + filepath.Join(delivery, "delivery", "artifacts"), "PATH=/usr/bin:/bin"}
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Errorf("%v: %s", err, out)
				}
			}
		})
	})
	own := &namespaces.Runner{}
	defer own.Close()
	for name, runner := range map[string]sandbox.Runner{"cold": coldRunner{own}, "forked": own} {
		b.Run(name, func(b *testing.B) {
			e := &Engine{Runner: runner}
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r, err := e.Examine(b.Context(), bundle, delivery)
					if err != nil || Passed(r.Findings[0].Tests) != 15 {
						b.Error(err, r.Findings)
						return
					}
				}
			})
		})
	}
}
