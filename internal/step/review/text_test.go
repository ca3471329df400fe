package review

import (
	"slices"
	"strings"
	"testing"

	"guild"
)

// TestReviewText uses the figures of the example in section 4.3.2.4: p95 / p50 = 5300/2300 = 2.3.
func TestReviewText(t *testing.T) {
	good := tally{Passed: 19, Failed: 1, Scores: 20 * 940_000}
	for _, c := range []struct {
		name           string
		f              figures
		summary        string
		strong, weak   []string
		recommendation string
		score          guild.Score
	}{
		{"the specification's example", figures{line: line{Met: true, Tally: good}, rating: 875_000, p50: 2300, p95: 5300},
			"Reliable: 19 of 20 deliveries passed every test; latency varies.",
			[]string{"Consistent correctness: 19 of 20 deliveries passed every test", "Answered every request in time"},
			[]string{"p95 latency 2.3x p50", "1 of 20 deliveries failed the tests"},
			"Recommended for non-latency-critical workloads", 940_000},
		{"steady", figures{line: line{Met: true, Tally: tally{Passed: 3, Scores: 3_000_000}}, rating: 800_000, p50: 100, p95: 200},
			"Reliable: 3 of 3 deliveries passed every test.",
			[]string{"Consistent correctness: 3 of 3 deliveries passed every test", "Answered every request in time", "Steady latency: p95 200 ms, p50 100 ms"},
			nil, "Recommended", 1_000_000},
		{"too few to say much", figures{line: line{Met: true, Tally: tally{Passed: 1, Scores: 900_000}}, rating: 600_000},
			"Mostly reliable: 1 of 1 delivery passed every test.", nil, nil, "Usable where results are checked", 900_000},
		{"slow to answer and uneven", figures{line: line{Met: true, Tally: tally{Passed: 1, Partial: 1, Crashed: 1, Expired: 2, Faults: 3, Scores: 1_800_000}}, rating: 450_000},
			"Unproven or uneven: 1 of 3 deliveries passed every test; 2 requests without an answer in time.", nil,
			[]string{"1 of 3 deliveries crashed or ran over a limit", "1 of 3 deliveries passed only some of the tests", "2 requests without an answer in time", "3 answers that broke the protocol"},
			"Only for work on which nothing depends", 600_000},
		{"rejected", figures{line: line{Concluded: &concluded{To: guild.Unqualified, Score: 200_000, Runs: 3}}, rating: 200_000},
			"Did not qualify; the latest benchmark of 3 runs had a median score of 0.20.", nil, nil, "Not recommended", 200_000},
		{"a violation", figures{line: line{Met: true, Tally: tally{Violated: 1}}, rating: 850_000, alert: true},
			"ALERT: security violation. Its delivery tried to escape from the sandbox or to reach out of it. Unsafe: 0 of 1 delivery passed every test.",
			nil, []string{"1 delivery with a security violation"}, "Not recommended for any work", 0},
	} {
		got := c.f.content()
		if got.Summary != c.summary || !slices.Equal(got.Strengths, c.strong) || !slices.Equal(got.Weaknesses, c.weak) ||
			got.Recommendation != c.recommendation || *got.Metrics.TestScore != c.score {
			t.Errorf("%s: %q\n%q\n%q\n%q %s", c.name, got.Summary, got.Strengths, got.Weaknesses, got.Recommendation, got.Metrics.TestScore)
		}
		if (got.Metrics.LatencyP50Ms != nil) != (c.f.p50 > 0) {
			t.Errorf("%s: latency %v", c.name, got.Metrics.LatencyP50Ms)
		}
	}
}

func TestTextAfterViolation(t *testing.T) {
	f := figures{line: line{Met: true, Tally: tally{Passed: 99, Violated: 1}}, rating: 850_000}
	if s := f.summary(); strings.HasPrefix(s, "Reliable") {
		t.Error(s)
	}
}
