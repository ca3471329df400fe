package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"guild"
	"guild/internal/judging/analysis"
	"guild/internal/judging/exam"
	"guild/internal/judging/sandbox"
	"guild/internal/step/judge"
)

// judges returns the contestants that judge a task of one test: by its tests alone, and whole, with the analysis of the
// code.
func (s *stand) judges(caps sandbox.Caps) []contestant {
	engine := &exam.Engine{Runner: s.own}
	return []contestant{
		{testsAlone, s.judged(&judge.Judge{Exam: engine, Caps: caps})},
		{wholeRun, s.judged(&judge.Judge{Exam: engine, Caps: caps, Analysis: &analysis.Analyst{Runner: s.own, Warm: true}})},
	}
}

// judged returns a lap that judges the task.
func (s *stand) judged(j *judge.Judge) func(context.Context) error {
	dir := filepath.Join(filepath.Dir(s.dir), "one")
	bundle, delivery := filepath.Join(dir, "bundle"), filepath.Join(dir, "delivery")
	laid := errors.Join(
		write(filepath.Join(bundle, "tests/criteria.json"), []byte(`{"criteria": [{"type": "pytest"}]}`)),
		write(filepath.Join(bundle, "tests/test_solution.py"),
			[]byte("from solution import double\n\n\ndef test_double():\n    assert double(2) == 4\n")),
		write(filepath.Join(delivery, "delivery/artifacts/solution.py"), []byte("def double(number):\n    return 2 * number\n")))
	return func(ctx context.Context) error {
		if laid != nil {
			return laid
		}
		v, _, err := j.Judge(ctx, bundle, delivery)
		if err != nil {
			return err
		}
		if v.Outcome != guild.Success {
			return fmt.Errorf("the verdict is %s: %s", v.Outcome, v.Cause)
		}
		return nil
	}
}
