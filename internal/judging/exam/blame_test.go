package exam

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"guild"
	"guild/internal/judging/sandbox"
)

// blamed returns "test blame" for each test that did not pass, without the file's name.
func blamed(f Finding) string {
	var lines []string
	for _, t := range f.Tests {
		if t.State != guild.TestPassed {
			_, name, _ := strings.Cut(t.ID, "::")
			lines = append(lines, name+" "+string(t.Blame))
		}
	}
	return strings.Join(lines, ", ")
}

// blames are suites that a right delivery does not pass, and whose fault it is. The delivery is m.py with f, which
// doubles, and what the case adds.
var blames = map[string]struct {
	tests, more string
	inproc      bool
	want        string // in the form of blamed
	because     string // a part of the reason for the first one
}{
	"wrong answer":       {tests: "from m import f\ndef test_a(): assert f(1) == 3", want: "test_a delivery"},
	"wrong in process":   {tests: "from m import f\ndef test_a(): assert f(1) == 3", inproc: true, want: "test_a delivery"},
	"wrong constant":     {tests: "from m import N\ndef test_a(): assert N == 3", more: "N = 4", want: "test_a delivery"},
	"wrong type":         {tests: "from m import N\ndef test_a(): assert type(N) is int", more: "N = ''", want: "test_a delivery"},
	"wrong at import":    {tests: "import m\nN = m.f(1)\ndef test_a(): assert N == 3", want: "test_a delivery"},
	"wrong in fixture":   {tests: "import m, pytest\n@pytest.fixture(scope='module')\ndef n(): return m.f('')[5]\ndef test_a(n): pass\ndef test_b(n): pass", want: "test_a delivery, test_b delivery"},
	"name not delivered": {tests: "from m import g\ndef test_a(): assert g(1) == 3", want: "test_a delivery"},
	"module not there":   {tests: "import other\ndef test_a(): assert other.g(1) == 3", want: "test_a delivery"},
	"numpy delivered":    {tests: "import m\ndef test_a(): assert m.f(1) == 2", more: "import numpy", want: "test_a delivery"},
	"lying about numpy":  {tests: "import m\ndef test_a(): assert m.f(1) == 2", more: "raise ModuleNotFoundError(\"No module named 'numpy'\")", want: "test_a delivery"},
	"scaffold delivered": {tests: "import m\ndef test_a(): m.g()", more: "def g(): raise NotImplementedError", want: "test_a delivery"},
	"call in process":    {tests: "import m\ndef test_a(): m.g()", more: "def g(): raise NotImplementedError", inproc: true, want: "test_a delivery"},
	"loop of delivery":   {tests: "import m\ndef test_a(): m.g()", more: "def g():\n    while True: pass", want: "test_a delivery"},

	"smoke test failed": {tests: "import m, pytest\ndef test_a(): assert m.f(1) == 2\n@pytest.mark.smoke\ndef test_b(): assert m.f(1) == 3\ndef test_c(): pass",
		want: "test_b delivery, test_a delivery, test_c delivery"},
	"smoke test is wrong": {tests: "import m, pytest\ndef test_a(): assert m.f(1) == 2\n@pytest.mark.smoke\ndef test_b(): assert 1 == 3\ndef test_c(): pass",
		want: "test_b tests, test_a tests, test_c tests", because: "same way"},

	"numpy imported": {tests: "import numpy as np\nfrom m import f\ndef test_a(): assert f(1) == np.int8(2)",
		want: "test_a machine", because: "numpy is not installed"},
	"numpy in one test": {tests: "from m import f\ndef test_a():\n    import numpy.linalg\n    assert f(1) == 2\ndef test_b(): assert f(1) == 3",
		want: "test_a machine, test_b delivery"},
	"numpy or skip": {tests: "import pytest\nnumpy = pytest.importorskip('numpy')\ndef test_a(): pass", want: "test_a machine"},
	"numpy in process": {tests: "import numpy\nfrom m import f\ndef test_a(): assert f(1) == 2", inproc: true,
		want: "test_a machine", because: "numpy"},
	"required package": {tests: "import strange_thing\ndef test_a(): pass", want: "test_a machine", because: "strange_thing"},

	"derived class": {tests: "import m\nclass Own(m.C): pass\ndef test_a(): assert Own().g() == 1", more: "class C:\n    def g(self): return 1",
		want: "test_a judge", because: "derived from"},
	"derived in a test": {tests: "import m\ndef test_a():\n    class Own(m.C): pass\n    assert Own().g() == 1\ndef test_b(): assert m.f(1) == 2",
		more: "class C:\n    def g(self): return 1", want: "test_a judge", because: "derived from"},
	"program started": {tests: "import subprocess, sys\ndef test_a(): assert subprocess.run([sys.executable, '-m', 'm'], capture_output=True).stdout == b'2\\n'",
		more: "print(2)", want: "test_a judge", because: "starts"},
	"log read": {tests: "import m\ndef test_a(caplog):\n    m.g()\n    assert 'careful' in caplog.text",
		more: "import logging\ndef g(): logging.warning('careful')", want: "test_a judge", because: "log"},
	"log asserted": {tests: "import m, unittest\nclass TestA(unittest.TestCase):\n    def test_a(self):\n        with self.assertLogs(): m.g()",
		more: "import logging\ndef g(): logging.warning('careful')", want: "TestA::test_a judge", because: "log"},
	"loop where the log is read": {tests: "import m\ndef test_a(caplog): m.g()\ndef test_b(): assert m.f(1) == 2",
		more: "def g():\n    while True: pass", want: "test_a delivery, test_b delivery"},
	"no warning": {tests: "import m, pytest\ndef test_a():\n    with pytest.warns(UserWarning): m.f(1)", want: "test_a delivery"},
	"other warning": {tests: "import m, pytest\ndef test_a():\n    with pytest.warns(UserWarning): m.g()",
		more: "import warnings\ndef g(): warnings.warn('old', DeprecationWarning)", want: "test_a delivery"},

	"wrong below gather": {tests: "import asyncio, m\nasync def both(): return await asyncio.gather(m.g(1), m.g(2))\ndef test_a(): assert asyncio.run(both()) == [2, 4]",
		more: "async def g(n): return n", want: "test_a delivery"},
	"wrong beside a log":       {tests: "import m\ndef test_a(caplog): assert m.f(1) == 3", want: "test_a delivery"},
	"too long to be passed on": {tests: "import m\ndef test_a(): assert m.f(m.g(), 1) == 2", more: "def g(): return 'x' * ((16 << 20) - 40)", want: "test_a delivery"},
	"large file": {tests: "import m\ndef test_a(tmp_path):\n    assert m.g(tmp_path / 'a') == 9000000\n    assert (tmp_path / 'a').stat().st_size == 9000000",
		more: "def g(p):\n    with open(p, 'wb') as f: return f.write(bytes(9000000))", want: "test_a judge", because: "wrote files"},
	"says that a package is missing": {tests: "import cryptography, m\ndef test_a(): assert m.g() == 1",
		more: "def g(): raise ModuleNotFoundError(\"No module named 'cryptography'\")", want: "test_a delivery"},
	"wrong when awaited": {tests: "import asyncio, m\ndef test_a(): assert asyncio.run(asyncio.wait_for(m.g(), 9)) == 2", more: "async def g(): return 3", want: "test_a delivery"},
	"cancelled": {tests: "import asyncio, m, pytest\ndef test_a():\n    with pytest.raises(asyncio.TimeoutError): asyncio.run(asyncio.wait_for(m.g(), 0.1))",
		more: "import asyncio\nasync def g(): await asyncio.sleep(0.5)", want: "test_a judge", because: "runs to its end"},
	"waits for the test": {tests: "import asyncio, m\nasync def both():\n    e = m.E()\n    await asyncio.gather(e.wait(), e.set())\ndef test_a(): asyncio.run(both())\ndef test_b(): assert m.f(1) == 2",
		more: "import asyncio\nclass E:\n    def __init__(self): self.e = asyncio.Event()\n    async def wait(self): await self.e.wait()\n    async def set(self): self.e.set()",
		want: "test_a judge, test_b judge", because: "runs to its end"},
	"waits for ever": {tests: "import asyncio, m\ndef test_a(): asyncio.run(m.g())\ndef test_b(): assert m.f(1) == 2",
		more: "import asyncio\nasync def g(): await asyncio.Event().wait()", want: "test_a delivery, test_b delivery"},
	"future handed over": {tests: "import asyncio, m\nasync def get(n): await asyncio.sleep(0.01)\ndef test_a(): asyncio.run(m.g(get))\ndef test_b():\n    async def get(n): return n\n    assert asyncio.run(m.g(get)) == [1, 2]",
		more: "import asyncio\nasync def g(get): return await asyncio.gather(get(1), get(2))", want: "test_a judge", because: "Future"},

	"endless test": {tests: "import m\ndef test_a(): assert m.f(1) == 2\ndef test_b():\n    while True: pass",
		want: "test_b tests", because: "without the delivery"},
	"endless expression": {tests: "import m\ndef test_a(): assert not m.g().match('a' * 40 + 'b')", more: "import re\ndef g(): return re.compile('(a+)+$')", want: "test_a judge", because: "not known"},
	"busy beside a failure": {tests: "import m\ndef test_a(): assert m.f(1) == 3\ndef test_b():\n    for n in m.g(3): pass", more: "def g(n): return range(10**18)",
		want: "test_a delivery, test_b judge", because: "not known"},
	"endless in process": {tests: "import m\ndef test_a():\n    while True: pass", inproc: true, want: "test_a tests", because: "without the delivery"},
	"wrong test":         {tests: "import m\ndef test_a(): assert 1 == 2\ndef test_b(): assert m.f(1) == 2", want: "test_a tests", because: "same way"},
	"name not defined":   {tests: "import m\nX = undefined\ndef test_a(): assert m.f(1) == 2", want: "test_a tests", because: "same way"},
	"no such fixture":    {tests: "import m\ndef test_a(mocker): assert m.f(1) == 2", want: "test_a tests"},
	"skipped":            {tests: "import m, pytest\n@pytest.mark.skip\ndef test_a(): assert m.f(1) == 2", want: "test_a tests"},
	"file not there":     {tests: "import m\ndef test_a():\n    text = open('/judge/tests/no').read()\n    assert m.f(text)", want: "test_a tests"},
	"wrong in one process": {tests: "import m\ndef test_a(): assert 1 == 2\ndef test_b(): assert m.f(1) == 2", inproc: true,
		want: "test_a tests"},
}

