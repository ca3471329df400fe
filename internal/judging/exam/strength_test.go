package exam

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"guild"
)

// quick returns an engine with the fastest sandbox on this machine.
func quick(t *testing.T) *Engine {
	t.Helper()
	all := engines(t)
	return cmp.Or(all["forked"], all["cold"])
}

// found examines a delivery with pytest tests and returns the finding.
func found(t *testing.T, e *Engine, tests, delivery map[string]string) Finding {
	t.Helper()
	r, err := e.Examine(t.Context(), bundleOf(t, tests, nil, ""), deliver(t, delivery))
	if err != nil {
		t.Fatal(err)
	}
	return r.Findings[0]
}

// TestForgedDecisionsNotStrong examines deliveries that pass by their own answers, and honest ones with the same tests.
func TestForgedDecisionsNotStrong(t *testing.T) {
	archive, e := programs(t, "strength.txtar"), quick(t)
	wait, done := some()
	for name, files := range archive {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wait()
			defer done()
			tests := under(files, "t", "tests/")
			forged := found(t, e, tests, under(files, "forged", ""))
			if Passed(forged.Tests) != len(forged.Tests) || forged.Strength == guild.Strong {
				t.Errorf("forged: %d of %d passed, %s (%s), want all, and not strong",
					Passed(forged.Tests), len(forged.Tests), forged.Strength, forged.Because)
				unpassed(t, forged)
			}
			honest := under(files, "honest", "")
			if len(honest) == 0 {
				return
			}
			f := found(t, e, tests, honest)
			if Passed(f.Tests) != len(f.Tests) || f.Strength != guild.Strong {
				t.Errorf("honest: %d of %d passed, %s (%s), want all, strong", Passed(f.Tests), len(f.Tests), f.Strength, f.Because)
				unpassed(t, f)
			}
		})
	}
}

// TestKnownLimits examines deliveries that the table of lies does not exclude, as docs/JUDGE.md says. One that is no longer
// strong belongs among the attacks.
func TestKnownLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("runs many sandboxes")
	}
	e := quick(t)
	needNode(t)
	wait, done := some()
	for archive, examined := range map[string]func(t *testing.T, files map[string]string) Finding{
		"beyond.txtar": func(t *testing.T, files map[string]string) Finding {
			return found(t, e, under(files, "t", "tests/"), under(files, "forged", ""))
		},
		"scriptbeyond.txtar": func(t *testing.T, files map[string]string) Finding {
			return foundScript(t, files, under(files, "forged", ""))
		},
	} {
		for name, files := range programs(t, archive) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				wait()
				defer done()
				f := examined(t, files)
				if !slices.ContainsFunc(f.Tests, func(test guild.Test) bool { return test.Strength == guild.Strong }) {
					t.Errorf("%s (%s), no test is strong any more", f.Strength, f.Because)
				}
			})
		}
	}
}

func TestSpecialMethodNamesAreRefused(t *testing.T) {
	const wire = `
import sys
def lists(cls, *names):
    """Lists names among the methods of a class, as the frames that describe it say."""
    frame = sys._getframe()
    while "Subject" not in frame.f_globals: frame = frame.f_back
    Subject = frame.f_globals["Subject"]
    original = Subject.class_
    def class_(self, c, depth, opaque=False):
        told = original(self, c, depth, opaque)
        if c is cls and "C" in told: told["C"][7].extend(names)
        return told
    Subject.class_ = class_
`
	e := quick(t)
	tests := map[string]string{"tests/test_solution.py": "from solution import add, Number\n" +
		"def test_add(): assert add(1, 2) == 3\ndef test_named(): assert Number(4).value == 4\n"}
	for _, name := range []string{"__eq__", "__ne__", "__class__", "__getattribute__", "__hash__", "__new__", "__sub__", "__x"} {
		delivery := map[string]string{"wire.py": wire, "solution.py": "from wire import lists\nclass Number(int):\n" +
			" def __eq__(self, other): return True\n def __ne__(self, other): return False\n __hash__ = int.__hash__\n" +
			" @property\n def value(self): return 4\n" +
			"lists(Number, '" + name + "')\ndef add(a, b): return Number(77)\n"}
		f := found(t, e, tests, delivery)
		if Passed(f.Tests) > 0 || !strings.Contains(f.Fault, "cannot be read") {
			t.Errorf("%s: %d passed, fault %q, want none and answers that cannot be read", name, Passed(f.Tests), f.Fault)
		}
	}
}

