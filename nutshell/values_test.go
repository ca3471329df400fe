package nutshell_test

import (
	"slices"
	"strings"
	"testing"

	"guild/nutshell"
)

func TestFieldAt(t *testing.T) {
	table := []struct {
		path string
		kind nutshell.Kind
		one  string // of its values
	}{
		{"task.title", nutshell.KindText, ""},
		{"task.priority", nutshell.KindText, "critical"},
		{"created_at", nutshell.KindTime, ""},
		{"files.total_count", nutshell.KindWhole, ""},
		{"files.tree", nutshell.KindList, ""},
		{"files.tree.3.role", nutshell.KindText, "scaffold"},
		{"files.tree.-.size", nutshell.KindWhole, ""},
		{"files.tree.role", nutshell.KindUnknown, ""},
		{"harness.context_budget_hint", nutshell.KindNumber, ""},
		{"harness.checkpoints", nutshell.KindFlag, ""},
		{"tags.domains", nutshell.KindTexts, ""},
		{"tags.domains.0", nutshell.KindText, ""},
		{"tags.custom", nutshell.KindObject, ""},
		{"tags.custom.region", nutshell.KindAny, ""},
		{`extensions."a.b".c.d`, nutshell.KindAny, ""},
		{"apis.base_urls.docs", nutshell.KindText, ""},
		{"credentials.rotation.url", nutshell.KindText, ""},
		{"resources.repos.0.branch", nutshell.KindText, ""},
		{"task", nutshell.KindObject, ""},
		{"task.titel", nutshell.KindUnknown, ""},
		{"x_future", nutshell.KindUnknown, ""},
		{"task.title.x", nutshell.KindUnknown, ""},
	}
	for _, row := range table {
		f, err := nutshell.FieldAt(row.path)
		if err != nil || f.Kind != row.kind || row.one != "" && !slices.Contains(f.Values, row.one) {
			t.Errorf("%s: %+v, %v", row.path, f, err)
		}
	}
	if _, err := nutshell.FieldAt("task."); err == nil {
		t.Error("a path that is none has a field")
	}
	if f, _ := nutshell.FieldAt("task.title"); len(f.Values) > 0 {
		t.Errorf("the title has values: %q", f.Values)
	}
}

func TestSpellingsOfWholeNumbers(t *testing.T) {
	for literal, want := range map[string]int64{
		"0": 0, "-0": 0, "0.000": 0, "0e999999999999999999999": 0, "1200.0": 1200, "1.2e3": 1200, "12E+2": 1200, "120000e-2": 1200,
		"-3.0": -3, "9223372036854775807": 1<<63 - 1, "-9223372036854775808": -1 << 63, "0.00000000000000000012e21": 120, "1e18": 1e18,
	} {
		m, err := nutshell.ParseManifest([]byte(`{"files":{"total_count":` + literal + `,"tree":[{"size":` + literal + `}]}}`))
		if err != nil || m.Files().TotalCount != want || *m.Files().Tree[0].Size != want {
			t.Errorf("%s: %+v, %v", literal, m, err)
		}
	}
	for _, literal := range []string{
		"0.5", "1.2e0", "12e-3", "1e19", "9223372036854775808", "-9223372036854775809", "1e999999999999999999999", "1e-9223372036854775808",
		"10000000000000000000001", "9e18446744073709551616",
	} {
		_, err := nutshell.ParseManifest([]byte(`{"files":{"total_count":` + literal + `}}`))
		if !manifestError("files.total_count", literal[:3])(err) || !strings.Contains(err.Error(), "fits") {
			t.Errorf("%s: %v", literal, err)
		}
	}
	if _, err := nutshell.ParseManifest([]byte(`{"harness":{"context_budget_hint":1e400}}`)); !manifestError("harness.context_budget_hint", "fits")(err) {
		t.Error(err)
	}
}