// thrifty is a runner that gives each run two seconds of processor time, so that what does not end costs little.
type thrifty struct{ sandbox.Runner }

func (r thrifty) Run(ctx context.Context, s sandbox.Spec, streams sandbox.IO) (sandbox.Result, error) {
	s.Limits.CPU = min(s.Limits.WithDefaults().CPU, 2*busy)
	return r.Runner.Run(ctx, s, streams)
}

func TestBlame(t *testing.T) {
	e := newEngine(t)
	e.Runner = thrifty{e.Runner}
	wait, done := some()
	for name, one := range blames {
		if !drawn(name, 2) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wait()
			defer done()
			mode := modeSplit
			if one.inproc {
				mode = modeInproc
			}
			bundle := request(t, map[string]string{
				"tests/criteria.json": `{"test_framework": "pytest", "python_mode": "` + mode + `", "time_limit_seconds": 1, "criteria": [{"id": "a"}]}`,
				"tests/test_m.py":     one.tests, "tests/requirements.txt": "pytest>=7\nStrange-Thing==1.0 # why\n",
				"files/m.py": "def f(n): raise NotImplementedError\ndef g(): raise NotImplementedError\n",
			})
			r, err := e.Examine(t.Context(), bundle, deliver(t, map[string]string{"m.py": "def f(n): return 2 * n\n" + one.more}))
			if err != nil {
				t.Fatal(err)
			}
			f := r.Findings[0]
			because := ""
			for _, test := range f.Tests {
				because += test.Because
			}
			if got := blamed(f); got != one.want || !strings.Contains(because, one.because) {
				t.Errorf("%s because %q, want %s\n%+v\n%s", got, because, one.want, f.Tests, f.Fault)
			}
			if (f.Fault != "") && f.AtFault() != strings.Contains(one.want, "delivery") {
				t.Errorf("at fault: %v, %s", f.AtFault(), f.Fault)
			}
		})
	}
}

