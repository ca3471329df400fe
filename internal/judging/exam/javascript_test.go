package exam

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"guild"
	"guild/internal/judging/sandbox/landlock"
	"guild/internal/judging/sandbox/tiers"
)

// jestDir returns the directory with jest that scripts/needs installs.
func jestDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../../.cache/jest")
	if err != nil {
		t.Fatal(err)
	}
	if !isDir(filepath.Join(dir, "node_modules", "jest")) {
		t.Fatal("no jest: scripts/needs test")
	}
	return dir
}

// scriptExamined runs JavaScript criteria, with jest.
func scriptExamined(t *testing.T, bundle, delivery string) Finding {
	t.Helper()
	e := newEngine(t)
	e.Jest = jestDir(t)
	r, err := e.Examine(t.Context(), bundle, delivery)
	if err != nil {
		t.Fatal(err)
	}
	return r.Findings[0]
}

// scriptBundle creates a request bundle of JavaScript tests and files.
func scriptBundle(t *testing.T, framework, mode string, parts ...map[string]string) string {
	t.Helper()
	all := map[string]string{"tests/criteria.json": fmt.Sprintf(
		`{"time_limit_seconds": 20, "criteria": [{"id": "AC-1", "type": %q, "mode": %q}]}`, framework, mode)}
	for _, m := range parts {
		for name, content := range m {
			all[name] = content
		}
	}
	return request(t, all)
}

// TestHonestScripts runs the programs of scripts.txtar in mode split, and those that do not need what split mode
// cannot do must pass, strongly. A program with NAME/inproc needs it; the file has the message that says so. One with
// NAME/weak or NAME/mixed has that strength; the file says why. Those with NAME/jest are for jest.
func TestHonestScripts(t *testing.T) {
	needNode(t)
	if testing.Short() {
		t.Skip("runs a hundred sandboxes")
	}
	all := programs(t, "scripts.txtar")
	delete(all, "")
	if len(all) < 40 {
		t.Fatalf("only %d programs", len(all))
	}
	wait, done := some()
	for name, files := range sample(all, 12) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wait()
			defer done()
			bundle := scriptBundle(t, runner(files), modeSplit, under(files, "t", "tests/"), under(files, "f", "files/"))
			f := scriptExamined(t, bundle, deliver(t, under(files, "a", "")))
			if want, is := files["inproc"]; is {
				inprocNeeded(t, f, strings.TrimSpace(want))
				return
			}
			want := guild.Strong
			for _, s := range []guild.Strength{guild.Mixed, guild.Weak} {
				if reason, is := files[string(s)]; is {
					t.Logf("%s: %s", s, strings.TrimSpace(reason))
					want = s
				}
			}
			if len(f.Tests) == 0 || Passed(f.Tests) != len(f.Tests) || f.Strength != want || f.Fault != "" || len(f.Breaches) > 0 {
				unpassed(t, f)
				for _, test := range f.Tests {
					t.Logf("%s is %s: %s", test.ID, test.Strength, test.Because)
				}
				t.Errorf("%s because %q, %d decided; fault %q, violations %v", f.Strength, f.Because, f.Decided, f.Fault, f.Breaches)
			}
		})
	}
}

// runner returns the framework of a program in JavaScript.
func runner(files map[string]string) string {
	if _, is := files["jest"]; is {
		return "jest"
	}
	return "node-test"
}

// inprocNeeded checks that a finding has a test that did not pass, and that each such test says why.
func inprocNeeded(t *testing.T, f Finding, want string) {
	t.Helper()
	if Passed(f.Tests) == len(f.Tests) {
		t.Error("all tests passed: it does not need mode inproc")
	}
	for _, test := range f.Tests {
		if test.State != guild.TestPassed && !strings.Contains(test.Message, want) {
			t.Errorf("%s: %s, without %q", test.ID, test.Message, want)
		}
	}
}

