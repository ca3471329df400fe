package exam

import (
	"cmp"
	"slices"
	"strings"

	"guild"
)

// layer returns the layer of all tests of a criterion: its own, or else that of its script's directory, or "".
func (e Entry) layer() string {
	file, _, _ := strings.Cut(e.Script, "::")
	return cmp.Or(e.Layer, layerOf(file))
}

// layers returns the layers that a test may be in.
func layers() []string {
	return []string{guild.LayerSmoke, guild.LayerCorrectness, guild.LayerEdge, guild.LayerPerformance, guild.LayerSecurity}
}

// layerOf returns the layer of a test by its directories: tests/smoke/test_import.py is a smoke test.
func layerOf(file string) string {
	parts := strings.Split(strings.TrimPrefix(file, "/"), "/")
	for _, dir := range parts[:len(parts)-1] {
		if slices.Contains(layers(), dir) {
			return dir
		}
	}
	return ""
}

// settle assigns a layer to every test of a finding: its own (from a marker or a case), else that of its criterion,
// else that of its directory, else correctness. A test that passed gets the strength of the finding unless it has one.
//
// Every test needs a layer, because the layers decide how it counts in the score.
func (f *Finding) settle(e Entry) {
	for i := range f.Tests {
		t := &f.Tests[i]
		file, _, _ := strings.Cut(t.ID, "::")
		t.Layer = cmp.Or(t.Layer, e.layer(), layerOf(file), guild.LayerCorrectness)
		if t.State == guild.TestPassed {
			t.Strength = cmp.Or(t.Strength, f.Strength)
		}
	}
	if f.carried == nil {
		return
	}
	var functional []string
	for _, t := range f.Tests {
		if t.State == guild.TestPassed && (t.Layer == guild.LayerSmoke || t.Layer == guild.LayerCorrectness) {
			functional = append(functional, t.ID)
		}
	}
	if len(functional) > 0 {
		f.Strength, f.Because = f.carried(functional)
	}
}