func TestIdleDelivery(t *testing.T) {
	ended := func(cpu int64, killed string) sandbox.Result {
		return sandbox.Result{Killed: killed, Usage: guild.Usage{CPUMs: cpu}}
	}
	for _, c := range []struct {
		tests, delivery sandbox.Result
		idle            bool
	}{
		{ended(7000, sandbox.KilledCPU), ended(20, ""), true},
		{ended(7000, sandbox.KilledWall), ended(20, sandbox.KilledWall), true},
		{ended(2200, sandbox.KilledCPU), ended(400, ""), true}, // it started slowly
		{ended(7000, sandbox.KilledCPU), ended(1900, ""), false},
		{ended(300, ""), ended(20, sandbox.KilledWall), false}, // the delivery sleeps
		{ended(300, ""), ended(7000, sandbox.KilledCPU), false},
		{ended(7000, ""), ended(20, ""), false},
	} {
		if got := idle(c.tests, c.delivery); (got != "") != c.idle {
			t.Errorf("%+v and %+v: %q", c.tests, c.delivery, got)
		}
	}
}

func TestBlameOfPrograms(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  guild.Blame
	}{
		"program not installed": {map[string]string{"tests/criteria.json": `{"criteria": [{"type": "io", "command": ["no-such-program"], "expected": {"stdout": "a"}}]}`},
			guild.BlameMachine},
		"interpreter not installed": {map[string]string{"tests/criteria.json": `{"criteria": [{"type": "shell", "script": "tests/a"}]}`,
			"tests/a": "#!no-such-shell\n"}, guild.BlameMachine},
		"script not found": {map[string]string{"tests/criteria.json": `{"criteria": [{"type": "io", "command": ["sh", "run.sh"], "expected": {"stdout": "a"}}]}`},
			guild.BlameDelivery},
		"program not delivered": {map[string]string{"tests/criteria.json": `{"criteria": [{"type": "io", "command": ["./run"], "expected": {"stdout": "a"}}]}`},
			guild.BlameDelivery},
	} {
		t.Run(name, func(t *testing.T) {
			f := examined(t, request(t, c.files), deliver(t, map[string]string{"run.sh": "exit 127\n"})).Findings[0]
			if len(f.Tests) != 1 || f.Tests[0].Blame != c.want {
				t.Errorf("want %s: %+v", c.want, f)
			}
		})
	}
}

