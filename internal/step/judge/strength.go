package judge

import (
	"slices"

	"guild"
	"guild/internal/judging/exam"
)

// deciding returns the tests that decide: those of the layers smoke and correctness, or all of them if there are none.
func deciding(tests []guild.Test) []guild.Test {
	list := slices.DeleteFunc(slices.Clone(tests), func(t guild.Test) bool { return beside(t.Layer) })
	if len(list) == 0 {
		return tests
	}
	return list
}

// beside reports whether the tests of a layer do not decide the outcome while there are others.
func beside(layer string) bool {
	return layer == guild.LayerEdge || layer == guild.LayerPerformance || layer == guild.LayerSecurity
}

// strengths counts the functional tests that passed, by strength and by exposure.
func strengths(tests []guild.Test) *guild.Strengths {
	var s guild.Strengths
	for _, t := range deciding(tests) {
		if t.State != guild.TestPassed {
			continue
		}
		for kind, n := range map[guild.Strength]*int{guild.Strong: &s.Strong, guild.Mixed: &s.Mixed, guild.Weak: &s.Weak} {
			if t.Strength == kind {
				*n++
			}
		}
		for kind, n := range map[guild.Exposure]*int{guild.Visible: &s.Visible, guild.Hidden: &s.Hidden, guild.Drawn: &s.Drawn} {
			if t.Exposure == kind {
				*n++
			}
		}
	}
	return &s
}

// strengthOf returns the strength of a verdict on findings: strong if every functional test passed and each functional
// criterion is carried by strong tests, mixed if some are, and weak otherwise. It is unverified if no criterion was
// tried on the delivery.
func strengthOf(list []exam.Finding) guild.Strength {
	var tests []guild.Test
	tried := false
	for _, f := range list {
		tests = append(tests, f.Tests...)
		tried = tried || decides(f)
	}
	if !tried {
		return guild.Unverified
	}
	decide := deciding(tests)
	all := slices.ContainsFunc(decide, func(t guild.Test) bool { return beside(t.Layer) }) // of every layer
	strong, some := exam.Passed(decide) == len(decide), false
	for _, f := range list {
		own := f.Tests
		if !all {
			own = slices.DeleteFunc(slices.Clone(own), func(t guild.Test) bool { return beside(t.Layer) })
		}
		if len(own) == 0 && len(f.Tests) > 0 {
			continue // it does not decide
		}
		passed := exam.Passed(own) > 0
		strong = strong && passed && f.Strength == guild.Strong
		some = some || passed && (f.Strength == guild.Strong || f.Strength == guild.Mixed)
	}
	switch {
	case strong:
		return guild.Strong
	case some:
		return guild.Mixed
	}
	return guild.Weak
}

// decides reports whether a criterion was tried on the delivery: it was run, or the delivery itself prevented that.
func decides(f exam.Finding) bool {
	return len(f.Runs) > 0 || f.Fault != "" || len(f.Breaches) > 0 ||
		slices.ContainsFunc(f.Tests, func(t guild.Test) bool { return t.State == guild.TestFailed })
}
