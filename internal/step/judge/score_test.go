package judge

import (
	"reflect"
	"strings"
	"testing"
	"testing/quick"

	"guild"
	"guild/internal/judging/analysis"
	"guild/internal/judging/exam"
	"guild/internal/judging/sandbox"
)

// tests returns tests of one layer, the first of which passed.
func tests(layer string, passed, expected int) []guild.Test {
	list := make([]guild.Test, expected)
	for i := range list {
		list[i] = guild.Test{ID: layer, State: guild.TestFailed, Layer: layer}
		if i < passed {
			list[i].State = guild.TestPassed
		}
	}
	return list
}

// suite returns the suite of the partnership protocol, section 4.2.2: 5 smoke, 25 correctness, 15 edge, 5 performance
// and 5 security tests. The arguments are the numbers of those that did not pass.
func suite(smoke, correct, edge, fast, secure int) []guild.Test {
	list := tests(guild.LayerSmoke, 5-smoke, 5)
	list = append(list, tests(guild.LayerCorrectness, 25-correct, 25)...)
	list = append(list, tests(guild.LayerEdge, 15-edge, 15)...)
	list = append(list, tests(guild.LayerPerformance, 5-fast, 5)...)
	return append(list, tests(guild.LayerSecurity, 5-secure, 5)...)
}

func graded10(pylint int64) *guild.Quality { return &guild.Quality{Linted: true, Pylint: pylint} }

func TestScoreWeights(t *testing.T) {
	for _, c := range []struct {
		name string
		m    measured
		want guild.Score
	}{
		{"everything well", measured{tests: count(suite(0, 0, 0, 0, 0)), ran: true, wallMs: 100, baseline: 100, quality: graded10(10_000)}, 1_000_000},
		{"one correctness test of 30 failed", measured{tests: count(suite(0, 1, 0, 0, 0)), ran: true, wallMs: 100, baseline: 100, quality: graded10(10_000)}, 983_333},
		{"at 125 % of the baseline", measured{tests: count(suite(0, 0, 0, 0, 0)), ran: true, wallMs: 125, baseline: 100, quality: graded10(10_000)}, 875_000},
		{"at 150 % of the baseline", measured{tests: count(suite(0, 0, 0, 0, 0)), ran: true, wallMs: 150, baseline: 100, quality: graded10(10_000)}, 750_000},
		{"over a limit", measured{tests: count(suite(0, 0, 0, 0, 0)), ran: true, fault: true, overLimit: true, quality: graded10(10_000)}, 800_000},
		{"pylint gives 7", measured{tests: count(suite(0, 0, 0, 0, 0)), ran: true, wallMs: 1, baseline: 100, quality: graded10(7_000)}, 970_000},
		{"pylint gives 6.99", measured{tests: count(suite(0, 0, 0, 0, 0)), ran: true, wallMs: 1, baseline: 100, quality: graded10(6_990)}, 950_000},
		{"pylint gives 2", measured{tests: count(suite(0, 0, 0, 0, 0)), ran: true, wallMs: 1, baseline: 100, quality: graded10(2_000)}, 920_000},
		{"half of the edge and security tests failed", measured{tests: count(suite(0, 0, 8, 0, 2)), ran: true, wallMs: 1, baseline: 100, quality: graded10(10_000)}, 950_000},
		{"performance tests only class", measured{tests: count(suite(0, 0, 0, 5, 0)), ran: true, wallMs: 1, baseline: 100, quality: graded10(10_000)}, 1_000_000},

		{"no baseline", measured{tests: count(suite(0, 15, 0, 0, 0)), ran: true, quality: graded10(10_000)}, 666_666},
		{"no baseline, no Python", measured{tests: count(tests("", 5, 10)), ran: true}, 615_384},
		{"no Python, but edge tests", measured{tests: count(append(tests("", 1, 1), tests(guild.LayerEdge, 1, 2)...)), ran: true}, 933_333},
		{"nothing passed", measured{tests: count(tests("", 0, 10)), ran: true}, 230_769},
		{"nothing was run", measured{tests: count(tests("", 0, 10))}, 0},
		{"nothing is known", measured{}, 0},
	} {
		if got := composite(c.m.dimensions()); got != c.want {
			t.Errorf("%s: %d, want %d: %+v", c.name, got, c.want, c.m.dimensions())
		}
	}
}

