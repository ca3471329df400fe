package analysis

import (
	"context"
	"slices"
	"strings"
	"testing"

	"guild/internal/judging/sandbox/namespaces"
)

func TestWarmTools(t *testing.T) {
	warm := &namespaces.Runner{}
	defer warm.Close()
	if caps := warm.Probe(t.Context()); !caps.Usable || !caps.Forks {
		t.Skipf("nothing is kept warm here: %s %v", caps.Reason, caps.Gaps)
	}
	a := &Analyst{Runner: warm}
	bundle := lay(t, t.TempDir(), map[string]string{"tests/test_total.py": "from total import total\n\n\ndef test_total():\n    assert total([1, 2]) == 2\n"})
	s := Subject{Bundle: bundle, Delivery: delivery(t, map[string]string{"total.py": clean}), Scripts: []string{""}}
	files, err := survey(s.Delivery)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range a.jobs(s, files) {
		if said := a.ask(t.Context(), j, files); said.unknown != "" {
			t.Errorf("%s: %s", j.tool, said.unknown)
		}
		cold := func(gap string) bool { return strings.Contains(gap, "kept warm") }
		if gaps := warm.Probe(context.Background()).Gaps; slices.ContainsFunc(gaps, cold) {
			t.Errorf("%s: %v", j.tool, gaps)
		}
	}
}
