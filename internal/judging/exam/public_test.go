package exam

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"guild"
	"guild/internal/judging/sandbox"
	"guild/nutshell"
)

// secret is in every hidden expectation below.
const secret = "SECRET-VALUE"

// secretBundle returns a bundle with hidden tests of each framework that compares values, and commitments to them.
func secretBundle(t *testing.T) string {
	t.Helper()
	dir := request(t, map[string]string{
		"tests/criteria.json": `{"test_framework": "pytest", "criteria": [{"id": "AC-1"},
			{"id": "open", "type": "io", "command": ["cat", "a"], "expected": {"stdout": "open value"}},
			{"id": "script", "type": "shell", "script": "tests/run.sh"}]}`,
		"tests/test_open.py": "from m import f\ndef test_f(): assert f(1) == 2\n",
		"tests/run.sh":       "cat a; false",
		"tests/hidden/test_more.py": "import pytest\nfrom m import f, g\n@pytest.mark.parametrize('want', ['" + secret + "'])\n" +
			"def test_f(want): assert f(1) == want\ndef test_g(): assert g('" + secret + "') == 1\n",
		"tests/hidden/data.sql": "create table t (v text); insert into t values ('x');",
		"tests/hidden/criteria.json": `{"criteria": [
			{"id": "io", "type": "io", "command": ["cat", "a"], "expected": {"stdout": "` + secret + `", "files": {"a": "` + secret + `"}}},
			{"id": "api", "type": "api_test", "command": ["python3", "-m", "http.server", "8080"], "method": "GET", "endpoint": "/a", "expected": {"status_code": 200, "body_contains": ["` + secret + `"]}},
			{"id": "sql", "type": "sql_check", "database": "db", "query": "select '` + secret + `'", "expected": {"rows": [["` + secret + `"]]}}]}`,
	})
	commitments, err := nutshell.Commit(t.Context(), os.DirFS(dir), zeros{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	salts, err := nutshell.Salts(commitments)
	if err != nil {
		t.Fatal(err)
	}
	var promised []nutshell.HiddenTest
	for _, c := range commitments {
		promised = append(promised, nutshell.HiddenTest{Path: c.Path, Hash: c.Hash})
	}
	manifest, err := json.Marshal(map[string]any{"acceptance": map[string]any{"hidden_tests": promised}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{nutshell.SaltsFile: salts, nutshell.ManifestFile: manifest} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// zeros is a source of salts.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

func TestPublicReport(t *testing.T) {
	bundle := secretBundle(t)
	whole := examined(t, bundle, deliver(t, map[string]string{
		"m.py": "import sys\ndef f(n): return 2\ndef g(s):\n    print(s, file=sys.stderr)\n    raise ValueError(s)\n",
		"a":    "open value", "db": "no database",
	}))
	raw := func(r Report) string {
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if !strings.Contains(raw(whole), secret) {
		t.Fatal("the report does not contain what the test looks for")
	}
	public, less := whole.Public()
	if text := raw(public); !less || strings.Contains(text, secret) {
		i := strings.Index(text, secret)
		t.Errorf("less %t, and public: %s", less, text[max(0, i-300):min(len(text), i+300)])
	}
	if len(public.Hidden) != 3 || public.Hidden[0].Salt != "" || public.Hidden[0].Hash.IsZero() || whole.Hidden[0].Salt == "" {
		t.Errorf("%+v", public.Hidden)
	}
	hidden := 0
	for i, f := range public.Findings {
		if len(f.Tests) != len(whole.Findings[i].Tests) || f.Strength != whole.Findings[i].Strength || len(f.Runs) != len(whole.Findings[i].Runs) {
			t.Errorf("finding %s: %+v", f.Criterion, f)
		}
		for k, test := range f.Tests {
			was := whole.Findings[i].Tests[k]
			if test.State != was.State || test.Layer != was.Layer || test.Strength != was.Strength || test.Exposure != was.Exposure || test.Blame != was.Blame {
				t.Errorf("%+v was %+v", test, was)
			}
			isHidden := strings.HasPrefix(test.ID, "hidden test ")
			if isHidden != (test.Exposure == guild.Hidden) || !isHidden && test.Exposure != guild.Visible {
				t.Errorf("%+v", test)
			}
			if isHidden {
				hidden++
			}
		}
		if f.Criterion == "open" && (f.Runs[0].Stdout != "open value" || f.Tests[0].ID != "open") {
			t.Errorf("a visible io criterion is shown: %+v", f)
		}
		if f.Criterion == "script" && f.Runs[0].Stdout != "" {
			t.Errorf("a script beside the hidden tests is not: %+v", f)
		}
	}
	if hidden != 5 {
		t.Errorf("%d hidden tests, want 5", hidden)
	}
	open, err := newEngine(t).Examine(t.Context(), request(t, map[string]string{
		"tests/criteria.json": `{"criteria": [{"id": "a", "type": "io", "command": ["cat", "a"], "expected": {"stdout": "shown"}}]}`}), deliver(t, map[string]string{"a": "shown"}))
	if err != nil {
		t.Fatal(err)
	}
	if public, less := open.Public(); less || raw(public) != raw(open) || open.Findings[0].Tests[0].Exposure != guild.Visible {
		t.Errorf("without hidden tests: %s", raw(public))
	}
}

// TestPublicViolations checks that what a delivery chose of a violation or of an unproven name is kept with hidden tests.
func TestPublicViolations(t *testing.T) {
	breaches := []guild.Breach{{Syscall: "mount", Detail: secret}, {Syscall: "connect", Detail: secret}}
	found := Finding{
		Breaches: breaches, Unproven: []string{"prices()." + secret + ": always True", "f: always " + secret},
		Runs: []RunRecord{{Result: sandbox.Result{Breaches: breaches}}},
	}
	shown := func(closed bool) string {
		f := found
		f.closed = closed
		public, _ := Report{Findings: []Finding{f}}.Public()
		b, err := json.Marshal(public)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if text := shown(false); !strings.Contains(text, secret) {
		t.Errorf("without hidden tests: %s", text)
	}
	text := shown(true)
	if strings.Contains(text, secret) || strings.Count(text, `"syscall":"mount"`) != 2 || !strings.Contains(text, "names "+kept+": 2") {
		t.Error(text)
	}
	if breaches[0].Detail != secret {
		t.Error("the whole report was changed")
	}
}
