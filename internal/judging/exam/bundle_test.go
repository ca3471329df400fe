package exam

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"guild"
	"guild/nutshell"
)

func TestPersonNeeded(t *testing.T) {
	const criterion = `{"id": "c", "type": "io", "command": ["cat", "a"], "expected": {"stdout": "x"}`
	for name, c := range map[string]struct {
		files  map[string]string
		person string
		states string
	}{
		"nothing to decide": {map[string]string{"tests/criteria.json": `{"auto_verifiable": true, "criteria": [` + criterion + `}]}`}, "", "c passed"},
		"criteria that are not auto-verifiable": {map[string]string{"tests/criteria.json": `{"auto_verifiable": false, "criteria": [` + criterion + `}]}`},
			"not auto-verifiable", "c passed"},
		"a manifest that is not auto-verifiable": {map[string]string{"nutshell.json": `{"acceptance": {"auto_verifiable": false}}`,
			"tests/criteria.json": `{"auto_verifiable": true, "criteria": [` + criterion + `}]}`}, "not auto-verifiable", "c passed"},
		"a criterion that asks for a review": {map[string]string{"tests/criteria.json": `{"criteria": [` + criterion + `, "human_review_required": true}]}`},
			"criterion c asks for a person's review", "c passed"},
		"a manifest that asks for a review": {map[string]string{"nutshell.json": `{"acceptance": {"human_review_required": true}}`,
			"tests/criteria.json": `{"criteria": [` + criterion + `}]}`}, "asks for a person's review", "c passed"},
		"a checklist alone": {map[string]string{"nutshell.json": `{"acceptance": {"checklist": ["it is pretty"]}}`}, "a checklist, but no criteria", ""},
		"a call without a service": {map[string]string{"tests/criteria.json": `{"test_framework": "shell", "criteria": [
			{"id": "AC-002", "type": "api_test", "expected": {"status_code": 200, "body_contains": "users"}},
			{"id": "AC-010", "type": "sql_check", "query": "SELECT 1", "expected": {"result": 1}}, ` + criterion + `}]}`},
			"AC-002 cannot be verified: it has neither a script nor a command and an endpoint; AC-010 cannot", "AC-002 missing\nAC-010 missing\nc passed"},
	} {
		t.Run(name, func(t *testing.T) {
			r := examined(t, request(t, c.files), deliver(t, map[string]string{"a": "x"}))
			if !strings.Contains(r.Person, c.person) || (c.person == "") != (r.Person == "") || states(r) != c.states {
				t.Errorf("%q\n%s", r.Person, states(r))
			}
		})
	}
}

func TestClaims(t *testing.T) {
	bundle := request(t, map[string]string{"tests/criteria.json": `{"criteria": [{"id": "c", "type": "io", "command": ["cat", "a"], "expected": {"stdout": "x"}}]}`})
	for result, want := range map[string]*guild.Claims{
		`{"status": "completed", "acceptance_results": {"tests_passed": 12, "tests_failed": -1, "tests_skipped": 99999999}}`: {Passed: 12, Skipped: 1_000_000},
		`{"status": "completed"}`:              nil,
		`{`:                                    nil,
		strings.Repeat(" ", maxCriteriaFile+1): nil,
	} {
		delivery := deliver(t, map[string]string{"a": "wrong"})
		lay(t, delivery, map[string]string{"delivery/result.json": result})
		r := examined(t, bundle, delivery)
		r.wants(t, guild.Strong, "c failed")
		if (r.Claims == nil) != (want == nil) || want != nil && *r.Claims != *want {
			t.Errorf("%.80s: %+v", result, r.Claims)
		}
	}
}

func TestFailedSmokeTest(t *testing.T) {
	bundle := request(t, map[string]string{
		"tests/criteria.json": `{"criteria": [
			{"id": "core", "type": "io", "command": ["cat", "a"], "cases": [{"id": "one", "expected": {"stdout": "x"}}, {"id": "two", "expected": {"stdout": "x"}}]},
			{"id": "imports", "type": "shell", "script": "tests/smoke/import.sh"},
			{"id": "slow", "type": "custom", "command": ["true"], "report": "tap", "tests": 2, "layer": "performance"}]}`,
		"tests/smoke/import.sh": "grep -q x a",
	})
	r := examined(t, bundle, deliver(t, map[string]string{"a": "y"}))
	if got := states(r); got != "core/one missing\ncore/two missing\nimports failed\nslow[0] missing\nslow[1] missing" {
		t.Errorf("%s", got)
	}
	if got := r.Findings[0].Tests[1]; got.Message != "not run: the smoke test imports did not pass" || got.Layer != guild.LayerCorrectness {
		t.Errorf("%+v", got)
	}
	if r.Findings[1].Tests[0].Layer != guild.LayerSmoke || r.Findings[2].Tests[0].Layer != guild.LayerPerformance || len(r.Findings[0].Runs) > 0 {
		t.Errorf("%+v", r.Findings)
	}
	r = examined(t, bundle, deliver(t, map[string]string{"a": "x"}))
	if got := states(r); got != "core/one passed\ncore/two passed\nimports passed\nslow[0] missing\nslow[1] missing" {
		t.Errorf("%s", got)
	}
}

