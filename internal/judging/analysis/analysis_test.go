package analysis

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"guild"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/tiers"
)

// analyst returns an analyst with the best sandbox on this machine.
func analyst(t testing.TB) *Analyst {
	t.Helper()
	runner, _, err := tiers.Best(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &Analyst{Runner: runner}
}

// lay writes files below dir, and returns dir.
func lay(t testing.TB, dir string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// delivery creates an unpacked delivery of some artifacts.
func delivery(t testing.TB, artifacts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	lay(t, filepath.Join(dir, "delivery", "artifacts"), artifacts)
	return dir
}

// analysed analyses a delivery and expects no error.
func analysed(t *testing.T, s Subject) Report {
	t.Helper()
	r, err := analyst(t).Start(t.Context(), s).Wait(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// told returns the answer of one tool about some artifacts.
func told(t *testing.T, tool string, artifacts map[string]string) answer {
	t.Helper()
	a, s := analyst(t), Subject{Delivery: delivery(t, artifacts)}
	f, err := survey(s.Delivery)
	if err != nil {
		t.Fatal(err)
	}
	jobs := a.jobs(s, f)
	return a.ask(t.Context(), jobs[slices.IndexFunc(jobs, func(j job) bool { return j.tool == tool })], f)
}

// codes returns the findings of a tool, as "file code".
func codes(a answer) []string {
	var list []string
	for _, n := range a.Findings {
		list = append(list, n.File+" "+n.Code)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

const clean = `"""Sums."""


def total(numbers: list[int]) -> int:
    """The sum of the even numbers."""
    result = 0
    for number in numbers:
        if number % 2 == 0:
            result += number
    return result
`

func TestCleanCode(t *testing.T) {
	bundle := lay(t, t.TempDir(), map[string]string{
		"tests/test_total.py": "from total import total\n\n\ndef test_total():\n    assert total([1, 2]) == 2\n",
		"tests/criteria.json": "{}",
	})
	r := analysed(t, Subject{Bundle: bundle, Delivery: delivery(t, map[string]string{"total.py": clean}), Scripts: []string{"tests/test_total.py"}})
	q := r.Quality
	if q == nil || !q.Linted || q.Pylint != 10_000 || !q.Covered || q.Lines != guild.Micro || q.Branches != guild.Micro || q.Types != 0 {
		t.Fatalf("%+v %+v", q, r)
	}
	var tools []string
	for _, tool := range r.Tools {
		tools = append(tools, tool.Name)
	}
	if want := []string{Patterns, Bandit, Pylint, Mypy, Coverage}; !slices.Equal(tools, want) || len(r.Unknown) > 0 {
		t.Errorf("tools %v, want %v; unknown %v", tools, want, r.Unknown)
	}
}

func TestPartialCoverage(t *testing.T) {
	bundle := lay(t, t.TempDir(), map[string]string{
		"tests/test_total.py": "from total import total\n\n\ndef test_total():\n    assert total([]) == 0\n",
	})
	r := analysed(t, Subject{Bundle: bundle, Delivery: delivery(t, map[string]string{"src/total.py": clean}), Scripts: []string{""}})
	q := r.Quality
	if !q.Covered || q.Lines != 666_666 || q.Branches != guild.Micro/4 {
		t.Errorf("%+v", q)
	}
}

func TestDangerousCode(t *testing.T) {
	files := map[string]string{
		"bad.py": "import os as o\nimport pickle\nfrom sys import _getframe as up\nimport ctypes.util\n\n\n" +
			"def run(text):\n    o.system(text)\n    up(1).f_back\n    eval(text)\n    return pickle.loads(open('/proc/self/mem').read())  # nosec\n",
		"notes.txt":       "eval",
		"broken.py":       "def f(:\n",
		"sub/conftest.py": "import pytest\n",
		"own/test_own.py": "import pytest\n",
		"other/uses.py":   "from _pytest import runner\n",
		"other/plain.py":  "class A:\n    def eval(self): return self\n\n\nA().eval()\n",
	}
	patterns, bandit := told(t, Patterns, files), told(t, Bandit, files)
	want := []string{"bad.py P101", "bad.py P102", "bad.py P104", "bad.py P105", "bad.py P107", "bad.py P109", "bad.py P112",
		"broken.py P100", "other/uses.py P110", "sub/conftest.py P113"}
	if got := codes(patterns); !slices.Equal(got, want) {
		t.Errorf("patterns %v\nwant     %v", got, want)
	}
	if got := codes(bandit); !slices.Contains(got, "bad.py B307") || !slices.Contains(got, "bad.py B301") {
		t.Errorf("bandit %v: a comment must not silence it", got)
	}
	if patterns.Findings[0].Severity != "high" {
		t.Errorf("the worst is not first: %+v", patterns.Findings)
	}
}

// poor is code with many pylint findings.
const poor = "import os\nimport sys\ndef F(a,b):\n  x = 1\n  return a\nclass c: pass\n"

func TestDeliveredConfigurationIgnored(t *testing.T) {
	plain := told(t, Pylint, map[string]string{"poor.py": poor})
	for name, files := range map[string]map[string]string{
		"configuration files": {
			"poor.py": poor, ".pylintrc": "[MAIN]\ndisable=all\n", "pylintrc": "[MAIN]\ndisable=all\nload-plugins=evil\n",
			"setup.cfg": "[mypy]\nplugins=evil.py\n", "pyproject.toml": "[tool.pylint.main]\ndisable=['all']\n",
		},
		"comments": {"poor.py": strings.Replace(poor, "import os", "import os  # pylint: disable=all", 1)},
	} {
		got := told(t, Pylint, files)
		if got.Grade != plain.Grade || got.Statements == 0 || got.Grade >= 7_000 {
			t.Errorf("%s: pylint gives %d, without them %d; %s", name, got.Grade, plain.Grade, got.unknown)
		}
	}
}

func TestDeliveredModulesNotLoaded(t *testing.T) {
	shadow := "import os\nos.write(3, b'{\"version\": \"1\", \"grade\": 10000, \"statements\": 9}')\nos._exit(0)\n"
	files := map[string]string{"poor.py": poor}
	for _, name := range []string{"json", "pylint", "astroid", "platform", "dill", "bandit", "mypy", "tomli", "coverage", "isort", "stevedore", "sitecustomize"} {
		files[name+".py"] = shadow
	}
	r := analysed(t, Subject{Delivery: delivery(t, files)})
	if !r.Quality.Linted || r.Quality.Pylint > 7_000 || !slices.ContainsFunc(r.Tools, func(t guild.Tool) bool { return t.Name == Pylint && t.Version != "1" }) {
		t.Errorf("%+v %+v %+v", r.Quality.Pylint, r.Tools, r.Unknown)
	}
}

func TestUnreadableDeliveries(t *testing.T) {
	linked := delivery(t, map[string]string{"a.py": clean})
	if err := os.Symlink("/etc/passwd", filepath.Join(linked, "delivery", "artifacts", "b.py")); err != nil {
		t.Fatal(err)
	}
	many := map[string]string{}
	for i := range maxFiles + 1 {
		many["f"+strings.Repeat("x", i)+".py"] = ""
	}
	for name, dir := range map[string]string{
		"no Python":      delivery(t, map[string]string{"main.go": "package main\n"}),
		"nothing":        t.TempDir(),
		"a link":         linked,
		"too many files": delivery(t, many),
	} {
		if r := analysed(t, Subject{Delivery: dir}); r.Quality != nil || r.Reason == "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	empty := map[string]string{"empty.py": "", "not-a-name.py": ""}
	r := combine([]job{{tool: Pylint}, {tool: Mypy}}, []answer{told(t, Pylint, empty), {unknown: "x"}})
	if r.Quality.Linted || r.Reason == "" || r.Unknown[Mypy] != "x" {
		t.Errorf("%+v", r)
	}
	if said := told(t, Mypy, map[string]string{"not-a-name.py": ""}); said.unknown == "" {
		t.Errorf("%+v", said)
	}
}

func TestHostileSource(t *testing.T) {
	said := told(t, Patterns, map[string]string{
		"deep.py":   "x = " + strings.Repeat("(", 90) + strings.Repeat(")", 90) + "\ny = " + strings.Repeat("-", 20_000) + "1\n",
		"binary.py": "\x00\xff\xfe", "coded.py": "# -*- coding: no_such -*-\n", "total.py": clean,
		"long.py": "x = '" + strings.Repeat("a", 1<<20) + "'\n",
	})
	if got := codes(said); !slices.Equal(got, []string{"binary.py P100", "coded.py P100", "deep.py P100"}) {
		t.Errorf("%v %s", got, said.unknown)
	}
}

func TestToolFailures(t *testing.T) {
	f := files{dirs: []string{t.TempDir()}}
	for want, source := range map[string]string{
		"is not installed":            "def read(order): return {'absent': True}",
		"its answer is not JSON":      "def read(order): os.write(3, b'{'); return {}",
		"its answer is not plausible": "def read(order): return {'version': '1', 'grade': 10001}",
		"RuntimeError: no":            "def read(order): raise RuntimeError('no')",
		"cannot":                      "def read(order): return {'version': '1', 'failed': 'cannot'}",
	} {
		got := analyst(t).ask(t.Context(), job{tool: "tool", source: source}, f)
		if !strings.Contains(got.unknown, want) {
			t.Errorf("%q, want %q", got.unknown, want)
		}
	}
	got := (&Analyst{Runner: failing{}}).ask(t.Context(), job{}, f)
	if !strings.Contains(got.unknown, "no sandbox") {
		t.Errorf("%q", got.unknown)
	}
}

func TestFindingOrder(t *testing.T) {
	found := func(severity string, n int) (list []guild.Notice) {
		for i := range n {
			list = append(list, guild.Notice{Severity: severity, File: "a.py", Line: n - i})
		}
		return list
	}
	r := combine([]job{{tool: Pylint}, {tool: Coverage}, {tool: Bandit}}, []answer{
		{Version: "2", Grade: 8_000, Statements: 1, Findings: found("medium", 60)},
		{Version: "6", Statements: 4, Covered: 3, Findings: found("high", 3)},
		{Version: "1", Findings: append(found("low", 2), found("high", 1)...)},
	})
	q := r.Quality
	if len(r.Findings) != 63 || len(q.Findings) != shown || q.Lines != 750_000 || q.Branches != guild.Micro || len(r.Tools) != 3 || r.Reason != "" {
		t.Errorf("%+v", r)
	}
	for i, want := range []guild.Notice{{Tool: Bandit, Severity: "high", File: "a.py", Line: 1}, {Tool: Bandit, Severity: "low", File: "a.py", Line: 1},
		{Tool: Bandit, Severity: "low", File: "a.py", Line: 2}, {Tool: Pylint, Severity: "medium", File: "a.py", Line: 1}} {
		if q.Findings[i] != want {
			t.Errorf("finding %d: %+v, want %+v", i, q.Findings[i], want)
		}
	}
}

// failing is a runner on a machine without a working sandbox.
type failing struct{ sandbox.Runner }

func (failing) Run(context.Context, sandbox.Spec, sandbox.IO) (sandbox.Result, error) {
	return sandbox.Result{}, &sandbox.UnusableError{Reason: "none"}
}

func TestMypyCache(t *testing.T) {
	a := analyst(t)
	a.Cache = t.TempDir()
	f, err := survey(delivery(t, map[string]string{"wrong.py": "import re\n\nx: int = re.compile('a')\n"}))
	if err != nil {
		t.Fatal(err)
	}
	ask := func() answer {
		return a.ask(t.Context(), job{tool: Mypy, source: mypySource, order: order{Files: f.inside()}}, f)
	}
	first, second := ask(), ask()
	for _, said := range []answer{first, second} {
		if said.Count != 1 || said.Stale || said.unknown != "" {
			t.Fatalf("%+v", said)
		}
	}
	if err := os.WriteFile(a.keptFile(), []byte("mypy 0.1, Python 2\ngarbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := ask(); said.Count != 1 || !said.Stale {
		t.Errorf("of another version: %+v", said)
	}
	if said := ask(); said.Count != 1 || said.Stale {
		t.Errorf("learnt anew: %+v", said)
	}
}

func TestAnalysisCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := analyst(t).Start(ctx, Subject{Delivery: delivery(t, map[string]string{"a.py": clean})}).Wait(0)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func FuzzToolAnswer(f *testing.F) {
	f.Add([]byte(`{"version":"2.16","count":1,"grade":7500,"statements":4,"findings":[{"code":"C0114","severity":"low","file":"a.py","line":1,"text":"x"}]}`))
	f.Add([]byte(`{"version":"6.5.0","statements":9,"covered":8,"branches":4,"taken":1}`))
	f.Add([]byte(`{"absent":true}`))
	f.Add([]byte(`{"version":"1","failed":"` + strings.Repeat("x", 500) + `"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		a := read(raw, []string{"a.py"})
		if len(a.unknown) > maxText || len(a.Version) > maxCode || len(a.Findings) > maxFindings {
			t.Errorf("out of bounds: %+v", a)
		}
		if a.unknown != "" {
			return
		}
		if a.Grade < 0 || a.Grade > maxGrade || part(a.Covered, a.Statements) > guild.Micro || part(a.Taken, a.Branches) > guild.Micro {
			t.Errorf("not plausible: %+v", a)
		}
		for _, n := range a.Findings {
			if n.File != "a.py" || !slices.Contains(severities(), n.Severity) || len(n.Text) > maxText || len(n.Code) > maxCode {
				t.Errorf("%+v", n)
			}
		}
	})
}

func TestShortAnswersKeepTheirGrade(t *testing.T) {
	for source, want := range map[string][2]int64{
		"def double(number):\n    return 2 * number":                                         {10_000, 10_000},
		"def double(number): return 2 * number":                                              {9_000, 9_999},
		"import os\n\ndef double(number):\n    return 2 * number\n":                          {9_000, 9_000}, // an unused import
		"def double(number):\n    return 2 * numbr\n":                                        {4_000, 5_000}, // an error
		"def f(x):\n    eval(x)\n    global y\n    return z\n" + strings.Repeat("f(w)\n", 3): {0, 0},
	} {
		if got := told(t, Pylint, map[string]string{"a.py": source}); got.Grade < want[0] || got.Grade > want[1] {
			t.Errorf("%q: grade %d, want %d to %d: %+v", source, got.Grade, want[0], want[1], got.Findings)
		}
	}
}
