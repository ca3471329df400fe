package judge_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"guild"
	"guild/internal/judging/exam"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/container"
	"guild/internal/step/judge"
)

// request creates the directory of an unpacked request bundle.
func request(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	lay(t, dir, files)
	return dir
}

// judged judges and expects no error.
func judged(t *testing.T, e *judge.Judge, bundle, delivery string) (guild.Verdict, judge.Evidence) {
	t.Helper()
	v, evidence, err := e.Judge(t.Context(), bundle, delivery)
	if err != nil {
		t.Fatal(err)
	}
	return v, evidence
}

// wants checks the parts of a verdict that describe its result.
func wants(t *testing.T, v guild.Verdict, outcome guild.Outcome, strength guild.Strength, passed, expected int) {
	t.Helper()
	if v.Outcome != outcome || v.Strength != strength || v.Passed != passed || v.Expected != expected {
		t.Errorf("%s %s %d of %d, want %s %s %d of %d: %s %+v", v.Outcome, v.Strength, v.Passed, v.Expected,
			outcome, strength, passed, expected, v.Cause, v.Tests)
	}
}

func TestIOCriterion(t *testing.T) {
	bundle := request(t, map[string]string{"tests/criteria.json": `{"criteria": [
		{"id": "double", "type": "io", "command": ["/usr/bin/python3", "double.py"], "cases": [
			{"id": "number", "stdin": "21\n", "expected": {"stdout": "42\n"}},
			{"id": "word", "stdin": "x\n", "expected": {"exit_code": 2, "stdout_contains": "no number"}}]}]}`})
	e := newEngine(t)
	good := deliver(t, map[string]string{"double.py": "import sys\ntry: print(2*int(input()))\nexcept ValueError: print('no number'); sys.exit(2)"})
	v, _ := judged(t, e, bundle, good)
	wants(t, v, guild.Success, guild.Strong, 2, 2)

	bad := deliver(t, map[string]string{"double.py": "import os\nprint(42)\nprint(os.path.exists('/judge/tests'))"})
	v, _ = judged(t, e, bundle, bad)
	wants(t, v, guild.Failure, guild.Weak, 0, 2)
	if !strings.Contains(v.Tests[0].Message, `42\nFalse`) {
		t.Errorf("%+v", v.Tests)
	}
}

func TestShellCriterion(t *testing.T) {
	bundle := request(t, map[string]string{
		"nutshell.json":          `{"acceptance": {"test_scripts": ["tests/scripts/check.sh", "tests/words.sh"]}}`,
		"tests/scripts/check.sh": "#!/usr/bin/env bash\n[[ $(./hello.sh) == hello ]]",
		"tests/words.sh":         "grep -q hello hello.sh",
		"files/hello.sh":         "echo nothing",
	})
	e := newEngine(t)
	v, evidence := judged(t, e, bundle, deliver(t, map[string]string{"hello.sh": "#!/bin/sh\necho hello"}))
	wants(t, v, guild.Success, guild.Weak, 2, 2)
	v, _ = judged(t, e, bundle, deliver(t, map[string]string{"hello.sh": "#!/bin/sh\necho hell"}))
	wants(t, v, guild.Failure, guild.Weak, 0, 2)

	var told struct {
		Delivered []string
		Findings  []struct{ Runs []struct{ Stdout string } }
	}
	if err := json.Unmarshal(evidence, &told); err != nil || len(told.Delivered) != 1 || len(told.Findings) != 2 {
		t.Errorf("evidence: %v %+v", err, told)
	}
}