func TestBlameOfCompiler(t *testing.T) {
	own := func(importPath string) bool { return strings.HasPrefix(importPath, "example.org/task") }
	forged := Finding{Tests: []guild.Test{{ID: "TestA", State: guild.TestMissing}}}
	forged.blameGo(&RunRecord{Stdout: `{"Action":"output","Output":"./a_test.go:2:9: declared and not used: x\n"}`}, own)
	if forged.Tests[0].Blame != "" {
		t.Errorf("%+v", forged.Tests)
	}
	built := Finding{Tests: []guild.Test{{ID: "TestA", State: guild.TestMissing}}}
	built.blameGo(&RunRecord{Stdout: `{"Action":"build-output","Output":"./a_test.go:2:9: declared and not used: x\n"}`}, own)
	if built.Tests[0].Blame != guild.BlameTests {
		t.Errorf("%+v", built.Tests)
	}
	for output, want := range map[string]guild.Blame{
		"# task [task.test]\n./a_test.go:2:9: \"os\" imported and not used\n":                         guild.BlameTests,
		"# task [task.test]\n./b/a_test.go:4:2: declared and not used: x\n":                           guild.BlameTests,
		"a_test.go:2:9: no required module provides package example.com/x; to add it:\n\tgo get it\n": guild.BlameTests,
		"a_test.go:2:9: cannot find module providing package example.org/task/queue: module lookup\n": guild.BlameDelivery,
		"# task [task.test]\n./a_test.go:2:9: \"example.org/task\" imported and not used\n":           guild.BlameDelivery,
		"# task [task.test]\n./a_test.go:2:9: \"example.org/task\" imported as all and not used\n":    guild.BlameDelivery,
		"# task [task.test]\n./a_test.go:3:27: undefined: B\n":                                        guild.BlameDelivery,
		"# task [task.test]\n./b/a_test.go:4:2: declared and not used: Key\n":                         guild.BlameDelivery,
		"# task\n./a.go:3:5: declared and not used: x\n":                                              guild.BlameDelivery,
		"a.go:2:9: no required module provides package example.com/x; to add it:\n\tgo get it\n":      guild.BlameDelivery,
		"--- FAIL: TestA\n    a_test.go:7:1: declared and not used: x\n":                              guild.BlameDelivery,
	} {
		f := Finding{Tests: []guild.Test{{ID: "TestA", State: guild.TestMissing}, {ID: "TestB", State: guild.TestPassed}}}
		f.blameGo(&RunRecord{Stderr: output}, own)
		f.blameRest()
		if f.Tests[0].Blame != want || f.Tests[1].Blame != "" {
			t.Errorf("%q: %+v, want %s", output, f.Tests, want)
		}
	}
}

