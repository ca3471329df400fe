package exam

import (
	"fmt"
	"strings"
	"testing"

	"guild"
	"guild/internal/judging/sandbox/landlock"
	"guild/internal/judging/sandbox/tiers"
)

func TestScriptPrintsAnswer(t *testing.T) {
	bundle := request(t, map[string]string{
		"tests/criteria.json": `{"criteria": [
			{"id": "AC-001", "type": "api_test", "script": "tests/api.sh", "expected": {"status_code": 200, "body_contains": "users"}}]}`,
		"tests/api.sh": "python3 server.py 2>/dev/null &\n" + `python3 - <<'P'
import http.client, time
while True:
    try:
        c = http.client.HTTPConnection("127.0.0.1", 8080)
        c.request("GET", "/api/v1/users")
        break
    except OSError:
        time.sleep(0.05)
r = c.getresponse()
print("HTTP/1.1", r.status, r.reason)
print("Transfer-Encoding: chunked\n")
print(r.read().decode())
P`,
	})
	const server = `
from http.server import *
class H(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path != "/api/v1/users": return self.send_error(404)
        self.send_response(200); self.end_headers(); self.wfile.write(b'{"users": []}')
HTTPServer(("127.0.0.1", 8080), H).serve_forever()`
	examined(t, bundle, deliver(t, map[string]string{"server.py": server})).wants(t, guild.Weak, "AC-001 passed")
	other := strings.Replace(server, "/v1/", "/v2/", 1)
	examined(t, bundle, deliver(t, map[string]string{"server.py": other})).wants(t, guild.Weak, "AC-001 failed")
}