// hiddenBundle returns a customer's directory with hidden tests, and the public form of it: packed and unpacked again.
func hiddenBundle(t *testing.T) (own, public string) {
	t.Helper()
	own = request(t, map[string]string{
		"nutshell.json":       `{"nutshell_version": "0.2.0", "bundle_type": "request", "id": "nut-1", "task": {"title": "t"}}`,
		"tests/criteria.json": `{"criteria": [{"id": "open", "type": "io", "command": ["cat", "a"], "expected": {"stdout": "x"}}]}`,
		"tests/hidden/criteria.json": `{"criteria": [{"id": "secret", "type": "io", "command": ["cat", "b"], "expected": {"stdout": "y"}},
			{"id": "script", "type": "shell", "script": "tests/hidden/check.sh"}]}`,
		"tests/hidden/check.sh": "grep -q y b && test ! -e /judge/tests/hidden/criteria.json && test ! -e /judge/tests/hidden/.salts.json",
	})
	commitments, err := nutshell.Commit(t.Context(), os.DirFS(own), rand.Reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	salts, err := nutshell.Salts(commitments)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(own, nutshell.SaltsFile), salts, 0o600); err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	if _, err := nutshell.Pack(t.Context(), os.DirFS(own), &packed, nutshell.Options{Hidden: commitments}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "task.nut")
	if err := os.WriteFile(file, packed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	public, closeBundle, err := Open(t.Context(), file, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closeBundle(); err != nil || isDir(public) {
			t.Errorf("%s is left: %v", public, err)
		}
	})
	return own, public
}

func TestSmokeMarkers(t *testing.T) {
	bundle := bundleOf(t, map[string]string{
		"tests/smoke/test_there.py": "import m\ndef test_there(): assert m.f(1) == 2\n",
		"tests/test_m.py": `
import m, pytest
def test_a(): assert m.f(2) == 4
@pytest.mark.smoke
@pytest.mark.parametrize("n", [1, 2])
def test_b(n): assert m.f(n) == 2 * n
class TestC:
    def test_c(self): assert m.f(3) == 6
`}, nil, modeSplit)
	examined(t, bundle, deliver(t, map[string]string{"m.py": "def f(n): return 2 * n"})).wants(t, guild.Strong,
		"tests/test_m.py::test_b[1] passed", "tests/test_m.py::test_b[2] passed", "tests/smoke/test_there.py::test_there passed",
		"tests/test_m.py::test_a passed", "tests/test_m.py::TestC::test_c passed")
	r := examined(t, bundle, deliver(t, map[string]string{"m.py": "def f(n): return 2"}))
	r.wants(t, guild.Weak,
		"tests/test_m.py::test_b[1] passed", "tests/test_m.py::test_b[2] failed", "tests/smoke/test_there.py::test_there passed",
		"tests/test_m.py::TestC::test_c missing", "tests/test_m.py::test_a missing")
	if got := r.Findings[0].Tests[3]; got.Message != "not run: the smoke test tests/test_m.py::test_b[2] did not pass" {
		t.Errorf("%+v", got)
	}
}

func TestHiddenTests(t *testing.T) {
	own, public := hiddenBundle(t)
	right := deliver(t, map[string]string{"a": "x", "b": "y"})
	e := newEngine(t)
	for name, from := range map[string][2]string{"the customer's directory": {own, ""}, "the bundle and the directory": {public, filepath.Join(own, "tests", "hidden")}} {
		r, err := e.ExamineHidden(t.Context(), from[0], right, from[1])
		if err != nil {
			t.Fatal(err)
		}
		if got := states(r); got != "open passed\nsecret passed\nscript passed" {
			t.Errorf("%s: %s %+v", name, got, r.Findings)
		}
		if len(r.Hidden) != 2 || r.Hidden[0].Salt == "" || r.Hidden[0].Hash.IsZero() || len(r.Findings[0].Warnings) > 0 {
			t.Errorf("%s: %+v %q", name, r.Hidden, r.Findings[0].Warnings)
		}
	}
	r, err := e.Examine(t.Context(), public, right)
	if err != nil || states(r) != "open passed" || len(r.Hidden) > 0 || !strings.Contains(r.Findings[0].Warnings[0], "2 hidden tests") {
		t.Errorf("without the hidden tests: %v %s %+v", err, states(r), r.Findings)
	}
}