// TestBlameOfScripts judges suites that a right delivery does not pass. The delivery is m.js with f, which doubles, N, and
// what the case adds.
func TestBlameOfScripts(t *testing.T) {
	needNode(t)
	wait, done := some()
	for name, one := range map[string]struct {
		tests, more string
		jest        bool
		count       int    // of tests, if they are not listed
		want        string // in the form of blamed
		because     string // a part of the reason for the first one
	}{
		"wrong answer":   {tests: "test('a', () => assert.equal(m.f(1), 3));", want: "a delivery"},
		"wrong constant": {tests: "test('a', () => assert.equal(m.N, 3));", want: "a delivery"},
		"wrong type":     {tests: "const { N } = m; test('a', () => assert.equal(typeof N, 'string'));", want: "a delivery"},
		"no array":       {tests: "const { N } = m; test('a', () => assert.ok(Array.isArray(N)));", want: "a delivery"},
		"no list":        {tests: "const list = require('../list.json'); test('a', () => assert.ok(Array.isArray(list)));", want: "a delivery"},
		"function":       {tests: "const { N } = m; test('a', () => assert.equal(typeof N, 'number'));", more: "exports.N = () => 1;", want: "a delivery"},
		"wrong above":    {tests: "const n = String(m.f(1)); test('a', () => assert.equal(n, '3'));", want: "a delivery"},
		"not delivered":  {tests: "test('a', () => assert.equal(m.g(1), 3));", want: "a delivery"},
		"own package":    {tests: "test('a', () => assert.equal(m.f(1), 2));", more: "require('lodash');", want: "a delivery"},
		"lies about it":  {tests: "test('a', () => assert.equal(m.f(1), 2));", more: "exports.f = () => { throw new Error(\"Cannot find module 'lodash'\"); };", want: "a delivery"},
		"lies at once":   {tests: "test('a', () => assert.equal(m.f(1), 2));", more: "console.error('Error: needs mode inproc'); throw new Error('needs mode inproc');", want: "a delivery"},
		"large answer":   {tests: "test('a', () => { const l = []; m.g(l); m.f(l); assert.equal(m.f(1), 3); });", more: "exports.g = (l) => { l.push('x'.repeat(9e6)); l.push('y'.repeat(9e6)); };", want: "a delivery"},

		"wrong test":         {tests: "test('a', () => assert.equal(1, 2)); test('b', () => assert.equal(m.f(1), 2));", want: "a tests", because: "same way"},
		"name not defined":   {tests: "test('a', () => { x(); });", want: "a tests", because: "same way"},
		"never settles":      {tests: "test('b', () => assert.equal(m.f(1), 2)); test('a', () => new Promise(() => {}));", want: "a tests"},
		"derived class":      {tests: "test('a', () => { class Own extends m.C {} assert.ok(new Own()); }); test('b', () => assert.equal(m.f(1), 2));", more: "exports.C = class {};", want: "a judge", because: "derived"},
		"derived above":      {tests: "class Own extends m.C {} const own = new Own(); test('a', () => assert.ok(own));", more: "exports.C = class {};", want: "a judge", because: "derived"},
		"package in a test":  {tests: "test('a', () => { require('lodash'); });", want: "a machine", because: "lodash"},
		"package above":      {tests: "require('@a/lodash/fp'); test('a', () => {});", count: 1, want: "AC-1 machine", because: "@a/lodash"},
		"jest wrong test":    {tests: "test('a', () => expect(1).toBe(2)); test('b', () => expect(m.f(1)).toBe(2));", jest: true, want: "a tests", because: "same way"},
		"jest wrong answer":  {tests: "test('a', () => expect(m.f(1)).toBe(3));", jest: true, want: "a delivery"},
		"jest mocks":         {tests: "jest.mock('../m'); test('a', () => expect(m.f(1)).toBe(2));", jest: true, want: "a judge", because: "mocks"},
		"jest derived class": {tests: "test('a', () => { class Own extends m.C {} expect(new Own()).toBeDefined(); });", more: "exports.C = class {};", jest: true, want: "a judge", because: "derived"},
		"jest package":       {tests: "test('a', () => { require('lodash'); });", jest: true, want: "a machine", because: "lodash"},
	} {
		if one.jest && !drawn(name, 3) || !one.jest && !drawn(name, 2) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wait()
			defer done()
			framework, head := "node-test", "const test = require('node:test'), assert = require('node:assert/strict'), m = require('../m');\n"
			if one.jest {
				framework, head = "jest", "const m = require('../m');\n"
			}
			bundle := request(t, map[string]string{
				"tests/criteria.json": fmt.Sprintf(`{"time_limit_seconds": 40, "criteria": [{"id": "AC-1", "type": %q, "tests": %d}]}`, framework, one.count),
				"tests/m.test.js":     head + one.tests,
			})
			f := scriptExamined(t, bundle, deliver(t, map[string]string{"m.js": "exports.f = (n) => 2 * n; exports.N = 4;\n" + one.more, "list.json": "{}"}))
			f.blameRest()
			got, because := blamed(f), ""
			if one.count > 0 {
				got = f.Tests[0].ID + " " + string(f.Tests[0].Blame)
			}
			for _, test := range f.Tests {
				because += test.Because
			}
			if got != one.want || !strings.Contains(because, one.because) {
				t.Errorf("%s because %q, want %s\n%+v\n%s", got, because, one.want, f.Tests, f.Fault)
			}
		})
	}
}

