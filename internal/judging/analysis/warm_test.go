package analysis

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	"guild"
	"guild/internal/judging/sandbox/namespaces"
)

func TestWarmTools(t *testing.T) {
	warm := &namespaces.Runner{}
	defer warm.Close()
	if caps := warm.Probe(t.Context()); !caps.Usable || !caps.Forks {
		t.Skipf("nothing is kept warm here: %s %v", caps.Reason, caps.Gaps)
	}
	a := &Analyst{Runner: warm, Warm: true}
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

func TestPreparedTools(t *testing.T) {
	warm := &namespaces.Runner{}
	defer warm.Close()
	if caps := warm.Probe(t.Context()); !caps.Usable || !caps.Forks {
		t.Skipf("nothing is kept warm here: %s %v", caps.Reason, caps.Gaps)
	}
	for name, source := range map[string]string{
		"fine":            clean,
		"errors":          "import json\n\n\ndef f(n: int) -> int:\n    return json.dumps(n)\n\n\nf('a')\n",
		"not read ahead":  "import csv\nimport xml.dom.minidom\n\nx: int = csv.reader([])\ny: int = xml.dom.minidom.parseString('')\n",
		"does not parse":  "def f(:\n",
		"not installed":   "import numpy\nimport other\n\nx: int = other.y\n",
		"type is unknown": "x = []\n\n\ndef f():\n    return x\n",
	} {
		s := Subject{Delivery: delivery(t, map[string]string{"a.py": source, "b/c.py": "import a\n\nprint(a)\n"})}
		f, err := survey(s.Delivery)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range []job{{tool: Mypy, source: mypySource}, {tool: Pylint, source: pylintSource}} {
			tool.order.Files = f.inside()
			said := map[bool]answer{}
			for _, ahead := range []bool{false, true} {
				a := &Analyst{Runner: warm, Warm: ahead}
				got := a.ask(t.Context(), tool, f)
				got.usage, got.Stale = guild.Usage{}, false
				said[ahead] = got
			}
			if !reflect.DeepEqual(said[false], said[true]) {
				t.Errorf("%s, %s: ahead %+v\nelse %+v", tool.tool, name, said[true], said[false])
			}
		}
	}
}