// TestForgedScripts runs deliveries that compute nothing. None may have a strong test that it did not earn: not all
// tests pass, or the finding is weak.
func TestForgedScripts(t *testing.T) {
	needNode(t)
	if testing.Short() {
		t.Skip("runs a hundred sandboxes")
	}
	all := programs(t, "forgedscripts.txtar")
	tests := under(all["tests"], "node", "tests/")
	jest := under(all["tests"], "jest", "tests/")
	delete(all, "tests")
	delete(all, "")
	wait, done := some()
	for name, files := range all {
		for framework, given := range map[string]map[string]string{"node-test": tests, "jest": jest} {
			if name != "honest" && !drawn(name+" "+framework, 8) {
				continue
			}
			if framework == "jest" && !slices.Contains([]string{"honest", "asymmetric_match", "builtin_matchers", "claims_to_be_a_map", "swallowed_assertions", "thenable", "patched_assert"}, name) {
				continue
			}
			t.Run(name+"/"+framework, func(t *testing.T) {
				t.Parallel()
				wait()
				defer done()
				bundle := scriptBundle(t, framework, modeSplit, given)
				if name == "too_much" || name == "endless_output" { // the time limit ends it
					lay(t, bundle, map[string]string{"tests/criteria.json": `{"time_limit_seconds": 2, "criteria": [{"id": "AC-1", "type": "node-test"}]}`})
				}
				f := scriptExamined(t, bundle, deliver(t, files))
				passed := len(f.Tests) > 0 && Passed(f.Tests) == len(f.Tests) && f.Fault == ""
				if name == "honest" {
					if !passed || f.Strength != guild.Strong {
						unpassed(t, f)
						t.Errorf("%s, %s", f.Strength, f.Fault)
					}
					return
				}
				if passed && f.Strength == guild.Strong {
					t.Error("all tests passed, and it is strong")
				}
				for _, test := range f.Tests {
					if test.State == guild.TestPassed && test.Strength == guild.Strong && f.Strength != guild.Weak {
						t.Errorf("%s passed", test.ID)
					}
				}
			})
		}
	}
}

// TestScriptAttacksAreNotStrong examines deliveries that pass without solving the task, as TestAttacksAreNotStrong does.
func TestScriptAttacksAreNotStrong(t *testing.T) {
	needNode(t)
	if testing.Short() {
		t.Skip("runs many sandboxes")
	}
	wait, done := some()
	for name, files := range sample(programs(t, "scriptattacks.txtar"), 12) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wait()
			defer done()
			attack(t, files, func(delivery map[string]string) Finding { return foundScript(t, files, delivery) })
		})
	}
}

// foundScript examines a delivery with the tests of a program in JavaScript.
func foundScript(t *testing.T, files, delivery map[string]string) Finding {
	t.Helper()
	return scriptExamined(t, scriptBundle(t, runner(files), modeSplit, under(files, "t", "tests/")), deliver(t, delivery))
}

