package judge

import (
	"slices"
	"testing"
	"time"

	"guild"
)

func TestSpeed(t *testing.T) {
	const unknown = 0
	for _, c := range []struct {
		name  string
		tests tally
		r     reference
		want  guild.Speed
	}{
		{"no performance tests", tally{}, reference{runMs: 1, baselineMs: 100}, ""},
		{"75 % of the baseline", tally{5, 5}, reference{runMs: 75, baselineMs: 100}, guild.Fast},
		{"76 % of the baseline", tally{5, 5}, reference{runMs: 76, baselineMs: 100}, guild.Steady},
		{"150 % of the baseline", tally{5, 5}, reference{runMs: 150, baselineMs: 100}, guild.Steady},
		{"151 % of the baseline", tally{5, 5}, reference{runMs: 151, baselineMs: 100}, guild.Slow},
		{"half of the time it waited for the machine", tally{5, 5}, reference{runMs: 200, waitedMs: 100, baselineMs: 100}, guild.Steady},
		{"waiting makes nothing fast", tally{5, 5}, reference{runMs: 100, waitedMs: 90, baselineMs: 100}, guild.Steady},
		{"one of five did not pass", tally{4, 5}, reference{runMs: 1, baselineMs: 100}, guild.Steady},
		{"two of five did not pass", tally{3, 5}, reference{runMs: 1, baselineMs: 100}, guild.Slow},
		{"no baseline, half of the time limit", tally{5, 5}, reference{runMs: 9000, testsUs: 500_000, limitUs: 1_000_000}, guild.Fast},
		{"no baseline, more than half of it", tally{5, 5}, reference{testsUs: 500_001, limitUs: 1_000_000}, guild.Steady},
		{"no baseline and no time measured", tally{5, 5}, reference{testsUs: unknown, limitUs: 1_000_000}, guild.Steady},
	} {
		if got := speed(c.tests, c.r); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestPunctual(t *testing.T) {
	b := Baseline{Runs: 5, Latency: Distribution{Median: 1000, P95: 4000}}
	second := func(ms ...int64) (l []time.Duration) {
		for _, one := range ms {
			l = append(l, time.Duration(one)*time.Millisecond)
		}
		return l
	}
	for _, c := range []struct {
		name      string
		latencies []time.Duration
		b         Baseline
		want      []string
	}{
		{"below 75 % of the median", second(749), b, []string{Fast, Reliable}},
		{"75 % of the median", second(750), b, []string{Reliable}},
		{"below the 95th percentile", second(3999), b, []string{Reliable}},
		{"the 95th percentile", second(4000), b, nil},
		{"fast in the middle, but not reliable", second(1, 2, 5000), b, []string{Fast}},
		{"no baseline", second(1), Baseline{Runs: 4, Latency: b.Latency}, nil},
		{"no latency", nil, b, nil},
	} {
		if got := Punctual(c.latencies, c.b); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestAnnotations(t *testing.T) {
	for peak, want := range map[int64]bool{0: false, 1: true, 799: true, 800: false, 1000: false} {
		if efficient(peak, 1000) != want {
			t.Errorf("a peak of %d of 1000: efficient is not %v", peak, want)
		}
	}
	for _, c := range []struct {
		q    *guild.Quality
		want bool
	}{
		{nil, false}, {&guild.Quality{Lines: 1_000_000, Branches: 1_000_000}, false},
		{&guild.Quality{Covered: true, Lines: 900_000, Branches: 1_000_000}, false},
		{&guild.Quality{Covered: true, Lines: 900_001, Branches: 1_000_000}, true},
		{&guild.Quality{Covered: true, Lines: 1_000_000, Branches: 800_000}, false},
	} {
		if thorough(c.q) != c.want {
			t.Errorf("%+v: thorough is not %v", c.q, c.want)
		}
	}
}
