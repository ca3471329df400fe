package judge

import (
	"testing"
	"testing/quick"

	"guild"
	"guild/internal/exam"
)

func TestScoreWeighsCorrectnessAndResources(t *testing.T) {
	for _, c := range []struct {
		name             string
		passed, expected int
		withinLimits     bool
		want             guild.Score
	}{
		{"everything passed", 10, 10, true, 1_000_000},
		{"half passed", 5, 10, true, 615_384},
		{"nothing passed", 0, 10, true, 230_769},
		{"everything passed, over a limit", 10, 10, false, 769_230},
		{"nothing passed, over a limit", 0, 10, false, 0},
		{"no tests", 0, 0, true, 1_000_000},
	} {
		if got := score(c.passed, c.expected, c.withinLimits); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestTheScoreIsBetweenZeroAndOneAndGrowsWithThePassed(t *testing.T) {
	grows := func(a, b uint16, within bool) bool {
		passed, expected := int(min(a, b)), int(max(a, b))+1
		s, more := score(passed, expected, within), score(passed+1, expected, within)
		return 0 <= s && s <= more && more <= guild.Micro
	}
	if err := quick.Check(grows, nil); err != nil {
		t.Error(err)
	}
}

func TestCompositeRenormalisesOverWhatIsKnown(t *testing.T) {
	unknown := dimension{weight: 25, value: 17}
	half := dimension{weight: 50, value: guild.Micro / 2, known: true}
	if got := composite(unknown, half); got != guild.Micro/2 {
		t.Errorf("%d", got)
	}
	if got := composite(unknown); got != 0 {
		t.Errorf("%d", got)
	}
}

func TestTheOutcomeFollowsTheShareThatPassed(t *testing.T) {
	for _, c := range []struct {
		passed, expected int
		want             guild.Outcome
	}{
		{5, 5, guild.Success}, {99, 100, guild.Partial}, {4, 5, guild.Partial}, {80, 100, guild.Partial},
		{79, 100, guild.Failure}, {0, 5, guild.Failure}, {0, 0, guild.Failure},
	} {
		if got := outcome(c.passed, c.expected); got != c.want {
			t.Errorf("%d of %d: %s, want %s", c.passed, c.expected, got, c.want)
		}
	}
}

func TestABreachOutweighsAFaultAndAFaultTheTests(t *testing.T) {
	passed := exam.Finding{Strength: guild.Strong, Tests: []guild.Test{{ID: "a", State: guild.TestPassed}}}
	faulty, breached := passed, passed
	faulty.Fault, faulty.OverLimit = "stopped after 3s", true
	breached.Breaches = []guild.Breach{{Syscall: "connect", Detail: "1 attempt"}}
	weak := passed
	weak.Strength = guild.Weak
	for _, c := range []struct {
		name     string
		findings []exam.Finding
		want     guild.Outcome
		strength guild.Strength
		score    guild.Score
	}{
		{"all well", []exam.Finding{passed, passed}, guild.Success, guild.Strong, 1_000_000},
		{"as weak as the weakest", []exam.Finding{passed, weak}, guild.Success, guild.Weak, 1_000_000},
		{"a fault", []exam.Finding{passed, faulty}, guild.Error, guild.Strong, 769_230},
		{"a breach", []exam.Finding{faulty, breached}, guild.Violation, guild.Strong, 0},
	} {
		v := verdict(c.findings, "bubblewrap")
		if v.Outcome != c.want || v.Strength != c.strength || v.Score != c.score || v.Expected != 2 || v.Tier != "bubblewrap" {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}