func TestScriptWire(t *testing.T) {
	needNode(t)
	out, err := exec.CommandContext(t.Context(), "node", "--test-reporter=tap", "testdata/wire_test.cjs").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestBuiltScripts judges a delivery in TypeScript that the bundle's command builds.
func TestBuiltScripts(t *testing.T) {
	needNode(t)
	bundle := request(t, map[string]string{
		"tests/criteria.json": `{"criteria": [{"id": "b", "type": "node-test", "build": ["node", "build.cjs"]}]}`,
		"tests/m.test.mjs": `import { test } from "node:test";
import assert from "node:assert/strict";
import { add } from "../dist/m.mjs";
test("adds", () => assert.equal(add(1, 2), 3));
`,
		"tests/n.test.cjs": `const { test } = require("node:test"), assert = require("node:assert/strict"), { add } = require("../dist/m.cjs");
test("adds", () => assert.equal(add(1, 2), 3));
`,
		"files/build.cjs": `const fs = require("fs");
const text = fs.readFileSync("src/m.ts", "utf8").replace(/: number/g, "");
fs.mkdirSync("dist");
fs.writeFileSync("dist/m.mjs", text);
fs.writeFileSync("dist/m.cjs", text.replace("export const add", "exports.add"));
`,
	})
	for source, want := range map[string]string{
		"export const add = (a: number, b: number): number => a + b;": "passed",
		"export const add = (a: number, b: number): number => a - b;": "failed",
		"export const add = (a: number, b:":                           "missing",
	} {
		r := examined(t, bundle, deliver(t, map[string]string{"src/m.ts": source}))
		r.wants(t, guild.Strong, "tests/m.test.mjs::adds "+want, "tests/n.test.cjs::adds "+want)
	}
	r := examined(t, bundle, deliver(t, map[string]string{"other.ts": ""}))
	r.wants(t, guild.Strong, "tests/m.test.mjs::adds missing", "tests/n.test.cjs::adds missing")
	if fault := r.Findings[0].Fault; fault != "the delivery's process ended, exit code 1" {
		t.Error(fault)
	}
}

// TestDeliveredPackage checks that a delivery cannot give the tests a package in the place of the customer's.
func TestDeliveredPackage(t *testing.T) {
	needNode(t)
	bundle := request(t, map[string]string{
		"tests/criteria.json": `{"criteria": [{"id": "p", "type": "node-test"}]}`,
		"tests/m.test.mjs": `import { test } from "node:test";
import { same } from "checks";
import { add } from "../m.mjs";
test("adds", () => same(add(1, 2), 3));
`,
		"files/node_modules/checks/package.json": `{"name": "checks", "main": "index.js"}`,
		"files/node_modules/checks/index.js":     `exports.same = (a, b) => { if (a !== b) throw new Error(a + " is not " + b); };`,
	})
	r := examined(t, bundle, deliver(t, map[string]string{
		"m.mjs":                              "export const add = () => 4;",
		"own.mjs":                            "export const same = () => {};",
		"package.json":                       `{"name": "checks", "exports": "./own.mjs", "imports": {"#x": "./own.mjs"}}`,
		"node_modules/checks/index.js":       "exports.same = () => {};",
		"tests/node_modules/checks/index.js": "exports.same = () => {};",
	}))
	r.wants(t, guild.Strong, "tests/m.test.mjs::adds failed")
}

// TestScriptFaults checks what is said of deliveries that do not answer.
func TestScriptFaults(t *testing.T) {
	needNode(t)
	bundle := request(t, map[string]string{
		"tests/criteria.json": `{"time_limit_seconds": 2, "criteria": [{"id": "n", "type": "node-test"}]}`,
		"tests/add.test.js":   sums,
	})
	const loops = "a limit" // of processor time, or of wall time on a busy machine
	for name, c := range map[string]struct{ source, adds, fault string }{
		"right":         {"exports.add = (a = 0, b = 0) => a + b", "passed", ""},
		"wrong":         {"exports.add = (a, b) => a - b", "failed", ""},
		"throws":        {"throw new Error('no')", "missing", ""},
		"does not read": {"exports.add = (a, b) =>", "missing", ""},
		"exits":         {"process.exit(3)", "missing", "the delivery's process ended, exit code 3"},
		"exits later":   {"exports.add = () => process.exit(0)", "failed", "the delivery's process ended, exit code 0"},
		"fails later":   {"exports.add = (a, b) => a + b; setTimeout(() => { throw new Error('late'); }, 1); const end = Date.now() + 50; while (Date.now() < end);", "failed", "the delivery's process ended, exit code 1"},
		"loops":         {"exports.add = () => { for (;;); }", "missing", loops},
		"breaks frames": {"require('fs').writeSync(4, Buffer.alloc(4, 255)); exports.add = () => 3", "missing", "the delivery's answers cannot be read: the protocol was broken: a message of 4294967295 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			f := scriptExamined(t, bundle, deliver(t, map[string]string{"src/add.js": c.source}))
			adds := f.Tests[slices.IndexFunc(f.Tests, func(t guild.Test) bool { return strings.HasSuffix(t.ID, "::adds") })]
			if c.fault == loops && f.OverLimit {
				f.Fault = loops
			}
			if f.Fault != c.fault || adds.State != c.adds && c.fault == "" || adds.State == guild.TestPassed && c.adds != guild.TestPassed {
				t.Errorf("%s, fault %q: %+v", adds.State, f.Fault, f.Tests)
			}
			if adds.State != guild.TestPassed && c.fault == "" && adds.Message == "" {
				t.Error("no message")
			}
		})
	}
}

func TestUnlistedScripts(t *testing.T) {
	needNode(t)
	bundle := scriptBundle(t, "node-test", modeSplit, map[string]string{"tests/a.test.js": "throw new Error('of the customer')"})
	_, err := newEngine(t).Examine(t.Context(), bundle, deliver(t, map[string]string{"m.js": ""}))
	if !errors.Is(err, ErrUndecided) || !strings.Contains(err.Error(), "Error: of the customer") {
		t.Error(err)
	}
}

// TestScriptTiers runs both frameworks in a sandbox with other directory names.
func TestScriptTiers(t *testing.T) {
	needNode(t)
	runner, _, err := tiers.Pick(t.Context(), landlock.Tier)
	if err != nil {
		t.Skip(err)
	}
	for framework, tests := range map[string]string{
		"node-test": "require('node:test')('adds', () => require('node:assert').equal(require('../src/m').add(1, 2), 3));",
		"jest":      "test('adds', () => expect(require('../src/m').add(1, 2)).toBe(3));",
	} {
		bundle := scriptBundle(t, framework, modeSplit, map[string]string{"tests/m.test.js": tests})
		e := &Engine{Runner: runner, Jest: jestDir(t)}
		r, err := e.Examine(t.Context(), bundle, deliver(t, map[string]string{"src/m.js": "exports.add = (a, b) => a + b"}))
		if err != nil || Passed(r.Findings[0].Tests) != 1 {
			t.Errorf("%s: %v, %+v", framework, err, r.Findings)
		}
	}
}