func TestTestNamesNotShadowed(t *testing.T) {
	e := quick(t)
	tests := map[string]string{
		"tests/helpers.py": "def check(x): return x == 3\n",
		"tests/test_star.py": "from helpers import *\nfrom solution import *\n" +
			"def test_add(): assert check(add(1, 2))\n",
		"tests/test_branch.py": "import sys\nif sys.platform:\n    def check(x): return x == 3\n" +
			"try:\n    from json import loads\nexcept ImportError:\n    loads = None\nfrom solution import *\n" +
			"def test_add(): assert check(add(1, 2)) and loads('3') == 3\n",
	}
	own := map[string]string{"solution.py": "def check(x): return True\ndef loads(x): return 3\ndef add(a, b): return 7\n"}
	f := found(t, e, tests, own)
	if Passed(f.Tests) != 0 || len(f.Tests) != 2 {
		t.Errorf("%d of %d passed, want none of 2", Passed(f.Tests), len(f.Tests))
	}
	right := map[string]string{"solution.py": strings.Replace(own["solution.py"], "return 7", "return a + b", 1)}
	if f := found(t, e, tests, right); Passed(f.Tests) != 2 || f.Strength != guild.Strong {
		t.Errorf("%d of 2 passed, %s, want all, strong", Passed(f.Tests), f.Strength)
		unpassed(t, f)
	}
}

// TestRunningDeliveredTextIsWeak tries the ways in which a test may run code that the delivery has made. That code
// removes the judge's records of it, which must not change the result.
func TestRunningDeliveredTextIsWeak(t *testing.T) {
	const patch = `[setattr(link, n, 0) for link in __import__('gc').get_objects() if type(link).__name__ == 'Link'` +
		` for n in ('decided',)]`
	ways := map[string]string{
		"eval":       "eval(solution.text())",
		"exec":       "exec(solution.text())",
		"compile":    "import types\n    types.FunctionType(compile(solution.text(), 'x', 'exec'), {})()",
		"pickle":     "import pickle\n    pickle.loads(solution.pickled())",
		"hints":      "import typing\n    try: typing.get_type_hints(solution.hinted)\n    except Exception: pass",
		"doctest":    "import doctest\n    doctest.run_docstring_examples(solution.documented.__doc__, {})",
		"timeit":     "import timeit\n    timeit.timeit(solution.text(), number=1)",
		"runpy":      "import runpy\n    (tmp_path / 'made.py').write_text(solution.text())\n    runpy.run_path(str(tmp_path / 'made.py'))",
		"import":     "(tmp_path / 'made.py').write_text(solution.text())\n    monkeypatch.syspath_prepend(tmp_path)\n    import made",
		"written":    "solution.write(tmp_path / 'made.py')\n    monkeypatch.syspath_prepend(tmp_path)\n    import made",
		"compiled":   "solution.pyc(tmp_path / 'made.pyc')\n    monkeypatch.syspath_prepend(tmp_path)\n    import made",
		"archive":    "solution.archive(tmp_path / 'made.zip')\n    monkeypatch.syspath_prepend(tmp_path / 'made.zip')\n    import made",
		"loader":     "import importlib.util as u\n    (tmp_path / 'made.py').write_text(solution.text())\n    s = u.spec_from_file_location('made', tmp_path / 'made.py')\n    s.loader.exec_module(u.module_from_spec(s))",
		"subprocess": "import subprocess, sys\n    subprocess.run([sys.executable, '-c', solution.text()])",
		"system":     "import os\n    os.system('true ' + solution.text()[:0])",
	}
	const delivery = `
import pickle, py_compile, zipfile, os, tempfile
PATCH = """` + patch + `"""
def text(): return PATCH
class Runs:
    def __reduce__(self): return eval, (PATCH,)
def pickled(): return pickle.dumps(Runs())
def hinted(a: PATCH): pass
def documented(): pass
documented.__doc__ = ">>> x = " + PATCH + "\n"
def write(path): open(path, "w").write(PATCH)
def pyc(path):
    with tempfile.TemporaryDirectory() as d:
        open(d + "/m.py", "w").write(PATCH)
        py_compile.compile(d + "/m.py", path, dfile=os.__file__)
def archive(path):
    with zipfile.ZipFile(path, "w") as z: z.writestr("made.py", PATCH)
`
	e := quick(t)
	wait, done := some()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wait()
			defer done()
			tests := map[string]string{"tests/test_solution.py": "import solution\n" +
				"def test_it(tmp_path, monkeypatch):\n    " + way + "\n"}
			f := found(t, e, tests, map[string]string{"solution.py": delivery})
			if Passed(f.Tests) != 1 || f.Strength != guild.Weak || !strings.Contains(f.Because, "ran") {
				t.Errorf("%d of 1 passed, %s, %d decided: %s, want a weak one that says what ran", Passed(f.Tests), f.Strength, f.Decided, f.Because)
				unpassed(t, f)
			}
		})
	}
}