func TestGoCriterion(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Fatal("go is not on PATH")
	}
	bundle := request(t, map[string]string{
		"files/go.mod": "module task\n\ngo 1.22\n",
		"tests/add_test.go": "package task\n\nimport \"testing\"\n\n" +
			"func TestAdd(t *testing.T) { if Add(1, 2) != 3 { t.Error(\"wrong\") } }\n" +
			"func TestZero(t *testing.T) { if Add(0, 0) != 0 { t.Error(\"wrong\") } }\n",
		"tests/criteria.json": `{"test_framework": "go-test", "time_limit_seconds": 5, "criteria": [{"type": "go-test"}]}`,
	})
	e := newEngine(t)
	e.Exam.Cache = t.TempDir()
	if dir, err := os.UserCacheDir(); err == nil {
		e.Exam.Cache = filepath.Join(dir, "guild-judge-test") // filling it takes longer than the rest of the test
	}
	for name, c := range map[string]struct {
		source string
		want   guild.Outcome
		passed int
	}{
		"right":          {"func Add(a, b int) int { return a + b }", guild.Success, 2},
		"wrong":          {"func Add(a, b int) int { return a - b }", guild.Failure, 1},
		"does not build": {"func Add(a, b int) string { return 0 }", guild.Failure, 0},
		"exits early":    {"import \"os\"\n\nfunc init() { os.Exit(0) }\n\nfunc Add(a, b int) int { return 0 }", guild.Error, 0},
		"endless":        {"func Add(a, b int) int { for { } }", guild.Error, 0},
	} {
		t.Run(name, func(t *testing.T) {
			v, evidence := judged(t, e, bundle, deliver(t, map[string]string{
				"add.go":      "package task\n\n" + c.source + "\n",
				"own_test.go": "package task\n\nimport (\"os\"; \"testing\")\n\nfunc TestMain(m *testing.M) { os.Exit(0) }\n",
			}))
			wants(t, v, c.want, guild.Weak, c.passed, 2)
			if t.Failed() {
				t.Logf("%.3000s", evidence)
			}
		})
	}
}

func TestUncountedTestsListed(t *testing.T) {
	bundle := request(t, map[string]string{
		"tests/criteria.json": `{"criteria": [{"type": "pytest"}]}`,
		"tests/cases.py":      "CASES = [(n, n * n) for n in range(4)]",
		"tests/conftest.py":   "import pytest\n@pytest.fixture\ndef zero(): return 0",
		"tests/test_square.py": "import pytest\nfrom cases import CASES\nfrom solution import square\n" +
			"@pytest.mark.parametrize('n, s', CASES)\ndef test_square(n, s): assert square(n) == s\n" +
			"def test_zero(zero): assert square(zero) == 0\n",
		"files/solution.py": "def square(n): ...",
	})
	e := newEngine(t)
	v, _ := judged(t, e, bundle, deliver(t, map[string]string{"solution.py": "def square(n): return n * n"}))
	wants(t, v, guild.Success, guild.Strong, 5, 5)
	v, _ = judged(t, e, bundle, deliver(t, map[string]string{"solution.py": "import os; os._exit(0)"}))
	wants(t, v, guild.Error, guild.Weak, 0, 5)
}

func TestUndecided(t *testing.T) {
	delivery := deliver(t, map[string]string{"solution.py": ""})
	for name, files := range map[string]map[string]string{
		"no criteria":                {"nutshell.json": "{}"},
		"malformed criteria":         {"tests/criteria.json": "{"},
		"no tests":                   {"tests/criteria.json": `{"criteria": [{"type": "pytest"}]}`},
		"tests that do not parse":    {"tests/criteria.json": `{"criteria": [{"type": "pytest"}]}`, "tests/test_x.py": "def test_x(:"},
		"a script that is not there": {"tests/criteria.json": `{"criteria": [{"type": "shell", "script": "tests/x.sh"}]}`},
		"an unknown framework":       {"tests/criteria.json": `{"test_framework": "jest", "criteria": [{"script": "tests/x.js"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			v, _, err := newEngine(t).Judge(t.Context(), request(t, files), delivery)
			if !errors.Is(err, exam.ErrUndecided) {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}

func TestNoSandbox(t *testing.T) {
	bundle := "testdata/add"
	delivery := deliver(t, map[string]string{"solution.py": "open('/tmp/ran', 'w')"})
	for _, e := range []*exam.Engine{{}, {Runner: container.GVisor{Path: "/no/such/runsc"}}} {
		_, err := e.Examine(t.Context(), bundle, delivery)
		if unusable, ok := errors.AsType[*sandbox.UnusableError](err); !ok || unusable.Remedy == "" {
			t.Errorf("error %v", err)
		}
	}
}

func TestInvalidDelivery(t *testing.T) {
	linked := deliver(t, map[string]string{"solution.py": "def add(a, b): return a + b"})
	if err := os.Symlink("/etc/passwd", filepath.Join(linked, "delivery", "artifacts", "link")); err != nil {
		t.Fatal(err)
	}
	for name, delivery := range map[string]string{
		"a link":                        linked,
		"a directory in a file's place": deliver(t, map[string]string{"TASK.md/solution.py": ""}),
		"nothing":                       t.TempDir(),
	} {
		v, _ := judged(t, newEngine(t), "testdata/add", delivery)
		if v.Outcome != guild.Error || v.Passed != 0 || v.Cause == "" || v.Usage != (guild.Usage{}) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
