package exam

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestFrameworkOfCriterion(t *testing.T) {
	c, err := parseCriteria([]byte(`{"test_framework": "shell", "time_limit_seconds": 3, "criteria": [
		{"type": "pytest"}, {"id": "x", "type": "api_test", "script": "tests/a/../x.sh"},
		{"type": "pytest", "script": "tests/test_x.py::test_a"}, {"type": "io", "command": ["true"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"AC-1 pytest ", "x shell tests/x.sh", "AC-3 pytest tests/test_x.py::test_a", "AC-4 io "}
	for i, c := range c.Criteria {
		if got := strings.Join([]string{c.ID, c.Framework, c.Script}, " "); got != want[i] {
			t.Errorf("%q, want %q", got, want[i])
		}
	}
}

func TestInvalidCriteria(t *testing.T) {
	for _, bad := range []string{
		``, `[]`, `{}`, `{"criteria": []}`,
		`{"criteria": [{"script": "tests/x.sh"}]}`,
		`{"test_framework": "mocha", "criteria": [{"script": "tests/x.js"}]}`,
		`{"test_framework": "shell", "criteria": [{"type": "shell"}]}`,
		`{"test_framework": "shell", "criteria": [{"type": "sql_check"}]}`,
		`{"test_framework": "shell", "criteria": [{"script": "files/x.sh"}]}`,
		`{"test_framework": "shell", "criteria": [{"script": "tests/../files/x.sh"}]}`,
		`{"test_framework": "shell", "criteria": [{"script": "/etc/passwd"}]}`,
		`{"test_framework": "shell", "criteria": [{"script": "tests/x.sh", "expected": {"status_code": 200}}]}`,
		`{"test_framework": "io", "criteria": [{"stdin": "x"}]}`,
		`{"criteria": [{"type": "io", "command": ["x"], "cases": [{"stdin": "x", "expect": {"stdout": "y"}}]}]}`,
		`{"criteria": [{"type": "io", "command": ["x"], "cases": [{"id": "a"}, {"id": "a"}]}]}`,
		`{"criteria": [{"type": "io", "command": ["x"], "cases": [{"id": "a"}], "expected": {"stdout": ""}}]}`,
		`{"criteria": [{"type": "io", "command": ["x"], "id": "a"}, {"type": "io", "command": ["x"], "id": "a"}]}`,
		`{"criteria": [{"type": "io", "command": ["x"], "id": "a/1"}, {"type": "io", "command": ["x"], "id": "a", "cases": [{}]}]}`,
		`{"criteria": [{"type": "io", "command": ["x"], "layer": "smoky"}]}`,
		`{"criteria": [{"type": "io", "command": ["x"], "files": {"../x": ""}}]}`,
		`{"criteria": [{"type": "io", "command": ["x"], "files": {"/x": ""}}]}`,
		`{"criteria": [{"type": "io", "command": ["x"], "expected": {"files": {"a/../b": "x"}}}]}`,
		`{"criteria": [{"type": "io", "command": ["x"], "expected": {"status_code": 200}}]}`,
		`{"criteria": [{"type": "pytest", "expected": {"stdout": "x"}}]}`,
		`{"criteria": [{"type": "pytest", "mode": "trusting"}]}`,
		`{"criteria": [{"type": "pytest", "tests": 3}]}`,
		`{"python_mode": "x", "criteria": [{"type": "pytest"}]}`,
		`{"criteria": [{"type": "custom"}]}`,
		`{"criteria": [{"type": "custom", "command": ["x"], "report": "tap"}]}`,
		`{"criteria": [{"type": "custom", "command": ["x"], "report": "junit", "tests": 1}]}`,
		`{"criteria": [{"type": "custom", "command": ["x"], "report": "tap", "tests": 1000000000}]}`,
		`{"criteria": [{"type": "node-test", "tests": -1}]}`,
		`{"criteria": [{"type": "api_test", "command": ["x"], "endpoint": "http://192.0.2.1/"}]}`,
		`{"criteria": [{"type": "api_test", "command": ["x"], "endpoint": "https://127.0.0.1/"}]}`,
		`{"criteria": [{"type": "api_test", "command": ["x"], "endpoint": "http://127.0.0.1:1/"}]}`,
		`{"criteria": [{"type": "api_test", "command": ["x"], "headers": {"a\r\nb": "c"}}]}`,
		`{"criteria": [{"type": "api_test", "command": ["x"], "method": "GET /\r\n"}]}`,
		`{"criteria": [{"type": "api_test", "command": ["x"], "port": 70000}]}`,
		`{"criteria": [{"type": "api_test", "command": ["x"], "expected": {"exit_code": 1}}]}`,
		`{"criteria": [{"type": "sql_check", "command": ["x"], "expected": {"result": 1}}]}`,
		`{"criteria": [{"type": "sql_check", "command": ["x"], "query": "SELECT 1"}]}`,
		`{"criteria": [{"type": "sql_check", "command": ["x"], "query": "SELECT 1", "expected": {"result": 1}, "engine": "oracle"}]}`,
		`{"criteria": [{"type": "sql_check", "command": ["x"], "query": "SELECT 1", "expected": {"result": 1}, "database": "../x"}]}`,
		`{"test_framework": "shell", "time_limit_seconds": -1, "criteria": [{"script": "tests/x.sh"}]}`,
		`{"test_framework": "shell", "time_limit_seconds": 99999, "criteria": [{"script": "tests/x.sh"}]}`,
	} {
		if _, err := parseCriteria([]byte(bad)); !errors.Is(err, ErrUndecided) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func FuzzCriteria(f *testing.F) {
	f.Add([]byte(`{"test_framework": "shell", "criteria": [{"script": "tests/x.sh", "expected": {"exit_code": 1}}]}`))
	f.Add([]byte(`{"criteria": [{"type": "io", "command": ["x"], "expected": {"stdout": ""}}]}`))
	f.Add([]byte(`{"criteria": [{"type": "io", "command": ["x"], "cases": [{"files": {"a/b": "c"}, "expected": {"files": {"d": {"json": 1, "abs": 0.1}}}}]}]}`))
	f.Add([]byte(`{"service": {"command": ["x"]}, "criteria": [{"type": "api_test", "endpoint": "PUT /a", "body": {"b": 1}, "expected": {"status_code": 201}}]}`))
	f.Add([]byte(`{"criteria": [{"type": "sql_check", "query": "SELECT 1", "engine": "postgresql", "script": "tests/x", "expected": {"rows": [[1]]}}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseCriteria(b)
		if err != nil {
			return
		}
		for _, c := range c.Criteria {
			for _, one := range c.all() {
				for name := range one.Files {
					if !filepath.IsLocal(name) {
						t.Errorf("file %q", name)
					}
				}
				if req, err := one.request(c.Port); c.Framework == "api_test" && (err != nil || req.URL.Hostname() != "127.0.0.1" && req.URL.Hostname() != "localhost" && req.URL.Hostname() != "::1") {
					t.Errorf("request %v %v", req, err)
				}
			}
			if c.Script != "" && c.Script != "tests" && !strings.HasPrefix(c.Script, "tests/") {
				t.Errorf("script %q", c.Script)
			}
		}
	})
}

// FuzzReport reads arbitrary output of a hostile run: only expected tests may count.
func FuzzReport(f *testing.F) {
	f.Add(`{"word":"w","kind":"plan","tests":{"a":1}}` + "\n" + `{"word":"w","kind":"test","id":"a[1]","state":"passed"}`)
	f.Add("{}\n\n{")
	f.Fuzz(func(t *testing.T, results string) {
		rep := readReport(results, "w")
		expected := map[string]int{"a": 1, "b": 0, "c": 3}
		tests := rep.match(expected)
		count := map[string]int{}
		for _, got := range tests {
			if _, known := expected[function(got.ID)]; !known {
				t.Fatalf("unexpected %q", got.ID)
			}
			count[function(got.ID)]++
		}
		if count["a"] != 1 || count["b"] < 1 || count["c"] != 3 {
			t.Fatalf("%v", count)
		}
	})
}

func FuzzGoEvents(f *testing.F) {
	f.Add(`{"Action":"pass","Test":"TestA"}` + "\n" + `{"Action":"pass","Test":"TestA"}`)
	f.Fuzz(func(t *testing.T, stdout string) {
		states, failure := readGoEvents(stdout)
		if got := goMatch(map[string]int{"..TestA": 1, "x.TestA": 1}, states, failure); len(got) != 2 {
			t.Fatalf("%v", got)
		}
	})
}