// TestEndlessScripts checks that a test that does not end, whatever is delivered, leaves the delivery undecided.
func TestEndlessScripts(t *testing.T) {
	needNode(t)
	const wait = "const test = require('node:test'), m = require('../m'); test('a', () => m.f(1)); test('wait', () => new Promise((r) => setTimeout(r, 300)));\n"
	for name, c := range map[string]struct{ tests, want string }{
		"the first": {"const test = require('node:test'), m = require('../m'); test('b', () => { for (;;); });", "cannot be listed"},
		"the last":  {wait + "test('b', () => { for (;;); });", "do not end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bundle := request(t, map[string]string{
				"tests/criteria.json": `{"time_limit_seconds": 2, "criteria": [{"id": "AC-1", "type": "node-test"}]}`, "tests/m.test.js": c.tests,
			})
			_, err := newEngine(t).Examine(t.Context(), bundle, deliver(t, map[string]string{"m.js": "exports.f = (n) => 2 * n;"}))
			if !errors.Is(err, ErrUndecided) || !strings.Contains(err.Error(), c.want) {
				t.Error(err)
			}
		})
	}
}

// TestTitlesOfScripts checks that tests count whose titles have a value of the delivery.
func TestTitlesOfScripts(t *testing.T) {
	needNode(t)
	const node, delivery = "const test = require('node:test'), assert = require('node:assert/strict'), m = require('../m');\n", "exports.add = function add(a, b) { return a + b; }; exports.MAX = 9; exports.Stack = class Stack {};"
	for name, c := range map[string]struct{ framework, tests, want string }{
		"template": {"node-test", node + "test(`at most ${m.MAX}`, () => assert.equal(m.add(1, 2), 3));", "at most 9 passed"},
		"twice":    {"node-test", node + "for (const n of [m.MAX, m.MAX]) test('at ' + n, () => assert.equal(m.add(1, 2), 3));", "at 9[0] passed, at 9[1] passed"},
		"suite":    {"node-test", node + "test.describe(m.add.name, () => { test('adds', () => assert.equal(m.add(1, 2), 4)); });", "add > adds failed"},
		"jest": {"jest", "const m = require('../m'); describe(m.add.name, () => { it('adds', () => expect(m.add(1, 2)).toBe(3)); });" +
			"describe(m.Stack, () => { it('is', () => expect(m.add(1, 2)).toBe(3)); });", "Stack > is passed, add > adds passed"},
		"missing": {"node-test", node + "if (m.MAX !== 9) test('at ' + m.MAX, () => {});", "at … missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := scriptExamined(t, scriptBundle(t, c.framework, modeSplit, map[string]string{"tests/m.test.js": c.tests}), deliver(t, map[string]string{"m.js": delivery}))
			var got []string
			for _, test := range f.Tests {
				got = append(got, strings.TrimPrefix(test.ID, "tests/m.test.js::")+" "+test.State)
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("%q, want %s\n%+v", got, c.want, f.Tests)
			}
		})
	}
}
