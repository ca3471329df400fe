package judge_test

import (
	"errors"
	"strings"
	"testing"

	"guild"
	"guild/internal/judging/exam"
)

func TestFaultsOfOthers(t *testing.T) {
	e := newEngine(t)
	for name, c := range map[string]struct {
		tests string
		want  guild.Outcome // empty if undecided
		say   string
	}{
		"numpy is missing":      {"import numpy\nfrom m import f\ndef test_a(): assert f(1) == 2", "", "numpy is not installed here); install it and judge again"},
		"tests are wrong":       {"from m import f\ndef test_a(): assert f(1) == 2\ndef test_b(): assert 1 == 2", "", "correct the tests"},
		"needs inproc":          {"import m\nclass C(m.C): pass\ndef test_a(): assert C()", "", "change the criteria"},
		"test never ends":       {"from m import f\ndef test_a():\n    while True: pass", "", "correct the tests"},
		"smoke test is wrong":   {"import pytest\nfrom m import f\n@pytest.mark.smoke\ndef test_a(): assert 1 == 2\ndef test_b(): assert f(1) == 2", "", "correct the tests"},
		"delivery is wrong too": {"from m import f\ndef test_a(): assert f(1) == 3\ndef test_b(): assert 1 == 2", guild.Failure, "1 of 1 tests did not pass: tests/test_m.py::test_a"},
		"edge test is wrong":    {"import pytest\nfrom m import f\ndef test_a(): assert f(1) == 2\n@pytest.mark.edge\ndef test_b(): assert 1 == 2", guild.Success, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bundle := request(t, map[string]string{
				"tests/criteria.json": `{"test_framework": "pytest", "time_limit_seconds": 2, "criteria": [{"id": "a"}]}`,
				"tests/test_m.py":     c.tests,
			})
			v, evidence, err := e.Judge(t.Context(), bundle, deliver(t, map[string]string{"m.py": "def f(n): return 2 * n\nclass C: pass"}))
			if errors.Is(err, exam.ErrUndecided) != (c.want == "") || v.Outcome != c.want || len(evidence) == 0 || len(v.Tests) == 0 {
				t.Errorf("%v, %+v", err, v)
			}
			if !strings.Contains(v.Cause, c.say) || (c.say == "") != (v.Cause == "") {
				t.Errorf("%q, want %q", v.Cause, c.say)
			}
		})
	}
}

func TestExcusedTestsDoNotCount(t *testing.T) {
	e := newEngine(t)
	bundle := request(t, map[string]string{
		"tests/criteria.json": `{"test_framework": "pytest", "criteria": [{"id": "a"}]}`,
		"tests/test_m.py":     "import m\ndef test_a(): assert m.f(1) == 2\ndef test_b(): assert m.f(1) == 3\ndef test_c(): import numpy",
	})
	v, _ := judged(t, e, bundle, deliver(t, map[string]string{"m.py": "def f(n): return 2 * n"}))
	if v.Outcome != guild.Failure || v.Passed != 1 || v.Expected != 3 {
		t.Errorf("%+v", v)
	}
	for _, d := range v.Dimensions {
		if d.Name == "correctness" && d.Value != guild.Micro/2 {
			t.Errorf("%+v", d)
		}
	}
}
