package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"guild"
	"guild/internal/judging/exam"
)

// asked is the number of calls in the longer of two tests. The shorter one makes a single call, so their difference is
// that of all others. It is run again with each lie, in seconds.
const asked = 1001

// caller is a bundle whose tests, "one" and "many", call a delivered function.
type caller struct {
	language, framework string
	delivered, source   string // path and text
	tests, text         string // path and text, in which CALLS is a number
	files               map[string]string
}

var callers = []caller{
	{
		language: "Python", framework: "pytest", delivered: "solution.py", source: "def add(a, b):\n    return a + b\n",
		tests: "test_solution.py", text: `from solution import add


def total(calls):
    return sum(add(n, 1) for n in range(calls))


def test_one():
    assert total(1) == 1


def test_many():
    assert total(CALLS) == CALLS * (CALLS + 1) // 2
`,
	},
	{
		language: "JavaScript", framework: "node-test", delivered: "src/add.js", source: "exports.add = (a, b) => a + b;\n",
		tests: "add.test.js", text: `const test = require("node:test");
const assert = require("node:assert");
const { add } = require("../src/add.js");

function total(calls) {
  let sum = 0;
  for (let n = 0; n < calls; n++) sum += add(n, 1);
  return sum;
}

test("one", () => assert.strictEqual(total(1), 1));
test("many", () => assert.strictEqual(total(CALLS), (CALLS * (CALLS + 1)) / 2));
`,
	},
	{
		language: "Go", framework: "go-test", delivered: "add.go", source: "package task\n\nfunc Add(a, b int) int { return a + b }\n",
		tests: "add_test.go", text: `package task_test

import (
	"fmt"
	"testing"
	"time"

	"task"
)

func total(calls int) (sum int) {
	for n := range calls {
		sum += task.Add(n, 1)
	}
	return sum
}

func TestOne(t *testing.T) {
	if total(1) != 1 {
		t.Error("wrong")
	}
}

func TestMany(t *testing.T) {
	start := time.Now()
	if total(CALLS) != CALLS*(CALLS+1)/2 {
		t.Error("wrong")
	}
	fmt.Println("took", time.Since(start))
}
`, files: map[string]string{"go.mod": "module task\n\ngo 1.22\n"},
	},
}

// calls measures one call of a delivered function in mode split, in each language, as many times as there are rounds.
// A language whose programs are not installed is absent.
func (s *stand) calls(ctx context.Context, rounds int, absent map[string]string) ([]spread, error) {
	engine := &exam.Engine{Runner: s.own}
	if cache, err := os.UserCacheDir(); err == nil {
		engine.Cache = filepath.Join(cache, "guild-judge-test")
	}
	var found []spread
	for _, c := range callers {
		dir := filepath.Join(filepath.Dir(s.dir), c.framework)
		if err := c.lay(dir); err != nil {
			return nil, err
		}
		var took []float64
		for range rounds {
			t, err := callTime(ctx, engine, dir)
			if err != nil {
				absent["a call from "+c.language] = err.Error()
				break
			}
			took = append(took, t)
		}
		if len(took) == rounds {
			found = append(found, newSpread(c.language, took))
		}
	}
	return found, nil
}

// lay writes the bundle and the delivery below dir.
func (c caller) lay(dir string) error {
	criteria := fmt.Sprintf(`{"time_limit_seconds": 60, "criteria": [{"type": %q}]}`, c.framework)
	err := errors.Join(
		write(filepath.Join(dir, "bundle/tests/criteria.json"), []byte(criteria)),
		write(filepath.Join(dir, "bundle/tests", c.tests), []byte(strings.ReplaceAll(c.text, "CALLS", fmt.Sprint(asked)))),
		write(filepath.Join(dir, "delivery/delivery/artifacts", c.delivered), []byte(c.source)),
		write(filepath.Join(dir, "bundle/nutshell.json"), []byte("{}")))
	for name, text := range c.files {
		err = errors.Join(err, write(filepath.Join(dir, "bundle/files", name), []byte(text)))
	}
	return err
}

// callTime returns the time of one call in microseconds.
func callTime(ctx context.Context, engine *exam.Engine, dir string) (float64, error) {
	r, err := engine.Examine(ctx, filepath.Join(dir, "bundle"), filepath.Join(dir, "delivery"))
	if err != nil {
		return 0, err
	}
	f := r.Findings[0]
	var many int64
	for _, t := range f.Tests {
		if t.State != guild.TestPassed || t.Strength != guild.Strong {
			return 0, fmt.Errorf("%s did not pass apart: %s %s", t.ID, t.Message, cmp.Or(t.Because, f.Because, f.Fault))
		}
		if strings.HasSuffix(strings.ToLower(t.ID), "one") {
			many -= t.Micros
		} else {
			many += t.Micros
		}
	}
	if many == 0 { // the judge has no clock for Go's tests apart
		many = printed(f.Runs).Microseconds()
	}
	return float64(many) / (asked - 1), nil
}

// printed returns the time that a test has printed, in its first run.
func printed(runs []exam.RunRecord) time.Duration {
	for _, run := range runs {
		_, after, _ := strings.Cut(run.Stdout, "took ")
		word, _, _ := strings.Cut(after, "\n")
		if took, err := time.ParseDuration(word); err == nil {
			return took
		}
	}
	return 0
}