func TestUnknownDimensions(t *testing.T) {
	m := measured{tests: count(tests("", 1, 1)), ran: true, why: Baseline{Runs: 3}.why(), unread: "there is no Python in it"}
	for _, d := range m.dimensions() {
		if d.Known == (d.Reason != "") {
			t.Errorf("%+v", d)
		}
		if d.Name == performance && !strings.Contains(d.Reason, "3 of 5") || d.Name == quality && !strings.Contains(d.Reason, "no Python") {
			t.Errorf("%+v", d)
		}
	}
}

func TestQualityPerPlace(t *testing.T) {
	notice := func(tool, severity string, line int) guild.Notice {
		return guild.Notice{Tool: tool, Severity: severity, File: "a.py", Line: line}
	}
	for _, c := range []struct {
		name  string
		found []guild.Notice
		want  guild.Score
	}{
		{"high", []guild.Notice{notice(analysis.Bandit, "high", 1)}, 800_000},
		{"medium", []guild.Notice{notice(analysis.Patterns, "medium", 1)}, 900_000},
		{"low", []guild.Notice{notice(analysis.Bandit, "low", 1)}, 980_000},
		{"two tools about one place", []guild.Notice{notice(analysis.Bandit, "low", 1), notice(analysis.Patterns, "high", 1)}, 800_000},
		{"two places", []guild.Notice{notice(analysis.Bandit, "high", 1), notice(analysis.Patterns, "medium", 2)}, 700_000},
		{"pylint and mypy findings cost nothing", []guild.Notice{notice(analysis.Pylint, "medium", 1), notice(analysis.Mypy, "low", 2)}, 1_000_000},
	} {
		q := graded10(10_000)
		q.Findings = c.found
		if d := (measured{quality: q}).qualityOf(); d.Value != c.want || !d.Known {
			t.Errorf("%s: %+v, want %d", c.name, d, c.want)
		}
	}
}

func TestScoreBounds(t *testing.T) {
	grows := func(passed, expected, edges, allEdges uint8, wall, baseline uint16, grade uint16, overLimit, linted bool) bool {
		m := measured{ran: true, overLimit: overLimit, wallMs: int64(wall), baseline: int64(baseline)}
		m.tests = tallies{functional: tally{int(min(passed, expected)), int(max(passed, expected)) + 1}, side: tally{int(min(edges, allEdges)), int(max(edges, allEdges)) + 1}}
		if linted {
			m.quality = graded10(int64(grade % 10_000))
		}
		score := func(m measured) guild.Score { return composite(m.dimensions()) }
		more, better, slower, within := m, m, m, m
		more.tests.functional.passed++
		better.tests.side.passed++
		slower.wallMs += 7
		within.overLimit = false
		s := score(m)
		if linted {
			cleaner := m
			cleaner.quality = graded10(m.quality.Pylint + 1)
			if score(cleaner) < s {
				return false
			}
		}
		return 0 <= s && s <= score(more) && s <= score(better) && s >= score(slower) && s <= score(within) && score(more) <= guild.Micro
	}
	if err := quick.Check(grows, &quick.Config{MaxCount: 2000}); err != nil {
		t.Error(err)
	}
}

func TestStanding(t *testing.T) {
	for _, c := range []struct {
		score guild.Score
		whole bool
		want  guild.Standing
	}{
		{1_000_000, true, guild.StandingActive}, {800_000, true, guild.StandingActive}, {799_999, true, guild.StandingConditional},
		{600_000, true, guild.StandingConditional}, {599_999, true, guild.StandingRejected}, {0, true, guild.StandingRejected},
		{983_333, false, guild.StandingConditional}, {599_999, false, guild.StandingRejected},
	} {
		if got := StandingOf(c.score, c.whole); got != c.want {
			t.Errorf("%d, all functional tests passed %v: %s, want %s", c.score, c.whole, got, c.want)
		}
	}
}

