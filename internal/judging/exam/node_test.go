package exam

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"guild"
)

// sums contains a customer's tests for a module that adds.
const sums = `
const test = require('node:test'), assert = require('node:assert');
const { add } = require('../src/add.js');
test('adds', () => assert.equal(add(1, 2), 3));
test.describe('edges', () => {
  test.it('takes # nothing', () => assert.equal(add(), 0));
  test.it('is not done', { skip: true }, () => {});
});
`

func needNode(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Fatal("no Node.js: apt-get install nodejs")
	}
}

func TestNodeTests(t *testing.T) {
	needNode(t)
	const adds, takes, done = "tests/add.test.js::adds", "tests/add.test.js::edges > takes # nothing", "tests/add.test.js::edges > is not done"
	bundle := request(t, map[string]string{
		"tests/criteria.json": `{"criteria": [{"id": "n", "type": "node-test", "mode": "inproc"}]}`,
		"tests/add.test.js":   sums,
		"files/src/add.js":    "exports.add = () => undefined",
	})
	right := "exports.add = (a = 0, b = 0) => a + b\n"
	for name, c := range map[string]struct{ source, adds, takes string }{
		"right":               {right, "passed", "passed"},
		"wrong":               {"exports.add = (a, b) => a + b", "passed", "failed"},
		"exits early":         {"process.exit(0)", "missing", "missing"},
		"exits in a call":     {"exports.add = () => process.exit(0)", "missing", "missing"},
		"throws":              {"throw new Error('no')", "missing", "missing"},
		"prints TAP":          {"console.log('TAP version 13\\nok 1 - adds\\nok 2 - takes # nothing\\n1..2'); process.exit(0)", "missing", "missing"},
		"writes descriptor 3": {"require('fs').writeSync(3, '{}')", "missing", "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			r := examined(t, bundle, deliver(t, map[string]string{"src/add.js": c.source, "tests/add.test.js": "", "tests/own.test.js": ""}))
			skipped := "skipped"
			if c.adds == "missing" {
				skipped = "missing"
			}
			r.wants(t, guild.Weak, adds+" "+c.adds, done+" "+skipped, takes+" "+c.takes)
		})
	}
}

func TestUnlistedNodeTests(t *testing.T) {
	needNode(t)
	files := map[string]string{
		"tests/criteria.json": `{"criteria": [{"id": "n", "type": "node-test", "script": "tests/add.test.js", "mode": "inproc"}]}`,
		"tests/add.test.js":   sums,
	}
	delivery := deliver(t, map[string]string{"src/add.js": "exports.add = (a = 0, b = 0) => a + b"})
	if _, err := newEngine(t).Examine(t.Context(), request(t, files), delivery); !errors.Is(err, ErrUndecided) || !strings.Contains(err.Error(), "cannot be listed") {
		t.Errorf("%v", err)
	}
	files["tests/criteria.json"] = strings.Replace(files["tests/criteria.json"], "}]", `, "tests": 4}]`, 1)
	r := examined(t, request(t, files), delivery)
	if got := r.Findings[0].Tests; len(got) != 4 || Passed(got) != 2 || got[3].State != guild.TestMissing {
		t.Errorf("%+v", got)
	}
}

func FuzzNodeReports(f *testing.F) {
	f.Add(`{"type":"test:start","name":"a","file":"f","nesting":0}`+"\n"+`{"type":"test:pass","name":"b","file":"f","nesting":1}`, "{}")
	f.Add("", `{"testResults":[{"name":"/box/work/f","assertionResults":[{"ancestorTitles":["a"],"title":"b","status":"passed"}]}]}`)
	f.Fuzz(func(t *testing.T, lines, whole string) {
		for _, reports := range [][]nodeReport{nodeReports(lines), jestReports([]byte(whole))} {
			if got := nodeMatch(reports, map[string]int{"f::a > b": 1, "x": 2}); len(got) != 3 {
				t.Fatalf("%+v", got)
			}
			if got := nodeCount(reports, "id", 3); len(got) != 3 {
				t.Fatalf("%+v", got)
			}
		}
	})
}

func TestJest(t *testing.T) {
	needNode(t)
	bundle := request(t, map[string]string{
		"tests/criteria.json": `{"test_framework": "jest", "criteria": [{"id": "j", "type": "jest", "mode": "inproc"}]}`,
		"tests/add.test.js": "const { add } = require('../src/add.js');\ntest('adds', () => expect(add(1, 2)).toBe(3));\n" +
			"describe('edges', () => { it('takes nothing', () => expect(add()).toBe(0)); });\n",
		"files/src/add.js": "exports.add = () => undefined",
	})
	if err := os.CopyFS(filepath.Join(bundle, "files", "node_modules"), os.DirFS(filepath.Join(jestDir(t), "node_modules"))); err != nil {
		t.Fatal(err)
	}
	for source, want := range map[string][2]string{
		"exports.add = (a = 0, b = 0) => a + b": {"passed", "passed"},
		"exports.add = (a, b) => a + b":         {"passed", "failed"},
		"process.exit(0)":                       {"missing", "missing"},
	} {
		r := examined(t, bundle, deliver(t, map[string]string{"src/add.js": source, "jest.config.js": "throw 1"}))
		r.wants(t, guild.Weak, "tests/add.test.js::adds "+want[0], "tests/add.test.js::edges > takes nothing "+want[1])
	}
}