func TestOwnCodeMayRun(t *testing.T) {
	tests := map[string]string{
		"tests/conftest.py": "import pytest\n@pytest.fixture\ndef two(): return 2\n",
		"tests/helper.py":   "from dataclasses import dataclass\n@dataclass\nclass Row:\n    n: int\n",
		"tests/test_solution.py": `
import collections, typing
from unittest import mock
from dataclasses import make_dataclass
import solution
class Pair(typing.NamedTuple):
    a: int
def test_library(two):
    import ast, csv, decimal, html.parser, xml.dom.minidom, sqlite3, wave
    from helper import Row
    Point = collections.namedtuple("Point", "x y")
    assert solution.add(two, 2) == Point(4, 0).x == Row(4).n == Pair(4).a
    assert ast.literal_eval(repr(solution.add(1, 2))) == 3
    assert make_dataclass("D", ["n"])(3).n == solution.add(1, 2)
def test_mock():
    m = mock.create_autospec(lambda a: a)
    m(solution.add(1, 2))
    m.assert_called_once_with(3)
`}
	f := found(t, quick(t), tests, map[string]string{"solution.py": "def add(a, b): return a + b\n"})
	if Passed(f.Tests) != 2 || f.Strength != guild.Strong {
		t.Errorf("%d of 2 passed, %s (%s), want all, strong", Passed(f.Tests), f.Strength, f.Because)
		unpassed(t, f)
	}
}

func TestDecisionOutsideTests(t *testing.T) {
	delivery := map[string]string{"solution.py": "class Box:\n value = 1\n def __eq__(self, o): return True\n"}
	e := quick(t)
	for name, tests := range map[string]map[string]string{
		"collected": {"tests/test_solution.py": "from solution import Box\nSAME = Box() == Box()\ndef test_it(): assert SAME\n"},
		"fixture": {"tests/test_solution.py": "import pytest\nfrom solution import Box\n" +
			"@pytest.fixture(scope='module')\ndef same(): return Box() == Box()\n" +
			"def test_first(same): assert Box().value == 2\ndef test_second(same): assert same\n"},
	} {
		f := found(t, e, tests, delivery)
		if Passed(f.Tests) != 1 || f.Strength != guild.Weak || f.Decided == 0 {
			t.Errorf("%s: %d passed, %s, %d decided, want 1, weak", name, Passed(f.Tests), f.Strength, f.Decided)
			unpassed(t, f)
		}
	}
}

func TestFailureMessages(t *testing.T) {
	tests := map[string]string{"tests/test_solution.py": "from solution import is_even, items\n" +
		"def test_truth(): assert is_even(2)\ndef test_found(): assert is_even(2) in items()\n"}
	f := found(t, quick(t), tests, map[string]string{"solution.py": "def is_even(n): return 0\ndef items(): return [1]\n"})
	for _, test := range f.Tests {
		if test.State != guild.TestFailed || !strings.Contains(test.Message, "where 0 = ") {
			t.Errorf("%s %s: %q, want what is_even said", test.ID, test.State, test.Message)
		}
	}
}