func TestOutcome(t *testing.T) {
	for _, c := range []struct {
		name  string
		tests []guild.Test
		want  guild.Outcome
	}{
		{"all", suite(0, 0, 0, 0, 0), guild.Success},
		{"edge, performance and security tests only lower or class", suite(0, 0, 15, 5, 5), guild.Success},
		{"99 of 100", tests("", 99, 100), guild.Partial},
		{"4 of 5", tests("", 4, 5), guild.Partial},
		{"80 of 100", tests("", 80, 100), guild.Partial},
		{"24 of 30", suite(0, 6, 0, 0, 0), guild.Partial},
		{"23 of 30", suite(0, 7, 0, 0, 0), guild.Failure},
		{"79 of 100", tests("", 79, 100), guild.Failure},
		{"none of 5", tests("", 0, 5), guild.Failure},
		{"no tests", nil, guild.Failure},
		{"an unknown layer counts", tests("acceptance", 0, 1), guild.Failure},
		{"edge tests alone decide", tests(guild.LayerEdge, 1, 2), guild.Failure},
	} {
		if got := outcome(count(c.tests).functional); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// finding returns the finding of a criterion that was run.
func finding(tests ...guild.Test) exam.Finding {
	return exam.Finding{Strength: guild.Strong, Tests: tests, Runs: []exam.RunRecord{{Limits: sandbox.Limits{}.WithDefaults()}}}
}

func TestOutcomeOrder(t *testing.T) {
	passed := finding(guild.Test{ID: "a", State: guild.TestPassed})
	faulty, breached, weak := passed, passed, passed
	faulty.Fault, faulty.OverLimit = "stopped after 3s", true
	breached.Breaches = []guild.Breach{{Syscall: "connect", Detail: "1 attempt"}}
	weak.Strength = guild.Weak
	smoky := finding(tests(guild.LayerSmoke, 4, 5)...)
	for _, c := range []struct {
		name     string
		findings []exam.Finding
		want     guild.Outcome
		strength guild.Strength
		score    guild.Score
		standing guild.Standing
		cause    string
	}{
		{"all well", []exam.Finding{passed, passed}, guild.Success, guild.Strong, 1_000_000, guild.StandingActive, ""},
		{"one weak finding", []exam.Finding{passed, weak}, guild.Success, guild.Mixed, 1_000_000, guild.StandingActive, ""},
		{"a fault", []exam.Finding{passed, faulty}, guild.Error, guild.Strong, 769_230, guild.StandingConditional, "stopped after 3s"},
		{"a breach", []exam.Finding{faulty, breached}, guild.Violation, guild.Strong, 0, guild.StandingRejected, "connect: 1 attempt"},
		{"a smoke test failed", []exam.Finding{smoky, finding(tests("", 15, 15)...)}, guild.Failure, guild.Mixed, 961_538, guild.StandingRejected, "a smoke test did not pass: smoke"},
		{"nothing was found", nil, guild.Failure, guild.Unverified, 0, guild.StandingRejected, "nothing was run: there is no test"},
	} {
		v := (&Judge{Caps: sandbox.Caps{Tier: "namespaces"}}).verdict(Case{}, exam.Report{Findings: c.findings}, analysis.Report{})
		if v.Outcome != c.want || v.Strength != c.strength || v.Score != c.score || v.Standing != c.standing || v.Cause != c.cause || v.Tier != "namespaces" {
			t.Errorf("%s: %s %s %d %s %q", c.name, v.Outcome, v.Strength, v.Score, v.Standing, v.Cause)
		}
	}
}

func TestRescored(t *testing.T) {
	v := (&Judge{}).verdict(Case{}, exam.Report{Findings: []exam.Finding{finding(tests("", 1, 2)...)}}, analysis.Report{})
	for outcome, want := range map[guild.Outcome]guild.Score{guild.Success: 1_000_000, guild.Partial: 615_384, guild.Failure: 230_769} {
		ruled := v
		ruled.Outcome = outcome
		if ruled = rescored(ruled); ruled.Score != want || (ruled.Standing == guild.StandingActive) != (outcome == guild.Success) {
			t.Errorf("%s: %d %s, want %d", outcome, ruled.Score, ruled.Standing, want)
		}
	}
	if v.Score != 615_384 || v.Dimensions[0].Reason != "1 of 2 functional tests passed" {
		t.Errorf("the verdict so far has changed: %+v", v)
	}
}

func TestVerdictDetails(t *testing.T) {
	one := finding(guild.Test{ID: "a", State: guild.TestPassed, Decided: 1}, guild.Test{ID: "p", State: guild.TestPassed, Layer: guild.LayerPerformance, Micros: 400_000})
	one.Tools, one.Decided, one.Warnings = map[string]string{"pytest": "7.2.1", "python": "3.11.2"}, 1, []string{"512 MB passed"}
	one.Usage = guild.Usage{WallMs: 60, MemoryPeak: 600 << 20}
	one.Runs[0].Limits.Memory = 1 << 30
	claims, hidden := &guild.Claims{Passed: 2}, []guild.Commitment{{Path: "tests/hidden/a.py"}}
	j := &Judge{
		Caps:        sandbox.Caps{Tier: "namespaces", MAC: "landlock 7", Rootfs: "sha256:aa", Gaps: []string{"a gap"}},
		ProfileHash: func(sandbox.Profile) string { return "sha256:bb" },
	}
	read := analysis.Report{
		Quality: &guild.Quality{Linted: true, Pylint: 9_000, Covered: true, Lines: 950_000, Branches: 1_000_000},
		Tools:   []guild.Tool{{Name: "pylint", Version: "2.16.2"}},
	}
	c := Case{Task: "t", Latency: 70_000_000_000, Baseline: Baseline{Runs: 5, Wall: Distribution{80, 90}, Latency: Distribution{100_000, 200_000}}}
	v := j.verdict(c, exam.Report{Criteria: exam.Criteria{TimeLimit: 1}, Findings: []exam.Finding{one}, Claims: claims, Hidden: hidden}, read)
	want := guild.Box{MAC: "landlock 7", Rootfs: "sha256:aa", Profile: "standard sha256:bb", Gaps: []string{"a gap"}, CPUs: 2, Memory: 1 << 30,
		Disk: 100 << 20, Pids: 100, CPUMs: 60_000, WallMs: 300_000}
	if v.Box == nil || !reflect.DeepEqual(*v.Box, want) {
		t.Errorf("box %+v\nwant %+v", v.Box, want)
	}
	if got := []guild.Tool{{Name: "pylint", Version: "2.16.2"}, {Name: "pytest", Version: "7.2.1"}, {Name: "python", Version: "3.11.2"}}; !reflect.DeepEqual(v.Tools, got) {
		t.Errorf("tools %+v", v.Tools)
	}
	if v.Claims != claims || len(v.Hidden) != 1 || v.Decided != 1 || len(v.Warnings) != 1 || v.Quality != read.Quality {
		t.Errorf("%+v", v)
	}
	if got := []string{Fast, Reliable, Efficient, Thorough}; !reflect.DeepEqual(v.Annotations, got) || v.Speed != guild.Fast {
		t.Errorf("annotations %v, speed %s", v.Annotations, v.Speed)
	}
	if v.Score != 990_000 || v.Standing != guild.StandingActive {
		t.Errorf("score %d, %s", v.Score, v.Standing)
	}
}

// What a run can have waited for the customer's busy machine does not count.
func TestPerformanceOnBusyMachine(t *testing.T) {
	for _, c := range []struct {
		wallMs, waitedMs int64
		want             guild.Score
	}{{1000, 0, guild.Micro}, {1345, 0, 310_000}, {1345, 300, 910_000}, {1345, 345, guild.Micro}, {1345, 1000, guild.Micro}} {
		m := measured{ran: true, wallMs: c.wallMs, waitedMs: c.waitedMs, baseline: 1000}
		if got := m.performance(); !got.Known || got.Value != c.want {
			t.Errorf("%d ms, of which it waited %d: %+v, want %d", c.wallMs, c.waitedMs, got, c.want)
		}
	}
}

func TestPerformanceUnknown(t *testing.T) {
	for ms, want := range map[int64]int64{1: 0, 49: 0, 50: 50, 3000: 3000} {
		if got := (Baseline{Runs: 5, Wall: Distribution{Median: ms}}).wall(); got != want {
			t.Errorf("a baseline of %d ms: compared with %d, want %d", ms, got, want)
		}
	}
	few := Baseline{Runs: 4, Wall: Distribution{Median: 3000}}
	if few.wall() != 0 {
		t.Error("four runs are compared with")
	}
	short := Baseline{Runs: 5, Wall: Distribution{Median: 6}}
	if reason := short.why(); reason != "the baseline of 6 ms is too short to compare with" {
		t.Error(reason)
	}
}
