package exam

import (
	"cmp"
	"slices"
	"strings"

	"guild"
)

// layer is what a criterion says of all its tests, by itself or by the directory that its script is in; empty if
// it does not say.
func (e Entry) layer() string {
	file, _, _ := strings.Cut(e.Script, "::")
	return cmp.Or(e.Layer, layerOf(file))
}

// layers are those that a test can be in.
func layers() []string {
	return []string{guild.LayerSmoke, guild.LayerCorrectness, guild.LayerEdge, guild.LayerPerformance, guild.LayerSecurity}
}

// layerOf finds the layer of a test by the directories above it: tests/smoke/test_import.py is a smoke test.
func layerOf(file string) string {
	parts := strings.Split(strings.TrimPrefix(file, "/"), "/")
	for _, dir := range parts[:len(parts)-1] {
		if slices.Contains(layers(), dir) {
			return dir
		}
	}
	return ""
}

// settle puts every test of a finding in a layer: what is known of the test itself (a marker, a case) comes
// first, then what the criterion says, then the directory that the test is in.
func (f *Finding) settle(e Entry) {
	for i := range f.Tests {
		t := &f.Tests[i]
		file, _, _ := strings.Cut(t.ID, "::")
		t.Layer = cmp.Or(t.Layer, e.layer(), layerOf(file), guild.LayerCorrectness)
	}
}