func TestChangedHiddenTests(t *testing.T) {
	delivery := deliver(t, map[string]string{"a": "x", "b": "y"})
	for name, c := range map[string]struct {
		change  func(dir string) error
		message string
	}{
		"one changed": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "check.sh"), []byte("true"), 0o600) },
			`"tests/hidden/check.sh" does not match`},
		"one added":           {func(dir string) error { return os.WriteFile(filepath.Join(dir, "new.sh"), nil, 0o600) }, `"tests/hidden/new.sh" was not committed to`},
		"one missing":         {func(dir string) error { return os.Remove(filepath.Join(dir, "check.sh")) }, `"tests/hidden/check.sh" was committed to and is missing`},
		"the salts missing":   {func(dir string) error { return os.Remove(filepath.Join(dir, ".salts.json")) }, "does not match"},
		"the salts malformed": {func(dir string) error { return os.WriteFile(filepath.Join(dir, ".salts.json"), []byte("{"), 0o600) }, ".salts.json"},
		"a link":              {func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, "link")) }, "is not a file"},
	} {
		own, public := hiddenBundle(t)
		dir := filepath.Join(own, "tests", "hidden")
		if err := c.change(dir); err != nil {
			t.Fatal(err)
		}
		_, err := newEngine(t).ExamineHidden(t.Context(), public, delivery, dir)
		if !errors.Is(err, ErrUndecided) || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUncommittedHiddenTests(t *testing.T) {
	own, _ := hiddenBundle(t)
	lay(t, own, map[string]string{"tests/hidden/check.sh": "true"})
	r := examined(t, own, deliver(t, map[string]string{"a": "x", "b": "y"}))
	if len(r.Hidden) != 1 || !strings.Contains(r.Findings[0].Warnings[0], "without a commitment: tests/hidden/check.sh") {
		t.Errorf("%+v %+v", r.Hidden, r.Findings[0].Warnings)
	}
}

func TestNothingLeftOnHost(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	own, _ := hiddenBundle(t)
	if _, err := newEngine(t).Examine(context.Background(), own, deliver(t, map[string]string{"a": "x"})); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(temporary, "exam-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%q %v", left, err)
	}
}

func TestOpen(t *testing.T) {
	own, _ := hiddenBundle(t)
	dir, closeBundle, err := Open(t.Context(), own, "")
	if err != nil || dir != own || closeBundle() != nil || !isDir(own) {
		t.Errorf("%s %v", dir, err)
	}
	junk := filepath.Join(t.TempDir(), "x.nut")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	scratch := t.TempDir()
	if _, _, err := Open(t.Context(), junk, scratch); !errors.Is(err, nutshell.ErrNotBundle) {
		t.Errorf("%v", err)
	}
	if left, _ := os.ReadDir(scratch); len(left) > 0 {
		t.Errorf("%v", left)
	}
}

func TestHiddenTestsOutOfReach(t *testing.T) {
	seen := "import os; print(os.path.exists('/judge/tests/hidden/key'))"
	bundle := request(t, map[string]string{
		"tests/criteria.json": `{"criteria": [
			{"id": "shell", "type": "shell", "script": "tests/run.sh", "expected": {"stdout": "False\n"}},
			{"id": "custom", "type": "custom", "command": ["python3", "seen.py"], "expected": {"stdout": "False\n"}},
			{"id": "api", "type": "api_test", "script": "tests/print.sh", "expected": {"body_contains": "False"}},
			{"id": "pytest", "type": "pytest", "mode": "inproc", "script": "tests/test_seen.py"}]}`,
		"tests/run.sh":               "python3 seen.py",
		"tests/print.sh":             "echo 'HTTP/1.1 200 OK'; echo; python3 seen.py",
		"tests/test_seen.py":         "import os\ndef test_hidden(): assert not os.path.exists('/judge/tests/hidden')",
		"tests/hidden/key":           "42",
		"tests/hidden/run.sh":        "python3 seen.py",
		"tests/hidden/criteria.json": `{"criteria": [{"id": "own", "type": "shell", "script": "tests/hidden/run.sh", "expected": {"stdout": "True\n"}}]}`,
	})
	r := examined(t, bundle, deliver(t, map[string]string{"seen.py": seen}))
	if got, want := states(r), "shell passed\ncustom passed\napi passed\ntests/test_seen.py::test_hidden passed\nown passed"; got != want {
		t.Errorf("%s\nwant:\n%s\n%+v", got, want, r.Findings)
	}
}