func TestPrintedAnswer(t *testing.T) {
	for text, want := range map[string]string{
		"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody":                         "200 body",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\n\nbody\n": "201 body\n",
		"HTTP/2 204 \n": "204 ",
		"starting\nHTTP/1.0 404 Not Found\nContent-Length: 9\n\nx": "404 x",
		"body\n200\n": "200 body\n",
		"200\nbody":   "200 body",
		"":            "no",
		"ready\n":     "no",
		"HTTP/1.1 x":  "no",
	} {
		got := "no"
		if a, err := printedAnswer(text); err == nil {
			got = fmt.Sprintf("%d %s", a.status, a.body)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestDeliveredDatabase(t *testing.T) {
	bundle := request(t, map[string]string{"tests/criteria.json": `{"criteria": [
		{"id": "s", "type": "sql_check", "query": "SELECT 1", "expected": {"result": 1}}]}`})
	empty := deliver(t, map[string]string{"database.sqlite": ""}) // SQLite reads an empty file as a database without tables
	examined(t, bundle, empty).wants(t, guild.Weak, "s passed")
	if r := examined(t, bundle, deliver(t, map[string]string{"a": ""})); !strings.Contains(r.Person, "no database.sqlite was delivered") {
		t.Errorf("%+v", r)
	}
}

func TestFrameworkWithoutType(t *testing.T) {
	bundle := request(t, map[string]string{
		"tests/criteria.json": `{"test_framework": "pytest", "criteria": [{"id": "c"}]}`,
		"tests/test_m.py":     "import m\ndef test_f(): assert m.f() == 1",
	})
	delivery := deliver(t, map[string]string{"m.py": "def f(): return 1"})
	examined(t, bundle, delivery).wants(t, guild.Weak, "tests/test_m.py::test_f passed")
}

func TestDataFilesSeen(t *testing.T) {
	bundle := bundleOf(t, map[string]string{
		"tests/data/in.csv": "a\nb\n", "tests/data/expected.csv": "2\n", "tests/helper.py": "X = 1\n", "tests/.secret": "x",
		"tests/test_m.py": `
import pathlib, m
HERE = pathlib.Path(__file__).parent
def test_path(): assert m.lines(HERE / "data" / "in.csv") == 2
def test_again(): assert m.lines(str(HERE / "data/in.csv")) == 2
def test_list(): assert m.all([str(HERE / "data/in.csv")]) == [2]
def test_beside(): assert m.beside(str(HERE / "data/in.csv")) == ["in.csv"]
def test_source(): assert m.lines(HERE / "helper.py") == -1
def test_self(): assert m.lines(__file__) == -1
def test_criteria(): assert m.lines(HERE / "criteria.json") == -1
def test_secret(): assert m.lines(HERE / ".secret") == -1
`}, nil, modeSplit)
	delivery := deliver(t, map[string]string{"m.py": `
import os
def lines(path):
    try: return len(open(path).readlines())
    except OSError: return -1
def all(paths): return [lines(p) for p in paths]
def beside(path): return sorted(os.listdir(os.path.dirname(path)))
`})
	f := examined(t, bundle, delivery).Findings[0]
	if Passed(f.Tests) != 8 {
		t.Errorf("%d of 8 passed", Passed(f.Tests))
		unpassed(t, f)
	}
}

func TestStartingDeliveredProgram(t *testing.T) {
	bundle := bundleOf(t, map[string]string{"tests/test_m.py": `
import subprocess, sys
def test_file(): assert subprocess.run([sys.executable, "main.py"], capture_output=True, text=True).stdout == "9\n"
def test_module(): assert subprocess.check_output([sys.executable, "-m", "main"]) == b"9\n"
`}, nil, modeSplit)
	f := examined(t, bundle, deliver(t, map[string]string{"main.py": "print(9)"})).Findings[0]
	for _, test := range f.Tests {
		if test.State == guild.TestPassed || !strings.Contains(test.Message, "needs mode inproc, or a criterion of type io") {
			t.Errorf("%+v", test)
		}
	}
}

func TestImportErrorFirst(t *testing.T) {
	for program, want := range map[string]string{
		"def f(: return 1":              "SyntaxError in m.py line 1: invalid syntax",
		"def g(): return 1":             "ImportError: cannot import name 'f' from 'm'",
		"raise RuntimeError('not now')": "RuntimeError: not now",
	} {
		for _, mode := range []string{modeSplit, modeInproc} {
			bundle := bundleOf(t, map[string]string{"tests/test_m.py": "from m import f\ndef test_f(): assert f() == 1"}, nil, mode)
			got := examined(t, bundle, deliver(t, map[string]string{"m.py": program})).Findings[0].Tests[0]
			if got.State == guild.TestPassed || !strings.HasPrefix(got.Message, want) || strings.Contains(got.Message, "<string>") {
				t.Errorf("%s: %+v", mode, got)
			}
		}
	}
}

func TestDeliveredBaseClasses(t *testing.T) {
	tests := map[string]string{"tests/test_m.py": `
import enum, numbers, m
from collections.abc import MutableSequence, Callable
def test_enum():
    assert isinstance(m.Color.RED, enum.Enum)
    assert m.Color.RED.value == 1
def test_class():
    assert issubclass(m.Color, enum.Enum) and not issubclass(m.Color, enum.Flag)
    assert not isinstance(m.plain(), enum.Enum)
def test_number():
    assert isinstance(m.Half(), numbers.Number)
    assert m.Half().n == 2
def test_sequence():
    assert isinstance(m.Own(), MutableSequence)
    assert len(m.Own()) == 0
`}
	delivery := map[string]string{"m.py": `
import enum, numbers
from collections.abc import MutableSequence
class Color(enum.Enum): RED = 1
class Half(numbers.Number):
    n = 2
class Own(MutableSequence):
    def __getitem__(self, i): raise IndexError(i)
    def __setitem__(self, i, v): pass
    def __delitem__(self, i): pass
    def __len__(self): return 0
    def insert(self, i, v): pass
class Plain: pass
def plain(): return Plain()
`}
	f := examined(t, bundleOf(t, tests, nil, modeSplit), deliver(t, delivery)).Findings[0]
	if Passed(f.Tests) != 4 || f.Decided == 0 {
		unpassed(t, f)
		t.Errorf("%d decided", f.Decided)
	}
	alone := map[string]string{"tests/test_m.py": "import enum, m\ndef test_enum(): assert isinstance(m.Color.RED, enum.Enum)"}
	examined(t, bundleOf(t, alone, nil, modeSplit), deliver(t, delivery)).wants(t, guild.Weak, "tests/test_m.py::test_enum passed")
}

func TestLandlockPlaces(t *testing.T) {
	runner, _, err := tiers.Pick(t.Context(), landlock.Tier)
	if err != nil {
		t.Skip(err)
	}
	for _, mode := range []string{modeSplit, modeInproc} {
		bundle := bundleOf(t, map[string]string{"tests/test_m.py": "import m\ndef test_f(): assert m.f() == 1"}, nil, mode)
		r, err := (&Engine{Runner: runner}).Examine(t.Context(), bundle, deliver(t, map[string]string{"m.py": "def f(): return 1"}))
		if err != nil || Passed(r.Findings[0].Tests) != 1 {
			t.Errorf("%s: %v, %+v", mode, err, r.Findings)
		}
	}
}
