package exam

import (
	"testing"
	"time"

	"guild"
)

// TestSlowTestsAreExamined judges tests that take longer than the judge waits for others, when they are recorded and whenever they run
// again.
func TestSlowTestsAreExamined(t *testing.T) {
	for _, c := range []struct{ language, tests, name, delivery, delivered string }{
		{"pytest", "import time\nfrom m import f\ndef test_a():\n    time.sleep(0.08)\n    for n in (1, 2, 5): assert f(n) == 2 * n\n",
			"test_m.py", "m.py", "def f(n): return 2 * n\n"},
		{"node-test", `const test = require("node:test"), assert = require("node:assert/strict"), { f } = require("../m");
test("a", async () => { await new Promise((r) => setTimeout(r, 80)); for (const n of [1, 2, 5]) assert.equal(f(n), 2 * n); });
`, "m.test.js", "m.js", "exports.f = (n) => 2 * n;\n"},
		{"go-test", "package m_test\n\nimport (\n\t\"testing\"\n\t\"time\"\n\n\t\"m\"\n)\n\nfunc TestA(t *testing.T) {\n\ttime.Sleep(80 * time.Millisecond)\n" +
			"\tfor _, n := range []int{1, 2, 5} {\n\t\tif m.F(n) != 2*n {\n\t\t\tt.Error(n)\n\t\t}\n\t}\n}\n",
			"m_test.go", "m.go", "package m\n\nfunc F(n int) int { return 2 * n }\n"},
	} {
		t.Run(c.language, func(t *testing.T) {
			t.Parallel()
			e := goEngine(t)
			e.patience = 30 * time.Millisecond
			bundle := request(t, map[string]string{
				"tests/criteria.json": `{"time_limit_seconds": 20, "criteria": [{"id": "AC-1", "type": "` + c.language + `"}]}`,
				"tests/" + c.name:     c.tests, "files/go.mod": "module m\n\ngo 1.24\n",
			})
			r, err := e.Examine(t.Context(), bundle, deliver(t, map[string]string{c.delivery: c.delivered}))
			if err != nil {
				t.Fatal(err)
			}
			if f := r.Findings[0]; f.Strength != guild.Strong {
				t.Errorf("%s (%s): %+v, want strong", f.Strength, f.Because, f.Tests)
			}
		})
	}
}
