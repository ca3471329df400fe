package judge

import (
	"slices"
	"testing"

	"guild"
	"guild/internal/judging/analysis"
	"guild/internal/judging/exam"
	"guild/internal/judging/sandbox"
)

// of returns the finding of a criterion with a strength. Each word is a test: its layer and its state.
func of(strength guild.Strength, tests ...guild.Test) exam.Finding {
	f := finding(tests...)
	f.Strength = strength
	return f
}

func TestStrengthTable(t *testing.T) {
	pass := func(layer string) guild.Test { return guild.Test{ID: "a", State: guild.TestPassed, Layer: layer} }
	fail := func(layer string) guild.Test { return guild.Test{ID: "b", State: guild.TestFailed, Layer: layer} }
	missing := guild.Test{ID: "c", State: guild.TestMissing}
	untried := exam.Finding{Strength: guild.Strong, Tests: []guild.Test{missing}}
	stopped := untried
	stopped.Fault = "the delivery has no artifacts"
	list := func(f ...exam.Finding) []exam.Finding { return f }
	for _, c := range []struct {
		name     string
		findings []exam.Finding
		want     guild.Strength
	}{
		{"every criterion is carried", list(of(guild.Strong, pass(""), pass(guild.LayerSmoke)), of(guild.Strong, pass(""))), guild.Strong},
		{"one criterion is not", list(of(guild.Strong, pass("")), of(guild.Weak, pass(""))), guild.Mixed},
		{"one is partly", list(of(guild.Mixed, pass("")), of(guild.Weak, pass(""))), guild.Mixed},
		{"none is", list(of(guild.Weak, pass("")), of(guild.Weak, pass(""))), guild.Weak},
		{"a test failed", list(of(guild.Strong, pass(""), fail(""))), guild.Mixed},
		{"no test passed", list(of(guild.Strong, fail(""))), guild.Weak},
		{"a weak edge criterion does not decide", list(of(guild.Strong, pass("")), of(guild.Weak, pass(guild.LayerEdge))), guild.Strong},
		{"a failed edge test does not decide", list(of(guild.Strong, pass(""), fail(guild.LayerEdge))), guild.Strong},
		{"a strong edge criterion carries nothing", list(of(guild.Weak, pass("")), of(guild.Strong, pass(guild.LayerEdge))), guild.Weak},
		{"edge tests alone decide", list(of(guild.Strong, pass(guild.LayerEdge))), guild.Strong},
		{"a criterion without tests", list(of(guild.Strong, pass("")), of(guild.Strong)), guild.Mixed},
		{"one that was not tried", list(of(guild.Strong, pass("")), untried), guild.Mixed},
		{"nothing was tried", list(untried), guild.Unverified},
		{"the delivery prevented it", list(stopped), guild.Weak},
		{"no criteria", nil, guild.Unverified},
	} {
		if got := strengthOf(c.findings); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestStrengthCounts(t *testing.T) {
	test := func(layer, state string, s guild.Strength, e guild.Exposure) guild.Test {
		return guild.Test{ID: "a", State: state, Layer: layer, Strength: s, Exposure: e}
	}
	tests := []guild.Test{
		test("", guild.TestPassed, guild.Strong, guild.Visible), test(guild.LayerSmoke, guild.TestPassed, guild.Strong, guild.Hidden),
		test("", guild.TestPassed, guild.Mixed, guild.Drawn), test("", guild.TestPassed, guild.Weak, guild.Hidden),
		test("", guild.TestFailed, "", guild.Visible), test(guild.LayerEdge, guild.TestPassed, guild.Strong, guild.Visible),
	}
	findings := []exam.Finding{of(guild.Mixed, tests...), of(guild.Strong, tests[0])}
	findings[0].Unproven, findings[1].Unproven = []string{"sub", "add"}, []string{"add"}
	v := (&Judge{Caps: sandbox.Caps{Tier: "namespaces"}}).verdict(Case{}, exam.Report{Findings: findings}, analysis.Report{})
	if want := (guild.Strengths{Strong: 3, Mixed: 1, Weak: 1, Visible: 2, Hidden: 2, Drawn: 1}); *v.Strengths != want {
		t.Errorf("%+v, want %+v", *v.Strengths, want)
	}
	if v.Strength != guild.Mixed || !slices.Equal(v.Unproven, []string{"add", "sub"}) {
		t.Errorf("%s, unproven %q", v.Strength, v.Unproven)
	}
}
