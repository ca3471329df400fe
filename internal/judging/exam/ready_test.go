package exam

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestReady(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		e     *Engine
		fault string
		lack  string
	}{
		"no criteria":     {files: map[string]string{"tests/a.sh": ""}, fault: "acceptance criteria"},
		"not JSON":        {files: map[string]string{"tests/criteria.json": "{"}, fault: "criteria: unexpected end"},
		"no framework":    {files: map[string]string{"tests/criteria.json": `{"criteria": [{"type": "magic"}]}`}, fault: `no framework "magic"`},
		"missing script":  {files: map[string]string{"tests/criteria.json": `{"criteria": [{"type": "shell", "script": "tests/a.sh"}]}`}, fault: "tests/a.sh is not there"},
		"a script":        {files: map[string]string{"tests/criteria.json": `{"criteria": [{"type": "shell", "script": "tests/a.sh"}]}`, "tests/a.sh": ""}},
		"one test":        {files: map[string]string{"tests/criteria.json": `{"criteria": [{"type": "pytest", "script": "tests/test_a.py::test_b"}]}`, "tests/test_a.py": ""}},
		"only a list":     {files: map[string]string{"nutshell.json": `{"acceptance": {"checklist": ["nice"]}}`}},
		"no interpreter":  {files: map[string]string{"tests/criteria.json": `{"criteria": [{"type": "pytest"}]}`}, e: &Engine{Python: "/nowhere/python3"}, lack: "Python is not installed"},
		"no Go":           {files: map[string]string{"tests/criteria.json": `{"criteria": [{"type": "go-test"}]}`}, e: &Engine{Go: "/nowhere/go"}, lack: "Go is not installed"},
		"jest of its own": {files: map[string]string{"tests/criteria.json": `{"criteria": [{"type": "jest"}]}`, "files/node_modules/jest/bin/jest.js": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			tree := fstest.MapFS{}
			for file, content := range c.files {
				tree[file] = &fstest.MapFile{Data: []byte(content)}
			}
			e := c.e
			if e == nil {
				e = &Engine{}
			}
			lacks, fault := e.Ready(tree)
			if (fault != nil) != (c.fault != "") || fault != nil && !strings.Contains(fault.Error(), c.fault) {
				t.Errorf("fault %v, want %q", fault, c.fault)
			}
			if got := strings.Join(lacks, "; "); (got != "") != (c.lack != "") || !strings.Contains(got, c.lack) {
				t.Errorf("lacks %q, want %q", got, c.lack)
			}
		})
	}
}
