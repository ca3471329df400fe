package judge_test

import (
	"testing"

	"guild"
	"guild/internal/judging/analysis"
	"guild/internal/judging/exam"
	"guild/internal/judging/sandbox/namespaces"
	"guild/internal/step/judge"
)

// BenchmarkWholeRun compares the judging of a task of one test, with everything warm, with and without the analysis.
func BenchmarkWholeRun(b *testing.B) {
	own := &namespaces.Runner{}
	b.Cleanup(func() { own.Close() })
	caps := own.Probe(b.Context())
	if !caps.Usable {
		b.Fatal(caps.Reason)
	}
	bundle, delivery := b.TempDir(), b.TempDir()
	lay(b, bundle, map[string]string{
		"tests/criteria.json":    `{"criteria": [{"type": "pytest"}]}`,
		"tests/test_solution.py": "from solution import double\n\n\ndef test_double():\n    assert double(2) == 4\n",
	})
	lay(b, delivery, map[string]string{"delivery/artifacts/solution.py": "def double(number):\n    return 2 * number\n"})
	tests := &judge.Judge{Exam: &exam.Engine{Runner: own}, Caps: caps}
	whole := &judge.Judge{Exam: tests.Exam, Caps: caps, Analysis: &analysis.Analyst{Runner: own, Warm: true}}
	for name, j := range map[string]*judge.Judge{"tests alone": tests, "whole run": whole} {
		b.Run(name, func(b *testing.B) {
			for warm := true; b.Loop(); warm = false {
				if v, _, err := j.Judge(b.Context(), bundle, delivery); err != nil || v.Outcome != guild.Success {
					b.Fatal(v, err)
				}
				if warm {
					b.ResetTimer()
				}
			}
		})
	}
}
