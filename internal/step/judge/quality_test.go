package judge_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"guild"
	"guild/internal/judging/analysis"
	"guild/internal/step/judge"
)

// reader returns a judge with analysis.
func reader(t *testing.T) *judge.Judge {
	t.Helper()
	j := newEngine(t)
	j.Analysis = &analysis.Analyst{Runner: j.Exam.Runner}
	return j
}

const tidy = `"""Sums."""


def add(first: int, second: int) -> int:
    """The sum of two numbers."""
    return first + second
`

// addition returns a request with one test of each layer for which customers write tests.
func addition(t *testing.T) string {
	return request(t, map[string]string{
		"tests/criteria.json":       `{"test_framework": "pytest", "time_limit_seconds": 5, "criteria": [{"id": "all", "type": "pytest"}]}`,
		"tests/smoke/test_smoke.py": "import solution\n\n\ndef test_there(): assert solution.add\n",
		"tests/test_add.py":         "from solution import add\n\n\ndef test_add(): assert add(1, 2) == 3\n",
		"tests/edge/test_edge.py":   "from solution import add\n\n\ndef test_big(): assert add(10**30, 1) == 10**30 + 1\n",
	})
}

func TestPythonQuality(t *testing.T) {
	j := reader(t)
	v, evidence, err := j.Hear(t.Context(), judge.Case{
		Bundle: addition(t), Delivery: deliver(t, map[string]string{"solution.py": tidy}), Latency: time.Second,
		Baseline: judge.Baseline{Runs: 9, Wall: judge.Distribution{Median: 60_000}, Latency: judge.Distribution{Median: 10_000, P95: 20_000}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if v.Outcome != guild.Success || v.Score != guild.Micro || v.Standing != guild.StandingActive {
		t.Errorf("%s %d %s: %+v", v.Outcome, v.Score, v.Standing, v.Dimensions)
	}
	if q := v.Quality; q == nil || q.Pylint != 10_000 || !q.Linted || !q.Covered {
		t.Errorf("%+v", q)
	}
	for _, name := range []string{"pytest", "pylint", "bandit", "mypy", "coverage", "pattern"} {
		if !slices.ContainsFunc(v.Tools, func(tool guild.Tool) bool { return tool.Name == name && tool.Version != "" }) {
			t.Errorf("%s is not among the tools: %+v", name, v.Tools)
		}
	}
	for _, note := range []string{judge.Fast, judge.Reliable, judge.Thorough} {
		if !slices.Contains(v.Annotations, note) {
			t.Errorf("not %s: %v", note, v.Annotations)
		}
	}
	var kept struct {
		Verdict  guild.Verdict
		Analysis analysis.Report
		Baseline judge.Baseline
	}
	if err := json.Unmarshal(evidence, &kept); err != nil || kept.Baseline.Runs != 9 || len(kept.Analysis.Tools) == 0 {
		t.Errorf("evidence: %v %+v", err, kept)
	}
}

func TestStaticFinding(t *testing.T) {
	j := reader(t)
	v, _ := judged(t, j, addition(t), deliver(t, map[string]string{"solution.py": tidy + "\n\ndef up():\n    import sys\n    return sys._getframe(1)\n"}))
	if v.Outcome != guild.Success || len(v.Breaches) > 0 || v.Score >= guild.Micro || len(v.Quality.Findings) == 0 {
		t.Errorf("%s %d: %+v", v.Outcome, v.Score, v.Quality)
	}
}

func TestNoQualityWithoutPython(t *testing.T) {
	bundle := request(t, map[string]string{"tests/criteria.json": `{"criteria": [
		{"id": "hello", "type": "io", "command": ["/bin/sh", "hello.sh"], "expected": {"stdout": "hello\n"}}]}`})
	v, _ := judged(t, reader(t), bundle, deliver(t, map[string]string{"hello.sh": "echo hello"}))
	i := slices.IndexFunc(v.Dimensions, func(d guild.Dimension) bool { return d.Name == "quality" })
	if v.Quality != nil || i < 0 || v.Dimensions[i].Known || v.Dimensions[i].Reason != "there is no Python in it" || v.Score != guild.Micro {
		t.Errorf("%+v %+v", v.Quality, v.Dimensions)
	}
}

func TestVerdictSoFar(t *testing.T) {
	bundle := request(t, map[string]string{
		"nutshell.json":       `{"acceptance": {"human_review_required": true}}`,
		"tests/criteria.json": `{"criteria": [{"id": "hello", "type": "io", "command": ["/bin/sh", "hello.sh"], "expected": {"stdout": "hello\n"}}]}`,
	})
	v, evidence, err := newEngine(t).Judge(t.Context(), bundle, deliver(t, map[string]string{"hello.sh": "echo hello"}))
	if needed, ok := errors.AsType[*judge.PersonNeeded](err); !ok || needed.Reason == "" || v.Passed != 1 || len(evidence) == 0 {
		t.Errorf("%+v %v", v, err)
	}
}
